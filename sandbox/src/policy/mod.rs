//! Owns what a caller may ask for: the command, the view, the rules, the limits.
//!
//! Plain data that survives a round trip through JSON exactly, names that are
//! not UTF-8 included. It decides nothing and touches no file: whether a path
//! exists is found out in the stage, where it is opened. Callers build a
//! [`Policy`]; [`crate::spawn`] checks its shape and sends it to the stage.

mod check;
mod layer;
mod limits;
mod path;
mod shape;
mod words;

pub use check::PolicyError;
pub use layer::{Layer, UnknownLayer};
pub use limits::{Counted, Disk, Limits};
pub use path::HostPath;
pub use shape::{
    Access, Command, Directories, FileRule, Mount, Network, Otherwise, Policy, Rights, View,
    ViewMode,
};
pub use words::PolicyRow;
