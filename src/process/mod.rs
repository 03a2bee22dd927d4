//! The only way to a child that is an agent.
//!
//! Owns the thread that makes confined children, their supervision (deadline,
//! cancellation, stop → kill → reap) and what they print. It decides nothing
//! about what a child may do: the policy comes from `confinement/`.
//!
//! - `spawner`: the one long-lived thread on which children are made
//! - `supervise`: waits for the end, whatever ends it
//! - `output`: lines to a sink, and a bounded log
//!
//! To add a reason to stop: a variant of [`StopReason`] and one arm in
//! `supervise`.

mod output;
mod spawner;
mod supervise;

pub use output::{LineSink, OutputLog, Stream};
pub use spawner::{Spawner, SpawnerGone};
pub use supervise::{Ended, StopReason, Supervision, supervise};
