//! The record of a run: what `--json` prints and what is kept.
//!
//! Owns its shape, which is public contract. It is written by the executor
//! and by later decisions (`apply`, `discard`), and read by every face.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    AgentId, AgentLedger, AgentState, Change, Contract, Ignored, Integration, Label, ObjectId,
    Outcome, PathText, Refusal, RunId, RunLedger, SetupRecord, Warning,
};

/// What the agents of a run started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseRecord {
    /// The parent's HEAD; `None` while unborn.
    pub head: Option<ObjectId>,
    /// The snapshot's tree.
    pub tree: ObjectId,
    /// Whether it differs from HEAD's tree.
    pub dirty: bool,
    /// What the repository is in the middle of (`merge`, `rebase`,
    /// `cherry-pick`, `revert`, `bisect`), and `shallow`, `partial_clone`,
    /// `sparse_checkout`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// What the snapshot could not hold, as changes inside a submodule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// How a command ended; both `None` when it never ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitStatus {
    /// Its code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// Where an agent's work is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRecord {
    /// The ref that pins it.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Its tree.
    pub tree: Option<ObjectId>,
    /// What the agent said, cut to 500 bytes.
    pub report: Option<String>,
    /// Whether it was cut.
    pub report_truncated: bool,
    /// The commits that it made, if it made any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryRecord>,
    /// What no tree holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptRecord>,
}

/// An agent's own commits: kept under a ref, or left behind for a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryRecord {
    /// They are kept.
    Kept {
        /// The ref that pins them.
        #[serde(rename = "ref")]
        reference: String,
        /// The last of them.
        tip: ObjectId,
        /// How many.
        commits: usize,
        /// What named the ends of them, where that was not HEAD alone. Of
        /// several ends each is a parent of `tip`, in this order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tips: Vec<HistoryTip>,
        /// What of them stayed behind, and why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<String>,
    },
    /// They stayed behind.
    LeftOut {
        /// Why.
        why: String,
    },
}

/// One end of an agent's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryTip {
    /// What named it in the agent's repository: `HEAD`, a ref, `stash@{1}`,
    /// `HEAD@{2}`, or the HEAD of a worktree.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The commit.
    pub tip: ObjectId,
}

/// Files of an agent's that no tree holds, as they lie in a directory of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRecord {
    /// The directory.
    pub directory: String,
    /// What was moved there, as it was named in the workspace.
    pub paths: Vec<PathText>,
    /// The instant until which `gc` leaves it, as RFC 3339.
    pub until: String,
}

/// When things happened, as RFC 3339 instants, and for how long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// When it was asked for.
    pub requested_at: Option<String>,
    /// When its command started.
    pub started_at: Option<String>,
    /// When its command had ended and its cage was empty.
    pub ended_at: Option<String>,
    /// Time in the queue.
    pub queued_ms: Option<u64>,
    /// Time from start to end.
    pub running_ms: Option<u64>,
}

/// What each layer of confinement achieved: `full`, `partial`, `absent` or `waived`.
pub type EnforcementReport = BTreeMap<String, String>;

/// Something that was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// Which layer denied it.
    pub layer: String,
    /// What was tried.
    pub operation: String,
    /// On what.
    pub path: Option<String>,
    /// By which process.
    pub pid: Option<i32>,
    /// By which program.
    pub exe: Option<String>,
    /// How often.
    pub count: u64,
    /// What was asked of the operation, as far as it says.
    #[serde(default)]
    pub detail: Option<String>,
    /// The line of a role that would allow it; `None` where none would.
    #[serde(default)]
    pub grant: Option<String>,
}

/// One agent in the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// Its id.
    pub id: AgentId,
    /// Its label.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Who started it; `None` for the run itself.
    pub parent: Option<AgentId>,
    /// How many ancestors it has.
    pub depth: u32,
    /// The worst label of what it received.
    pub label_in: Label,
    /// The label of what it returns.
    pub label_out: Label,
    /// Where it stands.
    pub state: AgentState,
    /// How it ended; `None` while it has not.
    pub outcome: Option<Outcome>,
    /// Why, in words.
    pub reason: Option<String>,
    /// The refusal, where a gate refused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// How its command ended.
    pub exit: ExitStatus,
    /// The command.
    #[serde(default)]
    pub command: Vec<String>,
    /// The brief's task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The contract that it ran under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// Which backend made its workspace, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The commit of the snapshot that it started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<ObjectId>,
    /// Where its work is kept.
    pub result: ResultRecord,
    /// What it changed.
    pub changes: Vec<Change>,
    /// What the repository ignores of it.
    pub ignored: Vec<Ignored>,
    /// How its result was integrated.
    pub integration: Integration,
    /// What each layer achieved.
    pub enforcement: EnforcementReport,
    /// What each layer lacked, in words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub enforcement_missing: BTreeMap<String, Vec<String>>,
    /// The layers and guarantees that the caller gave up by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waived: Vec<String>,
    /// By what each limit on the machine's resources is held.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// What no layer of this run covers, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holes: Vec<String>,
    /// What it saw otherwise than it was to, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub view_notes: Vec<String>,
    /// The paths that the task claimed; none claims all that its role may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// What made its workspace ready, once that has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupRecord>,
    /// The check that the merged tree has to pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Which layers hold which guarantee.
    pub guarantees: BTreeMap<String, Vec<String>>,
    /// What was denied.
    pub denials: Vec<Denial>,
    /// Whether every denial is listed.
    pub denials_complete: bool,
    /// Why this machine records less than others, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials_missing: Vec<String>,
    /// What it used.
    pub ledger: AgentLedger,
    /// When.
    pub times: Times,
    /// Which models it used.
    pub model: Vec<serde_json::Value>,
}

/// Something that clean-up could not take away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOver {
    /// What: a path, a ref, a process.
    pub what: String,
    /// Why it is still there.
    pub why: String,
}

/// What clean-up achieved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct CleanupReport {
    /// Whether nothing is left.
    pub complete: bool,
    /// What is left.
    pub left: Vec<LeftOver>,
}

impl CleanupReport {
    /// Nothing is left.
    pub fn clean() -> Self {
        Self {
            complete: true,
            left: Vec::new(),
        }
    }

    /// Adds what another part of clean-up left.
    pub fn absorb(&mut self, other: Self) {
        self.left.extend(other.left);
        self.complete = self.left.is_empty();
    }
}

/// One run, as printed and kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// `cofferdam.run/1`.
    pub schema: String,
    /// Its id.
    pub run: RunId,
    /// The repository's top directory.
    pub repo: String,
    /// The repository's common git directory, its identity.
    #[serde(default)]
    pub common_dir: String,
    /// What the program ended with.
    pub exit_code: u8,
    /// What the agents started from.
    pub base: BaseRecord,
    /// The agents, as they were asked for.
    pub agents: Vec<AgentRecord>,
    /// What the run used.
    pub ledger: RunLedger,
    /// What clean-up achieved.
    pub cleanup: CleanupReport,
}

impl RunRecord {
    /// The schema's name and version.
    pub const SCHEMA: &'static str = "cofferdam.run/1";
}
