//! What an agent changed, as measured by the launcher.
//!
//! Owns the change set: two trees and the paths between them. Nothing in it
//! is what an agent says about itself.

use serde::{Deserialize, Serialize};

use super::{ObjectId, PathText, TreeMode, Warning};

/// How a path differs between two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Was not there.
    Added,
    /// Other content.
    Modified,
    /// Is gone.
    Deleted,
    /// Stood at `from`, by git's half-alike rule.
    Renamed,
    /// Only the execute bit.
    Mode,
    /// Another kind of thing: file, link, submodule.
    Type,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which path.
    #[serde(flatten)]
    pub path: PathText,
    /// How it differs.
    pub kind: ChangeKind,
    /// Where a renamed path stood before.
    pub from: Option<String>,
    /// Its mode now; `None` when it is gone.
    pub mode: Option<TreeMode>,
}

/// Files that the repository ignores, left out of the result but kept a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ignored {
    /// The top-most ignored path.
    #[serde(flatten)]
    pub path: PathText,
    /// How many files it holds.
    pub files: u64,
    /// Until when `gc` leaves them, as an RFC 3339 instant.
    pub kept_until: Option<String>,
}

/// What one agent's workspace holds beyond the snapshot it started from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    /// The tree it started from.
    pub base: ObjectId,
    /// The tree it ended with; equals `base` when nothing changed.
    pub tree: ObjectId,
    /// The paths between the two, as `git diff -M50%` pairs them.
    pub changes: Vec<Change>,
    /// What the baseline's ignore rules leave out, relative to the tree's root.
    pub ignored: Vec<Ignored>,
    /// What a tree cannot hold or a reader should know.
    pub warnings: Vec<Warning>,
}

impl ChangeSet {
    /// Whether the tree is the one it started from.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.base == self.tree
    }
}
