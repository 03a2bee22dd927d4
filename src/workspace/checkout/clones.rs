//! The parent's files as a source of bytes.
//!
//! Owns cloning: two files share their blocks until one of them is written,
//! so a copy costs no reading. A file of the parent is taken only where the
//! index vouches that its bytes are the blob's, by all that `lstat` says, and
//! only if that still holds when it has been cloned. Everything else comes
//! from the objects. Follows no link, and reads nothing.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ioctl_ficlone};
use rustix::io::Errno;

use super::super::Ground;
use super::super::beneath::Beneath;
use super::super::error::{Error, file};
use crate::git::{IndexStat, Repository};
use crate::model::RepoPath;

/// The parent's working tree.
#[derive(Debug)]
pub(super) struct Clones(Beneath);

/// One of its directories; `None` where none stands any more.
pub(super) type CloneDirectory = Option<OwnedFd>;

impl Clones {
    pub(super) fn of(repo: &Repository) -> Result<Self, Error> {
        let top = Beneath::open_root(repo.top()).map_err(file("open", repo.top()))?;
        Ok(Self(top))
    }

    /// Opens the directory of some files. Whatever stands in the way, they can
    /// be written from the objects.
    pub(super) fn directory(&self, path: Option<&RepoPath>) -> CloneDirectory {
        let path = path.map_or(Path::new("."), RepoPath::as_path);
        let (found, metadata) = self.0.look(path).ok()??;
        metadata.is_dir().then(|| OwnedFd::from(found))
    }
}

/// Clones a file of the parent into an empty one; `false` when it is not, or
/// no longer, what the index describes, or cannot be cloned.
pub(super) fn clone_into(
    out: &File,
    (directory, name): (&OwnedFd, &OsStr),
    described: &IndexStat,
) -> bool {
    // Not blocking: what was a file a moment ago may be a pipe now.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(source) = rustix::fs::openat(directory, name, flags, Mode::empty()) else {
        return false;
    };
    let source = File::from(source);
    let as_described = || {
        source
            .metadata()
            .is_ok_and(|now| now.is_file() && IndexStat::of(&now) == *described)
    };
    // Asked again afterwards: it may have been written in between.
    as_described() && ioctl_ficlone(out, &source).is_ok() && as_described()
}

/// Tries it: from the parent's file system into the directory of agents.
pub(super) fn probe(ground: &Ground<'_>) -> Result<String, String> {
    // In a linked worktree this is a file of the tree itself.
    let link = ground.repo.top().join(".git");
    let source = match link.is_file() {
        true => link,
        false => ground.repo.git_dir().join("HEAD"),
    };
    let open = File::open(&source).map_err(|error| format!("`{}`: {error}", source.display()))?;
    let out = tempfile::tempfile_in(ground.state)
        .map_err(|error| format!("`{}`: {error}", ground.state.display()))?;
    match ioctl_ficlone(&out, &open) {
        Ok(()) => Ok("unchanged files share their blocks with the parent's".to_owned()),
        Err(Errno::XDEV) => Err(format!(
            "`{}` lies on another file system than the repository",
            ground.state.display()
        )),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NOSYS) => Err(format!(
            "the file system of `{}` cannot share blocks between files",
            ground.state.display()
        )),
        Err(errno) => Err(format!("cloning a file: {errno}")),
    }
}
