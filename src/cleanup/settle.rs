//! Gives back whatever a run still holds, newest first.
//!
//! Called at the end of every run and for every dead one, by the same code.
//! It continues past a failing undo: that one becomes a left-over in the
//! report, and its step stays open, so that the next command tries again.
//! Landings must have been recovered before: that is the caller's, since only
//! integration knows how.

use std::path::Path;

use jiff::Timestamp;

use super::{Error, Footprint, Step};
use crate::git::{self, Renames, Repository};
use crate::model::{AgentId, ChangeSet, CleanupReport, LeftOver};
use crate::workspace::{self, Capture, Harvest, Workspace};

/// Work that was found in a workspace nobody had captured.
#[derive(Debug)]
pub struct Salvaged {
    /// Whose.
    pub agent: AgentId,
    /// What it was.
    pub capture: Capture,
    /// The ref that pins it; `None` when there was nothing to pin.
    pub reference: Option<String>,
}

/// What settling achieved.
#[derive(Debug)]
#[must_use]
pub struct Settled {
    /// Work that was pinned on the way.
    pub salvaged: Vec<Salvaged>,
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

/// Settles every open step but the run itself.
pub fn settle(footprint: &Footprint, repo: &Repository, places: Places<'_>) -> Settled {
    let mut settled = Settled {
        salvaged: Vec::new(),
        quarantined: Vec::new(),
        report: CleanupReport::clean(),
    };
    for step in footprint.open_steps() {
        let undone = match &step {
            Step::Run { .. } => continue,
            Step::BaseRef { name, commit } => repo
                .delete_ref(name, commit)
                .map_err(|error| left(name, &error)),
            Step::Scratch { name } => {
                super::discard_directory(&footprint.directory().join(name), places.trash)
                    .map_err(|error| left(name, &error))
            }
            Step::Workspace { agent, result_ref } => {
                salvage(footprint, repo, places, (agent, result_ref))
                    .map(|found| settled.salvaged.extend(found))
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

/// What the result ref of a workspace already pins.
fn pinned(
    repo: &Repository,
    result_ref: &str,
    found: &Workspace,
) -> Result<Option<Capture>, git::Error> {
    let refs = repo.refs_under(result_ref)?;
    let Some((_, commit)) = refs.into_iter().find(|(name, _)| name == result_ref) else {
        return Ok(None);
    };
    let objects = repo.objects()?;
    let (base, tree) = (objects.tree_of(found.base())?, objects.tree_of(&commit)?);
    let changes = objects.diff(&base, &tree, Renames::Find)?;
    let changes = ChangeSet {
        base,
        tree,
        changes,
        ignored: Vec::new(),
        warnings: Vec::new(),
    };
    Ok(Some(Capture {
        changes,
        kept: Vec::new(),
        commit: Some(commit),
    }))
}

/// Whether a workspace may hold work that nobody has pinned.
fn holds_work(directory: &Path) -> bool {
    directory.join(super::STARTED).exists() && !directory.join(super::CAPTURED).exists()
}

/// Pins what a workspace holds, then removes it. Nothing is removed whose
/// work could not be pinned.
fn salvage(
    footprint: &Footprint,
    repo: &Repository,
    places: Places<'_>,
    (agent, result_ref): (&AgentId, &str),
) -> Result<Option<Salvaged>, LeftOver> {
    let directory = footprint.directory().join("agents").join(agent.as_str());
    let named = |error: &dyn std::error::Error| left(&directory.to_string_lossy(), error);
    let salvaged = if holds_work(&directory) {
        let found = workspace::reopen(repo, agent, &directory).map_err(|error| named(&error))?;
        let capture = match pinned(repo, result_ref, &found).map_err(|error| named(&error))? {
            // The ref was made and the mark beside it was not: the work is
            // safe, and capturing it again would find the same.
            Some(capture) => capture,
            None => {
                let keep = places.kept.join(agent.as_str());
                let message = "pinned after the launcher could not";
                let harvest = Harvest {
                    keep: &keep,
                    at: places.now,
                    message,
                };
                let capture = found
                    .backend()
                    .capture(&found, &harvest)
                    .map_err(|error| named(&error))?;
                if let Some(commit) = &capture.commit {
                    repo.create_ref(result_ref, commit)
                        .map_err(|error| named(&error))?;
                }
                capture
            }
        };
        let reference = capture.commit.as_ref().map(|_| result_ref.to_owned());
        Some(Salvaged {
            agent: agent.clone(),
            capture,
            reference,
        })
    } else {
        None
    };
    workspace::dispose(&directory).map_err(|error| named(&error))?;
    Ok(salvaged)
}

impl From<Error> for LeftOver {
    fn from(error: Error) -> Self {
        left("run", &error)
    }
}
