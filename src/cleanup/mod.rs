//! Takes away what a run acquired, on every exit path.
//!
//! Owns the footprint of a run: a step is written down before its effect and
//! marked when its undo has been performed. Whoever ends a run, the executor
//! at its end or the next start after a crash, settles the same open steps by
//! the same code, newest first; each undo is idempotent. Work that exists
//! only in a workspace is pinned under a ref before the workspace goes, and
//! where that fails the workspace stays and is named.
//!
//! - `footprint`: the steps of one run, journalled
//! - `pin`: captures a workspace and pins what it found, whole
//! - `settle`: performs the undo of every open step
//! - `trash`: removes a directory of ours in two moves
//!
//! To add a kind of thing that a run acquires: a variant of [`Step`], its
//! intent before the effect, and its arm in `settle`.

mod error;
mod footprint;
mod pin;
mod settle;
mod trash;

pub use error::Error;
pub use footprint::{Footprint, RepositoryPlace, Step};
pub use pin::{Attempt, capture_and_pin, history_ref, result_of_history};
pub use settle::{Noting, Places, Salvaged, Settled, settle};
pub use trash::{discard_directory, empty_trash};

/// In an agent's directory: its command may have run.
pub const STARTED: &str = "started";
/// In an agent's directory: which process is the cage's first.
pub const INIT: &str = "init";
/// In an agent's directory: its work is pinned, or it holds none.
pub const CAPTURED: &str = "captured";
