//! What a run left and its notes do not tell.
//!
//! A journal or a record may have lost lines: to a power failure, a full disk
//! or somebody's hand. Owns finding what they passed over: workspaces without
//! a step, results without a record, and the files of agents where nothing
//! says any more what they belong to. Removes nothing that may be work.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{Error, Stage};
use super::site::Site;
use crate::cleanup::{self, Footprint, Settled, Step};
use crate::git::{Renames, Repository};
use crate::model::{
    AgentId, AgentRecord, CleanupReport, KeptRecord, ObjectId, PathText, RunId, RunRecord,
};
use crate::workspace;

/// The note in a workspace that names what its files lie over.
const BASE_NOTE: &str = "base.json";

/// Takes on the workspaces that there are and the journal does not name, as if
/// it did: they are settled like the others.
///
/// # Errors
/// The directory cannot be read or the journal not be written.
pub(super) fn take_on(footprint: &Footprint) -> Result<(), cleanup::Error> {
    let Some((run, _)) = footprint.run() else {
        return Ok(());
    };
    let directory = footprint.directory();
    let failed = |source| cleanup::Error::Remove {
        path: directory.to_owned(),
        source,
    };
    let open = footprint.open_steps();
    for agent in agents(directory).map_err(failed)? {
        let Some(agent) = id_of(&agent) else {
            continue;
        };
        let result_ref = result_ref(&run, &agent);
        let step = Step::Workspace { agent, result_ref };
        if !open.contains(&step) {
            footprint.intend(step)?;
        }
    }
    Ok(())
}

/// The ref under which an agent's work is pinned.
pub(super) fn result_ref(run: &RunId, agent: &AgentId) -> String {
    format!("refs/cofferdam/{run}/{agent}")
}

/// Names results that are under a ref of a dead run in its record, where that
/// has lost what it said of them.
///
/// # Errors
/// The refs cannot be listed, or the record not be read or written.
pub(super) fn name_results(site: &Site, repo: &Repository, run: &RunId) -> Result<(), Error> {
    let Some(mut record) = site.book().find(run)? else {
        return Ok(());
    };
    let refs = repo
        .refs_under(&format!("refs/cofferdam/{run}/"))
        .map_err(|error| Error::at(Stage::Record, error))?;
    let mut named = false;
    for (name, commit) in refs {
        let unnamed = |agent: &&mut AgentRecord| {
            agent.result.reference.is_none() && result_ref(run, &agent.id) == name
        };
        let RunRecord { agents, base, .. } = &mut record;
        if let Some(agent) = agents.iter_mut().find(unnamed) {
            name_result(repo, (agent, &base.tree), (name, &commit));
            named = true;
        }
    }
    match named {
        true => site.book().save(&record),
        false => Ok(()),
    }
}

/// Says of a result what can be told by its commit.
fn name_result(
    repo: &Repository,
    (agent, base): (&mut AgentRecord, &ObjectId),
    (name, commit): (String, &ObjectId),
) {
    tracing::warn!(reference = name, agent = %agent.id, "the record had lost a result: it is named again");
    let look = || -> Result<_, crate::git::Error> {
        let objects = repo.objects()?;
        let tree = objects.tree_of(commit)?;
        let from = objects.first_parent(commit)?;
        let base = match &from {
            Some(from) => objects.tree_of(from)?,
            None => base.clone(),
        };
        let changes = objects.diff(&base, &tree, Renames::Find)?;
        Ok((tree, from, changes))
    };
    agent.result.reference = Some(name);
    match look() {
        Ok((tree, from, changes)) => {
            agent.result.tree = Some(tree);
            agent.base = agent.base.take().or(from);
            agent.changes = changes;
        }
        Err(error) => {
            tracing::warn!(%error, agent = %agent.id, "what a result changes cannot be told");
        }
    }
}

/// Keeps the files of every workspace as plain files, for a run that nobody
/// can capture any more: its repository or its journal is gone.
///
/// Of a merged view these are the files that the agent wrote and those that
/// the parent had not committed, which `layers` beside the agents has; what
/// both lie over stands in `base.json`. What was cut short is gone on with.
///
/// # Errors
/// Something cannot be moved or copied; nothing has been removed then.
pub(super) fn keep_files(site: &Site, run: &RunId, directory: &Path) -> io::Result<Settled> {
    let mut quarantined = Vec::new();
    let agents = agents(directory)?;
    let layers = directory.join("layers");
    if !agents.is_empty() && layers.exists() {
        let kept = site.state.kept_root(run);
        fs::create_dir_all(&kept)?;
        fs::rename(&layers, kept.join("layers"))?;
    }
    for agent in agents {
        let Some(id) = id_of(&agent) else {
            continue;
        };
        let (tree, kept) = (agent.join("tree"), site.state.kept_dir(run, &id));
        let kept_tree = kept.join("tree");
        if tree.exists() && !kept_tree.exists() {
            fs::create_dir_all(&kept)?;
            let note = agent.join(BASE_NOTE);
            if note.exists() {
                fs::copy(note, kept.join(BASE_NOTE))?;
            }
            fs::rename(&tree, &kept_tree)?;
        }
        if !kept_tree.exists() {
            continue;
        }
        note_kept(site, run, &id);
        // Its entry among the parent's worktrees, if there still is one.
        if let Err(error) = workspace::dispose(&agent) {
            tracing::warn!(%error, agent = %id, "a workspace could not be taken away whole");
        }
        quarantined.push(id);
    }
    Ok(Settled {
        quarantined,
        report: CleanupReport::clean(),
    })
}

/// Says where the files of an agent are whose work is under no ref.
fn note_kept(site: &Site, run: &RunId, agent: &AgentId) {
    let directory = site.state.kept_dir(run, agent);
    let directory = directory.to_string_lossy().into_owned();
    tracing::error!(%run, %agent, kept = directory, "nothing says any more what an agent's files belong to: they are kept");
    let kept = KeptRecord {
        directory,
        paths: vec![PathText::from_raw(b"tree")],
        until: site.kept_until(),
    };
    let noted = site
        .book()
        .amend(run, agent, |agent| agent.result.kept = Some(kept));
    if let Err(error) = noted {
        tracing::warn!(%error, "a record does not say where files are kept");
    }
}

/// The directories of a run's agents; none where it never came that far.
pub(super) fn agents(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory.join("agents")) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn id_of(agent: &Path) -> Option<AgentId> {
    let name = agent.file_name().unwrap_or_default();
    name.to_string_lossy().parse().ok()
}
