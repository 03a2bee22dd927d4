//! Live places: a bounded, fair queue under the registry's lock.
//!
//! Owns who runs at once. Places are handed over in the order of asking, in
//! the same lock in which one is given back, so that no newcomer overtakes.
//! Every wait ends by a place, by cancellation or by the deadline; a wait that
//! is dropped leaves the queue, or gives the place back that it had just got.

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::gates::deadline_passed;
use super::registry::{Place, Registry, Shared, State, Waiter};
use crate::model::{AgentId, Deadline, Refusal};

/// Why an agent did not get a live place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLive {
    /// Its deadline passed while it waited.
    #[error("get a live place: {0}")]
    Refused(Refusal),
    /// It, an ancestor or the run was cancelled while it waited.
    #[error("get a live place: it was cancelled")]
    Cancelled,
}

impl Shared {
    /// Takes the place from an agent that holds one and hands it on; an agent
    /// that holds none is left alone, so a double release changes nothing.
    pub(super) fn release(&self, state: &mut State, agent: &AgentId, next: Place) {
        if let Some(entry) = state.agents.get_mut(agent)
            && entry.place == Place::Live
        {
            entry.place = next;
            state.live -= 1;
        }
        self.hand_over(state);
    }

    fn hand_over(&self, state: &mut State) {
        while state.live < self.limits.max_live {
            let Some(waiter) = state.queue.pop_front() else {
                return;
            };
            let Some(entry) = state
                .agents
                .get_mut(&waiter.agent)
                .filter(|entry| !entry.ended)
            else {
                continue;
            };
            entry.place = Place::Live;
            state.live += 1;
            // The receiver leaves the queue under this lock before it goes
            // away, so the message arrives; were it lost, the waiter's guard
            // would find the place and give it back.
            let _ = waiter.wake.send(());
        }
    }
}

/// A wait in the queue; dropping it before the place is taken undoes it.
struct Wait<'a> {
    registry: &'a Registry,
    agent: &'a AgentId,
    before: Place,
    taken: bool,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let shared = &self.registry.shared;
        let mut state = shared.lock();
        state.queue.retain(|waiter| waiter.agent != *self.agent);
        shared.release(&mut state, self.agent, self.before);
    }
}

impl Registry {
    /// Waits for a live place; the caller gives it back.
    pub(super) async fn take_place(
        &self,
        agent: &AgentId,
        deadline: Option<Deadline>,
        cancel: (&CancellationToken, &CancellationToken),
    ) -> Result<(), NotLive> {
        if cancel.0.is_cancelled() || cancel.1.is_cancelled() {
            return Err(NotLive::Cancelled);
        }
        let (wake, mut granted) = oneshot::channel();
        let mut wait = {
            let mut state = self.shared.lock();
            let Some(entry) = state.agents.get(agent).filter(|entry| !entry.ended) else {
                return Err(NotLive::Cancelled);
            };
            let before = entry.place;
            if before == Place::Live {
                return Ok(());
            }
            state.queue.push_back(Waiter {
                agent: agent.clone(),
                wake,
            });
            self.shared.hand_over(&mut state);
            Wait {
                registry: self,
                agent,
                before,
                taken: false,
            }
        };
        let passed = async {
            match deadline {
                Some(deadline) => {
                    tokio::time::sleep(deadline.remaining(self.shared.clock.now())).await;
                    deadline
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            place = &mut granted => match place {
                Ok(()) => {
                    wait.taken = true;
                    Ok(())
                }
                // The sender went away with the queue entry: the agent was ended.
                Err(_) => Err(NotLive::Cancelled),
            },
            () = cancel.0.cancelled() => Err(NotLive::Cancelled),
            () = cancel.1.cancelled() => Err(NotLive::Cancelled),
            deadline = passed => {
                let have = "the deadline passed in the queue for a live place";
                Err(NotLive::Refused(deadline_passed(deadline, have)))
            }
        }
    }

    pub(super) fn yield_place(&self, agent: &AgentId) {
        let mut state = self.shared.lock();
        self.shared.release(&mut state, agent, Place::Waiting);
    }

    pub(super) fn mark_started(&self, agent: &AgentId) {
        if let Some(entry) = self.shared.lock().agents.get_mut(agent) {
            entry.started = true;
        }
    }
}
