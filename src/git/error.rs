//! What can go wrong at the door to git.
//!
//! Owns the one error type of this room. Variants say what was attempted and
//! on what; the source is kept, never repeated.

use std::io;
use std::path::{Path, PathBuf};

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
    /// The directory is in no repository.
    #[error("find a git repository at `{}`: there is none; run `git init` or name another directory", .dir.display())]
    NotARepository {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// The repository has no working tree.
    #[error("use the repository at `{}`: it is bare; name one with a working tree", .dir.display())]
    Bare {
        /// Where it is.
        dir: PathBuf,
    },
    /// Git refuses the repository because somebody else owns it.
    #[error("use the repository at `{}`: another user owns it; if you trust it, run `git config --global --add safe.directory` with its path", .dir.display())]
    UnsafeOwner {
        /// Where it is.
        dir: PathBuf,
    },
    /// The repository has a form that this program cannot read yet.
    #[error("use the repository at `{}`: its object format `{format}` is not known, only `sha1` and `sha256` are", .dir.display())]
    Format {
        /// Its common git directory.
        dir: PathBuf,
        /// What git calls the format.
        format: String,
    },
    /// A revision names no commit.
    #[error("resolve `{rev}`: it names no commit of this repository")]
    Revision {
        /// What was asked for.
        rev: String,
    },
    /// An object could not be read or written.
    #[error("{what}")]
    Object {
        /// What was attempted, on which object.
        what: String,
        /// Why.
        source: git2::Error,
    },
    /// Something of git's has an unexpected form.
    #[error("read {what}: it is malformed")]
    Malformed {
        /// What it is.
        what: String,
    },
    /// Two edits of one tree contradict each other.
    #[error("edit a tree: `{path}` is both a file and a directory")]
    Contradiction {
        /// Where.
        path: String,
    },
    /// A ref that was to be made exists.
    #[error("make the ref `{name}`: it exists; name another or delete it first")]
    RefExists {
        /// Which ref.
        name: String,
    },
    /// A ref is not where it was expected.
    #[error("move the ref `{name}`: it stands at {found} and not where it was expected")]
    RefMoved {
        /// Which ref.
        name: String,
        /// Where it stands; "nothing" when it is absent.
        found: String,
    },
    /// A worktree registration belongs to somebody else.
    #[error("register the worktree `{}`: an entry stands there that is not ours", .path.display())]
    ForeignRegistration {
        /// The entry.
        path: PathBuf,
    },
    /// A file of git's could not be read or written.
    #[error("{action} `{}`", .path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
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

impl Error {
    /// Whether the request was wrong, rather than the machine or the repository.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Missing { .. }
            | Self::UnknownVersion { .. }
            | Self::TooOld { .. }
            | Self::NotARepository { .. }
            | Self::Bare { .. }
            | Self::UnsafeOwner { .. }
            | Self::Format { .. }
            | Self::RefExists { .. }
            | Self::Revision { .. } => true,
            Self::NotStarted { .. }
            | Self::Failed { .. }
            | Self::Object { .. }
            | Self::Malformed { .. }
            | Self::Contradiction { .. }
            | Self::RefMoved { .. }
            | Self::ForeignRegistration { .. }
            | Self::File { .. }
            | Self::MergeSpace { .. }
            | Self::MergeCommit { .. }
            | Self::MergeAnswer { .. } => false,
        }
    }

    /// Wraps what the file system answered about `path`.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    /// Whether the disk was full, over quota or read-only.
    #[must_use]
    pub fn is_disk(&self) -> bool {
        match self {
            Self::File { source, .. }
            | Self::NotStarted { source, .. }
            | Self::MergeSpace { source, .. } => is_disk(source),
            Self::Object { source, .. } => {
                // libgit2 hands out no error number, only what the C library
                // calls it; the text is the C locale's, which it always uses.
                let text = source.message();
                source.class() == git2::ErrorClass::Os
                    && ["No space left", "quota exceeded", "Read-only file system"]
                        .iter()
                        .any(|part| text.contains(part))
            }
            Self::Missing { .. }
            | Self::UnknownVersion { .. }
            | Self::TooOld { .. }
            | Self::Failed { .. }
            | Self::NotARepository { .. }
            | Self::Bare { .. }
            | Self::UnsafeOwner { .. }
            | Self::Format { .. }
            | Self::Revision { .. }
            | Self::Malformed { .. }
            | Self::Contradiction { .. }
            | Self::RefExists { .. }
            | Self::RefMoved { .. }
            | Self::ForeignRegistration { .. }
            | Self::MergeCommit { .. }
            | Self::MergeAnswer { .. } => false,
        }
    }
}

/// Whether an answer of the file system means that it takes no more bytes.
#[must_use]
pub fn is_disk(source: &io::Error) -> bool {
    matches!(
        source.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
    )
}
