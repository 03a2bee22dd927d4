//! What can be known to fail before anything is started.
//!
//! Owns the look for the agents' programs: a fleet must not half run because
//! the last task misspells one. What this cannot know (a program that an
//! earlier task makes) is left to the start itself, which answers the same.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::error::{Error, Fault, Stage};
use super::site::Site;
use crate::git::Repository;
use crate::model::{Base, ExitCode, Land, RunRequest, TaskRequest};
use crate::workspace::{self, Need};

const HINT: &str = "give a program that exists in the repository or on the PATH and is executable";

/// Looks for the program of every task.
pub(super) fn commands(site: &Site, repo: &Repository, request: &RunRequest) -> Result<(), Error> {
    for task in &request.tasks {
        let Some(program) = task.command.first() else {
            continue;
        };
        if let Err(why) = look(site, repo, request, (task, program)) {
            let message = format!(
                "execute `{}` for `{}`: {why}",
                program.to_string_lossy(),
                task.name
            );
            return Err(Error::at(
                Stage::Opening,
                Fault::new(ExitCode::Usage, message).hint(HINT),
            ));
        }
    }
    Ok(())
}

/// Makes sure that there is room for a run's own files and for objects before
/// any of them is written.
pub(super) fn room(site: &Site, repo: &Repository) -> Result<(), Error> {
    for directory in [site.state.path(), repo.objects_dir()] {
        let room = workspace::reserve(directory, Need::SMALL);
        drop(room.map_err(|error| Error::at(Stage::Opening, error))?);
    }
    Ok(())
}

/// Makes sure that the branches that were named can be made.
pub(super) fn branches(repo: &Repository, request: &RunRequest) -> Result<(), Error> {
    for task in &request.tasks {
        branch(repo, &task.land)?;
    }
    Ok(())
}

/// Makes sure that a branch that was named can be made.
pub(super) fn branch(repo: &Repository, land: &Land) -> Result<(), Error> {
    let Land::Branch(Some(name)) = land else {
        return Ok(());
    };
    let fault = |error: crate::git::Error| Error::at(Stage::Opening, error);
    let refused = |why: &str| {
        let message = format!("land on the branch `{name}`: {why}");
        let fault = Fault::new(ExitCode::Usage, message);
        Err(Error::at(
            Stage::Opening,
            fault.hint("give `--land branch=NAME` the name of a new branch"),
        ))
    };
    let checked = repo
        .call()
        .args(["check-ref-format", "--branch", name])
        .run()
        .map_err(fault)?;
    let is_itself = checked.stdout.strip_suffix(b"\n") == Some(name.as_bytes());
    if !checked.status.success() || name == "HEAD" || !is_itself {
        return refused("git does not take this for the name of a branch");
    }
    let full = format!("refs/heads/{name}");
    if repo
        .refs_under(&full)
        .map_err(fault)?
        .iter()
        .any(|(found, _)| *found == full)
    {
        return refused("it exists already");
    }
    Ok(())
}

fn look(
    site: &Site,
    repo: &Repository,
    request: &RunRequest,
    (task, program): (&TaskRequest, &OsStr),
) -> io::Result<()> {
    if !program.as_bytes().contains(&b'/') {
        let path = task
            .env
            .iter()
            .find(|entry| entry.name == "PATH")
            .map(|entry| entry.value.as_os_str());
        let path = path.or_else(|| {
            site.variables
                .get(OsStr::new("PATH"))
                .map(|value| value.as_os_str())
        });
        let places = std::env::split_paths(path.unwrap_or_default());
        // An entry of the PATH inside the repository is seen in the copy.
        let found = places
            .map(|place| place.join(program))
            .any(|file| executable(&file).is_ok());
        return if found {
            Ok(())
        } else {
            Err(io::Error::other("it is not on the PATH"))
        };
    }
    let started_in = if request.cwd.starts_with(repo.top()) {
        request.cwd.as_path()
    } else {
        repo.top()
    };
    let file: PathBuf = started_in.join(program);
    let may_come_later =
        request.base != Base::Worktree || !task.after.is_empty() || task.setup.is_some();
    if may_come_later && file.starts_with(repo.top()) {
        return Ok(());
    }
    executable(&file)
}

fn executable(file: &Path) -> io::Result<()> {
    let data = std::fs::metadata(file)?;
    if data.is_dir() || data.permissions().mode() & 0o111 == 0 {
        return Err(io::Error::other("it is not an executable file"));
    }
    Ok(())
}
