//! The way of one result into the parent's tree.
//!
//! Owns the loop look → merge → check → land, under the repository's landing
//! lock: the merge is made against the tree as it is now, and where the
//! person changes a file between the look and the landing, everything is
//! redone. Used by runs and by `apply` alike; there is no other way in.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::cage::Machine;
use super::errand::Errand;
use super::error::{Error, Fault, Stage};
use super::run::{Run, Seat, StartingPoint};
use super::site::{Site, blocking};
use super::verify::{self, Verdict};
use crate::cleanup::Step;
use crate::git::{MergeSpace, ObjectFormat, Repository};
use crate::integration::{
    self, Authority, Doubt, Header, LandRequest, Landing, Merged, Proposal, Recovered, Scope,
};
use crate::model::{
    AgentId, Conflict, Contract, ExitCode, HeldFor, Integration, IntegrationStatus, Land, ObjectId,
    OnConflict, RepoPath, RunId,
};
use crate::store::Root;
use crate::workspace::{self, Capture};

/// How often a landing is redone when the parent's files move under it.
const ATTEMPTS: u32 = 3;

/// One result on its way into the parent's tree.
#[derive(Debug, Clone)]
pub(super) struct LandOrder {
    pub(super) site: Arc<Site>,
    pub(super) repo: Repository,
    pub(super) errand: Arc<Errand>,
    pub(super) machine: Machine,
    pub(super) agent: AgentId,
    /// For a branch or commit: who made it.
    pub(super) title: String,
    pub(super) base_commit: ObjectId,
    pub(super) result_tree: ObjectId,
    pub(super) contract: Contract,
    /// The paths that the result may change, as globs.
    pub(super) scope: Vec<String>,
    /// The paths that the task claimed besides; empty claims all of the scope.
    pub(super) paths: Vec<String>,
    /// In whose record it stands that the result has landed.
    pub(super) record: RunId,
    /// Puts it there.
    pub(super) landed: OnLanded,
    pub(super) cancel: CancellationToken,
    /// By whose decision it lands.
    pub(super) authority: Authority,
    pub(super) on_conflict: OnConflict,
    pub(super) land: Land,
    pub(super) branch: String,
    pub(super) verify: Option<String>,
}

/// Writes down that a result has landed, as soon as it has: a crash from here
/// on finds record and files in step.
#[derive(Clone)]
pub(super) struct OnLanded(Arc<dyn Fn() + Send + Sync>);

impl OnLanded {
    /// In the record that a live run holds in memory, and on disk from there.
    fn of_run(run: &Arc<Run>, seat: &Arc<Seat>) -> Self {
        let (run, seat) = (run.clone(), seat.clone());
        Self(Arc::new(move || {
            run.amend(&seat, |agent| {
                agent.integration.status = IntegrationStatus::Landed
            });
            run.save_record();
        }))
    }

    /// In a record that lies on disk alone.
    pub(super) fn of_book(site: &Arc<Site>, run: &RunId, agent: &AgentId) -> Self {
        let (site, run, agent) = (site.clone(), run.clone(), agent.clone());
        Self(Arc::new(move || note_landed(&site, &run, &agent)))
    }
}

impl std::fmt::Debug for OnLanded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnLanded")
    }
}

impl LandOrder {
    /// The order for a result of a run.
    pub(super) fn of_run(
        run: &Arc<Run>,
        seat: &Arc<Seat>,
        base: &StartingPoint,
        capture: &Capture,
    ) -> Self {
        let task = &seat.task;
        Self {
            site: run.site.clone(),
            repo: run.repo.clone(),
            errand: run.errand.clone(),
            machine: run.machine.clone(),
            agent: seat.agent.clone(),
            title: title(&task.name, &task.brief.task),
            base_commit: base.snapshot.commit.clone(),
            result_tree: capture.changes.tree.clone(),
            contract: task.contract.clone(),
            scope: task.contract.write.clone(),
            paths: task.paths.clone(),
            record: run.errand.id.clone(),
            landed: OnLanded::of_run(run, seat),
            cancel: seat.cancel.clone(),
            authority: Authority::Launcher,
            on_conflict: task.on_conflict,
            land: task.land.clone(),
            branch: format!("cofferdam/{}/{}", run.errand.id, seat.agent),
            verify: task.verify.clone(),
        }
    }
}

/// The subject of a commit that an agent's result becomes.
pub(super) fn title(name: &str, task: &str) -> String {
    match task.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => format!("{name}: {line}"),
        None => name.to_owned(),
    }
}

/// What one attempt came to.
enum Attempt {
    Decided(Integration),
    /// A clean merge, not yet landed.
    Ready {
        ours: ObjectId,
        merged: Merged,
    },
}

/// Merges, checks and lands one result.
pub(super) async fn land_result(order: LandOrder) -> Result<Integration, Error> {
    let order = Arc::new(order);
    let waiting = order.clone();
    let locked = blocking(move || {
        let mut given_up = || waiting.cancel.is_cancelled();
        let lock =
            integration::lock(waiting.repo.common_dir(), &mut given_up).map_err(integrating)?;
        if lock.is_some() {
            finish_landings(&waiting.site, &waiting.repo)?;
        }
        Ok::<_, Error>(lock)
    })
    .await??;
    let Some(_landing) = locked else {
        return Ok(Integration::not_requested());
    };
    for _ in 0..ATTEMPTS {
        let merging = order.clone();
        let (ours, merged) = match blocking(move || merge(&merging)).await?? {
            Attempt::Decided(integration) => return Ok(integration),
            Attempt::Ready { ours, merged } => (ours, merged),
        };
        if let Some(command) = &order.verify
            && merged.tree != ours
            && let Verdict::Rejected { log } = verify::look(&order, &merged.tree, command).await?
        {
            tracing::info!(%log, "the merged tree was rejected");
            return Ok(held(merged, HeldFor::Verify));
        }
        let landing = order.clone();
        if let Some(integration) = blocking(move || place(&landing, &ours, merged)).await?? {
            return Ok(integration);
        }
    }
    Err(Error::at(
        Stage::Integration,
        Fault::new(
            ExitCode::Held,
            "land the result: the parent's files kept changing",
        )
        .hint("apply it when they are at rest"),
    ))
}

fn integrating(error: integration::Error) -> Error {
    Error::at(Stage::Integration, error)
}

fn held(merged: Merged, cause: HeldFor) -> Integration {
    Integration {
        status: IntegrationStatus::Held,
        held_for: vec![cause],
        marked: None,
        conflicts: merged.conflicts,
        warnings: merged.warnings,
    }
}

/// The merge of the result with the tree that it is to land in, as that is now.
fn merge(order: &LandOrder) -> Result<Attempt, Error> {
    let objects = order
        .repo
        .objects()
        .map_err(|error| Error::at(Stage::Integration, error))?;
    let ours = match &order.land {
        Land::Worktree => {
            let scratch = order.errand.scratch("ours")?;
            workspace::current_tree(&order.repo, &scratch)
                .map_err(|error| Error::at(Stage::Integration, error))?
        }
        Land::Branch(_) | Land::Commit => {
            let head = order
                .repo
                .head()
                .map_err(|error| Error::at(Stage::Integration, error))?;
            let tree = match &head {
                Some(head) => objects.tree_of(head),
                None => objects.empty_tree(),
            };
            tree.map_err(|error| Error::at(Stage::Integration, error))?
        }
    };
    let space_dir = order.errand.scratch("merge")?;
    let space = MergeSpace::create(
        &order.site.git,
        &space_dir,
        order.repo.objects_dir(),
        ObjectFormat::of(&ours),
    )
    .map_err(|error| Error::at(Stage::Integration, error))?;
    let mut scope = Scope::new(&order.scope).map_err(integrating)?;
    if !order.paths.is_empty() {
        scope = scope.and(Scope::new(&order.paths).map_err(integrating)?);
    }
    let base_tree = objects
        .tree_of(&order.base_commit)
        .map_err(|error| Error::at(Stage::Integration, error))?;
    let proposal = Proposal {
        base_tree: &base_tree,
        ours_tree: &ours,
        theirs_tree: &order.result_tree,
        scope: &scope,
        authority: order.authority,
        on_conflict: order.on_conflict,
        doubt: Doubt::Warn,
    };
    let merged = integration::merge(&space, &objects, &proposal).map_err(integrating)?;
    if merged.held_for.is_empty() {
        return Ok(Attempt::Ready { ours, merged });
    }
    Ok(Attempt::Decided(Integration {
        status: IntegrationStatus::Held,
        held_for: merged.held_for,
        marked: Some(merged.marked).filter(|_| !merged.conflicts.is_empty()),
        conflicts: merged.conflicts,
        warnings: merged.warnings,
    }))
}

/// Puts a clean merge where it is to go; `None` when the parent's files moved
/// meanwhile and nothing was written.
fn place(order: &LandOrder, ours: &ObjectId, merged: Merged) -> Result<Option<Integration>, Error> {
    match &order.land {
        Land::Worktree => into_worktree(order, ours, merged),
        Land::Branch(name) => {
            let name = name.clone().unwrap_or_else(|| order.branch.clone());
            as_branch(order, &name, merged).map(Some)
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

fn into_worktree(
    order: &LandOrder,
    ours: &ObjectId,
    merged: Merged,
) -> Result<Option<Integration>, Error> {
    if *ours == merged.tree {
        return Ok(Some(landed(merged)));
    }
    let objects = order
        .repo
        .objects()
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
        landed: &|| (order.landed.0)(),
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
        Landing::Landed { .. } => Some(landed(merged)),
        Landing::Moved { backups, .. } => {
            if let Some(backups) = backups {
                tracing::warn!(backups = %backups.display(), "older versions of files that were edited meanwhile are kept");
            }
            None
        }
        Landing::Blocked { conflicts } => Some(blocked(merged, conflicts)),
    })
}

fn note_landed(site: &Site, run: &RunId, agent: &AgentId) {
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

fn blocked(merged: Merged, conflicts: Vec<Conflict>) -> Integration {
    Integration {
        status: IntegrationStatus::Held,
        held_for: vec![HeldFor::Conflict],
        marked: None,
        conflicts,
        warnings: merged.warnings,
    }
}

/// Commits the merge on top of HEAD, on a branch that must not exist yet.
fn as_branch(order: &LandOrder, name: &str, merged: Merged) -> Result<Integration, Error> {
    let fault = |error: crate::git::Error| Error::at(Stage::Integration, error);
    let objects = order.repo.objects().map_err(fault)?;
    let head = order.repo.head().map_err(fault)?;
    let parents: Vec<ObjectId> = head.into_iter().collect();
    let commit = objects
        .commit(&merged.tree, &parents, &order.title, order.site.clock.now())
        .map_err(fault)?;
    order
        .repo
        .create_ref(&format!("refs/heads/{name}"), &commit)
        .map_err(fault)?;
    Ok(landed(merged))
}

/// Finishes or takes back every landing that a dead launcher left under way
/// in this working tree;
/// the caller holds the landing lock, so none of them is alive.
fn finish_landings(site: &Site, repo: &Repository) -> Result<(), Error> {
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
