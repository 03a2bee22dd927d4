//! Names, marks and bytes of an agent's own directory.
//!
//! Owns listing a directory, seeing to it that marks can be read, and telling
//! whether a carried file is still what was carried. Decides nothing.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::super::findings::open_up;
use super::super::lowers::Attributes;

pub(super) type Listing = Vec<(Vec<u8>, io::Result<Metadata>)>;

pub(super) fn list(directory: &Path) -> io::Result<Listing> {
    open_up(directory)?
        .map(|entry| {
            let entry = entry?;
            Ok((entry.file_name().into_vec(), entry.metadata()))
        })
        .collect()
}

/// Sees to it that the marks of a file or directory can be read: those of the
/// user are for whom the modes allow to read.
pub(super) fn readable(attributes: Attributes, path: &Path, metadata: &Metadata) -> io::Result<()> {
    let mode = metadata.permissions().mode();
    let wanted = if metadata.is_dir() { 0o700 } else { 0o400 };
    if attributes == Attributes::Trusted
        || !(metadata.is_dir() || metadata.is_file())
        || mode & wanted == wanted
    {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o777 | wanted))
}

/// Whether a carried file is what was carried: a copy that the kernel made
/// keeps all but the time at which it was made.
pub(super) fn same(lower: &Path, own: &Path, now: &Metadata) -> io::Result<bool> {
    let was = lower.symlink_metadata()?;
    let sides = [&was, now].map(|one| (one.mode(), one.size(), one.mtime(), one.mtime_nsec()));
    if sides[0] != sides[1] {
        return Ok(false);
    }
    if now.is_symlink() {
        return Ok(fs::read_link(lower)? == fs::read_link(own)?);
    }
    let (mut lower, mut own) = (File::open(lower)?, File::open(own)?);
    let (mut one, mut other) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let length = lower.read(&mut one)?;
        if length == 0 {
            return Ok(own.read(&mut other)? == 0);
        }
        match own.read_exact(&mut other[..length]) {
            Ok(()) if one[..length] == other[..length] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
