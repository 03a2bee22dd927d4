//! One landing at a time in a repository, across processes.
//!
//! Owns the lock's place. Its holder recovers what a dead landing left, takes
//! the parent's tree, merges and lands; the order among waiters of one run is
//! kept by the run's own queue.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::Error;
use crate::store::{self, Lock};

/// Waits for the landing lock of the repository with this common directory;
/// `None` when `give_up` says so first.
///
/// # Errors
/// The lock file cannot be made or locked.
pub fn lock(common_dir: &Path, give_up: &mut dyn FnMut() -> bool) -> Result<Option<Lock>, Error> {
    let directory = common_dir.join("cofferdam");
    let failed = |source| Error::Lock { source };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(store::Error::io("create", &directory))
        .map_err(failed)?;
    Lock::wait(&directory.join("landing.lock"), give_up).map_err(failed)
}
