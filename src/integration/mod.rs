//! Where results enter the parent's tree; nothing else writes there.
//!
//! Owns the merge of one result as a decision on data, and its landing as a
//! crash-atomic write. Asks for the parent's objects through a trait, for its
//! files through `store::Root`. Never touches an index, a ref, configuration
//! or a lock of git's, and runs no program of the repository. The executor
//! calls it: lock, recover, merge, land.
//!
//! - `merge`: a proposal → a tree, conflicts, warnings, why it is held;
//!   `scope`, `classify`, `hunks`, `settle`, `verify` and `second` are its parts
//! - `landing`: two trees → the parent's files, wholly or not at all
//! - `lock`: one landing at a time
//! - `render`: conflicts and differences for people
//! - `objects`: what is asked of a repository
//!
//! To add a question to the merge: a file that answers it on the deltas, one
//! line in `merge::merge`, a variant in `model::HeldFor` or `WarningKind`.

mod classify;
mod error;
mod hunks;
mod landing;
mod lock;
mod merge;
mod objects;
mod render;
mod repository;
mod scope;
mod second;
mod settle;
mod verify;

#[cfg(test)]
mod tests;

pub use error::Error;
pub use landing::{
    Header, LandRequest, Landing, Pending, Recovered, kept_backups, land, pending, pending_in,
    recover, staging_dir, working_tree,
};
pub use lock::{lock, lock_if_ever_used};
pub use merge::{Authority, Doubt, Merged, Proposal, Settled, merge};
pub use objects::{Difference, Edit, Entry, ObjectError, ObjectStore};
pub use render::{render_conflict, render_diff};
