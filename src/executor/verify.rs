//! The check of a merged tree, in a cage of its own.
//!
//! Owns running the person's `verify` command on a scratch copy of the tree
//! that is about to land. The tree holds what agents wrote, and building or
//! testing it executes that, so the check runs under the same confinement as
//! the agent did. Its own changes go nowhere.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_sandbox::Input;

use super::cage::{self, Inmate};
use super::error::{Error, Stage};
use super::land::LandOrder;
use super::site::{Site, blocking};
use super::unnoted;
use crate::cleanup::Step;
use crate::confinement::OUTPUT_BYTES;
use crate::model::{AgentId, Base, Brief, ObjectId, ResourceLimits, RunId, WorkspaceChoice};
use crate::process::{LineSink, OutputLog, StopReason, Stream, Supervision, supervise};
use crate::workspace::{self, Workspace};

/// What the check said.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The command ended with 0.
    Accepted,
    /// It did not; its output is kept beside the agents'.
    Rejected,
    /// The deadline or a cancellation ended it first.
    Stopped(StopReason),
}

/// Between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the check on a tree.
///
/// Its copy never carries the mark of a started agent: nothing in it is
/// anybody's work, and whoever finds it left over removes it without capture.
pub(super) async fn look(
    order: &Arc<LandOrder>,
    tree: &ObjectId,
    command: &str,
) -> Result<Verdict, Error> {
    let agent = Site::new_agent_id();
    let directory = order.errand.directory.join("agents").join(agent.as_str());
    let step = Step::Workspace {
        agent: agent.clone(),
        result_ref: unnoted::result_ref(&order.errand.id, &agent),
    };
    let (making, tree, place, step_) =
        (order.clone(), tree.clone(), directory.clone(), step.clone());
    let id = agent.clone();
    let workspace = blocking(move || -> Result<Option<Workspace>, Error> {
        making
            .errand
            .footprint
            .intend(step_)
            .map_err(|error| Error::at(Stage::Integration, error))?;
        fs::create_dir_all(&place).map_err(|error| Error::at(Stage::Integration, error))?;
        scratch_copy(&making, &tree, (&id, &place))
    })
    .await??;
    let verdict = match workspace {
        Some(workspace) => run(order, &workspace, &agent, command).await,
        None => Ok(Verdict::Stopped(
            stopped(order).unwrap_or(StopReason::Cancelled),
        )),
    };
    let (removing, place) = (order.clone(), directory);
    blocking(move || -> Result<(), Error> {
        workspace::dispose(&place).map_err(|error| Error::at(Stage::Cleanup, error))?;
        removing
            .errand
            .footprint
            .undone(&step)
            .map_err(|error| Error::at(Stage::Cleanup, error))
    })
    .await??;
    verdict
}

/// What the check of an agent's result printed.
pub(super) fn log_of(site: &Site, run: &RunId, agent: &AgentId) -> PathBuf {
    let outputs = site.state.outputs_dir(run);
    outputs.join(format!("{agent}-verify.log"))
}

/// Why nobody waits for the answer any more, if so.
fn stopped(order: &LandOrder) -> Option<StopReason> {
    let now = order.site.clock.now();
    match order.deadline {
        _ if order.cancel.is_cancelled() => Some(StopReason::Cancelled),
        Some(deadline) if deadline.has_passed(now) => Some(StopReason::Deadline),
        Some(_) | None => None,
    }
}

/// A workspace of the tree; `None` once it is not wanted any more.
fn scratch_copy(
    order: &LandOrder,
    tree: &ObjectId,
    (agent, place): (&crate::model::AgentId, &std::path::Path),
) -> Result<Option<Workspace>, Error> {
    let fault = |error: crate::git::Error| Error::at(Stage::Integration, error);
    let objects = order.repo.objects().map_err(fault)?;
    let commit = objects
        .commit(
            tree,
            &[],
            "the merged tree under check",
            order.site.clock.now(),
        )
        .map_err(fault)?;
    let scratch = order.errand.scratch(&format!("verify-{agent}"))?;
    let making = |error: workspace::Error| Error::at(Stage::Integration, error);
    let snapshot = workspace::snapshot(&order.repo, &Base::Revision(commit.to_string()), &scratch)
        .map_err(making)?;
    let mode = order.machine.view_mode();
    let bases = order.site.state.bases_dir();
    let ground = order
        .machine
        .ground(&order.repo, &order.errand.directory, &bases);
    let (backend, _) = workspace::choose(WorkspaceChoice::Auto, ground).map_err(making)?;
    // There may be a whole checkout to make or to wait for: days may lie
    // between a run and the check of what it left.
    let unwanted = || stopped(order).is_some();
    let made = backend.create(&workspace::Order {
        repo: &order.repo,
        snapshot: &snapshot,
        agent,
        dir: place,
        mode,
        carry: &[],
        writer: workspace::Access::Writer,
        stop: workspace::Stop::when(&unwanted),
        now: order.site.clock.now(),
    });
    match made {
        Ok(workspace) => Ok(Some(workspace)),
        Err(workspace::Error::Stopped) => Ok(None),
        Err(error) => Err(making(error)),
    }
}

async fn run(
    order: &Arc<LandOrder>,
    workspace: &Workspace,
    agent: &crate::model::AgentId,
    command: &str,
) -> Result<Verdict, Error> {
    let brief = Brief::of_task("verify the merged tree");
    let argv = [
        OsString::from("sh"),
        OsString::from("-c"),
        OsString::from(command),
    ];
    let inmate = Inmate {
        run: &order.errand.id,
        agent,
        name: "verify",
        depth: 0,
        deadline: None,
        brief: &brief,
        contract: &order.contract,
        command: &argv,
        start: &workspace.view.root,
        env: &[],
        limits: ResourceLimits::default(),
    };
    let policy = cage::policy(&order.site, &order.machine, workspace, inmate)?;
    let confined = order
        .site
        .spawner
        .spawn(policy, Input::Null)
        .await
        .map_err(|error| Error::at(Stage::Integration, anyhow::Error::new(error)))?
        .map_err(|error| Error::at(Stage::Integration, error))?;
    let outputs = order.site.state.outputs_dir(&order.record);
    fs::create_dir_all(&outputs).map_err(|error| Error::at(Stage::Integration, error))?;
    let path = log_of(&order.site, &order.record, &order.agent);
    let file = fs::File::create(&path).map_err(|error| Error::at(Stage::Integration, error))?;
    let watch = Supervision {
        deadline: order.deadline,
        cancel: order.cancel.clone(),
        kill: order.kill.clone(),
        grace: GRACE,
        output: OUTPUT_BYTES,
        clock: order.site.clock.clone(),
    };
    let ended = supervise(
        confined,
        &watch,
        Arc::new(Unheard),
        Some(OutputLog::new(file)),
        |_| {},
    )
    .await
    .map_err(|error| Error::at(Stage::Integration, error))?;
    Ok(match (ended.stopped, ended.exit.code) {
        (Some(reason), _) => Verdict::Stopped(reason),
        // What a limit cut short has checked nothing.
        (None, Some(0)) if ended.limit.is_none() => Verdict::Accepted,
        (None, Some(_) | None) => Verdict::Rejected,
    })
}

/// The check's output is kept in its log alone.
struct Unheard;

impl LineSink for Unheard {
    fn line(&self, _stream: Stream, _line: &[u8]) {}
}
