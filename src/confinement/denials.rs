//! Denials of a cage in the words of roles.
//!
//! Owns which line of a role would allow what was refused, and what is said
//! where refusals are not recorded. Which operations yield a record at all, and
//! from which source, is the sandbox's table.

use cofferdam_sandbox::{Denial as Fact, Enforcement, Layer, Limit, LimitHit};

use crate::model::Denial;

/// A fact of the cage for the record.
#[must_use]
pub fn denial(fact: &Fact) -> Denial {
    Denial {
        layer: fact.layer.to_string(),
        operation: fact.operation.clone(),
        path: fact.path.clone(),
        pid: fact.pid.and_then(|pid| i32::try_from(pid).ok()),
        exe: fact.exe.clone(),
        count: fact.count,
        detail: fact.detail.clone(),
        grant: grant(fact.layer).map(str::to_owned),
    }
}

/// A limit that was reached, for the record.
#[must_use]
pub fn limit_denial(hit: &LimitHit) -> Denial {
    Denial {
        layer: Layer::Limits.to_string(),
        operation: hit.limit.to_string(),
        path: None,
        pid: None,
        exe: None,
        count: hit.count,
        detail: Some(format!("{}, by {}", hit.limit.amount(hit.value), hit.by)),
        grant: match hit.limit {
            Limit::Memory => Some("limits.memory"),
            Limit::Processes => Some("limits.processes"),
            Limit::Disk => Some("limits.disk"),
            // No line of a role is about these.
            Limit::Cpu
            | Limit::OpenFiles
            | Limit::FileSize
            | Limit::DiskFiles
            | Limit::DiskDepth
            | Limit::Output => None,
        }
        .map(str::to_owned),
    }
}

/// The line of a role that would allow what a layer refused.
///
/// What only giving up a whole layer would allow has none.
fn grant(layer: Layer) -> Option<&'static str> {
    match layer {
        Layer::Network => Some("network = \"open\""),
        Layer::Landlock
        | Layer::Mounts
        | Layer::Namespaces
        | Layer::Seccomp
        | Layer::Capabilities
        | Layer::Limits => None,
    }
}

/// Why refusals of some layers are not recorded on this machine.
#[must_use]
pub fn unrecorded(enforcement: &Enforcement) -> Vec<String> {
    let reasons = enforcement.unrecorded.iter();
    reasons
        .map(|(layer, reason)| format!("{layer}: {reason}"))
        .collect()
}
