//! What is asked of the launcher, after parsing.
//!
//! Owns the request in the form in which no key is unknown and no number is
//! out of range. Arguments and plan files are turned into it by `config/` and
//! `cli/`; from here on nobody re-reads them.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Brief, Contract, Deadline, ResourceLimits, Setup};

/// What agents start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The parent's working tree as it stands.
    Worktree,
    /// A commit of the repository.
    Revision(String),
}

/// Whether results enter the parent's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Integrate {
    /// A succeeded agent's result lands.
    Auto,
    /// Every result waits for `apply`.
    Hold,
    /// Results are kept and never land by this run.
    Never,
}

/// Where results land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Land {
    /// In the parent's files, uncommitted.
    Worktree,
    /// As a commit on the branch that is checked out.
    Commit,
    /// As a commit on a branch of its own; `None` names it after run and agent.
    Branch(Option<String>),
}

/// What happens to a result that conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// It waits; nothing of it lands.
    Hold,
    /// It lands with conflict markers.
    Markers,
    /// The parent's side wins where both changed.
    Ours,
    /// The agent's side wins where both changed.
    Theirs,
}

/// In which order results are integrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As the plan lists them.
    Plan,
    /// As they end.
    Completion,
}

/// Which workspace backend is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceChoice {
    /// The best that works here.
    Auto,
    /// Overlay over a shared base.
    Overlay,
    /// A copy that shares blocks.
    Reflink,
    /// Plain files.
    Checkout,
}

/// What an agent's standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinMode {
    /// Empty.
    Null,
    /// The launcher's own.
    Pass,
}

/// One variable for the agent's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvEntry {
    /// Its name.
    pub name: String,
    /// Its value, already looked up.
    pub value: OsString,
}

/// How many agents, how deep, how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchLimits {
    /// Depths 0 to this exist.
    pub max_depth: u32,
    /// Agents over the run's whole life.
    pub max_total: u32,
    /// Agents at once.
    pub max_live: u32,
    /// Places in the queue for live places.
    pub queue_len: u32,
    /// The instant at which everything must have ended.
    pub deadline: Option<Deadline>,
}

impl Default for LaunchLimits {
    fn default() -> Self {
        Self {
            max_depth: 2,
            max_total: 16,
            max_live: 4,
            queue_len: 1024,
            deadline: None,
        }
    }
}

/// One agent that is asked for.
#[derive(Debug, Clone)]
pub struct TaskRequest {
    /// Its label; metadata only.
    pub name: String,
    /// What it may do, already narrowed by the options.
    pub contract: Contract,
    /// What it is to do.
    pub brief: Brief,
    /// What is executed.
    pub command: Vec<OsString>,
    /// Names of tasks that must have landed before.
    pub after: Vec<String>,
    /// The file scope that it claims; empty claims what its role may write.
    pub paths: Vec<String>,
    /// Whether it queues behind tasks whose scope overlaps.
    pub exclusive: bool,
    /// Variables beyond the allow-list.
    pub env: Vec<EnvEntry>,
    /// Whether its result lands.
    pub integrate: Integrate,
    /// Where its result lands.
    pub land: Land,
    /// What happens when it conflicts.
    pub on_conflict: OnConflict,
    /// What makes its workspace ready before its command starts.
    pub setup: Option<Setup>,
    /// A shell command that must accept the merged tree.
    pub verify: Option<String>,
    /// The instant at which it must have ended.
    pub deadline: Option<Deadline>,
    /// Limits on the machine's resources.
    pub limits: ResourceLimits,
    /// Ignored files of the parent that it needs, as globs.
    pub carry: Vec<String>,
}

/// Everything that one `run` asks for.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// A directory of the repository.
    pub repo: PathBuf,
    /// The caller's directory; agents start at the same place in their copy.
    pub cwd: PathBuf,
    /// What agents start from.
    pub base: Base,
    /// The agents.
    pub tasks: Vec<TaskRequest>,
    /// How many, how deep, how long.
    pub limits: LaunchLimits,
    /// In which order results are integrated.
    pub order: Order,
    /// Hashes of set-up commands that the person approves with this request.
    pub approve_setup: Vec<String>,
    /// Which backend is asked for.
    pub workspace: WorkspaceChoice,
    /// Layers and guarantees that were given up by name.
    pub allow_degraded: Vec<String>,
    /// What an agent's standard input is.
    pub stdin: StdinMode,
}
