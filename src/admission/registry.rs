//! Who exists: the one registry of a run.
//!
//! Owns the state behind the one lock, the admission itself, cancellation and
//! the counts. Nothing is awaited and nothing but arithmetic is done while the
//! lock is held. Handles are cheap to clone and share the state.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::admitted::Admitted;
use super::gates::{Situation, child_depth, earliest, first_refusal};
use crate::model::{AgentId, Clock, Contract, Deadline, LaunchLimits, Refusal};

/// What is asked of the gates.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// The new agent's id, made by the launcher.
    pub id: AgentId,
    /// Whose channel the question came on; `None` for the run itself.
    pub parent: Option<&'a AgentId>,
    /// What the new agent may do, already narrowed.
    pub contract: &'a Contract,
    /// Its own deadline.
    pub deadline: Option<Deadline>,
}

/// How many agents there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hold a live place.
    pub live: u32,
    /// Wait in the queue for one.
    pub queued: u32,
    /// Gave theirs back while they wait for children.
    pub waiting: u32,
    /// Count against the total.
    pub total: u32,
    /// Live places that are free.
    pub available: u32,
}

/// Where an agent stands with its live place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Admitted; has not asked for a place.
    Admitted,
    /// Waits in the queue; the first stands at 1.
    Queued {
        /// Its position.
        position: usize,
    },
    /// Holds a place.
    Live,
    /// Gave its place back while it waits for children.
    Waiting,
    /// Has ended.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Admitted,
    Live,
    Waiting,
}

#[derive(Debug)]
pub(super) struct Agent {
    pub(super) parent: Option<AgentId>,
    pub(super) depth: u32,
    pub(super) contract: Contract,
    pub(super) deadline: Option<Deadline>,
    pub(super) token: CancellationToken,
    pub(super) place: Place,
    pub(super) started: bool,
    pub(super) ended: bool,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) agent: AgentId,
    pub(super) wake: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) cancelled: bool,
    pub(super) total: u32,
    pub(super) live: u32,
    pub(super) queue: VecDeque<Waiter>,
    pub(super) agents: BTreeMap<AgentId, Agent>,
}

impl State {
    /// Agents that were admitted and never had a place yet.
    pub(super) fn pending(&self) -> u32 {
        let pending = self
            .agents
            .values()
            .filter(|agent| !agent.ended && agent.place == Place::Admitted)
            .count();
        u32::try_from(pending).unwrap_or(u32::MAX)
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: LaunchLimits,
    pub(super) clock: Arc<dyn Clock>,
    root: CancellationToken,
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; if one ever did, the counts
        // would still be those of the last whole step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The registry of one run; clones share it.
#[derive(Debug, Clone)]
pub struct Registry {
    pub(super) shared: Arc<Shared>,
}

impl Registry {
    /// An empty registry with these limits.
    #[must_use]
    pub fn new(limits: LaunchLimits, clock: Arc<dyn Clock>) -> Self {
        Self {
            shared: Arc::new(Shared {
                limits,
                clock,
                root: CancellationToken::new(),
                state: Mutex::default(),
            }),
        }
    }

    /// Asks all gates and, if none refuses, reserves in the same lock.
    ///
    /// # Errors
    /// The first refusal; it leaves nothing behind.
    pub fn admit(&self, ask: Ask<'_>) -> Result<Admitted, Refusal> {
        let shared = &self.shared;
        let mut state = shared.lock();
        let parent = ask.parent.and_then(|id| state.agents.get(id));
        let situation = Situation {
            limits: &shared.limits,
            state: &state,
            ask: &ask,
            parent,
            now: shared.clock.now(),
        };
        if let Some(refusal) = first_refusal(&situation) {
            return Err(refusal);
        }
        let deadline = earliest(&situation);
        // The depth gate has passed, so a child's depth can be counted.
        let depth = parent.map_or(0, |parent| {
            child_depth(parent.depth, shared.limits.max_depth).unwrap_or(u32::MAX)
        });
        let token = parent
            .map_or(&shared.root, |parent| &parent.token)
            .child_token();
        state.total += 1;
        state.agents.insert(
            ask.id.clone(),
            Agent {
                parent: ask.parent.cloned(),
                depth,
                contract: ask.contract.clone(),
                deadline,
                token: token.clone(),
                place: Place::Admitted,
                started: false,
                ended: false,
            },
        );
        drop(state);
        Ok(Admitted {
            registry: self.clone(),
            agent: ask.id,
            depth,
            deadline,
            contract: ask.contract.clone(),
            token,
        })
    }

    /// Cancels everything and admits nobody any more.
    pub fn cancel_all(&self) {
        self.shared.lock().cancelled = true;
        self.shared.root.cancel();
    }

    /// Cancels an agent and everything below it, also below finished agents;
    /// `false` where no such agent is known.
    pub fn cancel(&self, agent: &AgentId) -> bool {
        let token = {
            let state = self.shared.lock();
            state.agents.get(agent).map(|agent| agent.token.clone())
        };
        if let Some(token) = &token {
            token.cancel();
        }
        token.is_some()
    }

    /// Whether everything was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.lock().cancelled
    }

    /// How many agents there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let state = self.shared.lock();
        let waiting = state
            .agents
            .values()
            .filter(|agent| !agent.ended && agent.place == Place::Waiting)
            .count();
        let short = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Counts {
            live: state.live,
            queued: short(state.queue.len()),
            waiting: short(waiting),
            total: state.total,
            available: self.shared.limits.max_live.saturating_sub(state.live),
        }
    }

    /// Where an agent stands; `None` where no such agent is known.
    #[must_use]
    pub fn standing(&self, agent: &AgentId) -> Option<Standing> {
        let state = self.shared.lock();
        let entry = state.agents.get(agent)?;
        let position = state.queue.iter().position(|waiter| waiter.agent == *agent);
        Some(match (entry.ended, position, entry.place) {
            (true, _, _) => Standing::Ended,
            (false, Some(at), _) => Standing::Queued { position: at + 1 },
            (false, None, Place::Admitted) => Standing::Admitted,
            (false, None, Place::Live) => Standing::Live,
            (false, None, Place::Waiting) => Standing::Waiting,
        })
    }

    /// Everything below an agent, the nearest first; it is what that agent
    /// may see.
    #[must_use]
    pub fn descendants(&self, agent: &AgentId) -> Vec<AgentId> {
        let state = self.shared.lock();
        let mut found: Vec<AgentId> = Vec::new();
        let mut level = vec![agent.clone()];
        while !level.is_empty() {
            level = state
                .agents
                .iter()
                .filter(|(_, entry)| entry.parent.as_ref().is_some_and(|id| level.contains(id)))
                .map(|(id, _)| id.clone())
                .collect();
            found.extend(level.iter().cloned());
        }
        found
    }

    /// Ends an agent: its place goes to the next, what is below it is
    /// cancelled. Repeating it changes nothing; dropping the permit does it too.
    pub fn finish(&self, agent: &AgentId) {
        let token = self.leave(agent);
        if let Some(token) = token {
            token.cancel();
        }
    }

    fn leave(&self, agent: &AgentId) -> Option<CancellationToken> {
        let mut state = self.shared.lock();
        let entry = state.agents.get_mut(agent).filter(|entry| !entry.ended)?;
        entry.ended = true;
        let (token, started) = (entry.token.clone(), entry.started);
        self.shared.release(&mut state, agent, Place::Admitted);
        state.queue.retain(|waiter| waiter.agent != *agent);
        if !started {
            // Nothing of it ever ran, so it does not count.
            state.agents.remove(agent);
            state.total -= 1;
        }
        Some(token)
    }
}
