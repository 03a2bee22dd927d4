//! Workspaces: exactly the parent's state, and a capture that trusts nothing.
//!
//! Owns the snapshot of the parent's working tree, the backends that make a
//! copy of it for one agent, and the capture of what the agent changed. Never
//! touches the parent's files, index, refs or configuration; never runs git
//! in a directory that an agent could write; mounts nothing itself. Called by
//! the executor, and by recovery after the launcher died.
//!
//! - `snapshot`, `look`: the parent's tree, bytes as they lie on disk
//! - `converted`, `known`: what the index says that git does not, and what was learnt of it before
//! - `backend`: the trait, the table's words, the choice
//! - `overlay/`: layers that agents share, and one of their own
//! - `checkout/`: plain files, for any file system and kernel, and cloned ones
//! - `missing`: objects that the parent does not have, told and never fetched
//! - `need`: room on the disk, before anything is written · `stop`: whether it is still wanted
//! - `carry`: ignored files that the agent needs
//! - `walk`, `upper/` (on `lowers`): two ways of finding what changed, one list of it in `findings`
//! - `capture`, `ignored`, `host`, `keep`: what becomes of it, what to warn of, what is put aside
//! - `history`, `own_refs`: the commits that an agent made, and what names them
//! - `submodules`: those that it moved
//! - `layout`, `identity`: what lies in an agent's directory, and how a file is known again
//! - `dispose`: removal
//!
//! To add a backend: one file or folder with a type that implements
//! [`Backend`], one variant of [`BackendKind`], one line in [`BACKENDS`]. The
//! first line whose probe agrees is what `auto` takes. The tests iterate the
//! table.

mod backend;
mod beneath;
mod capture;
mod carry;
mod checkout;
mod converted;
mod dispose;
mod error;
mod findings;
mod history;
mod host;
mod identity;
mod ignored;
mod index_copy;
mod keep;
mod known;
mod layout;
mod look;
mod lowers;
mod mirror;
mod missing;
mod need;
mod overlay;
mod own_refs;
mod snapshot;
mod stop;
mod submodules;
#[cfg(test)]
mod tests;
mod upper;
mod walk;

pub use backend::{
    Access, Backend, BackendEntry, BackendKind, Capture, Ground, Harvest, Order, Workspace, choose,
};
pub use capture::capture;
pub use dispose::{dispose, remove_beneath};
pub use error::Error;
pub use history::{History, take_history};
#[cfg(fuzzing)]
pub use identity::try_identities;
pub use index_copy::IndexCopy;
pub use layout::{foreseen, reopen};
pub use mirror::Mirror;
pub use missing::states;
pub use need::{Need, Room, require_room, reserve};
pub use overlay::{Warm, sweep_bases, sweep_half_made, warm};
pub use snapshot::{Current, FileTime, Snapshot, current, current_tree, snapshot};
pub use stop::Stop;

/// The backends, best first.
pub const BACKENDS: &[BackendEntry] = &[
    BackendEntry {
        kind: BackendKind::Overlay,
        choice: crate::model::WorkspaceChoice::Overlay,
        probe: overlay::probe,
        make: overlay::make,
    },
    BackendEntry {
        kind: BackendKind::Reflink,
        choice: crate::model::WorkspaceChoice::Reflink,
        probe: checkout::probe_reflink,
        make: checkout::make_reflink,
    },
    BackendEntry {
        kind: BackendKind::Checkout,
        choice: crate::model::WorkspaceChoice::Checkout,
        probe: checkout::probe,
        make: checkout::make,
    },
];
