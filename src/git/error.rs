//! What can go wrong at the door to git.
//!
//! Owns the one error type of this room. Variants say what was attempted and
//! on what; the source is kept, never repeated.

use std::io;
use std::path::PathBuf;

use super::Version;

/// Git could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no git on the PATH.
    #[error("run `git`: it is not on the PATH; install git 2.38 or newer")]
    Missing {
        /// What starting it answered.
        source: io::Error,
    },
    /// It does not say its version.
    #[error("read the version of git from `{text}`")]
    UnknownVersion {
        /// What it said.
        text: String,
    },
    /// It is too old.
    #[error("use git {found}: {needed} or newer is needed, for `merge-tree --write-tree`")]
    TooOld {
        /// What was found.
        found: Version,
        /// What is needed.
        needed: Version,
    },
    /// A call could not be started or fed.
    #[error("start `{argv}`")]
    NotStarted {
        /// The call.
        argv: String,
        /// Why.
        source: io::Error,
    },
    /// A call ended with an error.
    #[error("run `{argv}`: exit code {code:?}: {stderr}")]
    Failed {
        /// The call.
        argv: String,
        /// Its exit code; `None` when a signal ended it.
        code: Option<i32>,
        /// What it said.
        stderr: String,
    },
    /// A file of the private merge space could not be used.
    #[error("{action} {}, in the merge space", path.display())]
    MergeSpace {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A synthetic commit could not be written.
    #[error("write a commit into the merge space {}", path.display())]
    MergeCommit {
        /// The space.
        path: PathBuf,
        /// Why not.
        source: Box<git2::Error>,
    },
    /// A merge was answered in a form that is not the documented one.
    #[error("read the answer of `git merge-tree`: {what}")]
    MergeAnswer {
        /// What is wrong with it.
        what: &'static str,
    },
}
