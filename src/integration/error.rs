//! What can go wrong while a result is integrated.
//!
//! Owns the one error type of this room. A conflict is none of them: an error
//! is for "it could not be tried".

use std::path::PathBuf;

use super::ObjectError;
use crate::model::{ObjectId, PathError, PathText};
use crate::{git, store};

/// A result could not be integrated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Git could not merge.
    #[error("merge {theirs} into {ours}")]
    Merge {
        /// The parent's tree.
        ours: ObjectId,
        /// The agent's tree.
        theirs: ObjectId,
        /// Why not.
        source: git::Error,
    },
    /// A conflicted file could not be merged in favour of one side.
    #[error("settle the conflict at {path}")]
    Settle {
        /// The file.
        path: String,
        /// Why not.
        source: git::Error,
    },
    /// An object could not be read or written.
    #[error("{action} {id}")]
    Object {
        /// What was tried.
        action: &'static str,
        /// Which object.
        id: ObjectId,
        /// Why not.
        source: ObjectError,
    },
    /// A new object could not be written.
    #[error("write an object of the merged tree")]
    NewObject {
        /// Why not.
        source: ObjectError,
    },
    /// A file of the parent's tree or of the staging directory.
    #[error("land in {}", tree.display())]
    Land {
        /// The tree.
        tree: PathBuf,
        /// Why not.
        source: store::Error,
    },
    /// The tree and the staging directory lie on different file systems.
    #[error(
        "land in {}: {} lies on another file system than the staging directory {}; nothing was written",
        tree.display(),
        path.display(),
        staging.display()
    )]
    OtherFileSystem {
        /// The tree.
        tree: PathBuf,
        /// What lies elsewhere.
        path: PathBuf,
        /// The staging directory.
        staging: PathBuf,
    },
    /// A landing failed, and taking it back failed too.
    #[error(
        "take back a half-done landing in {}; everything is kept in {}: run `cofferdam doctor --repair`",
        tree.display(),
        staging.display()
    )]
    HalfDone {
        /// The tree.
        tree: PathBuf,
        /// Where the other half is.
        staging: PathBuf,
        /// Why.
        source: store::Error,
    },
    /// A journal names what is no path.
    #[error("read the landing journal in {}", staging.display())]
    Journal {
        /// Where it is.
        staging: PathBuf,
        /// What is wrong.
        source: PathError,
    },
    /// A landing was begun in another working tree of the repository.
    #[error(
        "land in {}: the landing in {} was begun in {}, and only there it can be finished or taken back",
        tree.display(),
        staging.display(),
        made_in.text()
    )]
    OtherTree {
        /// The tree that was given.
        tree: PathBuf,
        /// The landing's staging directory.
        staging: PathBuf,
        /// The tree that its header names.
        made_in: PathText,
    },
    /// The lock could not be used.
    #[error("wait for the landing lock")]
    Lock {
        /// Why not.
        source: store::Error,
    },
    /// A test let the process die here.
    #[cfg(test)]
    #[error("die at a step that a test chose")]
    Died,
}

impl Error {
    /// Whether a test let the process die here: then nothing is put back.
    pub(super) fn is_death(&self) -> bool {
        #[cfg(test)]
        if matches!(self, Self::Died) {
            return true;
        }
        false
    }
}
