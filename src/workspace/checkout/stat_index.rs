//! The index inside a workspace: the parent's, right for the new files.
//!
//! Owns replacing the stat data of each entry whose content is what was
//! written, so that the first `git status` reads no file. All other entries
//! stay as the parent has them: what was staged, removed or in conflict there
//! is so here.

use std::collections::HashMap;
use std::path::Path;

use git2::IndexEntry;

use super::super::snapshot::FileTime;
use super::super::{Error, IndexCopy, Snapshot};
use super::writer::Piece;
use crate::git::{self, IndexRow, IndexStat, Repository, TreeEntry};
use crate::model::{ObjectId, RepoPath, TreeMode};

/// The index of a workspace before its files are there.
pub(in super::super) enum StatIndex {
    /// A copy of the parent's, with its entries by path.
    Copied(git2::Index, HashMap<Vec<u8>, IndexEntry>),
    /// To be made of the tree alone.
    Made,
    /// The parent has none.
    None,
}

impl StatIndex {
    /// What the index says of the parent's file at an entry's path, where it
    /// vouches that its content is the entry's object.
    fn vouched(&self, entry: &TreeEntry) -> Option<IndexStat> {
        let Self::Copied(_, known) = self else {
            return None;
        };
        let TreeEntry { path, mode, oid } = entry;
        let found = known.get(path.as_bytes());
        found
            .filter(|found| holds(found, *mode, oid))
            .map(IndexStat::of_entry)
    }

    /// An entry to be written, with all that is known of the parent's file.
    pub(super) fn piece(&self, entry: TreeEntry, snapshot: &Snapshot) -> Piece {
        let vouched = self.vouched(&entry);
        let modified = vouched.map(|stat| stat.modified());
        let seen = snapshot.seen.get(&entry.path).copied();
        let written = snapshot.index.as_ref().map(IndexCopy::written);
        Piece {
            time: seen.or(modified.filter(|(seconds, _)| *seconds > 0)),
            size: vouched.map(|stat| stat.size().into()),
            described: vouched.filter(|stat| written.is_some_and(|written| !stat.is_racy(written))),
            entry,
        }
    }

    /// When the parent's file was modified, where the index vouches that its
    /// content is this object.
    pub(in super::super) fn modified(
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

/// Opens the parent's index, copied to a place of ours.
pub(in super::super) fn open(
    repo: &Repository,
    index: Option<&IndexCopy>,
    target: &Path,
) -> Result<StatIndex, Error> {
    match index {
        Some(copy) if copy.exists() => {
            let index = copy.open_at(repo, target)?;
            let entries = index
                .iter()
                .filter(|entry| stage(entry) == 0)
                .map(|entry| (entry.path.clone(), entry))
                .collect();
            Ok(StatIndex::Copied(index, entries))
        }
        Some(_) => Ok(StatIndex::None),
        None => Ok(StatIndex::Made),
    }
}

/// Writes it to that place, with what is known of the files there are.
///
/// `tree` is what an index is made of that the parent has none for; all of
/// its entries are among the rows then.
pub(in super::super) fn refresh(
    index: StatIndex,
    rows: &[IndexRow],
    (repo, tree, target): (&Repository, &ObjectId, &Path),
) -> Result<(), Error> {
    let (mut index, mut entries) = match index {
        StatIndex::None => return Ok(()),
        StatIndex::Copied(index, entries) => (index, entries),
        StatIndex::Made => return Ok(repo.objects()?.write_index(target, tree, rows)?),
    };
    for row in rows {
        let TreeEntry { path, mode, oid } = &row.entry;
        let Some(stat) = &row.stat else { continue };
        if let Some(mut entry) = entries.remove(path.as_bytes())
            && holds(&entry, *mode, oid)
        {
            stat.stamp(&mut entry);
            index.add(&entry).map_err(failed(target))?;
        }
    }
    index.write().map_err(failed(target))?;
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(git2::Error) -> Error {
    let what = format!("write the index at `{}`", path.display());
    move |source| git::Error::Object { what, source }.into()
}

fn stage(entry: &IndexEntry) -> u16 {
    (entry.flags >> 12) & 3
}
