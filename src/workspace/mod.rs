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
//! - `checkout/`: plain files, for any file system and kernel
//! - `carry`: ignored files that the agent needs
//! - `capture`, `walk`, `ignored`, `host`: what changed, and what to warn of
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
mod host;
mod identity;
mod ignored;
mod index_copy;
mod known;
mod layout;
mod look;
mod mirror;
mod snapshot;
#[cfg(test)]
mod tests;
mod walk;

pub use backend::{
    Access, Backend, BackendEntry, BackendKind, Capture, Ground, Harvest, Order, Workspace, choose,
};
pub use dispose::{dispose, remove_beneath};
pub use error::Error;
pub use index_copy::IndexCopy;
pub use layout::{foreseen, reopen};
pub use mirror::Mirror;
pub use snapshot::{Current, FileTime, Snapshot, current, current_tree, snapshot};

/// The backends, best first.
pub const BACKENDS: &[BackendEntry] = &[BackendEntry {
    kind: BackendKind::Checkout,
    choice: crate::model::WorkspaceChoice::Checkout,
    probe: checkout::probe,
    make: checkout::make,
}];
