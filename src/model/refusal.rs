//! Refusals of the gates, as data.
//!
//! A refusal is a normal answer that an agent can read: what was hit, where
//! the limit stands, which setting moves it, and what to do instead.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which gate refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// The run was cancelled.
    Cancelled,
    /// Too deep.
    Depth,
    /// Too many over the run's life.
    Total,
    /// The queue for live places is full.
    Live,
    /// The ledger cannot cover it.
    Budget,
    /// The instant has passed.
    Deadline,
    /// Wider than what the requester holds.
    Authority,
    /// Outside the file scope.
    Scope,
    /// The label forbids it.
    Trust,
    /// A task that it had to follow did not land.
    After,
}

/// Why a gate did not admit an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Which gate.
    pub gate: Gate,
    /// What was counted or asked.
    pub have: String,
    /// Where the limit stands.
    pub limit: String,
    /// Which option moves it.
    pub setting: String,
    /// What to do instead.
    pub advice: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "refused: {} (limit {}, set by `{}`); {}",
            self.have, self.limit, self.setting, self.advice
        )
    }
}
