//! A policy in, a confined child out, and an honest report of what each layer achieved.
#![deny(unsafe_code, missing_docs)]
#![warn(unreachable_pub, clippy::unwrap_used)]

mod enforcement;
mod layers;
mod policy;
mod probe;
mod protocol;
mod spawn;
mod stage;
#[expect(
    unsafe_code,
    reason = "system calls that no safe crate offers; each with its reason"
)]
mod sys;

pub use enforcement::{Enforcement, Proof, Status, UidMap};
pub use policy::{
    Access, Command, FileRule, HostPath, Layer, Limits, Mount, Network, Policy, PolicyError,
    Rights, UnknownLayer, View, ViewMode,
};
pub use probe::probe;
pub use spawn::{
    Confined, Ended, Helper, HelperError, Input, Killer, SpawnError, WaitError, spawn,
};
pub use stage::{STAGE_ARGUMENT, enter_stage_if_asked};
