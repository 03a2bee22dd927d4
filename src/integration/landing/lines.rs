//! The form of a landing's journal.
//!
//! Owns its lines: who lands what, each step with the old and the new
//! identity, and the marks. A journal without the mark of commitment means
//! that no file was touched; one that is gone means that all is over.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::content::Content;
use crate::model::{AgentId, ObjectId, PathError, PathText, RepoPath, RunId};

/// Who lands what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The run.
    pub run: RunId,
    /// The agent.
    pub agent: AgentId,
    /// The absolute path of the working tree it lands in; see [`working_tree`].
    ///
    /// The journal lies in the git directory that linked working trees share,
    /// so only this says in which of them the steps may be done.
    pub top: PathText,
    /// The parent's tree before.
    pub ours: ObjectId,
    /// The parent's tree after.
    pub merged: ObjectId,
}

/// How a [`Header`] names a working tree.
#[must_use]
pub fn working_tree(top: &Path) -> PathText {
    PathText::from_raw(top.as_os_str().as_bytes())
}

/// The first line alone; one that is anything else has another form.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum First {
    /// What it must be.
    Header(Header),
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first one.
    Header(Header),
    /// A step, in the order of execution.
    Step(Step),
    /// From here on files are touched; recovery goes forward.
    Committed,
    /// From here on files are put back; recovery goes back.
    TakingBack,
}

/// One step, and the name beside which its other half lies in staging.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    /// The number of its slot in the staging directory.
    pub(super) slot: u32,
    /// Which path it changes.
    path: PathText,
    /// What it does there.
    pub(super) act: Act,
}

impl Step {
    pub(super) fn new(slot: u32, path: &RepoPath, act: Act) -> Self {
        Self {
            slot,
            path: PathText::from(path),
            act,
        }
    }

    /// Which path it changes.
    ///
    /// # Errors
    /// Somebody edited the journal.
    pub(super) fn path(&self) -> Result<RepoPath, PathError> {
        self.path.to_path()
    }

    /// The name of its slot in the staging directory.
    pub(super) fn slot_name(&self) -> RepoPath {
        RepoPath::from_bytes(format!("s{}", self.slot).as_bytes())
            .expect("because a letter and digits are a plain name")
    }
}

/// What a step does. In its slot lies: before, the new thing; after, the old.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Act {
    /// Moves a file or link into the slot.
    Delete {
        /// What it must be.
        old: Content,
    },
    /// Removes a directory that the deletions have emptied; one that holds
    /// something else stays.
    RemoveDirectory {
        /// Its permission bits, to make it again.
        mode: u32,
    },
    /// Makes a directory.
    MakeDirectory,
    /// Moves the slot to a free name.
    Create {
        /// What it is.
        new: Content,
    },
    /// Exchanges a file or link with the slot.
    Replace {
        /// What it must be.
        old: Content,
        /// What it becomes.
        new: Content,
        /// The number of the new file, which tells whether the exchange
        /// has happened.
        inode: u64,
    },
}

impl Act {
    /// Whether the step has something new in its slot before it is done.
    pub(super) fn is_staged(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Replace { .. } => true,
            Self::Delete { .. } | Self::RemoveDirectory { .. } | Self::MakeDirectory => false,
        }
    }
}
