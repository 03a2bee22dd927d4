//! Gives back whatever a run still holds, newest first.
//!
//! Called at the end of every run and for every dead one, by the same code.
//! It continues past a failing undo: that one becomes a left-over in the
//! report, and its step stays open, so that the next command tries again.
//! Landings must have been recovered before: that is the caller's, since only
//! integration knows how.

use std::path::Path;

use jiff::Timestamp;

use super::{Attempt, Error, Footprint, Step, capture_and_pin};
use crate::git::Repository;
use crate::model::{AgentId, CleanupReport, LeftOver};
use crate::workspace::{self, Capture, Harvest};

/// Work that was found in a workspace nobody had captured.
#[derive(Debug)]
pub struct Salvaged {
    /// Whose.
    pub agent: AgentId,
    /// What it was.
    pub capture: Capture,
    /// The ref that pins it; `None` when there was nothing to pin.
    pub reference: Option<String>,
    /// The name that this ref has, or would have.
    pub result_ref: String,
}

/// What settling achieved.
#[derive(Debug)]
#[must_use]
pub struct Settled {
    /// Agents whose workspace could not be captured and stays.
    pub quarantined: Vec<AgentId>,
    /// What is left.
    pub report: CleanupReport,
}

/// Where things of a run lie.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// Where captures move ignored files to, one directory an agent.
    pub kept: &'a Path,
    /// Where directories are deleted.
    pub trash: &'a Path,
    /// The date of results that are pinned on the way.
    pub now: Timestamp,
}

/// Is told of work that was pinned, before the workspace goes: once this has
/// returned, the work can be found by whoever looks at the record.
pub type Noting<'a> = dyn FnMut(&Salvaged) -> Result<(), String> + 'a;

/// Settles every open step but the run itself.
pub fn settle(
    footprint: &Footprint,
    repo: &Repository,
    places: Places<'_>,
    pinned: &mut Noting<'_>,
) -> Settled {
    let mut settled = Settled {
        quarantined: Vec::new(),
        report: CleanupReport::clean(),
    };
    for step in footprint.open_steps() {
        let undone = match &step {
            Step::Run { .. } => continue,
            Step::BaseRef { name, commit } => repo
                .delete_ref(name, commit)
                .map_err(|error| left(name, &error)),
            Step::Workspace { agent, result_ref } => {
                salvage(footprint, repo, places, (agent, result_ref), pinned)
                    .inspect_err(|_| settled.quarantined.push(agent.clone()))
            }
            Step::Landing { staging, .. } => Err(LeftOver {
                what: staging.to_string_lossy().into_owned(),
                why: "a landing was cut short and could not be recovered".to_owned(),
            }),
        };
        let marked = undone.and_then(|()| {
            footprint
                .undone(&step)
                .map_err(|error| left("journal", &error))
        });
        if let Err(left_over) = marked {
            settled.report.left.push(left_over);
        }
    }
    settled.report.complete = settled.report.left.is_empty();
    settled
}

fn left(what: &str, error: &dyn std::error::Error) -> LeftOver {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        why = format!("{why}: {cause}");
        source = cause.source();
    }
    LeftOver {
        what: what.to_owned(),
        why,
    }
}

/// Whether a workspace may hold work that nobody has pinned.
fn holds_work(directory: &Path) -> bool {
    directory.join(super::STARTED).exists() && !directory.join(super::CAPTURED).exists()
}

/// Pins what a workspace holds, has it written down, then removes it. Nothing
/// is removed whose work could not be pinned and named.
fn salvage(
    footprint: &Footprint,
    repo: &Repository,
    places: Places<'_>,
    (agent, result_ref): (&AgentId, &str),
    pinned: &mut Noting<'_>,
) -> Result<(), LeftOver> {
    let directory = footprint.directory().join("agents").join(agent.as_str());
    let named = |error: &dyn std::error::Error| left(&directory.to_string_lossy(), error);
    if holds_work(&directory) {
        let found = workspace::reopen(repo, agent, &directory).map_err(|error| named(&error))?;
        let keep = places.kept.join(agent.as_str());
        let message = "pinned after the launcher could not";
        let harvest = Harvest {
            keep: &keep,
            at: places.now,
            message,
        };
        let capture = capture_and_pin(repo, &found, &harvest, (result_ref, Attempt::Again))
            .map_err(|error| named(&error))?;
        let reference = capture.commit.as_ref().map(|_| result_ref.to_owned());
        let salvaged = Salvaged {
            agent: agent.clone(),
            capture,
            reference,
            result_ref: result_ref.to_owned(),
        };
        pinned(&salvaged).map_err(|why| LeftOver {
            what: directory.to_string_lossy().into_owned(),
            why,
        })?;
    }
    workspace::dispose(&directory).map_err(|error| named(&error))
}

impl From<Error> for LeftOver {
    fn from(error: Error) -> Self {
        left("run", &error)
    }
}
