//! Tells whoever listens what happens.
//!
//! Owns the trait through which a face or a harness follows a run. Listeners
//! are called in the order in which things happen and must not block.

use std::sync::{Arc, Mutex, PoisonError};

use crate::audit::Trail;
use crate::model::{AgentId, Clock, Event, EventKind, RunId};
use crate::process::Stream;

/// Follows a run.
pub trait Listener: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event);
    /// An agent printed a line.
    fn line(&self, agent: &str, stream: Stream, line: &[u8]);
}

/// A listener that keeps everything to itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Listener for Silent {
    fn event(&self, _event: &Event) {}
    fn line(&self, _agent: &str, _stream: Stream, _line: &[u8]) {}
}

/// Sends events of one run to the trail and the listener.
pub(super) struct Bus {
    run: RunId,
    clock: Arc<dyn Clock>,
    trail: Mutex<Trail>,
    listener: Arc<dyn Listener>,
}

impl Bus {
    pub(super) fn new(
        run: RunId,
        clock: Arc<dyn Clock>,
        trail: Trail,
        listener: Arc<dyn Listener>,
    ) -> Self {
        Self {
            run,
            clock,
            trail: Mutex::new(trail),
            listener,
        }
    }

    pub(super) fn listener(&self) -> Arc<dyn Listener> {
        self.listener.clone()
    }

    /// Something happened to the run as a whole.
    pub(super) fn run(&self, kind: EventKind) {
        self.send(&Event::of_run(
            &self.run,
            &self.clock.now().to_string(),
            kind,
        ));
    }

    /// Something happened to one agent.
    pub(super) fn agent(&self, agent: &AgentId, name: &str, kind: EventKind) {
        let event = Event::of_run(&self.run, &self.clock.now().to_string(), kind);
        self.send(&event.of_agent(agent, name));
    }

    fn send(&self, event: &Event) {
        // One lock over both, so that the trail and the listener agree on the order.
        let mut trail = self.trail.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = trail.append(event) {
            tracing::error!(%error, "an event is missing from the audit log");
        }
        self.listener.event(event);
    }
}
