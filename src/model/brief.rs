//! The typed brief: what one agent is asked to do.
//!
//! Owns its fields and their size limit. A missing field is visible where a
//! missing sentence is not. Merging the ancestors' constraints into it is the
//! business of admission.

use serde::{Deserialize, Serialize};

/// A self-contained request to one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brief {
    /// What is to be done.
    pub task: String,
    /// What must hold while doing it.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// How the agent knows that it has finished.
    #[serde(default)]
    pub done_when: Vec<String>,
    /// Paths in the repository that it may start from.
    #[serde(default)]
    pub artifacts: Vec<String>,
    /// In which form it is to report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_format: Option<String>,
}

impl Brief {
    /// The largest brief, in bytes of its JSON form.
    pub const MAX_BYTES: usize = 32 * 1024;

    /// A brief that is one sentence.
    #[must_use]
    pub fn of_task(task: impl Into<String>) -> Self {
        Self {
            task: task.into(),
            ..Self::default()
        }
    }
}
