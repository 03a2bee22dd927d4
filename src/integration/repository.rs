//! Joins integration to the door to git.
//!
//! Owns nothing but the translation of words: the trait's questions are
//! answered by [`Objects`], in process, and cost what differs.

use super::objects::{Difference, Edit, Entry, ObjectError, ObjectStore};
use crate::git::{Objects, Renames, TreeEdit};
use crate::model::{ChangeKind, ObjectId, RepoPath};

impl ObjectStore for Objects {
    fn read_blob(&self, id: &ObjectId) -> Result<Vec<u8>, ObjectError> {
        Ok(Objects::read_blob(self, id)?)
    }

    fn write_blob(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        Ok(Objects::write_blob(self, bytes)?)
    }

    fn entry(&self, tree: &ObjectId, path: &RepoPath) -> Result<Option<Entry>, ObjectError> {
        let found = Objects::entry(self, tree, path)?;
        Ok(found.map(|entry| Entry {
            mode: entry.mode,
            oid: entry.oid,
        }))
    }

    fn entries(&self, tree: &ObjectId) -> Result<Vec<(RepoPath, Entry)>, ObjectError> {
        let found = Objects::entries(self, tree)?.into_iter();
        Ok(found
            .map(|entry| {
                (
                    entry.path,
                    Entry {
                        mode: entry.mode,
                        oid: entry.oid,
                    },
                )
            })
            .collect())
    }

    fn differences(&self, old: &ObjectId, new: &ObjectId) -> Result<Vec<Difference>, ObjectError> {
        let entry = |(mode, oid)| Entry { mode, oid };
        let found = Objects::differences(self, old, new)?.into_iter();
        Ok(found
            .map(|one| Difference {
                path: one.path,
                old: one.old.map(entry),
                new: one.new.map(entry),
            })
            .collect())
    }

    fn renamed_to(&self, old: &ObjectId, new: &ObjectId) -> Result<Vec<RepoPath>, ObjectError> {
        let renamed = self
            .diff(old, new, Renames::Find)?
            .into_iter()
            .filter(|change| change.kind == ChangeKind::Renamed);
        renamed
            .map(|change| change.path.to_path().map_err(ObjectError::from))
            .collect()
    }

    fn edit_tree(&self, tree: &ObjectId, edits: &[Edit]) -> Result<ObjectId, ObjectError> {
        let edits: Vec<TreeEdit> = edits
            .iter()
            .map(|edit| match edit {
                Edit::Put { path, entry } => TreeEdit::Put {
                    path: path.clone(),
                    mode: entry.mode,
                    oid: entry.oid.clone(),
                },
                Edit::Remove { path } => TreeEdit::Remove { path: path.clone() },
            })
            .collect();
        Ok(Objects::edit_tree(self, tree, &edits)?)
    }
}
