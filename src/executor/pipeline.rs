//! The pipeline: one agent, from request to record.
//!
//! Reads as the line that the whole program is built around. Each step
//! consumes what the step before returned; a step that halts the flow leaves
//! through the same end as success does. No mechanism lives here.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use super::error::{Error, Fault, Stage};
use super::run::{Run, Seat};
use super::steps::Policies;
use crate::model::{ExitCode, Refusal};

/// Why the flow of one agent ended before its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// A gate said no; nothing was started.
    Refused(Refusal),
    /// The run was cancelled before the agent started.
    Cancelled,
    /// A step could not be done.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Takes one agent through the flow and closes its record, whatever happens.
///
/// The flow is a task of its own, so that a panic in it leaves through the
/// same end: whoever waits for this agent's fate is told on every path.
pub(super) async fn agent(run: Arc<Run>, seat: Arc<Seat>) {
    let (inner, its_seat) = (run.clone(), seat.clone());
    let flowing = tokio::spawn(async move { flow(&inner, &its_seat).await });
    let ended = match AbortOnDropHandle::new(flowing).await {
        Ok(ended) => ended,
        Err(panic) => Err(Halt::Failed(Error::at(
            Stage::Process,
            Fault::new(ExitCode::Internal, panic),
        ))),
    };
    let left = run.clean_up(&seat).await;
    run.record(&seat, ended.err(), left).await;
}

async fn flow(run: &Arc<Run>, seat: &Arc<Seat>) -> Result<(), Halt> {
    run.wait_for_others(seat).await?;
    let admitted = run.admit(seat)?;
    let mut live = run.live_place(seat, admitted).await?;
    let base = run.starting_point(seat).await?;
    let workspace = run.make_workspace(seat, &live, &base).await?;
    let Policies { setup, command } = run.confine(seat, &live, &workspace)?;
    let ended = match run.set_up(seat, &mut live, setup).await? {
        None => run.execute(seat, &mut live, command).await?,
        Some(failed) => failed,
    };
    let captured = run.capture(seat, workspace).await?;
    drop(live);
    run.integrate(seat, &base, &ended, captured).await?;
    Ok(())
}
