//! What can go wrong with a durable file.
//!
//! Owns the one error type of this room. Each variant names the path; the
//! source is kept, never repeated.

use std::io;
use std::path::PathBuf;

/// A durable file could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{action} {}", path.display())]
    Io {
        /// What was tried, as a verb: `open`, `rename`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The kernel or the file system lacks what is needed.
    #[error("{action} {}: {needed}", path.display())]
    Unsupported {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What has to be there.
        needed: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// A line of a journal is not what was written, and lines follow it.
    #[error(
        "read journal {}: line {line} is damaged and is not the last; keep the file and look at the disk",
        path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A whole line of a journal does not have the expected form.
    #[error("read journal {}: line {line} has another form; another version wrote it", path.display())]
    Foreign {
        /// The journal.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// A file does not hold the expected JSON.
    #[error("read JSON from {}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// A value cannot be written as JSON.
    #[error("write JSON to {}", path.display())]
    ToJson {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// Another live process holds the lease.
    #[error("take the lease {}: another live process holds it", path.display())]
    Held {
        /// The lease.
        path: PathBuf,
    },
    /// No variable says where state may be kept.
    #[error(
        "find the state directory: set COFFERDAM_STATE_DIR, XDG_STATE_HOME or HOME to an absolute path"
    )]
    NoHome,
    /// The state would lie inside the repository that agents work on.
    #[error(
        "use the state directory {}: it lies inside the repository {}; set COFFERDAM_STATE_DIR to a place outside",
        path.display(),
        repository.display()
    )]
    InsideRepository {
        /// The state directory.
        path: PathBuf,
        /// The repository.
        repository: PathBuf,
    },
}

impl Error {
    /// Makes the constructor for a failed operation on `path`.
    pub(crate) fn io<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source: source.into(),
        }
    }

    /// What a full disk answers.
    #[cfg(test)]
    pub(crate) fn full_disk() -> Self {
        Self::io("write", "a test's file")(io::Error::from(io::ErrorKind::StorageFull))
    }

    /// What the operating system answered, where it was asked.
    #[must_use]
    pub fn io_source(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } | Self::Unsupported { source, .. } => Some(source),
            Self::Damaged { .. }
            | Self::Foreign { .. }
            | Self::Json { .. }
            | Self::ToJson { .. }
            | Self::Held { .. }
            | Self::NoHome
            | Self::InsideRepository { .. } => None,
        }
    }
}
