//! Why a request or a configuration was not accepted.
//!
//! Owns the one error of this room. Each kind knows the exit code of the
//! contract and, where they are known, the file, the line and the key, so
//! that a face prints them without reading the text. No policy is decided
//! here.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::model::{ExitCode, Refusal};

/// A value that does not fit its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("accept {key}: expected {expected}, found {found}")]
pub struct ValueError {
    /// The key, the option or the variable, as the person wrote it.
    pub key: String,
    /// What would have fitted.
    pub expected: String,
    /// What stood there, quoted.
    pub found: String,
}

impl ValueError {
    /// Names what was expected of `key` and what stood there.
    #[must_use]
    pub fn new(key: &str, expected: impl Into<String>, found: &str) -> Self {
        Self {
            key: format!("`{key}`"),
            expected: expected.into(),
            found: format!("`{found}`"),
        }
    }
}

/// A place in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The key with its tables, as `run.max_live`; empty for the whole file.
    pub key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}, line {}", self.file.display(), self.line)
        } else {
            write!(
                f,
                "`{}` ({}, line {})",
                self.key,
                self.file.display(),
                self.line
            )
        }
    }
}

/// Why a request or a configuration was not accepted; nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A key of a file does not hold what it must.
    #[error("accept {place}: expected {expected}")]
    Key {
        /// Where.
        place: Place,
        /// What would have fitted.
        expected: String,
        /// What to do.
        hint: String,
    },
    /// An option or a variable does not hold what it must.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The parts of the request do not go together.
    #[error("use {what}")]
    Usage {
        /// What does not go together, and why.
        what: String,
        /// The option or key that it is about.
        key: String,
        /// What to do.
        hint: String,
    },
    /// A file cannot be read.
    #[error("read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what it is taken for.
    #[error("use `{}`: {reason}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it as a whole.
        reason: String,
    },
    /// A gate refuses what is asked.
    #[error("start what was asked: {0}")]
    Refused(Refusal),
    /// The isolation that is asked for is not to be had.
    #[error("isolate as asked: {what}")]
    Isolation {
        /// What is missing.
        what: String,
        /// The option or key that asks for it.
        key: String,
        /// What to do.
        hint: String,
    },
}

impl ConfigError {
    /// What the program ends with.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Key { .. }
            | Self::Value(_)
            | Self::Usage { .. }
            | Self::Unreadable { .. }
            | Self::BadFile { .. } => ExitCode::Usage,
            Self::Refused(_) => ExitCode::Refused,
            Self::Isolation { .. } => ExitCode::Isolation,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        let text = match self {
            Self::Key { hint, .. } | Self::Usage { hint, .. } | Self::Isolation { hint, .. } => {
                hint.as_str()
            }
            Self::Refused(refusal) => refusal.advice.as_str(),
            Self::Value(_) | Self::Unreadable { .. } | Self::BadFile { .. } => "",
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// The file that it is about.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Key { place, .. } => Some(&place.file),
            Self::Unreadable { path, .. } | Self::BadFile { path, .. } => Some(path),
            Self::Value(_) | Self::Usage { .. } | Self::Refused(_) | Self::Isolation { .. } => None,
        }
    }

    /// The line that it is about, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Key { place, .. } => Some(place.line),
            Self::Value(_)
            | Self::Usage { .. }
            | Self::Unreadable { .. }
            | Self::BadFile { .. }
            | Self::Refused(_)
            | Self::Isolation { .. } => None,
        }
    }

    /// The key, option or variable that it is about.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        let key = match self {
            Self::Key { place, .. } => place.key.as_str(),
            Self::Value(error) => error.key.trim_matches('`'),
            Self::Usage { key, .. } | Self::Isolation { key, .. } => key.as_str(),
            Self::Refused(refusal) => refusal.setting.as_str(),
            Self::Unreadable { .. } | Self::BadFile { .. } => "",
        };
        Some(key).filter(|key| !key.is_empty())
    }
}
