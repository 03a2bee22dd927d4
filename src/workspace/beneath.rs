//! Files beneath one directory, reached without following a link.
//!
//! Owns a directory handle and the kernel's own resolution rule for it: a
//! path that would leave the directory, or pass through a symbolic link,
//! names nothing. Used to read the parent's working tree, where a directory
//! may have become a link since git looked.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A directory whose inside is reached through it alone.
#[derive(Debug)]
pub(super) struct Beneath(OwnedFd);

impl Beneath {
    /// Opens the directory.
    pub(super) fn open_root(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(directory, flags, Mode::empty())?))
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<Option<File>> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            match rustix::fs::openat2(&self.0, path, flags, Mode::empty(), resolve) {
                Ok(fd) => return Ok(Some(File::from(fd))),
                // The kernel asks for another try when a rename raced.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// What stands at a path, the last link not followed; `None` when nothing
    /// does.
    pub(super) fn look(&self, path: &Path) -> io::Result<Option<(File, Metadata)>> {
        let Some(file) = self.open(path, OFlags::PATH)? else {
            return Ok(None);
        };
        let metadata = file.metadata()?;
        Ok(Some((file, metadata)))
    }

    /// Opens a regular file for reading; `None` when it has gone.
    pub(super) fn read(&self, path: &Path) -> io::Result<Option<File>> {
        // Not blocking: what was a file a moment ago may be a pipe now.
        self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// The names in a directory, as far as they are text; none where there is
    /// no directory.
    ///
    /// At most `most` are read, and whoever hits that bound gets an error.
    pub(super) fn names(&self, path: &Path, most: usize) -> io::Result<Vec<String>> {
        let Some(directory) = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(directory)? {
            let entry = entry?;
            if names.len() > most {
                return Err(io::Error::other("there are too many names"));
            }
            if let Ok(name) = entry.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

/// The text of a link that [`Beneath::look`] found.
pub(super) fn link_text(link: &File) -> io::Result<Vec<u8>> {
    let text = rustix::fs::readlinkat(link, "", Vec::new())?;
    Ok(text.into_bytes())
}
