//! What the program has to look up about the person and the machine.
//!
//! Owns the one look at the environment and the current directory; from here
//! on both are data.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::executor::{Executor, Options};
use crate::git::{self, Git, Repository};
use crate::model::ExitCode;
use crate::store::StateDir;

/// The current directory, without links where it can be resolved.
pub(super) fn current_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir()
        .and_then(|path| path.canonicalize())
        .map_err(|error| Failure::usage(format!("failed to find the current directory: {error}")))
}

/// Opens the machine with the person's environment.
pub(super) fn executor() -> Result<Executor, Failure> {
    let state = StateDir::locate(|name| std::env::var_os(name)).map_err(|error| {
        Failure::usage(format!("failed to {error}")).hint("set HOME or COFFERDAM_STATE_DIR")
    })?;
    Ok(Executor::open(options(
        state.path(),
        std::env::vars_os().collect(),
    )?)?)
}

/// As [`executor`], with what dead runs left recovered first: whoever looks
/// at results or decides about them must see the work of a killed launcher.
/// What cannot be recovered is told by `gc` and `doctor --repair`.
pub(super) fn recovered_executor() -> Result<Executor, Failure> {
    let executor = executor()?;
    if let Err(error) = executor.recover() {
        tracing::warn!(%error, "dead runs could not be recovered");
    }
    Ok(executor)
}

/// The surroundings of this process, with a state directory and variables.
pub(super) fn options(
    state: &Path,
    variables: BTreeMap<OsString, OsString>,
) -> Result<Options, Failure> {
    let own_exe = std::env::current_exe().map_err(|error| {
        Failure::new(
            ExitCode::Internal,
            format!("failed to find this program's own file: {error}"),
        )
    })?;
    Ok(Options::new(state.to_owned(), own_exe, variables))
}

/// The repository that the person means, if they stand in one.
pub(super) fn repository(executor: &Executor, named: Option<&Path>) -> Result<Repository, Failure> {
    let directory = match named {
        Some(directory) => directory.to_owned(),
        None => current_directory()?,
    };
    Ok(executor.repository(&directory)?)
}

/// As [`repository`], but standing outside of any is fine.
pub(super) fn repository_if_any(
    executor: &Executor,
    named: Option<&Path>,
) -> Result<Option<Repository>, Failure> {
    match named {
        Some(_) => repository(executor, named).map(Some),
        None => match repository(executor, None) {
            Ok(found) => Ok(Some(found)),
            // The answer of git itself tells whether there is none; one that
            // is there and cannot be used must not pass for that.
            Err(failure) => {
                let here = current_directory()?;
                match Git::require().and_then(|git| Repository::discover(&git, &here)) {
                    Err(git::Error::NotARepository { .. }) => Ok(None),
                    Ok(_) | Err(_) => Err(failure),
                }
            }
        },
    }
}

/// Commands that start agents or decide about results are refused inside an
/// agent: this version has no channel on which an agent could ask for either.
/// `what` continues "failed to".
pub(super) fn require_outside(what: &str) -> Result<(), Failure> {
    if std::env::var_os("COFFERDAM_AGENT_ID").is_none() {
        return Ok(());
    }
    let message = format!(
        "failed to {what}: this is inside an agent, and agents can neither start agents nor decide about results in this version"
    );
    Err(Failure::new(ExitCode::Refused, message).hint("complete the task with your own tools"))
}
