//! Denials of a cage in the words of roles.
//!
//! Owns which line of a role would allow what was refused, and what is said
//! where refusals are not recorded. Which operations yield a record at all, and
//! from which source, is the sandbox's table.

use cofferdam_sandbox::{Denial as Fact, Enforcement, Layer};

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
