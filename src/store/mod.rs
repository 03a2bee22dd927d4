//! The door to durable files.
//!
//! Owns where the program keeps its state, how a file is replaced, how intent
//! is journalled, how a live process is told from a dead one, and the one way
//! to reach files beneath a directory. It decides nothing about what is
//! stored. Clean-up, integration, the tools and the executor call it.
//!
//! - `approvals`: what a person agreed to, known again by its content
//! - `layout`: the state directory and the paths in it
//! - `lease`: locks that the kernel drops with their process
//! - `shared`: the same for things that many use
//! - `journal`: checksummed lines, read back as the longest valid prefix
//! - `measure`: how big a directory is
//! - `replace`: a whole file, before or after, never between
//! - `root` and `place`: a tree behind a handle, no link ever followed
//!
//! To add a kind of durable file: its path in `layout`, its form where it is
//! used, its writing through `replace` or `journal`.

mod approvals;
mod error;
mod journal;
mod layout;
mod lease;
mod measure;
mod place;
mod places;
mod replace;
mod root;
mod shared;

pub use approvals::{Approvals, content_hash};
pub use error::Error;
pub use journal::{
    Journal, Sync, read as read_journal, read_first, read_prefix as read_journal_prefix,
};
pub use layout::StateDir;
pub use lease::{Lease, Lock};
pub use measure::{Measure, measure};
pub use place::{Place, Step};
pub use replace::{
    from_json, read_file, read_json, replace_file, replace_json, sync_directory, to_json,
};
pub use root::{Kind, Root, Stat};
pub use shared::{Alone, Shared};
