//! Tests of the gates and the queue, in one thread and in many.
//!
//! Owns the few values that all of them start from: a clock that stands, ids
//! that count, and a way to poll a wait by hand, so that no test depends on
//! how fast the machine is.

mod gates;
mod places;
mod storm;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Admitted, Ask, Registry};
use crate::config::builtin;
use crate::model::{AgentId, FixedClock, LaunchLimits, Refusal};

fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::new(jiff::Timestamp::UNIX_EPOCH))
}

fn registry(max_depth: u32, max_total: u32, max_live: u32) -> Registry {
    let limits = LaunchLimits {
        max_depth,
        max_total,
        max_live,
        ..LaunchLimits::default()
    };
    Registry::new(limits, clock())
}

fn fresh_id() -> AgentId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    AgentId::from_bits(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn admit(registry: &Registry, parent: Option<&AgentId>) -> Result<Admitted, Refusal> {
    registry.admit(Ask {
        id: fresh_id(),
        parent,
        contract: &builtin::writer(),
        deadline: None,
    })
}
