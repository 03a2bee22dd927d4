//! One name in one open directory, and what can be done there.
//!
//! Owns the single system calls: each happens wholly or not at all, names one
//! directory entry, and follows no link. An expected obstacle (the name is
//! taken, nothing is there) is an answer, not an error. A place is made by
//! [`Root`](super::Root) and stays in the directory it was found in, wherever
//! that is moved to.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Error, Kind, Stat};
use crate::model::RepoPath;

/// One name in one open directory.
#[derive(Debug)]
pub struct Place {
    directory: OwnedFd,
    name: OsString,
    shown: PathBuf,
}

/// How one step at a place ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It was done.
    Done,
    /// The name is taken, or the directory is not empty: nothing was done.
    Taken,
    /// There is nothing at the name: nothing was done.
    Missing,
}

impl Place {
    pub(super) fn new(directory: OwnedFd, path: &RepoPath, shown: PathBuf) -> Self {
        let name = path
            .components()
            .last()
            .expect("because a repository path has at least one name");
        Self {
            directory,
            name: OsStr::from_bytes(name).to_owned(),
            shown,
        }
    }

    /// The whole path, for messages.
    #[must_use]
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// The file system of the directory.
    ///
    /// # Errors
    /// The system refused.
    pub fn device(&self) -> Result<u64, Error> {
        let stat = rustix::fs::fstat(&self.directory).map_err(self.failed("examine"))?;
        Ok(stat.st_dev)
    }

    /// What stands here; `None` for nothing.
    ///
    /// # Errors
    /// The system refused.
    pub fn stat(&self) -> Result<Option<Stat>, Error> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat_of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed("examine")(error)),
        }
    }

    /// Opens the regular file here for reading.
    ///
    /// # Errors
    /// It is missing or no regular file.
    pub fn open_file(&self) -> Result<File, Error> {
        // Without `NONBLOCK`, opening a pipe that somebody put here would wait
        // for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())
            .map_err(self.failed("open"))?;
        let stat = rustix::fs::fstat(&handle).map_err(self.failed("examine"))?;
        if stat_of(&stat).kind != Kind::File {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(self.failed("open")(source));
        }
        Ok(File::from(handle))
    }

    /// Reads the regular file here.
    ///
    /// # Errors
    /// As [`Place::open_file`], or reading failed.
    pub fn read_file(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.open_file()?
            .read_to_end(&mut bytes)
            .map_err(self.failed("read"))?;
        Ok(bytes)
    }

    /// Reads the text of the link here.
    ///
    /// # Errors
    /// It is missing or no link.
    pub fn read_link(&self) -> Result<Vec<u8>, Error> {
        rustix::fs::readlinkat(&self.directory, &self.name, Vec::new())
            .map(std::ffi::CString::into_bytes)
            .map_err(self.failed("read the link"))
    }

    /// Makes a new file with these permission bits less the process's mask.
    ///
    /// # Errors
    /// The name is taken, or it cannot be made.
    pub fn create_file(&self, mode: u32) -> Result<File, Error> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(
            &self.directory,
            &self.name,
            flags,
            Mode::from_raw_mode(mode),
        )
        .map(File::from)
        .map_err(self.failed("create"))
    }

    /// Makes a new link with this text.
    ///
    /// # Errors
    /// The name is taken, or it cannot be made.
    pub fn create_link(&self, text: &[u8]) -> Result<(), Error> {
        rustix::fs::symlinkat(OsStr::from_bytes(text), &self.directory, &self.name)
            .map_err(self.failed("create the link"))
    }

    /// Makes a directory with these permission bits less the process's mask.
    ///
    /// # Errors
    /// It cannot be made. A taken name is an answer.
    pub fn make_directory(&self, mode: u32) -> Result<Step, Error> {
        let made = rustix::fs::mkdirat(&self.directory, &self.name, Mode::from_raw_mode(mode));
        self.answer("create the directory", made)
    }

    /// Makes a directory with exactly these permission bits. One that is there
    /// keeps its own.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_directory_exactly(&self, mode: u32) -> Result<Step, Error> {
        let step = self.make_directory(mode)?;
        if step == Step::Done {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty());
            made.and_then(|made| rustix::fs::fchmod(made, Mode::from_raw_mode(mode)))
                .map_err(self.failed("protect"))?;
        }
        Ok(step)
    }

    /// Removes the directory here if it is empty.
    ///
    /// # Errors
    /// The system refused. A directory that is not empty, and what is no
    /// directory, are answered as taken.
    pub fn remove_directory(&self) -> Result<Step, Error> {
        let removed = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::REMOVEDIR);
        self.answer("remove the directory", removed)
    }

    /// Removes the file or link here.
    ///
    /// # Errors
    /// The system refused.
    pub fn remove_file(&self) -> Result<Step, Error> {
        let removed = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        self.answer("remove", removed)
    }

    /// Moves what is here to a name that must be free.
    ///
    /// # Errors
    /// The file systems differ, or the system refused.
    pub fn move_to(&self, target: &Self) -> Result<Step, Error> {
        self.rename("move", target, RenameFlags::NOREPLACE)
    }

    /// Exchanges what is here and what is there, in one step.
    ///
    /// # Errors
    /// The file systems differ, or the system refused.
    pub fn exchange(&self, target: &Self) -> Result<Step, Error> {
        self.rename("exchange", target, RenameFlags::EXCHANGE)
    }

    fn rename(
        &self,
        action: &'static str,
        target: &Self,
        flags: RenameFlags,
    ) -> Result<Step, Error> {
        let renamed = rustix::fs::renameat_with(
            &self.directory,
            &self.name,
            &target.directory,
            &target.name,
            flags,
        );
        let needed = match renamed {
            Err(Errno::XDEV) => "it must be on the file system of the git directory",
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                "the file system must know `renameat2` with exchange and no-replace"
            }
            Ok(()) | Err(_) => return target.answer(action, renamed),
        };
        Err(Error::Unsupported {
            action,
            path: target.shown.clone(),
            needed,
            source: renamed.map_or_else(io::Error::from, |()| io::ErrorKind::Other.into()),
        })
    }

    fn answer(&self, action: &'static str, result: Result<(), Errno>) -> Result<Step, Error> {
        match result {
            Ok(()) => Ok(Step::Done),
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => Ok(Step::Taken),
            Err(Errno::NOENT) => Ok(Step::Missing),
            Err(error) => Err(self.failed(action)(error)),
        }
    }

    fn failed<E: Into<io::Error>>(&self, action: &'static str) -> impl FnOnce(E) -> Error {
        Error::io(action, &self.shown)
    }
}

/// Reads what the kernel says of a file.
#[expect(
    clippy::cast_sign_loss,
    reason = "the kernel gives no negative size; a negative second is kept as it is below"
)]
pub(super) fn stat_of(stat: &rustix::fs::Stat) -> Stat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Symlink,
        FileType::Directory => Kind::Directory,
        _ => Kind::Special,
    };
    Stat {
        kind,
        mode: stat.st_mode & 0o7777,
        size: stat.st_size as u64,
        device: stat.st_dev,
        inode: stat.st_ino,
        modified: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
    }
}
