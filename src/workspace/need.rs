//! Room on a disk, before anything is written.
//!
//! Owns the estimate of what a workspace takes and the comparison with what
//! the file system has free for this user. A workspace that is just being made
//! by this process keeps what it asked for until it is there, so that many at
//! once are not all let in by the same free space. An estimate is no promise:
//! a disk that fills up later is told by whoever meets it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::error::file;
use super::{Backend, Error, Order, missing};
use crate::model::{RepoPath, TreeMode};

/// What something takes of a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes.
    pub bytes: u64,
    /// Files, directories and links.
    pub inodes: u64,
}

impl Need {
    /// A private directory with its few files and a git directory, whatever
    /// the size of the repository.
    pub const SMALL: Self = Self {
        bytes: 512 << 10,
        inodes: 64,
    };

    /// One file of that size.
    #[must_use]
    pub fn file(size: u64) -> Self {
        Self {
            bytes: size.saturating_add(BLOCK - 1) / BLOCK * BLOCK,
            inodes: 1,
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            inodes: self.inodes.saturating_sub(other.inodes),
        }
    }
}

/// What file systems give out at a time, as a rule.
const BLOCK: u64 = 4096;

/// The most that is left free for others, of a large file system.
const RESERVE: Need = Need {
    bytes: 64 << 20,
    inodes: 1024,
};

/// Room that is kept for what is being made. It is given up when this is
/// dropped: by then what was made is counted by the file system itself.
#[derive(Debug)]
#[must_use = "room that is dropped is anybody's"]
pub struct Room {
    device: u64,
    need: Need,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut promised = PROMISED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = promised.as_mut().and_then(|all| all.get_mut(&self.device)) {
            *all = all.without(self.need);
        }
    }
}

/// What workspaces under way still have to write, by file system.
static PROMISED: Mutex<Option<HashMap<u64, Need>>> = Mutex::new(None);

/// Keeps room for one workspace, in the directory that is to hold it.
///
/// # Errors
/// There is not enough; the message names the file system, what is needed and
/// what is free. Or what is needed cannot be found out.
pub fn require_room(
    backend: &dyn Backend,
    order: &Order<'_>,
    directory: &Path,
) -> Result<Room, Error> {
    reserve(directory, Need::SMALL.and(backend.needs(order)?))
}

/// Keeps room in a directory that exists.
///
/// # Errors
/// As [`require_room`].
pub fn reserve(directory: &Path, need: Need) -> Result<Room, Error> {
    let device = fs::metadata(directory)
        .map_err(file("look at", directory))?
        .dev();
    let disk = rustix::fs::statvfs(directory)
        .map_err(|errno| file("look at the disk of", directory)(errno.into()))?;
    let superuser = rustix::process::geteuid().is_root();
    let blocks = if superuser {
        disk.f_bfree
    } else {
        disk.f_bavail
    };
    let files = if superuser {
        disk.f_ffree
    } else {
        disk.f_favail
    };
    // One that makes its inodes as it goes says that it has none at all.
    let counts_files = disk.f_files > 0;
    let free = Need {
        bytes: blocks.saturating_mul(disk.f_frsize),
        inodes: if counts_files { files } else { u64::MAX },
    };
    let reserve = Need {
        bytes: (disk.f_blocks.saturating_mul(disk.f_frsize) / 100).min(RESERVE.bytes),
        inodes: (disk.f_files / 100).min(RESERVE.inodes),
    };
    let mut promised = PROMISED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = promised.get_or_insert_default().entry(device).or_default();
    let usable = free.without(reserve).without(*all);
    if need.bytes > usable.bytes || need.inodes > usable.inodes {
        return Err(Error::NoRoom {
            directory: directory.to_owned(),
            mount: mount_of(directory, device),
            need,
            usable,
        });
    }
    *all = all.and(need);
    Ok(Room { device, need })
}

/// The top of the file system on which a directory lies.
fn mount_of(directory: &Path, device: u64) -> PathBuf {
    let same = |path: &&Path| fs::metadata(path).is_ok_and(|data| data.dev() == device);
    let above = directory.ancestors().take_while(same).last();
    above.unwrap_or(directory).to_owned()
}

/// What the files of a snapshot take when each is written.
///
/// Sizes are those of the parent's index, so that no object is looked up whose
/// file stands there unchanged.
pub(super) fn of_files(order: &Order<'_>) -> Result<Need, Error> {
    let snapshot = order.snapshot;
    let objects = order.repo.objects()?;
    let copy = snapshot.index.as_ref().filter(|copy| copy.exists());
    // One of a form that cannot be read here only costs the look at objects.
    let index = copy.and_then(|copy| {
        git2::Index::open_ext(copy.path(), order.repo.object_format().library()).ok()
    });
    let sizes: HashMap<Vec<u8>, (String, u64)> = index
        .iter()
        .flat_map(git2::Index::iter)
        .filter(|entry| entry.file_size > 0)
        .map(|entry| (entry.path, (entry.id.to_string(), entry.file_size.into())))
        .collect();
    let mut need = Need::default();
    let mut last: Option<RepoPath> = None;
    for entry in objects.entries(&snapshot.tree)? {
        if snapshot.absent.contains(&entry.path) {
            continue;
        }
        need = need.and(Need {
            bytes: 0,
            inodes: new_directories(last.as_ref(), &entry.path),
        });
        let known = sizes.get(entry.path.as_bytes());
        let size = match (entry.mode, known) {
            (TreeMode::Gitlink, _) => 0,
            (_, Some((id, size))) if id == entry.oid.as_str() => *size,
            (TreeMode::File | TreeMode::Executable | TreeMode::Symlink, _) => objects
                .blob_size(&entry.oid)
                .map_err(|error| missing::of_object((&entry.path, &entry.oid), error))?,
        };
        need = need.and(Need::file(size));
        last = Some(entry.path);
    }
    let index_bytes = copy.and_then(|copy| fs::metadata(copy.path()).ok());
    need = need.and(Need::file(index_bytes.map_or(0, |data| data.len())));
    need.bytes = need.bytes.saturating_add(need.inodes * IDENTITY);
    Ok(need)
}

/// What the list of identities takes for a file, about.
const IDENTITY: u64 = 160;

/// How many directories stand above `path` that are not above the path before
/// it in the order of paths.
fn new_directories(before: Option<&RepoPath>, path: &RepoPath) -> u64 {
    let parts: Vec<&[u8]> = path.components().collect();
    let depth = parts.len() - 1;
    let shared = before.map_or(0, |before| {
        let old: Vec<&[u8]> = before.components().collect();
        let old = &old[..old.len() - 1];
        let pairs = parts[..depth].iter().zip(old);
        pairs.take_while(|(new, old)| new == old).count()
    });
    (depth - shared) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_counted_once() {
        let path = |text: &str| RepoPath::from_bytes(text.as_bytes()).expect("because it is plain");
        let (one, two, three) = (path("a/b/c"), path("a/b/d"), path("a/x/y/z"));
        assert_eq!(new_directories(None, &one), 2);
        assert_eq!(new_directories(Some(&one), &two), 0);
        assert_eq!(new_directories(Some(&two), &three), 2);
        assert_eq!(new_directories(Some(&three), &path("n")), 0);
    }

    #[test]
    fn room_that_is_kept_for_one_is_not_there_for_another() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let disk = rustix::fs::statvfs(dir.path()).expect("because it exists");
        let most = disk.f_bfree * disk.f_frsize;
        let half = Need {
            bytes: most / 2,
            inodes: 1,
        };
        let kept = reserve(dir.path(), half).expect("because half of the disk is free");
        let refused = reserve(dir.path(), half).expect_err("because half is kept");
        assert!(refused.is_disk());
        drop(kept);
        drop(reserve(dir.path(), half).expect("because it was given back"));
    }
}
