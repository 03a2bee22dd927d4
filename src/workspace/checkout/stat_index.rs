//! The index inside a workspace: the parent's, right for the new files.
//!
//! Owns replacing the stat data of each entry whose content is what was
//! written, so that the first `git status` reads no file. All other entries
//! stay as the parent has them: what was staged, removed or in conflict there
//! is so here.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use git2::{IndexEntry, IndexTime, Oid};

use super::super::snapshot::FileTime;
use super::super::{Error, Order};
use super::writer::Written;
use crate::git;
use crate::model::{ObjectId, RepoPath, TreeMode};

/// The index of a workspace before its files are there.
pub(super) enum StatIndex {
    /// A copy of the parent's, with its entries by path.
    Copied(git2::Index, HashMap<Vec<u8>, IndexEntry>),
    /// To be made of the tree alone.
    Made(git2::Index),
    /// The parent has none.
    None,
}

impl StatIndex {
    /// When the parent's file was modified, where the index vouches that its
    /// content is this object.
    pub(super) fn modified(
        &self,
        path: &RepoPath,
        mode: TreeMode,
        oid: &ObjectId,
    ) -> Option<FileTime> {
        let Self::Copied(_, entries) = self else {
            return None;
        };
        let entry = entries
            .get(path.as_bytes())
            .filter(|entry| holds(entry, mode, oid))?;
        let nanos = entry.mtime.nanoseconds();
        (entry.mtime.seconds() > 0).then(|| (i64::from(entry.mtime.seconds()), nanos))
    }
}

fn holds(entry: &IndexEntry, mode: TreeMode, oid: &ObjectId) -> bool {
    entry.mode == mode.bits() && entry.id.to_string() == oid.as_str()
}

/// Opens the index at its place in the private git directory.
pub(super) fn open(order: &Order<'_>, git: &Path) -> Result<StatIndex, Error> {
    let target = git.join("index");
    match &order.snapshot.index {
        Some(copy) if copy.exists() => {
            let index = copy.open_at(order.repo, &target)?;
            let entries = index
                .iter()
                .filter(|entry| stage(entry) == 0)
                .map(|entry| (entry.path.clone(), entry))
                .collect();
            Ok(StatIndex::Copied(index, entries))
        }
        Some(_) => Ok(StatIndex::None),
        None => {
            let index = git2::Index::open(&target).map_err(failed(&target))?;
            Ok(StatIndex::Made(index))
        }
    }
}

/// Writes it, with the stat data of what was written.
pub(super) fn refresh(
    index: StatIndex,
    written: &[Written],
    order: &Order<'_>,
) -> Result<(), Error> {
    let shown = order.dir.join("tree/.git/index");
    let (mut index, mut entries) = match index {
        StatIndex::None => return Ok(()),
        StatIndex::Copied(index, entries) => (index, entries),
        StatIndex::Made(index) => (index, HashMap::new()),
    };
    let made = order.snapshot.index.is_none();
    for file in written {
        let known = entries.remove(file.path.as_bytes());
        let entry = match known {
            Some(entry) if holds(&entry, file.mode, &file.oid) => entry,
            None if made => blank(file).map_err(failed(&shown))?,
            Some(_) | None => continue,
        };
        index.add(&stamped(entry, file)).map_err(failed(&shown))?;
    }
    index.write().map_err(failed(&shown))?;
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(git2::Error) -> Error {
    let what = format!("write the index at `{}`", path.display());
    move |source| git::Error::Object { what, source }.into()
}

fn stage(entry: &IndexEntry) -> u16 {
    (entry.flags >> 12) & 3
}

fn blank(file: &Written) -> Result<IndexEntry, git2::Error> {
    Ok(IndexEntry {
        ctime: IndexTime::new(0, 0),
        mtime: IndexTime::new(0, 0),
        dev: 0,
        ino: 0,
        mode: file.mode.bits(),
        uid: 0,
        gid: 0,
        file_size: 0,
        id: Oid::from_str(file.oid.as_str())?,
        flags: 0,
        flags_extended: 0,
        path: file.path.as_bytes().to_vec(),
    })
}

/// Git keeps the low 32 bits of each number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the index format holds the low 32 bits of each number"
)]
fn stamped(mut entry: IndexEntry, file: &Written) -> IndexEntry {
    let Some(stat) = &file.stat else {
        return entry;
    };
    entry.ctime = IndexTime::new(stat.ctime() as i32, stat.ctime_nsec() as u32);
    entry.mtime = IndexTime::new(stat.mtime() as i32, stat.mtime_nsec() as u32);
    entry.dev = stat.dev() as u32;
    entry.ino = stat.ino() as u32;
    entry.uid = stat.uid();
    entry.gid = stat.gid();
    entry.file_size = stat.size() as u32;
    entry
}
