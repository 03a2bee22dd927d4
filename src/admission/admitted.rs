//! Permits: what an agent holds from admission to its end.
//!
//! Owns the two guards. [`Admitted`] is made by the gates alone; [`Live`] is an
//! `Admitted` that got a live place. Dropping either gives back what it holds,
//! the place in the total too as long as nothing was started.

use tokio_util::sync::CancellationToken;

use super::places::NotLive;
use super::registry::Registry;
use crate::model::{AgentId, Contract, Deadline};

/// Permission to start one agent.
///
/// Only [`Registry::admit`] makes it and starting an agent consumes it, so an
/// agent that no gate has seen does not compile.
#[derive(Debug)]
#[must_use = "a permit that is dropped gives everything back"]
pub struct Admitted {
    pub(super) registry: Registry,
    pub(super) agent: AgentId,
    pub(super) depth: u32,
    pub(super) deadline: Option<Deadline>,
    pub(super) contract: Contract,
    pub(super) token: CancellationToken,
}

impl Admitted {
    /// The agent's id.
    #[must_use]
    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// How many ancestors it has.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The instant at which it must have ended: the earliest of its own, its
    /// parent's, its role's and the run's.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// What it may do.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Cancelled with the agent, an ancestor or the run.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.token
    }

    /// Says that something of the agent has been started: from now on it
    /// counts against the total for the run's whole life.
    pub fn started(&mut self) {
        self.registry.mark_started(&self.agent);
    }

    /// Waits for a live place, first come first served.
    ///
    /// # Errors
    /// Ends when `cancel`, the agent, an ancestor or the run is cancelled, or
    /// when the deadline passes; everything is given back then.
    pub async fn live_place(self, cancel: &CancellationToken) -> Result<Live, NotLive> {
        self.registry
            .take_place(&self.agent, self.deadline, (cancel, &self.token))
            .await?;
        Ok(Live { admitted: self })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.registry.finish(&self.agent);
    }
}

/// An agent that holds a live place.
#[derive(Debug)]
#[must_use = "a live place that is dropped goes to the next"]
pub struct Live {
    admitted: Admitted,
}

impl Live {
    /// The permit that it came from.
    pub fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    /// As [`Admitted::started`].
    pub fn started(&mut self) {
        self.admitted.started();
    }

    /// Gives the place back while the agent waits for children; without that
    /// a tree of waiting parents would hold every place.
    pub fn yield_place(&mut self) {
        self.admitted.registry.yield_place(&self.admitted.agent);
    }

    /// Waits for a place again; at once where it still holds one.
    ///
    /// The queue's bound does not hold here: an agent that was let in once is
    /// never refused its way back.
    ///
    /// # Errors
    /// As [`Admitted::live_place`]; the agent then still holds none.
    pub async fn retake(&mut self, cancel: &CancellationToken) -> Result<(), NotLive> {
        let admitted = &self.admitted;
        admitted
            .registry
            .take_place(
                &admitted.agent,
                admitted.deadline,
                (cancel, &admitted.token),
            )
            .await
    }
}
