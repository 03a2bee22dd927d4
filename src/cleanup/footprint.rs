//! The steps of one run, journalled before each effect.
//!
//! Owns the list of what a run has acquired and not yet given back. The first
//! line, which names the repository, is synced: without it nothing outside
//! the run's own directory can have been made. Later lines are not: a killed
//! launcher loses no line that the kernel has, and after a power failure the
//! refs and registrations of a run are found by its ids.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::Error;
use crate::model::{AgentId, ObjectId, RunId};
use crate::store::{self, Journal, Sync};

/// Where the repository of a run lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryPlace {
    /// Its top directory.
    pub top: OsString,
    /// Its common git directory.
    pub common_dir: OsString,
}

/// Something that a run acquires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum Step {
    /// The run itself: its directory and lease.
    Run {
        /// Which run.
        run: RunId,
        /// Of which repository.
        place: RepositoryPlace,
    },
    /// The ref that pins a snapshot while agents work from it.
    BaseRef {
        /// Its name.
        name: String,
        /// The commit that it names.
        commit: ObjectId,
    },
    /// A workspace: its directory, its registration, and the work in it.
    Workspace {
        /// Whose.
        agent: AgentId,
        /// Under which ref its work is pinned.
        result_ref: String,
    },
    /// A landing under way; its own journal lies in the staging directory.
    Landing {
        /// Whose result.
        agent: AgentId,
        /// The staging directory.
        staging: OsString,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Intent(Step),
    Undone(Step),
}

/// What one run holds.
#[derive(Debug)]
pub struct Footprint {
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    journal: Journal<Line>,
    open: Vec<Step>,
}

impl Footprint {
    /// Starts the footprint of a new run in its directory.
    ///
    /// # Errors
    /// The journal cannot be made or synced.
    pub fn start(directory: &Path, run: &RunId, place: RepositoryPlace) -> Result<Self, Error> {
        let mut journal: Journal<Line> = Journal::create(&directory.join("journal"))?;
        let step = Step::Run {
            run: run.clone(),
            place,
        };
        journal.append(&Line::Intent(step.clone()), Sync::Now)?;
        Ok(Self {
            directory: directory.to_owned(),
            state: Mutex::new(State {
                journal,
                open: vec![step],
            }),
        })
    }

    /// Loads the footprint that a dead run left; `None` when it had not come
    /// far enough to acquire anything beyond its directory.
    ///
    /// # Errors
    /// The journal cannot be read, or a line within it is damaged.
    pub fn load(directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join("journal");
        if !path.exists() {
            return Ok(None);
        }
        let mut open = Vec::new();
        for line in store::read_journal::<Line>(&path)? {
            match line {
                Line::Intent(step) => open.push(step),
                Line::Undone(step) => open.retain(|other| *other != step),
            }
        }
        if open.is_empty() {
            return Ok(None);
        }
        let journal: Journal<Line> = Journal::open(&path)?;
        Ok(Some(Self {
            directory: directory.to_owned(),
            state: Mutex::new(State { journal, open }),
        }))
    }

    /// The run's directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes down that something is about to be acquired.
    ///
    /// # Errors
    /// The line cannot be written; the effect must not follow.
    pub fn intend(&self, step: Step) -> Result<(), Error> {
        let mut state = self.lock();
        state
            .journal
            .append(&Line::Intent(step.clone()), Sync::Later)?;
        state.open.push(step);
        Ok(())
    }

    /// Writes down that it has been given back.
    ///
    /// # Errors
    /// The line cannot be written; the undo may be performed once more, which
    /// is harmless.
    pub fn undone(&self, step: &Step) -> Result<(), Error> {
        let mut state = self.lock();
        state.open.retain(|other| other != step);
        state
            .journal
            .append(&Line::Undone(step.clone()), Sync::Later)?;
        Ok(())
    }

    /// What is held, newest first.
    #[must_use]
    pub fn open_steps(&self) -> Vec<Step> {
        self.lock().open.iter().rev().cloned().collect()
    }

    /// The run and its repository, as the first line says.
    #[must_use]
    pub fn run(&self) -> Option<(RunId, RepositoryPlace)> {
        self.lock().open.iter().find_map(|step| match step {
            Step::Run { run, place } => Some((run.clone(), place.clone())),
            Step::BaseRef { .. } | Step::Workspace { .. } | Step::Landing { .. } => None,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
