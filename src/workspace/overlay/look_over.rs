//! Whether a shared checkout is what was made.
//!
//! Owns looking at every file and directory of it: what `lstat` says must be
//! what its index and a list of directories say. The change time cannot be set
//! by a program, so whoever edits, replaces, adds or removes something is
//! found out, and so is whoever changes a mode or an owner. Reads no file's
//! bytes and repairs nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat, statat};

use super::super::Error;
use super::super::error::file;
use super::base::index_of;
use crate::git::{IndexFile, IndexFileRow, IndexRow, IndexStat, ObjectFormat};

/// The list of directories, beside the files.
const LIST: &str = "directories";
const END: &[u8] = b"end";

/// Writes down what the directories of a finished checkout are.
pub(super) fn note(dir: &Path, rows: &[IndexRow]) -> Result<(), Error> {
    let files = dir.join("tree");
    let mut directories: BTreeSet<Vec<u8>> = [b".".to_vec(), b".git".to_vec()].into();
    for row in rows {
        let mut parent = row.entry.path.parent();
        while let Some(directory) = parent {
            parent = directory.parent();
            if !directories.insert(directory.as_bytes().to_vec()) {
                break;
            }
        }
        // A submodule is a directory, of which the index knows nothing.
        if row.stat.is_none() {
            directories.insert(row.entry.path.as_bytes().to_vec());
        }
    }
    let path = dir.join(LIST);
    let handle = open(&files).map_err(file("open", &files))?;
    let write = || -> io::Result<()> {
        let mut out = io::BufWriter::new(fs::File::create(&path)?);
        for name in [b".git/index".to_vec()].iter().chain(&directories) {
            out.write_all(known(handle.as_fd(), name)?.as_bytes())?;
            out.write_all(b" ")?;
            out.write_all(name)?;
            out.write_all(b"\0")?;
        }
        out.write_all(END)?;
        out.flush()
    };
    write().map_err(file("write", &path))
}

/// Whether every file and directory is as it was made. What cannot be read is
/// not.
pub(super) fn is_untouched(dir: &Path, format: ObjectFormat) -> bool {
    let files = dir.join("tree");
    let Ok(handle) = open(&files) else {
        return false;
    };
    // The index first: it says what the files are to be.
    directories_are(handle.as_fd(), &dir.join(LIST))
        && IndexFile::read(&index_of(&files), format).is_ok_and(|index| {
            index
                .rows()
                .is_ok_and(|rows| files_are(handle.as_fd(), &rows))
        })
}

/// Whether every directory is as it was made, and the index: what was removed,
/// added or replaced shows there, what was edited in place does not.
pub(super) fn keeps_its_directories(dir: &Path) -> bool {
    open(&dir.join("tree")).is_ok_and(|handle| directories_are(handle.as_fd(), &dir.join(LIST)))
}

fn open(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
}

fn look(top: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<Stat> {
    statat(
        top,
        std::ffi::OsStr::from_bytes(path),
        AtFlags::SYMLINK_NOFOLLOW,
    )
}

/// A directory, or the index, as the list knows it again.
fn known(top: BorrowedFd<'_>, path: &[u8]) -> io::Result<String> {
    let stat = look(top, path)?;
    Ok(format!(
        "{} {} {} {} {} {}",
        stat.st_ino, stat.st_ctime, stat.st_ctime_nsec, stat.st_mode, stat.st_uid, stat.st_size
    ))
}

fn directories_are(top: BorrowedFd<'_>, list: &Path) -> bool {
    let Ok(list) = fs::read(list) else {
        return false;
    };
    // A list that was cut short vouches for nothing.
    let Some(records) = list.strip_suffix(END) else {
        return false;
    };
    records
        .split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
        .all(|record| {
            let path = record.splitn(7, |byte| *byte == b' ').nth(6);
            path.is_some_and(|path| {
                known(top, path).is_ok_and(|now| {
                    record.starts_with(now.as_bytes()) && record.len() == now.len() + 1 + path.len()
                })
            })
        })
}

/// Whether files that follow each other in the index are what it says. Most
/// are in the directory of the one before, which need not be found again.
fn part_is(top: BorrowedFd<'_>, part: &[IndexFileRow<'_>]) -> bool {
    let mut open: Option<(&[u8], OwnedFd)> = None;
    part.iter().filter(|row| !row.is_submodule()).all(|row| {
        let slash = row.path.iter().rposition(|byte| *byte == b'/');
        let (directory, name) = match slash {
            Some(at) => (&row.path[..at], &row.path[at + 1..]),
            None => (b".".as_slice(), row.path),
        };
        if open.as_ref().is_none_or(|(last, _)| *last != directory) {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH | OFlags::CLOEXEC;
            let path = std::ffi::OsStr::from_bytes(directory);
            open = openat(top, path, flags, Mode::empty())
                .ok()
                .map(|handle| (directory, handle));
        }
        open.as_ref().is_some_and(|(_, handle)| {
            look(handle.as_fd(), name).is_ok_and(|stat| IndexStat::of_stat(&stat) == row.stat)
        })
    })
}

/// Lets git's threads go first. Its status, which is asked beside this, looks at
/// files with all processors and then at directories with one: this look fits
/// beside the second half and only delays the first.
fn step_back() {
    // On Linux a nice value is the thread's own (setpriority(2), "C library/kernel differences").
    // One that stays where it was looks all the same.
    let _later = rustix::process::nice(10);
}

fn files_are(top: BorrowedFd<'_>, rows: &[IndexFileRow<'_>]) -> bool {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = rows.len().div_ceil(threads).max(256);
    std::thread::scope(|scope| {
        let running: Vec<_> = rows
            .chunks(share)
            .map(|part| {
                scope.spawn(move || {
                    step_back();
                    part_is(top, part)
                })
            })
            .collect();
        running
            .into_iter()
            .all(|thread| thread.join().expect("because looking cannot panic"))
    })
}
