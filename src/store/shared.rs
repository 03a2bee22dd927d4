//! Things that many use and one may take away.
//!
//! Owns a lock file beside such a thing: users hold it together, whoever
//! removes the thing holds it alone. The kernel drops a hold with its
//! process, so that nobody's death keeps a thing for ever.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

use super::Error;
use super::lease::{is_still_at, open};

/// A hold on something that others may hold too.
#[derive(Debug)]
#[must_use = "dropping the hold lets somebody take the thing away"]
pub struct Shared {
    _file: File,
}

impl Shared {
    /// Takes a hold; `None` while somebody is taking the thing away.
    ///
    /// A missing lock file is made. Whether the thing is there is to be asked
    /// after this, not before. The file's modification time says when it was
    /// used last.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub fn take(path: &Path) -> Result<Option<Self>, Error> {
        let file = open(path).map_err(Error::io("open", path))?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(Error::io("lock", path)(source)),
        }
        if !is_still_at(&file, path)? {
            return Ok(None);
        }
        touch(&file).map_err(Error::io("touch", path))?;
        Ok(Some(Self { _file: file }))
    }
}

/// Sets a file's times to the kernel's own idea of now.
fn touch(file: &File) -> std::io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

/// Nobody else holds the thing.
#[derive(Debug)]
#[must_use = "dropping it lets others in"]
pub struct Alone {
    _file: File,
    path: PathBuf,
}

impl Alone {
    /// Waits for nobody: `None` when somebody holds the thing.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub fn try_take(path: &Path) -> Result<Option<Self>, Error> {
        let file = open(path).map_err(Error::io("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(Error::io("lock", path)(source)),
        }
        let path = path.to_owned();
        Ok(is_still_at(&file, &path)?.then_some(Self { _file: file, path }))
    }

    /// Removes the lock file as well, the thing being gone.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget(self) -> Result<(), Error> {
        std::fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hold_and_one_takes_away() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("thing.lock");
        let take = || Shared::take(&path).expect("because it opens");
        let alone = || Alone::try_take(&path).expect("because it opens");
        let holds = (take(), take());
        assert!(holds.0.is_some() && holds.1.is_some());
        assert!(alone().is_none());
        drop(holds);
        let taking = alone().expect("because nobody holds it");
        assert!(take().is_none());
        taking.forget().expect("because it is ours");
        assert!(!path.exists());
        assert!(take().is_some(), "what comes next has a lock of its own");
    }
}
