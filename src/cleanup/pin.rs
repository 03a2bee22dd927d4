//! Captures a workspace and pins what it found, whole.
//!
//! Owns the order capture → ref → proof that everything the ref names is
//! there. A person's `git gc` or `git prune` may take objects away between
//! their writing and the ref: then the capture is made again, from the files,
//! which are still there. Used by the flow and by settling alike.

use std::fs;

use jiff::Timestamp;

use super::Error;
use crate::git::{self, Renames, Repository};
use crate::model::{ChangeSet, Ignored, ObjectId, PathText};
use crate::store;
use crate::workspace::{self, Capture, Harvest, History, Workspace};

/// How often a capture is made again because somebody pruned meanwhile.
const ATTEMPTS: u32 = 8;

/// Whether anybody may have tried to pin a workspace before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Nobody: its agent ended a moment ago.
    First,
    /// Somebody who is gone.
    Again,
}

/// Captures a workspace and pins its work under a ref.
///
/// When it was tried before, a ref of that name that is whole is taken for the
/// capture: the earlier attempt had come that far.
///
/// # Errors
/// The workspace cannot be captured or the ref not be made; or objects vanish
/// as fast as they are written. The workspace is as it was.
pub fn capture_and_pin(
    repo: &Repository,
    workspace: &Workspace,
    harvest: &Harvest<'_>,
    (reference, attempt): (&str, Attempt),
) -> Result<Capture, Error> {
    let mut capture = pinned(repo, workspace, harvest, (reference, attempt))?;
    // The result is safe; nothing about its history may endanger it.
    capture.history = history(repo, workspace, (&history_ref(reference), harvest.at));
    Ok(capture)
}

/// The ref that holds an agent's commits, beside the one of its result.
#[must_use]
pub fn history_ref(result: &str) -> String {
    format!("{result}.history")
}

/// The result beside which a ref holds commits; `None` for other refs.
#[must_use]
pub fn result_of_history(history: &str) -> Option<&str> {
    history.strip_suffix(".history")
}

/// Takes over the agent's commits and pins them.
fn history(
    repo: &Repository,
    workspace: &Workspace,
    (reference, at): (&str, Timestamp),
) -> Option<History> {
    let left_out = |error: &dyn std::error::Error| {
        Some(History::LeftOut {
            why: error.to_string(),
        })
    };
    let taken = match workspace::take_history(repo, workspace, at) {
        Ok(taken) => taken?,
        Err(error) => return left_out(&error),
    };
    let History::Taken { tip, .. } = &taken else {
        return Some(taken);
    };
    // Named first, looked at then: what no ref reaches may be pruned between.
    let whole = name(repo, reference, tip)
        .and_then(|()| repo.tips())
        .and_then(|mut known| {
            known.push(workspace.base().clone());
            repo.is_connected(tip, &known)
        });
    let whole = match whole {
        Ok(true) => return Some(taken),
        Ok(false) => repo.delete_ref(reference, tip).map(|()| History::LeftOut {
            why: "objects of it vanished while it was taken over".to_owned(),
        }),
        Err(error) => {
            // A ref that no record names is nobody's to delete but `gc`'s.
            drop(repo.delete_ref(reference, tip));
            Err(error)
        }
    };
    match whole {
        Ok(vanished) => Some(vanished),
        Err(error) => left_out(&error),
    }
}

/// Lets a ref name a commit, wherever an earlier attempt left it.
fn name(repo: &Repository, reference: &str, tip: &ObjectId) -> Result<(), git::Error> {
    let standing = repo.refs_under(reference)?;
    match standing.into_iter().find(|(name, _)| name == reference) {
        Some((_, old)) if old == *tip => Ok(()),
        Some((_, old)) => repo.move_ref(reference, &old, tip),
        None => repo.create_ref(reference, tip),
    }
}

fn pinned(
    repo: &Repository,
    workspace: &Workspace,
    harvest: &Harvest<'_>,
    (reference, attempt): (&str, Attempt),
) -> Result<Capture, Error> {
    if attempt == Attempt::Again
        && let Some(capture) = standing(repo, workspace, harvest, reference)?
    {
        return Ok(capture);
    }
    let base = repo.objects()?.tree_of(workspace.base())?;
    let mut set_aside: Option<Capture> = None;
    for _ in 0..ATTEMPTS {
        let mut capture = workspace::capture(workspace, harvest)?;
        // What was moved aside by an earlier attempt is not found again.
        if let Some(first) = &set_aside {
            capture.changes.ignored.clone_from(&first.changes.ignored);
            capture.kept.clone_from(&first.kept);
        }
        let Some(commit) = capture.commit.clone() else {
            return Ok(capture);
        };
        let made = repo.create_ref(reference, &commit);
        // A fresh handle: the one that wrote the objects remembers them.
        match made {
            Ok(()) if repo.objects()?.is_whole(&commit, &base)? => return Ok(capture),
            Ok(()) => repo.delete_ref(reference, &commit)?,
            // Git refuses a ref to an object that is gone already.
            Err(error) if repo.objects()?.is_whole(&commit, &base)? => return Err(error.into()),
            Err(_) => {}
        }
        tracing::warn!(
            reference,
            "objects vanished while they were pinned; capturing again"
        );
        set_aside.get_or_insert(capture);
    }
    Err(Error::Vanishing {
        reference: reference.to_owned(),
    })
}

/// What a ref that stands already pins; `None` where there is none that is whole.
fn standing(
    repo: &Repository,
    workspace: &Workspace,
    harvest: &Harvest<'_>,
    reference: &str,
) -> Result<Option<Capture>, Error> {
    let refs = repo.refs_under(reference)?;
    let Some((_, commit)) = refs.into_iter().find(|(name, _)| name == reference) else {
        return Ok(None);
    };
    let objects = repo.objects()?;
    let base = objects.tree_of(workspace.base())?;
    if !objects.is_whole(&commit, &base)? {
        repo.delete_ref(reference, &commit)?;
        return Ok(None);
    }
    let tree = objects.tree_of(&commit)?;
    let changes = objects.diff(&base, &tree, Renames::Find)?;
    let changes = ChangeSet {
        base,
        tree,
        changes,
        ignored: set_aside(harvest),
        warnings: Vec::new(),
    };
    Ok(Some(Capture {
        changes,
        kept: Vec::new(),
        commit: Some(commit),
        history: None,
    }))
}

/// What an earlier capture moved aside, by its top-most names.
fn set_aside(harvest: &Harvest<'_>) -> Vec<Ignored> {
    use std::os::unix::ffi::OsStrExt as _;
    let Ok(entries) = fs::read_dir(harvest.keep) else {
        return Vec::new();
    };
    let entries = entries.flatten();
    entries
        .map(|entry| {
            let measure = store::measure(&entry.path());
            let name = PathText::from_raw(entry.file_name().as_bytes());
            Ignored {
                path: name,
                files: measure.files,
                kept_until: None,
            }
        })
        .collect()
}

impl From<git::Error> for Error {
    fn from(error: git::Error) -> Self {
        Self::Git(error)
    }
}
