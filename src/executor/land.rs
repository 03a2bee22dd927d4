//! The way of one result into the parent's tree.
//!
//! Owns the loop look → merge → check → land, under the repository's landing
//! lock: the merge is made against the tree as it is now, and where the
//! person changes a file between the look and the landing, everything is
//! redone. Used by runs and by `apply` alike; there is no other way in.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::cage::Machine;
use super::errand::Errand;
use super::error::{Error, Stage};
use super::place::{self, Placed};
use super::run::{Run, Seat, StartingPoint};
use super::site::{Site, blocking};
use super::verify::{self, Verdict};
use crate::config::{self, Scope};
use crate::git::{MergeSpace, ObjectFormat, Objects, Repository};
use crate::integration::{self, Authority, Doubt, Merged, Proposal};
use crate::model::{
    AgentId, Contract, Deadline, ExitCode, HeldFor, Integration, IntegrationStatus, Land, ObjectId,
    OnConflict, RepoPath, RunId,
};
use crate::process::StopReason;
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
    pub(super) kill: CancellationToken,
    pub(super) deadline: Option<Deadline>,
    pub(super) on_conflict: OnConflict,
    pub(super) land: Land,
    pub(super) branch: String,
    pub(super) verify: Option<String>,
}

/// Writes down that a result has landed, as soon as it has: a crash from here
/// on finds record and files in step.
#[derive(Clone)]
pub(super) struct OnLanded {
    tell: Arc<dyn Fn() + Send + Sync>,
    waits: Arc<dyn Fn() -> Result<(), Error> + Send + Sync>,
}

impl OnLanded {
    /// In the record that a live run holds in memory, and on disk from there.
    fn of_run(run: &Arc<Run>, seat: &Arc<Seat>) -> Self {
        let (run, seat) = (run.clone(), seat.clone());
        let tell = move || {
            run.amend(&seat, |agent| {
                agent.integration.status = IntegrationStatus::Landed
            });
            run.save(&seat);
        };
        // Nobody but the run decides about its results while it is on.
        Self {
            tell: Arc::new(tell),
            waits: Arc::new(|| Ok(())),
        }
    }

    /// In a record that lies on disk alone.
    pub(super) fn of_book(site: &Arc<Site>, run: &RunId, agent: &AgentId) -> Self {
        let (here, run, agent) = (site.clone(), run.clone(), agent.clone());
        let (site, of, one) = (site.clone(), run.clone(), agent.clone());
        Self {
            tell: Arc::new(move || place::note_landed(&here, &run, &agent)),
            waits: Arc::new(move || site.book().require_waiting(&of, &one)),
        }
    }
}

impl OnLanded {
    pub(super) fn tell(&self) {
        (self.tell)();
    }

    /// Makes sure that nobody else has landed it meanwhile; asked under the
    /// landing lock.
    fn require_waiting(&self) -> Result<(), Error> {
        (self.waits)()
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
            kill: run.control.kill.clone(),
            deadline: Deadline::earliest(task.deadline, run.request.limits.deadline),
            on_conflict: task.on_conflict,
            land: task.land.clone(),
            branch: branch_name(&run.errand.id, &task.name, &seat.agent),
            verify: task.verify.clone(),
        }
    }
}

/// The branch that a result lands on unless another is named: after run and
/// label, as far as the label can stand in a ref.
pub(super) fn branch_name(run: &RunId, name: &str, agent: &AgentId) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
            c
        } else {
            '-'
        }
    };
    let label: String = name.chars().map(plain).take(64).collect();
    match label.trim_matches('-') {
        "" => format!("cofferdam/{run}/{agent}"),
        label => format!("cofferdam/{run}/{label}"),
    }
}

/// The subject of a commit that an agent's result becomes.
pub(super) fn title(name: &str, task: &str) -> String {
    match task.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => format!("{name}: {line}"),
        None => name.to_owned(),
    }
}

/// What one look came to.
enum Look {
    Decided(Integration),
    /// A clean merge that may land.
    Ready(Ready),
}

/// A clean merge, and what it was made against.
#[derive(Debug)]
pub(super) struct Ready {
    /// The tree that it is to land in.
    pub(super) ours: ObjectId,
    /// Files of it that a sparse checkout leaves off the disk.
    pub(super) absent: BTreeSet<RepoPath>,
    /// The commit of that tree, where it lands as a commit.
    pub(super) head: Option<ObjectId>,
    pub(super) merged: Merged,
}

/// How a result fared.
#[derive(Debug)]
pub(super) enum Fared {
    /// It was decided on.
    Decided(Integration),
    /// The deadline or a cancellation came first; it is kept as it is.
    Stopped(StopReason),
    /// The disk did not take it; nothing of it has landed.
    Blocked(Error),
}

/// Merges, checks and lands one result.
///
/// The landing lock is held while the tree is looked at and written, never
/// while a check runs: a check may take an hour, and other launchers land
/// meanwhile. What was checked is the merged tree; if the next look merges to
/// another one, that one is checked as well.
pub(super) async fn land_result(order: LandOrder) -> Result<Fared, Error> {
    let order = Arc::new(order);
    let mut accepted: Option<ObjectId> = None;
    let (mut moved, mut failed) = (0, 0);
    loop {
        let (trying, passed) = (order.clone(), accepted.clone());
        let tried = blocking(move || try_to_land(&trying, passed.as_ref())).await?;
        let tried = match tried {
            // The person's files cannot be written as they are: the result
            // waits until they can.
            Err(error) if error.exit_code() == ExitCode::Isolation => {
                return Ok(Fared::Blocked(error));
            }
            // Trees that no ref names yet vanish when the person prunes; the
            // next look writes them again.
            Err(error) if error.exit_code() == ExitCode::Internal && failed < ATTEMPTS => {
                failed += 1;
                tracing::warn!(%error, "a landing is tried again");
                continue;
            }
            tried => tried?,
        };
        match tried {
            Tried::Decided(integration) => return Ok(Fared::Decided(integration)),
            Tried::Cancelled => return Ok(Fared::Stopped(StopReason::Cancelled)),
            Tried::Moved(integration) => {
                moved += 1;
                if moved == ATTEMPTS {
                    return Ok(Fared::Decided(integration));
                }
            }
            Tried::Unchecked { merged, command } => {
                match verify::look(&order, &merged.tree, &command).await? {
                    Verdict::Accepted => accepted = Some(merged.tree),
                    Verdict::Rejected => return Ok(Fared::Decided(held(merged, HeldFor::Verify))),
                    Verdict::Stopped(reason) => return Ok(Fared::Stopped(reason)),
                }
            }
        }
    }
}

/// What came of one go under the landing lock.
enum Tried {
    Decided(Integration),
    /// The parent's files moved under it; held, should it not be tried again.
    Moved(Integration),
    Cancelled,
    /// It would land, but nobody has checked this tree yet.
    Unchecked {
        merged: Merged,
        command: String,
    },
}

fn try_to_land(order: &LandOrder, accepted: Option<&ObjectId>) -> Result<Tried, Error> {
    let mut given_up = || order.cancel.is_cancelled();
    let lock = integration::lock(order.repo.common_dir(), &mut given_up).map_err(integrating)?;
    let Some(_landing) = lock else {
        return Ok(Tried::Cancelled);
    };
    order.landed.require_waiting()?;
    place::finish_landings(&order.site, &order.repo)?;
    let ready = match merge(order)? {
        Look::Decided(integration) => return Ok(Tried::Decided(integration)),
        Look::Ready(ready) => ready,
    };
    match &order.verify {
        Some(command)
            if ready.merged.tree != ready.ours && accepted != Some(&ready.merged.tree) =>
        {
            return Ok(Tried::Unchecked {
                merged: ready.merged,
                command: command.clone(),
            });
        }
        Some(_) | None => {}
    }
    place::place(order, ready).map(|placed| match placed {
        Placed::Decided(integration) => Tried::Decided(integration),
        Placed::Moved(integration) => Tried::Moved(integration),
    })
}

fn integrating(error: integration::Error) -> Error {
    Error::at(Stage::Integration, error)
}

pub(super) fn held(merged: Merged, cause: HeldFor) -> Integration {
    Integration {
        status: IntegrationStatus::Held,
        held_for: vec![cause],
        marked: None,
        conflicts: merged.conflicts,
        warnings: merged.warnings,
    }
}

/// The tree that a result is to land in.
struct Side {
    ours: ObjectId,
    absent: BTreeSet<RepoPath>,
    head: Option<ObjectId>,
}

/// Looks at the parent as it is now: its files, or its commit where the
/// result becomes one.
fn our_side(order: &LandOrder, objects: &Objects) -> Result<Side, Error> {
    match &order.land {
        Land::Worktree => {
            let scratch = order.errand.scratch("ours")?;
            let now = workspace::current(&order.repo, &scratch)
                .map_err(|error| Error::at(Stage::Integration, error))?;
            Ok(Side {
                ours: now.tree,
                absent: now.absent,
                head: None,
            })
        }
        Land::Branch(_) | Land::Commit => {
            let fault = |error: crate::git::Error| Error::at(Stage::Integration, error);
            let head = order.repo.head().map_err(fault)?;
            let ours = match &head {
                Some(head) => objects.tree_of(head),
                None => objects.empty_tree(),
            };
            Ok(Side {
                ours: ours.map_err(fault)?,
                absent: BTreeSet::new(),
                head,
            })
        }
    }
}

/// The merge of the result with the tree that it is to land in, as that is now.
fn merge(order: &LandOrder) -> Result<Look, Error> {
    let objects = order
        .repo
        .objects()
        .map_err(|error| Error::at(Stage::Integration, error))?;
    let Side { ours, absent, head } = our_side(order, &objects)?;
    let space_dir = order.errand.scratch("merge")?;
    let space = MergeSpace::create(
        &order.site.git,
        &space_dir,
        order.repo.objects_dir(),
        ObjectFormat::of(&ours),
    )
    .map_err(|error| Error::at(Stage::Integration, error))?;
    let scope = scope_of(order)?;
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
        return Ok(Look::Ready(Ready {
            ours,
            absent,
            head,
            merged,
        }));
    }
    Ok(Look::Decided(Integration {
        status: IntegrationStatus::Held,
        held_for: merged.held_for,
        marked: Some(merged.marked).filter(|_| !merged.conflicts.is_empty()),
        conflicts: merged.conflicts,
        warnings: merged.warnings,
    }))
}

/// The paths that the result may change.
fn scope_of(order: &LandOrder) -> Result<Scope, Error> {
    let read = |key: &str, globs: &[String]| {
        Scope::parse(key, globs)
            .map_err(|error| Error::at(Stage::Integration, config::ConfigError::from(error)))
    };
    let scope = read("write", &order.scope)?;
    if order.paths.is_empty() {
        return Ok(scope);
    }
    Ok(scope.and(read("paths", &order.paths)?))
}
