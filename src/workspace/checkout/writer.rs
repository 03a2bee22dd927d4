//! Writes a tree as files, in parallel.
//!
//! Owns the files of a fresh directory: created, never opened if they exist,
//! so that two names which the file system takes for one are an error and not
//! a lost file. Bytes are the objects' own. A file gets the time that the
//! parent's file with the same bytes has, so that build caches hold.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};

use super::super::error::file;
use super::super::identity::Identity;
use super::super::layout::Layout;
use super::super::snapshot::FileTime;
use super::super::{Error, Order};
use super::stat_index::StatIndex;
use crate::git::{IndexRow, IndexStat, Objects, Repository, TreeEntry};
use crate::model::{RepoPath, TreeMode};

/// One entry as it was written.
pub(in super::super) struct Written {
    /// What an index says of it; of a submodule's directory nothing.
    pub(in super::super) row: IndexRow,
    pub(super) identity: Identity,
}

/// What every thread needs.
struct Job<'a> {
    repo: &'a Repository,
    tree: &'a Path,
    fallback: FileTime,
    failed: AtomicBool,
}

/// Writes every entry of the snapshot's tree but the absent ones.
pub(super) fn write(order: &Order<'_>, index: &StatIndex) -> Result<Vec<Written>, Error> {
    let snapshot = order.snapshot;
    let mut entries = order.repo.objects()?.entries(&snapshot.tree)?;
    entries.retain(|entry| !snapshot.absent.contains(&entry.path));
    let work = entries
        .into_iter()
        .map(|entry| {
            let seen = snapshot.seen.get(&entry.path).copied();
            let time = seen.or_else(|| index.modified(&entry.path, entry.mode, &entry.oid));
            (entry, time)
        })
        .collect();
    write_entries(order.repo, &Layout(order.dir).tree(), work)
}

/// Writes entries beneath a directory in which nothing stands at their paths,
/// each with the time that is known of it.
pub(in super::super) fn write_entries(
    repo: &Repository,
    tree: &Path,
    work: Vec<(TreeEntry, Option<FileTime>)>,
) -> Result<Vec<Written>, Error> {
    make_directories(tree, work.iter().map(|(entry, _)| entry))?;
    let job = Job {
        repo,
        fallback: a_second_before(tree)?,
        tree,
        failed: AtomicBool::new(false),
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = work.len().div_ceil(threads).max(32);
    let parts: Vec<Result<Vec<Written>, Error>> = std::thread::scope(|scope| {
        let running: Vec<_> = work
            .chunks(share)
            .map(|part| scope.spawn(|| job.write_part(part)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("because writing a file cannot panic"))
            .collect()
    });
    let mut written = Vec::with_capacity(work.len());
    for part in parts {
        written.extend(part?);
    }
    Ok(written)
}

/// Files written anew look older than the index that will name them, so that
/// git need not doubt them.
fn a_second_before(tree: &Path) -> Result<FileTime, Error> {
    let made = tree
        .metadata()
        .and_then(|metadata| metadata.modified())
        .map_err(file("look at", tree))?;
    let since = made.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.saturating_sub(Duration::from_secs(1)).as_secs();
    Ok((i64::try_from(seconds).unwrap_or(0), 0))
}

fn make_directories<'a>(
    tree: &Path,
    entries: impl Iterator<Item = &'a TreeEntry>,
) -> Result<(), Error> {
    let mut last: Option<RepoPath> = None;
    for entry in entries {
        let directory = match entry.mode {
            // A submodule is an empty directory.
            TreeMode::Gitlink => Some(entry.path.clone()),
            TreeMode::File | TreeMode::Executable | TreeMode::Symlink => entry.path.parent(),
        };
        let Some(directory) = directory.filter(|one| last.as_ref() != Some(one)) else {
            continue;
        };
        let path = tree.join(directory.as_path());
        std::fs::create_dir_all(&path).map_err(file("make", &path))?;
        last = Some(directory);
    }
    Ok(())
}

impl Job<'_> {
    fn write_part(&self, part: &[(TreeEntry, Option<FileTime>)]) -> Result<Vec<Written>, Error> {
        let result = self.write_all(part);
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    fn write_all(&self, part: &[(TreeEntry, Option<FileTime>)]) -> Result<Vec<Written>, Error> {
        let objects = self.repo.objects()?;
        let mut written = Vec::with_capacity(part.len());
        let mut open: Option<(PathBuf, OwnedFd)> = None;
        for (entry, time) in part {
            // Another thread has failed: the whole is taken away anyway.
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            let path = self.tree.join(entry.path.as_path());
            let directory = path.parent().unwrap_or(self.tree).to_owned();
            let handle = match open.take() {
                Some((last, handle)) if last == directory => handle,
                Some(_) | None => {
                    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    rustix::fs::openat(CWD, &directory, flags, Mode::empty())
                        .map_err(|errno| file("open", &directory)(errno.into()))?
                }
            };
            let time = time.unwrap_or(self.fallback);
            written.push(self.write_one(&objects, entry, (&path, &handle), time)?);
            open = Some((directory, handle));
        }
        Ok(written)
    }

    fn write_one(
        &self,
        objects: &Objects,
        entry: &TreeEntry,
        (path, directory): (&Path, &OwnedFd),
        time: FileTime,
    ) -> Result<Written, Error> {
        let failed = || file("write", path);
        let name = path.file_name().expect("because an entry has a name");
        let bits = match entry.mode {
            TreeMode::Gitlink => None,
            TreeMode::Symlink => {
                let text = objects.read_blob(&entry.oid)?;
                rustix::fs::symlinkat(text, directory, name)
                    .map_err(|errno| failed()(errno.into()))?;
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::utimensat(directory, name, &times(time), flags)
                    .map_err(|errno| failed()(errno.into()))?;
                None
            }
            TreeMode::File => Some(0o644),
            TreeMode::Executable => Some(0o755),
        };
        let metadata = match bits {
            None => path.symlink_metadata().map_err(failed())?,
            Some(bits) => {
                let bytes = objects.read_blob(&entry.oid)?;
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(bits);
                let fd = rustix::fs::openat(directory, name, flags, mode)
                    .map_err(|errno| failed()(errno.into()))?;
                let mut out = File::from(fd);
                out.write_all(&bytes).map_err(failed())?;
                rustix::fs::futimens(out.as_fd(), &times(time))
                    .map_err(|errno| failed()(errno.into()))?;
                out.metadata().map_err(failed())?
            }
        };
        let stat = (entry.mode != TreeMode::Gitlink).then(|| IndexStat::of(&metadata));
        Ok(Written {
            row: IndexRow {
                entry: entry.clone(),
                stat,
            },
            identity: Identity::of(&metadata),
        })
    }
}

pub(super) fn times((seconds, nanos): FileTime) -> Timestamps {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanos.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
