//! The gates that every agent passes, and the registry that they share.
//!
//! Owns who exists: depth, total, live places and their queue, deadlines and
//! cancellation, all behind one lock, in which the check and the reservation
//! are one step. Every way to make an agent goes through [`Registry::admit`];
//! what no gate has seen has no [`Admitted`] and cannot be started. Identity is
//! the caller's channel: parent and depth are looked up here, never told.
//!
//! To add a gate: one function and one line in the table of `gates`.

mod admitted;
mod gates;
mod places;
mod registry;

#[cfg(test)]
mod tests;

pub use admitted::{Admitted, Live};
pub use gates::{GATES, deadline_passed};
pub use places::NotLive;
pub use registry::{Ask, Counts, Registry, Standing};
