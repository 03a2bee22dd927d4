//! What can go wrong with a workspace.
//!
//! Owns the one error type of this room. A full disk can be told apart, so
//! that a caller can say what is missing rather than what failed.

use std::io;
use std::path::{Path, PathBuf};

use super::Need;
use crate::{config, git, store};

/// A workspace could not be made, captured or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Git could not do its part.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// A lock of ours could not be had.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The file system could not do its part.
    #[error("{action} `{}`", .path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An object that is needed is not in the repository.
    #[error(
        "find {what} in the repository: it is not there, and nothing is fetched for you; \
         get what a partial clone left behind with `git fetch --refetch --no-filter`, or check \
         out what you start from"
    )]
    MissingObject {
        /// Which.
        what: String,
        /// What was answered.
        source: git::Error,
    },
    /// A file system has not enough room for what is to be made.
    #[error(
        "find room in `{}`: the file system at `{}` has {} bytes and {} files free to use, \
         about {} bytes and {} files are needed",
        .directory.display(), .mount.display(), .usable.bytes, count(.usable.inodes),
        .need.bytes, .need.inodes
    )]
    NoRoom {
        /// Where it would be made.
        directory: PathBuf,
        /// The top of the file system.
        mount: PathBuf,
        /// What is needed.
        need: Need,
        /// What is free, without a reserve for others.
        usable: Need,
    },
    /// It was no longer wanted before it was made.
    #[error("make a workspace: it was stopped before it was whole")]
    Stopped,
    /// The backend that was asked for is not to be had here.
    #[error("use the workspace backend `{name}`: {why}; choose `auto` or `checkout`")]
    Unavailable {
        /// Which one.
        name: &'static str,
        /// Why.
        why: String,
    },
    /// An agent's directory was never finished: its agent has not begun.
    #[error("open the workspace at `{}`: it was never finished, no agent has run in it", .dir.display())]
    Unfinished {
        /// The agent's directory.
        dir: PathBuf,
    },
    /// What describes a workspace cannot be read.
    #[error("read `{}`: it is malformed: {why}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A pattern is no glob.
    #[error("read the pattern `{pattern}` of ignored files to carry")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why.
        source: config::ValueError,
    },
}

impl Error {
    /// Whether the disk was full, over quota or read-only.
    #[must_use]
    pub fn is_disk(&self) -> bool {
        match self {
            Self::Git(source) => source.is_disk(),
            Self::Store(source) => source.io_source().is_some_and(git::is_disk),
            Self::File { source, .. } => git::is_disk(source),
            Self::MissingObject { source, .. } => source.is_disk(),
            Self::NoRoom { .. } => true,
            Self::Stopped
            | Self::Unavailable { .. }
            | Self::Unfinished { .. }
            | Self::Malformed { .. }
            | Self::Pattern { .. } => false,
        }
    }

    /// Whether the request itself has to change: nothing was tried.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::MissingObject { .. } | Self::Pattern { .. } => true,
            Self::Git(error) => error.is_usage(),
            Self::Store(_)
            | Self::File { .. }
            | Self::NoRoom { .. }
            | Self::Stopped
            | Self::Unfinished { .. }
            | Self::Malformed { .. } => false,
        }
    }
}

/// A number of files; a file system that makes them as it goes has no number.
fn count(files: u64) -> String {
    match files {
        u64::MAX => "any number of".to_owned(),
        number => number.to_string(),
    }
}

/// Wraps what the file system answered about `path`.
pub(super) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File {
        action,
        path,
        source,
    }
}
