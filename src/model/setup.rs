//! The command that makes a workspace ready before its agent starts.
//!
//! Plain data: what is to run, who wrote it down, and what the record keeps of
//! it. Whether it may run is decided by the executor; it never widens what its
//! agent may do, since it runs in a cage of the same policy.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ExitStatus;

/// Who wrote a command down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetupAuthor {
    /// The person who starts the run: it needs no word of anybody else.
    Person,
    /// A file of the repository, which others can change: a person has to
    /// have approved exactly this content.
    Repository,
}

/// A command that runs in the agent's workspace, confined as the agent, before
/// the agent's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// What the shell is given.
    pub command: String,
    /// The most that it may take, in milliseconds.
    pub wall_ms: u64,
    /// Who wrote it down.
    pub author: SetupAuthor,
}

impl Setup {
    /// What it may take unless somebody says otherwise.
    pub const WALL: Duration = Duration::from_secs(600);

    /// A command with its time; none is [`Setup::WALL`].
    #[must_use]
    pub fn new(command: &str, wall: Option<Duration>, author: SetupAuthor) -> Self {
        let wall = wall.unwrap_or(Self::WALL).as_millis();
        Self {
            command: command.to_owned(),
            wall_ms: u64::try_from(wall).unwrap_or(u64::MAX),
            author,
        }
    }

    /// The most that it may take.
    #[must_use]
    pub fn wall(&self) -> Duration {
        Duration::from_millis(self.wall_ms)
    }
}

/// What ran to make a workspace ready, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupRecord {
    /// What the shell was given.
    pub command: String,
    /// Who wrote it down.
    pub author: SetupAuthor,
    /// The hash of the command: what an approval is bound to.
    pub hash: String,
    /// How it ended; both `None` while it has not.
    pub exit: ExitStatus,
    /// How long it ran.
    pub running_ms: Option<u64>,
    /// Processor time of its whole tree.
    pub cpu_ms: Option<u64>,
}
