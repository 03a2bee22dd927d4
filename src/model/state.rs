//! States and outcomes of an agent.
//!
//! Owns the words and which of them are final. A final outcome never changes;
//! who moves an agent from one state to the next is the registry.

use serde::{Deserialize, Serialize};

/// Where an agent stands in the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Asked for; no gate has looked yet.
    Requested,
    /// Admitted; waits for a live place.
    Queued,
    /// Its workspace and cage are being made.
    Starting,
    /// Its command runs.
    Running,
    /// It waits for children and holds no live place.
    Waiting,
    /// It is being ended.
    Stopping,
    /// Its work is pinned under a ref.
    Captured,
    /// Its result is being merged and landed.
    Integrating,
    /// Nothing of it is left but the record and, perhaps, its result.
    Cleaned,
    /// Something of it could not be cleaned and is kept, named in the record.
    Quarantined,
    /// A gate refused it; nothing was started.
    Refused,
}

impl AgentState {
    /// Whether nothing follows it.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Cleaned | Self::Quarantined | Self::Refused => true,
            Self::Requested
            | Self::Queued
            | Self::Starting
            | Self::Running
            | Self::Waiting
            | Self::Stopping
            | Self::Captured
            | Self::Integrating => false,
        }
    }
}

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its command ended with 0.
    Succeeded,
    /// Its command ended with another code.
    Failed,
    /// A limit cut it short; what it did is kept.
    Partial,
    /// Somebody cancelled it.
    Cancelled,
    /// Its deadline passed.
    TimedOut,
    /// A signal that the launcher did not send ended it.
    Crashed,
    /// A gate refused it.
    Refused,
    /// It could not be started.
    SpawnFailed,
    /// The launcher died while it ran; its effects cannot be proven.
    Unknown,
}
