//! Lands a merged tree in the parent's live files: wholly or not at all.
//!
//! Owns the one writer into a person's tree. It touches the paths that differ
//! between two trees and nothing else: no index, no ref, no configuration, no
//! lock of git's. What the person wrote meanwhile wins.
//!
//! ```text
//! plan ─▶ stage ─▶ journal ─▶ preflight ─▶ committed ─▶ write ─▶ sync ─▶ journal removed
//!           └─ any failure: staging removed ┘              └─ any failure: taken back
//! ```
//!
//! - `plan`: two trees → the steps, in their order
//! - `stage`: new contents beside the repository, synced
//! - `preflight`: is everything as the merge was computed from
//! - `steps`: one step forward or back; each knows by itself whether it is done
//! - `land`: the whole, and `recover` after a crash
//! - `lines`: the journal's form; `content`: what a file is, in a few bytes
//! - `watch`: where tests let it fail
//!
//! To add a kind of step: a variant of `lines::Act`, its place in the order in
//! `plan`, both directions in `steps`.

mod content;
mod land;
mod lines;
mod plan;
mod preflight;
mod recover;
mod stage;
mod steps;
mod watch;

pub use land::{LandRequest, Landing, land};
pub use lines::{Header, working_tree};
pub use recover::{Pending, Recovered, kept_backups, pending, pending_in, recover, staging_dir};

#[cfg(test)]
pub(in crate::integration) use land::land_watched;
#[cfg(test)]
pub(in crate::integration) use recover::recover_watched;
#[cfg(test)]
pub(in crate::integration) use watch::{Fault, Point, Watch};
