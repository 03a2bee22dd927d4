//! Writes a tree as files, in parallel.
//!
//! Owns the files of a fresh directory: created, never opened if they exist,
//! so that two names which the file system takes for one are an error and not
//! a lost file. Bytes are the objects' own, or cloned from a file of the
//! parent's that is known to hold the same. A file gets the time that the
//! parent's file with the same bytes has, so that build caches hold.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};

use super::super::error::file;
use super::super::identity::Identity;
use super::super::layout::Layout;
use super::super::missing::of_object;
use super::super::snapshot::FileTime;
use super::super::{Error, Order, Stop};
use super::clones::{CloneDirectory, Clones, clone_into};
use super::stat_index::StatIndex;
use crate::git::{IndexRow, IndexStat, Objects, Repository, TreeEntry};
use crate::model::{RepoPath, TreeMode};

/// One entry as it was written.
pub(in super::super) struct Written {
    /// What an index says of it; of a submodule's directory nothing.
    pub(in super::super) row: IndexRow,
    pub(super) identity: Identity,
}

/// One entry to be written.
pub(super) struct Piece {
    pub(super) entry: TreeEntry,
    /// When the parent's file with the same bytes was modified.
    pub(super) time: Option<FileTime>,
    /// The low 32 bits of its size.
    pub(super) size: Option<u64>,
    /// All that is known of that file, where nothing can have changed it
    /// unseen.
    pub(super) described: Option<IndexStat>,
}

/// What every thread needs.
struct Job<'a> {
    repo: &'a Repository,
    tree: &'a Path,
    clones: Option<&'a Clones>,
    stop: Stop<'a>,
    fallback: FileTime,
    /// Runs of pieces in one directory, taken by whoever is free.
    runs: Vec<&'a [Piece]>,
    next: AtomicUsize,
    failed: AtomicBool,
}

/// A directory that files are written to, and the one they may come from.
struct Place {
    directory: Option<RepoPath>,
    path: PathBuf,
    handle: OwnedFd,
    parents: CloneDirectory,
}

/// A run is no longer, so that a large directory is not left to one thread.
/// Shorter ones are not cut: two threads that make files in one directory
/// wait for each other.
const LONGEST_RUN: usize = 1024;

/// Writes every entry of the snapshot's tree but the absent ones, cloned from
/// the parent's files where `clones` are given.
pub(super) fn write(
    order: &Order<'_>,
    index: &StatIndex,
    clones: Option<&Clones>,
) -> Result<Vec<Written>, Error> {
    let snapshot = order.snapshot;
    let mut entries = order.repo.objects()?.entries(&snapshot.tree)?;
    entries.retain(|entry| !snapshot.absent.contains(&entry.path));
    let pieces = entries
        .into_iter()
        .map(|entry| index.piece(entry, snapshot))
        .collect();
    let tree = Layout(order.dir).tree();
    write_pieces(order.repo, (&tree, clones, order.stop), pieces)
}

/// Writes entries beneath a directory in which nothing stands at their paths,
/// each with the time that is known of it.
pub(in super::super) fn write_entries(
    repo: &Repository,
    (tree, stop): (&Path, Stop<'_>),
    work: Vec<(TreeEntry, Option<FileTime>)>,
) -> Result<Vec<Written>, Error> {
    let pieces = work.into_iter().map(|(entry, time)| Piece {
        entry,
        time,
        size: None,
        described: None,
    });
    write_pieces(repo, (tree, None, stop), pieces.collect())
}

fn write_pieces(
    repo: &Repository,
    (tree, clones, stop): (&Path, Option<&Clones>, Stop<'_>),
    mut pieces: Vec<Piece>,
) -> Result<Vec<Written>, Error> {
    pieces.sort_by(|a, b| {
        let (a, b) = (a.entry.path.as_bytes(), b.entry.path.as_bytes());
        (directory_of(a), a).cmp(&(directory_of(b), b))
    });
    make_directories(tree, pieces.iter().map(|piece| &piece.entry))?;
    let same = |a: &Piece, b: &Piece| {
        directory_of(a.entry.path.as_bytes()) == directory_of(b.entry.path.as_bytes())
    };
    let job = Job {
        repo,
        tree,
        clones,
        stop,
        fallback: a_second_before(tree)?,
        runs: pieces
            .chunk_by(same)
            .flat_map(|run| run.chunks(LONGEST_RUN))
            .collect(),
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
    };
    let most = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // A thread and its handle cost more than a few files.
    let threads = most.min(pieces.len().div_ceil(32)).max(1);
    let parts: Vec<Result<Vec<Written>, Error>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| job.write_runs()))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("because writing a file cannot panic"))
            .collect()
    });
    let mut written = Vec::with_capacity(pieces.len());
    for part in parts {
        written.extend(part?);
    }
    written.sort_unstable_by(|a, b| a.row.entry.path.cmp(&b.row.entry.path));
    Ok(written)
}

/// The directory of a path; `None` at the top.
fn directory_of(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|b| *b == b'/')?;
    Some(&path[..slash])
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
    fn write_runs(&self) -> Result<Vec<Written>, Error> {
        let result = self.take_runs();
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    fn take_runs(&self) -> Result<Vec<Written>, Error> {
        let objects = self.repo.objects()?;
        let mut written = Vec::new();
        let mut last: Option<Place> = None;
        // Once another thread has failed, the whole is taken away anyway.
        while !self.failed.load(Ordering::Relaxed) {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = self.runs.get(next) else {
                break;
            };
            let directory = run.first().and_then(|piece| piece.entry.path.parent());
            let place = match last.take() {
                Some(place) if place.directory == directory => place,
                Some(_) | None => self.place(directory)?,
            };
            for piece in *run {
                self.stop.check()?;
                written.push(self.write_one(&objects, &place, piece)?);
            }
            last = Some(place);
        }
        Ok(written)
    }

    fn place(&self, directory: Option<RepoPath>) -> Result<Place, Error> {
        let path = match &directory {
            Some(directory) => self.tree.join(directory.as_path()),
            None => self.tree.to_owned(),
        };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(CWD, &path, flags, Mode::empty())
            .map_err(|errno| file("open", &path)(errno.into()))?;
        let parents = self
            .clones
            .and_then(|clones| clones.directory(directory.as_ref()));
        Ok(Place {
            directory,
            path,
            handle,
            parents,
        })
    }

    fn write_one(&self, objects: &Objects, place: &Place, piece: &Piece) -> Result<Written, Error> {
        let entry = &piece.entry;
        let name = entry.path.as_path().file_name();
        let name = name.expect("because an entry has a name");
        let shown = place.path.join(name);
        let time = times(piece.time.unwrap_or(self.fallback));
        let failed = |errno: rustix::io::Errno| file("write", &shown)(errno.into());
        let made = match entry.mode {
            TreeMode::File => write_file(objects, (place, name), piece, 0o644)?,
            TreeMode::Executable => write_file(objects, (place, name), piece, 0o755)?,
            TreeMode::Symlink | TreeMode::Gitlink => {
                if entry.mode == TreeMode::Symlink {
                    let text = objects
                        .read_blob(&entry.oid)
                        .map_err(|error| of_object((&entry.path, &entry.oid), error))?;
                    rustix::fs::symlinkat(text, &place.handle, name).map_err(failed)?;
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    rustix::fs::utimensat(&place.handle, name, &time, flags).map_err(failed)?;
                }
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let open = rustix::fs::openat(&place.handle, name, flags, Mode::empty());
                File::from(open.map_err(failed)?)
            }
        };
        if matches!(entry.mode, TreeMode::File | TreeMode::Executable) {
            rustix::fs::futimens(made.as_fd(), &time).map_err(failed)?;
        }
        let metadata = made.metadata().map_err(file("write", &shown))?;
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

/// Makes a file and gives it its bytes.
fn write_file(
    objects: &Objects,
    (place, name): (&Place, &OsStr),
    piece: &Piece,
    bits: u32,
) -> Result<File, Error> {
    let shown = place.path.join(name);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&place.handle, name, flags, Mode::from_raw_mode(bits))
        .map_err(|errno| file("write", &shown)(errno.into()))?;
    let mut out = File::from(fd);
    if let (Some(parents), Some(described)) = (&place.parents, &piece.described) {
        if clone_into(&out, (parents, name), described) {
            return Ok(out);
        }
        // What was cloned in between is not what was asked for.
        out.set_len(0).map_err(file("write", &shown))?;
    }
    let TreeEntry { path, oid, .. } = &piece.entry;
    objects
        .copy_blob(oid, piece.size, (&mut out, &shown))
        .map_err(|error| of_object((path, oid), error))?;
    Ok(out)
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
