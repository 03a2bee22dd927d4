//! Further places beneath the state directory.
//!
//! Owns where output, kept files and the lock of starting runs lie. Only
//! names: nothing is made here.

use std::path::PathBuf;

use super::StateDir;
use crate::model::RunId;

impl StateDir {
    /// Files of a run's agents that no tree holds, one directory an agent.
    #[must_use]
    pub fn kept_root(&self, run: &RunId) -> PathBuf {
        self.path().join("kept").join(run.as_str())
    }

    /// What a run's agents printed.
    #[must_use]
    pub fn outputs_dir(&self, run: &RunId) -> PathBuf {
        self.path().join("outputs").join(run.as_str())
    }

    /// Held while a run takes its place, so that nobody takes one that is
    /// just being made for one that was left.
    #[must_use]
    pub fn starting_lock(&self) -> PathBuf {
        self.path().join("starting.lock")
    }
}
