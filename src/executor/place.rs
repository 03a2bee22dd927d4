//! Puts a clean merge where it is to go, and finishes what a crash cut short.
//!
//! Owns the calls of the one writer into a person's tree, and the commit on a
//! branch. The caller holds the repository's landing lock.

use std::collections::BTreeSet;

use super::error::{Error, Fault, Stage};
use super::land::{LandOrder, Ready};
use super::site::Site;
use crate::cleanup::Step;
use crate::git::{Objects, Repository, TreeEdit};
use crate::integration::{self, Header, LandRequest, Landing, Merged, Recovered};
use crate::model::{
    AgentId, Conflict, ConflictKind, ExitCode, HeldFor, Integration, IntegrationStatus, Land,
    ObjectId, PathText, RepoPath, RunId, Warning, WarningKind,
};
use crate::store::Root;

/// What came of placing a merge.
pub(super) enum Placed {
    Decided(Integration),
    /// The parent's files moved meanwhile; nothing was written.
    Moved(Integration),
}

fn integrating(error: integration::Error) -> Error {
    Error::at(Stage::Integration, error)
}

/// Puts a clean merge where it is to go.
pub(super) fn place(order: &LandOrder, ready: Ready) -> Result<Placed, Error> {
    match &order.land {
        Land::Worktree => into_worktree(order, ready),
        Land::Branch(name) => {
            let name = match name {
                Some(name) => name.clone(),
                None => free_branch(order)?,
            };
            as_branch(order, &name, ready).map(Placed::Decided)
        }
        Land::Commit => Err(Error::at(
            Stage::Integration,
            Fault::new(
                ExitCode::Usage,
                "land as a commit: this version lands in the worktree or on a branch",
            ),
        )),
    }
}

fn into_worktree(order: &LandOrder, ready: Ready) -> Result<Placed, Error> {
    let Ready {
        ours,
        absent,
        merged,
        head: _,
    } = ready;
    if ours == merged.tree {
        return Ok(Placed::Decided(landed(merged)));
    }
    let objects = order
        .repo
        .objects()
        .map_err(|error| Error::at(Stage::Integration, error))?;
    let ours = &on_disk(&objects, (ours, &merged.tree), &absent)
        .map_err(|error| Error::at(Stage::Integration, error))?;
    let staging = integration::staging_dir(order.repo.common_dir(), &order.errand.id, &order.agent);
    let step = Step::Landing {
        agent: order.agent.clone(),
        staging: staging.as_os_str().to_owned(),
    };
    order
        .errand
        .footprint
        .intend(step.clone())
        .map_err(|error| Error::at(Stage::Integration, error))?;
    let root =
        Root::open(order.repo.top()).map_err(|error| Error::at(Stage::Integration, error))?;
    let header = Header {
        run: order.record.clone(),
        agent: order.agent.clone(),
        top: integration::working_tree(order.repo.top()),
        ours: ours.clone(),
        merged: merged.tree.clone(),
    };
    let request = LandRequest {
        root: &root,
        staging: &staging,
        header: &header,
        ignored: &|path| is_ignored(order, path),
        landed: &|| order.landed.tell(),
    };
    let landing = integration::land(&objects, &request).map_err(integrating)?;
    // What still stands there is for recovery: it finds the step open.
    if !staging.exists() {
        order
            .errand
            .footprint
            .undone(&step)
            .map_err(|error| Error::at(Stage::Integration, error))?;
    }
    Ok(match landing {
        Landing::Landed { submodules, .. } => Placed::Decided(landed_beside(merged, &submodules)),
        Landing::Moved { paths, backups } => {
            if let Some(backups) = backups {
                tracing::warn!(backups = %backups.display(), "older versions of files that were edited meanwhile are kept");
            }
            Placed::Moved(blocked(merged, paths.iter().map(moved).collect()))
        }
        Landing::Blocked { conflicts } => Placed::Decided(blocked(merged, conflicts)),
    })
}

pub(super) fn note_landed(site: &Site, run: &RunId, agent: &AgentId) {
    let amended = site.book().amend(run, agent, |agent| {
        agent.integration.status = IntegrationStatus::Landed;
        agent.integration.held_for.clear();
    });
    if let Err(error) = amended {
        tracing::error!(%error, %agent, "a result has landed and its record does not say so yet");
    }
}

/// Whether the repository's own rules ignore a path; a path that git cannot
/// be asked about counts as untracked, which blocks as well.
fn is_ignored(order: &LandOrder, path: &RepoPath) -> bool {
    order
        .repo
        .ignored(order.repo.top(), &[path.as_bytes()])
        .is_ok_and(|answers| answers.first() == Some(&true))
}

fn landed(merged: Merged) -> Integration {
    Integration {
        status: IntegrationStatus::Landed,
        held_for: Vec::new(),
        marked: None,
        conflicts: merged.conflicts,
        warnings: merged.warnings,
    }
}

/// As [`landed`], and tells of submodules that the trees move.
fn landed_beside(merged: Merged, submodules: &[RepoPath]) -> Integration {
    let mut integration = landed(merged);
    let moved = submodules.iter().map(|path| Warning {
        path: path.into(),
        kind: WarningKind::SubmoduleMoved,
    });
    integration.warnings.extend(moved);
    integration
}

fn blocked(merged: Merged, conflicts: Vec<Conflict>) -> Integration {
    Integration {
        status: IntegrationStatus::Held,
        held_for: vec![HeldFor::Conflict],
        marked: None,
        conflicts,
        warnings: merged.warnings,
    }
}

/// The parent's tree as it lies on disk: files that a sparse checkout leaves
/// out are created where the merge changes them, and no others.
fn on_disk(
    objects: &Objects,
    (ours, merged): (ObjectId, &ObjectId),
    absent: &BTreeSet<RepoPath>,
) -> Result<ObjectId, crate::git::Error> {
    if absent.is_empty() {
        return Ok(ours);
    }
    let changed = objects.differences(&ours, merged)?.into_iter();
    let edits: Vec<TreeEdit> = changed
        .filter(|one| absent.contains(&one.path))
        .map(|one| TreeEdit::Remove { path: one.path })
        .collect();
    objects.edit_tree(&ours, &edits)
}

/// A path that changed between the look and the landing.
fn moved(path: &RepoPath) -> Conflict {
    Conflict {
        path: PathText::from(path),
        kind: ConflictKind::Content,
        base: None,
        ours: None,
        theirs: None,
        hunks: Vec::new(),
    }
}

/// The default branch; tasks of one run may share a label, and then the
/// agent's id tells them apart.
fn free_branch(order: &LandOrder) -> Result<String, Error> {
    let name = format!("refs/heads/{}", order.branch);
    let taken = order
        .repo
        .refs_under(&name)
        .map_err(|error| Error::at(Stage::Integration, error))?;
    Ok(if taken.is_empty() {
        order.branch.clone()
    } else {
        format!("{}-{}", order.branch, order.agent)
    })
}

/// Commits the merge on top of the commit that it was merged with, on a branch
/// that must not exist yet.
fn as_branch(order: &LandOrder, name: &str, ready: Ready) -> Result<Integration, Error> {
    let fault = |error: crate::git::Error| Error::at(Stage::Integration, error);
    let objects = order.repo.objects().map_err(fault)?;
    let parents: Vec<ObjectId> = ready.head.into_iter().collect();
    let commit = objects
        .commit(
            &ready.merged.tree,
            &parents,
            &order.title,
            order.site.clock.now(),
        )
        .map_err(fault)?;
    order
        .repo
        .create_ref(&format!("refs/heads/{name}"), &commit)
        .map_err(fault)?;
    Ok(landed(ready.merged))
}

/// Finishes or takes back every landing that a dead launcher left under way
/// in this working tree;
/// the caller holds the landing lock, so none of them is alive.
pub(super) fn finish_landings(site: &Site, repo: &Repository) -> Result<(), Error> {
    let pending = integration::pending_in(repo.common_dir(), repo.top()).map_err(integrating)?;
    for (staging, error) in &pending.unreadable {
        tracing::error!(staging = %staging.display(), %error, "whose landing this was cannot be read; it is left alone");
    }
    if pending.landings.is_empty() {
        return Ok(());
    }
    let root = Root::open(repo.top()).map_err(|error| Error::at(Stage::Cleanup, error))?;
    for staging in pending.landings {
        match integration::recover(&staging, &root, &|header| {
            note_landed(site, &header.run, &header.agent)
        })
        .map_err(integrating)?
        {
            Recovered::Nothing => {
                tracing::debug!(staging = %staging.display(), "a landing had not begun")
            }
            Recovered::Forward { .. } => {
                tracing::info!(staging = %staging.display(), "a landing was finished")
            }
            Recovered::Back { backups, .. } => {
                tracing::info!(staging = %staging.display(), ?backups, "a landing was taken back")
            }
        }
    }
    Ok(())
}

/// Finishes or takes back the landings that dead runs left in a repository.
pub(super) fn recover_landings(site: &Site, repo: &Repository) -> Result<(), Error> {
    let mut never = || false;
    let _landing = integration::lock(repo.common_dir(), &mut never).map_err(integrating)?;
    finish_landings(site, repo)
}
