//! What integration needs of a repository's objects.
//!
//! Owns the trait and its plain values; the executor joins it to the door to
//! git, tests to a library. Trees are asked for differences, not for whole
//! listings, because a delta of ten paths must not cost a walk over ten
//! thousand.

use std::collections::BTreeMap;

use super::Error;
use crate::model::{ObjectId, RepoPath, TreeMode};

/// Why an object could not be read or written.
pub type ObjectError = Box<dyn std::error::Error + Send + Sync>;

/// One entry of a tree: what it is, and its object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// What it is.
    pub mode: TreeMode,
    /// Its object.
    pub oid: ObjectId,
}

/// One path that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which path.
    pub path: RepoPath,
    /// What stands there in the first tree.
    pub old: Option<Entry>,
    /// What stands there in the second.
    pub new: Option<Entry>,
}

/// One change to a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Puts this at the path.
    Put {
        /// Which path.
        path: RepoPath,
        /// What stands there then.
        entry: Entry,
    },
    /// Takes away what stands at the path.
    Remove {
        /// Which path.
        path: RepoPath,
    },
}

/// Reads and writes the objects of one repository.
pub trait ObjectStore {
    /// The bytes of a blob.
    ///
    /// # Errors
    /// It is missing or cannot be read.
    fn read_blob(&self, id: &ObjectId) -> Result<Vec<u8>, ObjectError>;

    /// Writes a blob.
    ///
    /// # Errors
    /// It cannot be written.
    fn write_blob(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError>;

    /// What stands at a path of a tree; `None` for nothing and for a directory.
    ///
    /// # Errors
    /// A tree is missing.
    fn entry(&self, tree: &ObjectId, path: &RepoPath) -> Result<Option<Entry>, ObjectError>;

    /// All entries of a tree, subtrees entered.
    ///
    /// # Errors
    /// A tree is missing or holds a name that is no path.
    fn entries(&self, tree: &ObjectId) -> Result<Vec<(RepoPath, Entry)>, ObjectError>;

    /// The paths that differ between two trees, renames not paired, by path.
    ///
    /// # Errors
    /// As [`ObjectStore::entries`].
    fn differences(&self, old: &ObjectId, new: &ObjectId) -> Result<Vec<Difference>, ObjectError> {
        let mut before: BTreeMap<_, _> = self.entries(old)?.into_iter().collect();
        let mut found = Vec::new();
        for (path, entry) in self.entries(new)? {
            let was = before.remove(&path);
            if was.as_ref() != Some(&entry) {
                found.push(Difference {
                    path,
                    old: was,
                    new: Some(entry),
                });
            }
        }
        let gone = |(path, entry)| Difference {
            path,
            old: Some(entry),
            new: None,
        };
        found.extend(before.into_iter().map(gone));
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Where the paths that the second tree renamed stand in it, as
    /// `git diff -M50%` pairs them.
    ///
    /// # Errors
    /// As [`ObjectStore::entries`].
    fn renamed_to(&self, old: &ObjectId, new: &ObjectId) -> Result<Vec<RepoPath>, ObjectError>;

    /// A tree with some changes; removals happen before additions, and
    /// removing what is not there changes nothing.
    ///
    /// # Errors
    /// It cannot be written.
    fn edit_tree(&self, tree: &ObjectId, edits: &[Edit]) -> Result<ObjectId, ObjectError>;
}

/// Reads a blob, and names it where that fails.
pub(super) fn read(objects: &impl ObjectStore, id: &ObjectId) -> Result<Vec<u8>, Error> {
    let failed = object_error("read the blob", id);
    objects.read_blob(id).map_err(failed)
}

/// Compares two trees, and names the second where that fails.
pub(super) fn differences(
    objects: &impl ObjectStore,
    old: &ObjectId,
    new: &ObjectId,
) -> Result<Vec<Difference>, Error> {
    let failed = object_error("compare the tree", new);
    objects.differences(old, new).map_err(failed)
}

/// Looks at one path of a tree, and names the tree where that fails.
pub(super) fn entry(
    objects: &impl ObjectStore,
    tree: &ObjectId,
    path: &RepoPath,
) -> Result<Option<Entry>, Error> {
    let failed = object_error("read the tree", tree);
    objects.entry(tree, path).map_err(failed)
}

/// Makes the constructor for a failed operation on an object.
pub(super) fn object_error(
    action: &'static str,
    id: &ObjectId,
) -> impl FnOnce(ObjectError) -> Error {
    let id = id.clone();
    move |source| Error::Object { action, id, source }
}

/// Whether git takes these bytes for no text: a NUL in the first 8 000.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8000).any(|b| *b == 0)
}
