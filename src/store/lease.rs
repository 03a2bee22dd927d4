//! Locks that the kernel drops with their process, however it died.
//!
//! Owns leases (who is alive) and waiting locks (who may go on). A lease file
//! that can be locked belongs to a dead process; no process id is ever looked
//! at. Lock files are never removed while they could be waited on.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Error;

/// How long a waiter sleeps before it tries again and asks whether to give up.
const PAUSE: Duration = Duration::from_millis(5);

/// Proof that its holder lives: dropped by the kernel with the process.
#[derive(Debug)]
#[must_use = "dropping the lease says that its holder is dead"]
pub struct Lease {
    path: PathBuf,
    _file: File,
}

impl Lease {
    /// Takes a lease, making its file where it is missing.
    ///
    /// # Errors
    /// Another process holds it, or the file cannot be made.
    pub fn take(path: &Path) -> Result<Self, Error> {
        match Self::try_take(path)? {
            Some(lease) => Ok(lease),
            None => Err(Error::Held {
                path: path.to_owned(),
            }),
        }
    }

    /// Takes a lease if nobody holds it; `None` when somebody does, or when
    /// its directory is gone because somebody else has cleaned up.
    ///
    /// A missing file is made: a run that has a directory but no lease yet is
    /// then told by its own [`Lease::take`] that it was taken for dead.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub fn try_take(path: &Path) -> Result<Option<Self>, Error> {
        let file = match open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", path)(error)),
        };
        if !locked(&file, path)? || !is_still_at(&file, path)? {
            return Ok(None);
        }
        Ok(Some(Self {
            path: path.to_owned(),
            _file: file,
        }))
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Permission to go on where only one process may at a time.
#[derive(Debug)]
#[must_use = "dropping the lock lets the next one in"]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock at `path`; `None` when `give_up` says so first.
    ///
    /// `give_up` is asked before each pause, so a deadline and a cancellation
    /// both end the wait. A free lock is taken without asking. Order among
    /// waiters is not kept: a queue orders its own members.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub fn wait(path: &Path, give_up: &mut dyn FnMut() -> bool) -> Result<Option<Self>, Error> {
        let file = open(path).map_err(Error::io("open", path))?;
        while !locked(&file, path)? {
            if give_up() {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(Some(Self { _file: file }))
    }
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

fn locked(file: &File, path: &Path) -> Result<bool, Error> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => Err(Error::io("lock", path)(source)),
    }
}

/// Between opening and locking, whoever held it may have removed the file: a
/// lock on a file without a name excludes nobody.
pub(super) fn is_still_at(file: &File, path: &Path) -> Result<bool, Error> {
    let held = file.metadata().map_err(Error::io("examine", path))?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("examine", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_until_its_holder_is_gone() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("lease");
        let held = Lease::take(&path).expect("because nobody holds it");
        assert!(matches!(Lease::take(&path), Err(Error::Held { .. })));
        assert!(Lease::try_take(&path).expect("because it opens").is_none());
        drop(held);
        assert!(Lease::try_take(&path).expect("because it opens").is_some());
        let gone = dir.path().join("gone/lease");
        assert!(
            Lease::try_take(&gone)
                .expect("because absence is an answer")
                .is_none()
        );
    }

    #[test]
    fn the_kernel_drops_the_lease_of_a_killed_process() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("lease");
        drop(Lease::take(&path).expect("because nobody holds it"));
        let mut child = std::process::Command::new("flock")
            .arg("--no-fork")
            .arg(&path)
            .args(["sh", "-c", "echo held; exec sleep 600"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("because flock is part of util-linux");
        let mut line = String::new();
        let out = child.stdout.take().expect("because it is a pipe");
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut line)
            .expect("because it says so");
        assert!(Lease::try_take(&path).expect("because it opens").is_none());
        child.kill().expect("because it runs");
        child.wait().expect("because it was killed");
        assert!(Lease::try_take(&path).expect("because it opens").is_some());
    }

    #[test]
    fn a_wait_ends_when_it_is_told_to() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("lock");
        let first = Lock::wait(&path, &mut || true).expect("because it opens");
        assert!(first.is_some(), "a free lock is taken without asking");
        let mut asked = 0;
        let second = Lock::wait(&path, &mut || {
            asked += 1;
            asked == 3
        });
        assert!(second.expect("because it opens").is_none());
        assert_eq!(asked, 3);
        drop(first);
        assert!(
            Lock::wait(&path, &mut || true)
                .expect("because it opens")
                .is_some()
        );
    }
}
