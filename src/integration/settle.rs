//! Settles conflicts in favour of one side, because the caller asked for it.
//!
//! Owns the tree that follows from `ours` and `theirs`. In text the chosen
//! side wins only where both changed, by `git merge-file`; of everything else
//! its whole version stands. A file that was added into a renamed directory
//! stays where git suggests: no side's choice there is a deletion.

use std::collections::BTreeMap;

use super::classify::{Group, versions};
use super::objects::{entry, is_binary, object_error, read};
use super::verify::Deltas;
use super::{Edit, Entry, Error, ObjectStore, Proposal};
use crate::git::{Favour, MergeSpace, TreeMerge, Versions};
use crate::model::{ConflictKind, ObjectId, RepoPath, TreeMode};

/// What settling reads from.
pub(super) struct Settling<'a> {
    pub(super) space: &'a MergeSpace,
    pub(super) proposal: &'a Proposal<'a>,
    pub(super) merge: &'a TreeMerge,
    pub(super) deltas: &'a Deltas,
    pub(super) favour: Favour,
}

impl Settling<'_> {
    /// The merged tree with every conflict settled.
    pub(super) fn tree(
        &self,
        objects: &impl ObjectStore,
        groups: &[Group],
    ) -> Result<ObjectId, Error> {
        let mut chosen: BTreeMap<RepoPath, Option<Entry>> = BTreeMap::new();
        for group in groups {
            if group.kind == ConflictKind::DirectoryRename {
                continue;
            }
            if let Some(text) = self.text(objects, &group.path)? {
                chosen.insert(group.path.clone(), Some(text));
                continue;
            }
            for path in &group.paths {
                let whole = entry(objects, self.side(), path)?;
                if whole.is_some() {
                    // A file takes the place of a directory, with all in it.
                    chosen.extend(self.beneath(path).map(|inner| (inner, None)));
                }
                chosen.insert(path.clone(), whole);
            }
        }
        let edits: Vec<_> = chosen.into_iter().map(edit).collect();
        let failed = object_error("edit the tree", &self.merge.tree);
        objects.edit_tree(&self.merge.tree, &edits).map_err(failed)
    }

    fn side(&self) -> &ObjectId {
        match self.favour {
            Favour::Ours => self.proposal.ours_tree,
            Favour::Theirs => self.proposal.theirs_tree,
        }
    }

    /// The text of a path that both sides have as text, merged by lines.
    fn text(&self, objects: &impl ObjectStore, path: &RepoPath) -> Result<Option<Entry>, Error> {
        let [base, Some(ours), Some(theirs)] = versions(path, self.merge) else {
            return Ok(None);
        };
        let regular = |mode| matches!(mode, TreeMode::File | TreeMode::Executable);
        if !regular(ours.mode) || !regular(theirs.mode) {
            return Ok(None);
        }
        let mode = match (self.favour, base) {
            (Favour::Ours, Some(base)) if base.mode == ours.mode => theirs.mode,
            (Favour::Theirs, Some(base)) if base.mode != theirs.mode => theirs.mode,
            (Favour::Ours, _) | (Favour::Theirs, Some(_)) => ours.mode,
            (Favour::Theirs, None) => theirs.mode,
        };
        let base = match base {
            Some(base) if regular(base.mode) => read(objects, &base.oid)?,
            Some(_) | None => Vec::new(),
        };
        let (ours, theirs) = (read(objects, &ours.oid)?, read(objects, &theirs.oid)?);
        if [&base, &ours, &theirs]
            .into_iter()
            .any(|text| is_binary(text))
        {
            return Ok(None);
        }
        let versions = Versions {
            base: &base,
            ours: &ours,
            theirs: &theirs,
        };
        let merged = self
            .space
            .merge_file(versions, self.favour)
            .map_err(|source| Error::Settle {
                path: path.to_string(),
                source,
            })?;
        let oid = objects
            .write_blob(&merged)
            .map_err(|source| Error::NewObject { source })?;
        Ok(Some(Entry { mode, oid }))
    }

    /// Every path inside `directory` that the merge may hold.
    fn beneath<'b>(&'b self, directory: &'b RepoPath) -> impl Iterator<Item = RepoPath> + 'b {
        let all = [&self.deltas.ours, &self.deltas.theirs, &self.deltas.merged];
        all.into_iter()
            .flat_map(BTreeMap::keys)
            .filter(move |path| path.is_within(directory) && *path != directory)
            .cloned()
    }
}

fn edit((path, entry): (RepoPath, Option<Entry>)) -> Edit {
    match entry {
        Some(entry) => Edit::Put { path, entry },
        None => Edit::Remove { path },
    }
}
