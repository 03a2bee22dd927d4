//! Owns the proof that a cage holds, against the running kernel.
//!
//! Every case runs as this user and, where this is the superuser, as an
//! ordinary user too. Canaries are on the host's side: what a file holds, who
//! was connected to; never only on exit codes. Nothing is skipped.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod calls;
mod degraded;
mod denials;
mod devices;
mod failures;
mod files;
mod guarantees;
mod lifetime;
mod limits;
mod limits_memory;
mod merging;
mod network;
mod overlay;
mod overlay_moves;
mod privilege;
mod setting;
mod view;
