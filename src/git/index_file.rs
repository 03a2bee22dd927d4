//! Index files that we make ourselves, and read again.
//!
//! Owns the second version of git's index format, as far as one that lists a
//! tree needs it: entries without flags, and the tree's own object ids, so
//! that neither the first `git status` nor a commit has to read trees. It is
//! also where the identity of every file of a shared checkout is kept. Never
//! reads an index that somebody else made: those have flags, stages and
//! extensions, and are git's to read.
//!
//! The format: `gitformat-index(5)`.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use git2::Oid;

use super::objects::{from_raw, to_raw};
use super::{Error, ObjectFormat, Objects, TreeEntry};
use crate::model::{ObjectId, RepoPath, TreeMode};

const SIGNATURE: &[u8; 4] = b"DIRC";
const VERSION: u32 = 2;
/// Bytes of an entry before its path, the id aside.
const FIXED: usize = 42;
/// The longest path length that an entry's flags hold; longer ones say this.
const LONGEST: usize = 0xfff;

/// How a file is known again: what git keeps of `lstat`, the low 32 bits of
/// each number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexStat([u32; 9]);

impl IndexStat {
    /// Of the numbers in the order of the format, without the mode.
    pub(super) fn from_numbers(numbers: [u32; 9]) -> Self {
        Self(numbers)
    }

    /// Of what `lstat` answered.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self([
            low(metadata.ctime()),
            low(metadata.ctime_nsec()),
            low(metadata.mtime()),
            low(metadata.mtime_nsec()),
            low(metadata.dev()),
            low(metadata.ino()),
            metadata.uid(),
            metadata.gid(),
            low(metadata.size()),
        ])
    }

    /// The same, as the system call itself answers.
    #[must_use]
    pub fn of_stat(stat: &rustix::fs::Stat) -> Self {
        Self([
            low(stat.st_ctime),
            low(stat.st_ctime_nsec),
            low(stat.st_mtime),
            low(stat.st_mtime_nsec),
            low(stat.st_dev),
            low(stat.st_ino),
            stat.st_uid,
            stat.st_gid,
            low(stat.st_size),
        ])
    }

    /// What an entry of another index says.
    #[must_use]
    pub fn of_entry(entry: &git2::IndexEntry) -> Self {
        Self([
            entry.ctime.seconds().cast_unsigned(),
            entry.ctime.nanoseconds(),
            entry.mtime.seconds().cast_unsigned(),
            entry.mtime.nanoseconds(),
            entry.dev,
            entry.ino,
            entry.uid,
            entry.gid,
            entry.file_size,
        ])
    }

    /// Puts it into an entry of another index.
    pub fn stamp(&self, entry: &mut git2::IndexEntry) {
        let [ctime, ctime_ns, mtime, mtime_ns, dev, ino, uid, gid, size] = self.0;
        entry.ctime = git2::IndexTime::new(ctime.cast_signed(), ctime_ns);
        entry.mtime = git2::IndexTime::new(mtime.cast_signed(), mtime_ns);
        (entry.dev, entry.ino) = (dev, ino);
        (entry.uid, entry.gid) = (uid, gid);
        entry.file_size = size;
    }

    /// When the file was modified: seconds, as far as the format holds them,
    /// and nanoseconds.
    #[must_use]
    pub fn modified(&self) -> (i64, u32) {
        (i64::from(self.0[2]), self.0[3])
    }

    /// The low 32 bits of its size.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.0[8]
    }

    /// Whether the file was modified or changed when the index was written, or
    /// later: it may have been changed again unseen.
    #[must_use]
    pub fn is_racy(&self, index_written: (i64, u32)) -> bool {
        let changed = (i64::from(self.0[0]), self.0[1]);
        changed >= index_written || self.modified() >= index_written
    }
}

/// The low 32 bits, which is what the format holds of each number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the rest is left out on purpose"
)]
fn low(number: impl Into<i128>) -> u32 {
    number.into() as u32
}

/// One entry of such an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRow {
    /// The entry of the tree.
    pub entry: TreeEntry,
    /// What is known of the file; without it git looks at its bytes.
    pub stat: Option<IndexStat>,
}

impl Objects {
    /// Writes an index that lists a tree, replacing the file as a whole.
    ///
    /// `rows` are the tree's entries, all of them, in any order.
    ///
    /// # Errors
    /// A tree is missing or damaged; a number does not fit the format; or the
    /// file cannot be written.
    pub fn write_index(
        &self,
        path: &Path,
        tree: &ObjectId,
        rows: &[IndexRow],
    ) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(rows.len() * 100);
        bytes.extend_from_slice(SIGNATURE);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        let count = u32::try_from(rows.len()).map_err(|_| unfit(path))?;
        bytes.extend_from_slice(&count.to_be_bytes());
        let mut sorted: Vec<&IndexRow> = rows.iter().collect();
        sorted.sort_unstable_by(|a, b| a.entry.path.cmp(&b.entry.path));
        for row in sorted {
            append(&mut bytes, row)?;
        }
        let mut cached = Vec::new();
        // Entries that git would not check out are not listed; then the ids
        // of the trees say more than the entries do.
        if self.cache_tree(&mut cached, b"", self.to_raw(tree)?)? == rows.len() {
            let length = u32::try_from(cached.len()).map_err(|_| unfit(path))?;
            bytes.extend_from_slice(b"TREE");
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&cached);
        }
        let checksum = self.format.checksum(&bytes);
        bytes.extend_from_slice(&checksum);
        let temporary = path.with_extension("new");
        fs::write(&temporary, &bytes).map_err(Error::file("write", &temporary))?;
        fs::rename(&temporary, path).map_err(Error::file("write", path))
    }

    /// Appends what the index says of a tree and all trees below it; returns
    /// how many entries it has.
    fn cache_tree(&self, into: &mut Vec<u8>, name: &[u8], oid: Oid) -> Result<usize, Error> {
        let entries = self.raw_tree(oid)?;
        let (mut count, mut subtrees) = (0, 0_usize);
        let mut below = Vec::new();
        for entry in entries {
            if entry.is_tree() {
                subtrees += 1;
                count += self.cache_tree(&mut below, &entry.name, entry.oid)?;
            } else {
                count += 1;
            }
        }
        into.extend_from_slice(name);
        into.extend_from_slice(format!("\0{count} {subtrees}\n").as_bytes());
        into.extend_from_slice(oid.as_bytes());
        into.append(&mut below);
        Ok(count)
    }
}

fn append(bytes: &mut Vec<u8>, row: &IndexRow) -> Result<(), Error> {
    let start = bytes.len();
    let [ctime, ctime_ns, mtime, mtime_ns, dev, ino, uid, gid, size] =
        row.stat.unwrap_or_default().0;
    let mode = row.entry.mode.bits();
    for number in [
        ctime, ctime_ns, mtime, mtime_ns, dev, ino, mode, uid, gid, size,
    ] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(to_raw(&row.entry.oid)?.as_bytes());
    let name = row.entry.path.as_bytes();
    let length = u16::try_from(name.len().min(LONGEST)).expect("because it is at most 4095");
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(name);
    // One to eight, so that there is always a zero and entries are aligned.
    let padding = 8 - (bytes.len() - start) % 8;
    bytes.resize(bytes.len() + padding, 0);
    Ok(())
}

/// An index that [`Objects::write_index`] made, in memory.
#[derive(Debug)]
pub struct IndexFile {
    bytes: Vec<u8>,
    format: ObjectFormat,
    shown: PathBuf,
}

/// One entry of it, as it stands there.
#[derive(Debug, Clone, Copy)]
pub struct IndexFileRow<'a> {
    /// The path.
    pub path: &'a [u8],
    /// What was known of the file.
    pub stat: IndexStat,
    mode: u32,
    oid: Oid,
}

impl IndexFileRow<'_> {
    /// The entry of the tree; `None` when nothing of ours wrote it.
    #[must_use]
    pub fn entry(&self) -> Option<TreeEntry> {
        Some(TreeEntry {
            path: RepoPath::from_bytes(self.path).ok()?,
            mode: TreeMode::from_bits(self.mode)?,
            oid: from_raw(self.oid),
        })
    }

    /// Whether it is a submodule, of which nothing is known.
    #[must_use]
    pub fn is_submodule(&self) -> bool {
        TreeMode::from_bits(self.mode) == Some(TreeMode::Gitlink)
    }
}

impl IndexFile {
    /// Reads one of a repository of that format. Its checksum is git's to look
    /// at.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path, format: ObjectFormat) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(Error::file("read", path))?;
        let shown = path.to_owned();
        Ok(Self {
            bytes,
            format,
            shown,
        })
    }

    /// Its entries, sorted by path.
    ///
    /// # Errors
    /// It is not as it was written.
    pub fn rows(&self) -> Result<Vec<IndexFileRow<'_>>, Error> {
        rows(&self.bytes, self.format.id_length()).ok_or_else(|| Error::Malformed {
            what: format!("`{}`", self.shown.display()),
        })
    }
}

fn rows(bytes: &[u8], id: usize) -> Option<Vec<IndexFileRow<'_>>> {
    let fixed = FIXED + id;
    let mut rest = bytes.strip_prefix(SIGNATURE)?;
    if number(&mut rest)? != VERSION {
        return None;
    }
    let count = usize::try_from(number(&mut rest)?).ok()?;
    if bytes.len() < count.checked_mul(fixed)? {
        return None;
    }
    let mut found = Vec::with_capacity(count);
    for _ in 0..count {
        let entry = rest;
        let mut numbers = [0; 10];
        for place in &mut numbers {
            *place = number(&mut rest)?;
        }
        let [
            ctime,
            ctime_ns,
            mtime,
            mtime_ns,
            dev,
            ino,
            mode,
            uid,
            gid,
            size,
        ] = numbers;
        let path = entry.get(fixed..)?;
        let length = path.iter().position(|byte| *byte == 0)?;
        let whole = fixed + length;
        found.push(IndexFileRow {
            path: &path[..length],
            stat: IndexStat([ctime, ctime_ns, mtime, mtime_ns, dev, ino, uid, gid, size]),
            mode,
            oid: Oid::from_bytes(rest.get(..id)?).ok()?,
        });
        rest = entry.get(whole + 8 - whole % 8..)?;
    }
    Some(found)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_be_bytes(*number))
}

fn unfit(path: &Path) -> Error {
    Error::Malformed {
        what: format!("`{}`: too large for an index", path.display()),
    }
}
