//! Owns the measure of directories: bytes and files on disk.
//!
//! Directories are held open from before the cage's view exists, so no mount
//! hides them. Links are not followed and other file systems not entered. The
//! walk goes on in slices, because the process that walks has to answer its
//! launcher as well. Whoever makes a tree too deep to be walked is found out, and
//! a walk for which no descriptors are left is no walk: it is made again.

use std::collections::{BTreeSet, HashSet};
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, fstatvfs, openat, statat};
use rustix::io::Errno;

use crate::policy::{HostPath, PolicyError};

/// Each level holds a descriptor while the walk is below it.
pub(super) const DEEPEST: usize = 256;
/// Entries between two looks at the clock.
const STRETCH: usize = 64;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What is on disk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) bytes: u64,
    pub(super) files: u64,
}

impl Used {
    pub(super) fn less(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            files: self.files.saturating_sub(other.files),
        }
    }
}

/// The directories that count.
#[derive(Debug)]
pub(super) struct Roots {
    directories: Vec<OwnedFd>,
    pub(super) devices: BTreeSet<u64>,
}

impl Roots {
    /// Opens them; must be done while their names lead to them.
    pub(super) fn open(paths: &[HostPath]) -> Result<Self, PolicyError> {
        let mut roots = Self {
            directories: Vec::new(),
            devices: BTreeSet::new(),
        };
        for path in paths {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = openat(CWD, path.as_ref() as &Path, flags, Mode::empty());
            let (directory, data) = directory
                .and_then(|directory| fstat(&directory).map(|data| (directory, data)))
                .map_err(|errno| PolicyError::BadCounted {
                    path: path.clone(),
                    reason: errno.to_string(),
                })?;
            roots.directories.push(directory);
            roots.devices.insert(data.st_dev);
        }
        Ok(roots)
    }

    /// Room left on their file systems, each counted once: a quick look that
    /// tells whether a walk can find anything new.
    pub(super) fn free(&self) -> Used {
        let mut seen = BTreeSet::new();
        let mut free = Used::default();
        for directory in &self.directories {
            let device = fstat(directory).map_or(0, |data| data.st_dev);
            if let (true, Ok(data)) = (seen.insert(device), fstatvfs(directory)) {
                free.bytes += data.f_bfree * data.f_frsize;
                free.files += data.f_ffree;
            }
        }
        free
    }
}

/// How far a walk has come.
pub(super) enum Progress {
    More,
    Done(Used),
    /// The tree is deeper than can be walked.
    TooDeep,
    /// There were no descriptors to go on with.
    Starved,
}

/// No descriptors are left, of this process or of the machine.
#[derive(Debug, PartialEq, Eq)]
struct Starved;

/// Opens a directory; none where it cannot be entered or is gone.
fn enter(parent: impl AsFd, name: &CStr) -> Result<Option<OwnedFd>, Starved> {
    match openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Err(Starved),
        Err(_) => Ok(None),
    }
}

/// A walk that is under way.
#[derive(Default)]
pub(super) struct Walk {
    root: usize,
    device: u64,
    levels: Vec<Dir>,
    /// What was found so far.
    pub(super) used: Used,
    /// Files with several names, which count once.
    linked: HashSet<(u64, u64)>,
}

impl Walk {
    /// Goes on until it is done or the time is up.
    pub(super) fn step(&mut self, roots: &Roots, until: Instant) -> Progress {
        loop {
            for _ in 0..STRETCH {
                if self.levels.is_empty() {
                    let Some(root) = roots.directories.get(self.root) else {
                        return Progress::Done(self.used);
                    };
                    self.root += 1;
                    match self.enter_root(root) {
                        Ok(()) => continue,
                        Err(Starved) => return Progress::Starved,
                    }
                }
                if self.levels.len() > DEEPEST {
                    return Progress::TooDeep;
                }
                if self.entry() == Err(Starved) {
                    return Progress::Starved;
                }
            }
            if super::watch::now() >= until {
                return Progress::More;
            }
        }
    }

    fn enter_root(&mut self, root: &OwnedFd) -> Result<(), Starved> {
        // A descriptor of its own: the position in a directory belongs to it.
        if let Some(directory) = enter(root, c".")?
            && let Ok(data) = fstat(&directory)
            && let Ok(directory) = Dir::new(directory)
        {
            self.device = data.st_dev;
            self.levels.push(directory);
        }
        Ok(())
    }

    /// Counts the next entry of the deepest level.
    fn entry(&mut self) -> Result<(), Starved> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        let Some(Ok(entry)) = level.read() else {
            // The end, or a directory that was removed meanwhile.
            self.levels.pop();
            return Ok(());
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            return Ok(());
        }
        let Ok(parent) = level.fd() else {
            return Ok(());
        };
        let Ok(data) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(());
        };
        if data.st_dev != self.device {
            return Ok(());
        }
        let is_directory = FileType::from_raw_mode(data.st_mode) == FileType::Directory;
        if !is_directory && data.st_nlink > 1 && !self.linked.insert((data.st_dev, data.st_ino)) {
            return Ok(());
        }
        self.used.files += 1;
        self.used.bytes += u64::try_from(data.st_blocks).unwrap_or(0) * 512;
        if is_directory
            && let Some(below) = enter(parent, name)?
            && let Ok(below) = Dir::new(below)
        {
            self.levels.push(below);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    fn measured(path: &Path) -> Option<Used> {
        let roots = Roots::open(&[path.into()]).expect("because it is there");
        let mut walk = Walk::default();
        loop {
            match walk.step(
                &roots,
                super::super::watch::now() + Duration::from_millis(1),
            ) {
                Progress::More => {}
                Progress::Done(used) => return Some(used),
                Progress::TooDeep | Progress::Starved => return None,
            }
        }
    }

    #[test]
    fn counts_each_file_once_and_only_what_takes_up_room() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("d")).expect("because it is new");
        fs::write(path("d/f"), vec![1; 1 << 20]).expect("because it is new");
        fs::hard_link(path("d/f"), path("again")).expect("because it is new");
        std::os::unix::fs::symlink("/usr", path("all")).expect("because it is new");
        let sparse = fs::File::create(path("sparse")).expect("because it is new");
        sparse.set_len(1 << 40).expect("because it is sparse");
        let used = measured(dir.path()).expect("because it is not deep");
        assert_eq!(used.files, 4);
        assert!((1 << 20..2 << 20).contains(&used.bytes), "{used:?}");
    }

    #[test]
    fn finds_out_what_is_too_deep_to_be_counted() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let mut deep = dir.path().to_path_buf();
        for _ in 0..DEEPEST {
            deep.push("d");
        }
        fs::create_dir_all(&deep).expect("because it is new");
        assert_eq!(measured(dir.path()), None);
    }
}
