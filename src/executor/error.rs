//! What can go wrong in the flow, and what the program ends with then.
//!
//! Owns the mapping from a stage and its error to an exit code. A refusal, a
//! conflict and a failed agent are no errors: they stand in the record.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use cofferdam_sandbox::{HelperError, PolicyError, SpawnError};

use crate::model::ExitCode;
use crate::{cleanup, config, confinement, git, integration, store, workspace};

/// A step of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Opening the machine and the repository.
    Opening,
    /// Taking the parent's snapshot.
    Snapshot,
    /// The gates.
    Admission,
    /// Making a workspace.
    Workspace,
    /// Making the policy and the cage.
    Confinement,
    /// Waiting for the command.
    Process,
    /// Measuring what it changed.
    Capture,
    /// Merging and landing.
    Integration,
    /// Giving back what was acquired.
    Cleanup,
    /// Writing down what happened.
    Record,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "opening the repository",
            Self::Snapshot => "taking the snapshot",
            Self::Admission => "admission",
            Self::Workspace => "making the workspace",
            Self::Confinement => "confinement",
            Self::Process => "supervision",
            Self::Capture => "capture",
            Self::Integration => "integration",
            Self::Cleanup => "clean-up",
            Self::Record => "writing the record",
        })
    }
}

/// The flow could not do a step.
#[derive(Debug)]
pub struct Error {
    stage: Stage,
    code: ExitCode,
    hint: Option<String>,
    source: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// A fault at a stage, with the code that its kind calls for.
    pub(super) fn at(stage: Stage, source: impl Into<Fault>) -> Self {
        let Fault { code, hint, source } = source.into();
        Self {
            stage,
            code,
            hint,
            source,
        }
    }

    /// At which step.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What the program ends with.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        self.code
    }

    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The whole chain in one line.
    #[must_use]
    pub fn chain(&self) -> String {
        // What is wrong with a request was not found while doing anything.
        let mut text = match self.code {
            ExitCode::Usage => format!("failed to {}", self.source),
            ExitCode::Success
            | ExitCode::Failed
            | ExitCode::Refused
            | ExitCode::Isolation
            | ExitCode::Held
            | ExitCode::Partial
            | ExitCode::Cleanup
            | ExitCode::Internal
            | ExitCode::Signal(_) => format!("{}: failed to {}", self.stage, self.source),
        };
        let mut next = self.source.source();
        while let Some(cause) = next {
            let cause_text = cause.to_string();
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            next = cause.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain())
    }
}

impl StdError for Error {}

/// A cause with the exit code that it calls for.
#[derive(Debug)]
pub(super) struct Fault {
    code: ExitCode,
    hint: Option<String>,
    source: Box<dyn StdError + Send + Sync>,
}

impl Fault {
    pub(super) fn new(code: ExitCode, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            code,
            hint: None,
            source: source.into(),
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

const DISK_HINT: &str =
    "free space, or make what is named readable and writable; nothing of the parent's was changed";

/// A disk that is full, read-only or closed to this user, anywhere in a chain
/// of causes, is exit 4 and no fault of the program.
fn is_disk(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let closed = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        let by_kind = |error: &io::Error| git::is_disk(error) || closed(error);
        if error.downcast_ref::<io::Error>().is_some_and(by_kind) {
            return true;
        }
        // libgit2 hands out no error number, only what the C library calls it.
        if let Some(git::Error::Object { source, .. }) = error.downcast_ref::<git::Error>()
            && source.class() == git2::ErrorClass::Os
            && source.message().contains("Permission denied")
        {
            return true;
        }
        if let Some(git::Error::Failed { stderr, .. }) = error.downcast_ref::<git::Error>()
            && [
                "No space left on device",
                "Read-only file system",
                "Permission denied",
            ]
            .iter()
            .any(|part| stderr.contains(part))
        {
            return true;
        }
        next = error.source();
    }
    false
}

fn by_disk(code: ExitCode, source: impl StdError + Send + Sync + 'static) -> Fault {
    if is_disk(&source) {
        Fault::new(ExitCode::Isolation, source).hint(DISK_HINT)
    } else {
        Fault::new(code, source)
    }
}

impl From<git::Error> for Fault {
    fn from(error: git::Error) -> Self {
        let code = if error.is_usage() {
            ExitCode::Usage
        } else {
            ExitCode::Internal
        };
        by_disk(code, error)
    }
}

impl From<workspace::Error> for Fault {
    fn from(error: workspace::Error) -> Self {
        if error.is_disk() {
            return Self::new(ExitCode::Isolation, error).hint(DISK_HINT);
        }
        let code = if error.is_usage() {
            ExitCode::Usage
        } else {
            ExitCode::Internal
        };
        by_disk(code, error)
    }
}

impl From<store::Error> for Fault {
    fn from(error: store::Error) -> Self {
        by_disk(ExitCode::Internal, error)
    }
}

impl From<cleanup::Error> for Fault {
    fn from(error: cleanup::Error) -> Self {
        by_disk(ExitCode::Internal, error)
    }
}

impl From<integration::Error> for Fault {
    fn from(error: integration::Error) -> Self {
        by_disk(ExitCode::Internal, error)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        by_disk(ExitCode::Internal, error)
    }
}

impl From<confinement::Error> for Fault {
    fn from(error: confinement::Error) -> Self {
        Self::new(ExitCode::Isolation, error)
    }
}

impl From<SpawnError> for Fault {
    fn from(error: SpawnError) -> Self {
        match error {
            SpawnError::Command { .. } => Self::new(ExitCode::Usage, error).hint(
                "give a program that exists in the repository or on the PATH and is executable",
            ),
            SpawnError::Unavailable { ref hint, .. } => {
                let hint = hint.clone();
                Self::new(ExitCode::Isolation, error).hint(hint)
            }
            SpawnError::Policy(PolicyError::ImpossibleLimit { .. }) => {
                Self::new(ExitCode::Usage, error).hint("raise the limit")
            }
            SpawnError::Policy { .. }
            | SpawnError::Unheld { .. }
            | SpawnError::CanaryEscaped { .. } => Self::new(ExitCode::Isolation, error),
            // A step of the helper that no policy explains is the machine's
            // doing: isolation is not to be had here.
            SpawnError::Helper(HelperError::Step { .. } | HelperError::Protocol { .. }) => {
                by_disk(ExitCode::Isolation, error)
            }
            SpawnError::Helper(HelperError::Start { .. }) => by_disk(ExitCode::Internal, error),
        }
    }
}

impl From<config::ConfigError> for Fault {
    fn from(error: config::ConfigError) -> Self {
        Self::new(ExitCode::Usage, error)
    }
}

impl From<anyhow::Error> for Fault {
    fn from(error: anyhow::Error) -> Self {
        Self::new(ExitCode::Internal, error)
    }
}
