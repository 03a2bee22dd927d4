//! Removal of a directory that an agent has had.
//!
//! Owns taking it away completely: beneath a directory handle, no link
//! followed, whatever modes, depths and names the agent left. Nothing is
//! removed by a path that an agent could have bent. Called when the cage is
//! empty, so nobody undoes it meanwhile.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Error;
use super::error::file;
use super::layout::Basis;
use crate::git::Registration;

/// Deeper directories are moved up to the top before they are emptied, so
/// that depth costs neither descriptors nor stack.
const DEEPEST: usize = 64;

/// Unregisters an agent and removes its directory, whichever backend made it.
///
/// One that is not there is fine.
///
/// # Errors
/// Something could not be removed; a second call goes on.
pub fn dispose(dir: &Path) -> Result<(), Error> {
    if dir.symlink_metadata().is_err() {
        return Ok(());
    }
    // Without its note nothing was registered yet: the note is written first.
    if let Ok(basis) = Basis::load(dir)
        && let Some(common_dir) = basis.common_dir.path()
        && common_dir.is_dir()
    {
        Registration::unregister_at(&common_dir, &basis.agent)?;
    }
    remove_beneath(dir)
}

/// Removes a directory and everything in it, links as links.
///
/// Directories without permissions are opened up first. One that is not there
/// is fine.
///
/// # Errors
/// Something could not be removed; a second call goes on.
pub fn remove_beneath(dir: &Path) -> Result<(), Error> {
    let failed = |errno: Errno| file("remove", dir)(io::Error::from(errno));
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match rustix::fs::open(dir, flags, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    let mut moved = 0;
    // Each round empties the top; what was too deep has come up meanwhile.
    loop {
        let before = moved;
        empty(top.as_fd(), top.as_fd(), 0, &mut moved).map_err(failed)?;
        if moved == before {
            break;
        }
    }
    match std::fs::remove_dir(dir) {
        // Another command empties the same trash.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(file("remove", dir)),
    }
}

fn empty(
    top: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    depth: usize,
    moved: &mut u64,
) -> Result<(), Errno> {
    // The names are read before anything is removed: a listing that changes
    // under its reader may skip entries on some file systems.
    let mut names: Vec<(CString, FileType)> = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push((name.to_owned(), entry.file_type()));
        }
    }
    for (name, kind) in names {
        if kind != FileType::Directory {
            match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // Some file systems do not tell the kind in a listing.
                Err(Errno::ISDIR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if depth >= DEEPEST {
            rustix::fs::chmodat(directory, &name, Mode::RWXU, AtFlags::empty())?;
            loop {
                *moved += 1;
                let up = format!("deep-{moved}");
                match rustix::fs::renameat_with(
                    directory,
                    &name,
                    top,
                    up.as_str(),
                    rustix::fs::RenameFlags::NOREPLACE,
                ) {
                    Err(Errno::EXIST) => {}
                    other => break other?,
                }
            }
            continue;
        }
        let inner = open_directory(directory, &name)?;
        empty(top, inner.as_fd(), depth + 1, moved)?;
        match rustix::fs::unlinkat(directory, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Opens a directory that may lack every permission.
fn open_directory(directory: BorrowedFd<'_>, name: &CString) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(directory, name, flags, Mode::empty());
    let inner = match open() {
        Err(Errno::ACCESS) => {
            // Follows no link: the listing called it a directory, and nobody
            // else writes here any more.
            rustix::fs::chmodat(directory, name, Mode::RWXU, AtFlags::empty())?;
            open()?
        }
        other => other?,
    };
    // Readable is not writable: without this an entry could not be unlinked.
    rustix::fs::fchmod(&inner, Mode::RWXU)?;
    Ok(inner)
}
