//! One landing at a time in a repository, across processes.
//!
//! Owns the lock's place. Its holder recovers what a dead landing left, takes
//! the parent's tree, merges and lands; the order among waiters of one run is
//! kept by the run's own queue.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::Error;
use crate::git;
use crate::store::{self, Lock};

/// The lock's name in our directory of the repository.
const FILE: &str = "landing.lock";

/// Waits for the landing lock of the repository with this common directory;
/// `None` when `give_up` says so first.
///
/// # Errors
/// The lock file cannot be made or locked.
pub fn lock(common_dir: &Path, give_up: &mut dyn FnMut() -> bool) -> Result<Option<Lock>, Error> {
    let directory = git::own_dir(common_dir);
    let failed = |source| Error::Lock { source };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(store::Error::io("create", &directory))
        .map_err(failed)?;
    Lock::wait(&directory.join(FILE), give_up).map_err(failed)
}

/// As [`lock`], but where nothing has ever landed there is no lock to wait for,
/// and looking leaves none behind: `None` then too.
///
/// # Errors
/// As [`lock`].
pub fn lock_if_ever_used(
    common_dir: &Path,
    give_up: &mut dyn FnMut() -> bool,
) -> Result<Option<Lock>, Error> {
    if git::own_dir(common_dir).join(FILE).exists() {
        lock(common_dir, give_up)
    } else {
        Ok(None)
    }
}
