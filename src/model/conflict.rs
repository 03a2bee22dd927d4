//! Conflicts, warnings and outcomes of integration, as data.
//!
//! A conflict is a value in a signature, never an error path: an error is for
//! "it could not be tried".

use serde::{Deserialize, Serialize};

use super::{ObjectId, PathText};

/// What kind of conflict stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictKind {
    /// Both sides changed the same lines.
    Content,
    /// Both sides added the path, differently.
    AddAdd,
    /// One side changed what the other deleted.
    ModifyDelete,
    /// Both sides renamed the same thing, differently.
    RenameRename,
    /// One side renamed what the other deleted.
    RenameDelete,
    /// One side renamed onto what the other added.
    RenameAdd,
    /// A file was added into a directory that the other side renamed.
    DirectoryRename,
    /// A file on one side, a directory on the other.
    FileDirectory,
    /// A file on one side, a link or submodule on the other.
    Type,
    /// Both sides changed the mode, differently.
    Mode,
    /// Both sides changed a file that is not text.
    Binary,
    /// Both sides moved a submodule.
    Submodule,
    /// The parent has an ignored file at a path that the result adds.
    WouldOverwriteIgnored,
    /// The parent has an untracked thing that the snapshot could not hold there.
    WouldOverwriteUntracked,
    /// The result touches a path outside the agent's file scope.
    Scope,
}

/// One conflict: a path and the three versions of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Where it stands.
    #[serde(flatten)]
    pub path: PathText,
    /// Which kind it is.
    pub kind: ConflictKind,
    /// The version in the snapshot that the agent started from.
    pub base: Option<ObjectId>,
    /// The version in the parent's tree now.
    pub ours: Option<ObjectId>,
    /// The agent's version.
    pub theirs: Option<ObjectId>,
    /// First and last line, counted from 1, of each conflicted stretch in the
    /// merge with markers; empty where lines mean nothing.
    pub hunks: Vec<[u32; 2]>,
}

/// Something that lands, or was left out, and that a person should look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// Tools of the host run what stands here without being asked.
    RunsOnHost,
    /// The merge is clean, and a second look does not agree with it.
    DoubtfulMerge,
    /// Two paths that a case-insensitive file system cannot tell apart.
    CaseCollision,
    /// A repository inside the workspace; its files came along, its history did not.
    NestedRepository,
    /// A link that leads out of the repository.
    EscapingLink,
    /// Empty directories, which no tree can hold.
    EmptyDirectory,
    /// A socket, pipe or device, which no tree can hold.
    SpecialFile,
    /// A name that git reads as `.git`, left out.
    GitName,
    /// Changes inside a submodule, kept aside and not landed.
    SubmoduleChanged,
    /// A submodule that the result adds, removes or moves to another commit: no
    /// checkout of one is touched by a landing.
    SubmoduleMoved,
    /// The agent left a merge, rebase or cherry-pick unfinished.
    UnfinishedOperation,
    /// An ignored file that was to be carried along, where what the agent
    /// starts from has a file of its own.
    CarriedTracked,
    /// A glob of `--carry`, in place of a path, to which no ignored file answers.
    CarriedNothing,
    /// The agent could not read or hash something; it was kept aside.
    Unreadable,
}

/// A warning at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Where.
    #[serde(flatten)]
    pub path: PathText,
    /// What.
    pub kind: WarningKind,
}

/// Where a result stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntegrationStatus {
    /// It is in the parent's tree.
    Landed,
    /// There was nothing to land.
    NoChange,
    /// It waits under its ref for a decision.
    Held,
    /// It was discarded.
    Rejected,
    /// Landing was not asked for, or the agent did not succeed.
    NotRequested,
}

/// Why a result is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldFor {
    /// It conflicts with the parent's tree.
    Conflict,
    /// The check of the merged tree failed.
    Verify,
    /// It touches paths outside its scope.
    Scope,
    /// A person has to look first.
    Review,
    /// Its label forbids landing by itself.
    Taint,
    /// It deletes a large part of the repository.
    MassDelete,
}

/// How one agent's result was integrated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integration {
    /// Where it stands.
    pub status: IntegrationStatus,
    /// Why it is held; empty unless it is.
    pub held_for: Vec<HeldFor>,
    /// What conflicts.
    pub conflicts: Vec<Conflict>,
    /// What a person should look at.
    pub warnings: Vec<Warning>,
    /// The merge with its conflicts marked, for a resolver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<ObjectId>,
}

impl Integration {
    /// Nothing was asked of integration.
    #[must_use]
    pub fn not_requested() -> Self {
        Self::plain(IntegrationStatus::NotRequested)
    }

    /// A status with nothing to add.
    #[must_use]
    pub fn plain(status: IntegrationStatus) -> Self {
        Self {
            status,
            held_for: Vec::new(),
            conflicts: Vec::new(),
            warnings: Vec::new(),
            marked: None,
        }
    }
}
