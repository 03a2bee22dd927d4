//! Trust labels.
//!
//! Owns their order. Labels only get worse along an edge: joining is the
//! maximum, and there is no function that lowers one.

use serde::{Deserialize, Serialize};

/// How far a text or a tree may be trusted; later is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// Written by the program itself or its reviewed configuration.
    Trusted,
    /// Said by the person or harness that started the run.
    User,
    /// Came out of a tool.
    Tool,
    /// Came from a model, the network or another agent.
    Untrusted,
}

impl Label {
    /// The label of something made from both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        self.max(other)
    }
}
