//! What was spent, as it stands in the record.
//!
//! Unknown is `null`, never 0: what nothing has metered was not measured as
//! nothing. The rules of spending are in `budget/`.

use serde::{Deserialize, Serialize};

/// What one agent used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLedger {
    /// Turns taken.
    pub turns: Option<u64>,
    /// Requests to a model.
    pub requests: Option<u64>,
    /// Tokens in, beyond the cache.
    pub input_tokens: Option<u64>,
    /// Tokens read from a cache.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to a cache.
    pub cache_write_tokens: Option<u64>,
    /// Tokens out.
    pub output_tokens: Option<u64>,
    /// Money, in millionths of a dollar.
    pub micro_usd: Option<u64>,
    /// Time from start to end, in milliseconds.
    pub wall_ms: Option<u64>,
    /// Processor time of the whole tree, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// Who measured; `None` when nobody did.
    pub metered_by: Option<String>,
}

/// What the whole run may use, used and holds back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLedger {
    /// The limits that were set.
    pub limit: serde_json::Map<String, serde_json::Value>,
    /// What is spent.
    pub used: serde_json::Map<String, serde_json::Value>,
    /// What is promised and not yet spent.
    pub reserved: serde_json::Map<String, serde_json::Value>,
}
