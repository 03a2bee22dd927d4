//! Objects by the library, for tests.
//!
//! Owns the test's implementation of [`ObjectStore`]. Differences are computed
//! tree by tree, so equal subtrees are never entered.

use std::str::FromStr;

use crate::integration::{Difference, Edit, Entry, ObjectError, ObjectStore};
use crate::model::{ObjectId, RepoPath, TreeMode};

pub(super) struct Store(pub(super) git2::Repository);

fn id(oid: git2::Oid) -> ObjectId {
    ObjectId::from_str(&oid.to_string()).expect("because the library prints ids")
}

fn oid(id: &ObjectId) -> Result<git2::Oid, git2::Error> {
    git2::Oid::from_str(id.as_str())
}

impl Store {
    pub(super) fn empty_tree(&self) -> ObjectId {
        let builder = self.0.treebuilder(None);
        let written = builder.and_then(|builder| builder.write());
        id(written.expect("because objects can be written"))
    }

    fn index(&self, tree: &ObjectId) -> Result<git2::Index, ObjectError> {
        let mut index = git2::Index::new()?;
        index.read_tree(&self.0.find_tree(oid(tree)?)?)?;
        Ok(index)
    }

    fn diff(&self, old: &ObjectId, new: &ObjectId) -> Result<git2::Diff<'_>, ObjectError> {
        let (old, new) = (self.0.find_tree(oid(old)?)?, self.0.find_tree(oid(new)?)?);
        let mut options = git2::DiffOptions::new();
        options.include_typechange(true).skip_binary_check(true);
        let diff = self
            .0
            .diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options))?;
        Ok(diff)
    }
}

fn entry(file: &git2::DiffFile<'_>) -> Option<Entry> {
    let mode = TreeMode::from_bits(u32::from(file.mode()))?;
    (!file.id().is_zero()).then(|| Entry {
        mode,
        oid: id(file.id()),
    })
}

impl ObjectStore for Store {
    fn read_blob(&self, id: &ObjectId) -> Result<Vec<u8>, ObjectError> {
        Ok(self.0.find_blob(oid(id)?)?.content().to_vec())
    }

    fn write_blob(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        Ok(id(self.0.blob(bytes)?))
    }

    fn entry(&self, tree: &ObjectId, path: &RepoPath) -> Result<Option<Entry>, ObjectError> {
        let tree = self.0.find_tree(oid(tree)?)?;
        match tree.get_path(path.as_path()) {
            Ok(found) => {
                let bits = u32::try_from(found.filemode())?;
                Ok(TreeMode::from_bits(bits).map(|mode| Entry {
                    mode,
                    oid: id(found.id()),
                }))
            }
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn entries(&self, tree: &ObjectId) -> Result<Vec<(RepoPath, Entry)>, ObjectError> {
        let mut found = Vec::new();
        for entry in self.index(tree)?.iter() {
            let mode = TreeMode::from_bits(entry.mode).ok_or("a mode that is none")?;
            let oid = id(entry.id);
            found.push((RepoPath::from_bytes(&entry.path)?, Entry { mode, oid }));
        }
        Ok(found)
    }

    fn differences(&self, old: &ObjectId, new: &ObjectId) -> Result<Vec<Difference>, ObjectError> {
        let mut found = Vec::new();
        for delta in self.diff(old, new)?.deltas() {
            let file = delta.new_file().path_bytes().ok_or("a path that is none")?;
            found.push(Difference {
                path: RepoPath::from_bytes(file)?,
                old: entry(&delta.old_file()),
                new: entry(&delta.new_file()),
            });
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn renamed_to(&self, old: &ObjectId, new: &ObjectId) -> Result<Vec<RepoPath>, ObjectError> {
        let mut diff = self.diff(old, new)?;
        diff.find_similar(Some(git2::DiffFindOptions::new().renames(true)))?;
        let renamed = diff.deltas().filter(|d| d.status() == git2::Delta::Renamed);
        let path = |d: git2::DiffDelta<'_>| {
            let bytes = d.new_file().path_bytes().unwrap_or_default().to_vec();
            Ok(RepoPath::from_bytes(&bytes)?)
        };
        renamed.map(path).collect()
    }

    fn edit_tree(&self, tree: &ObjectId, edits: &[Edit]) -> Result<ObjectId, ObjectError> {
        let mut index = self.index(tree)?;
        for edit in edits {
            if let Edit::Remove { path } = edit
                && index.get_path(path.as_path(), 0).is_some()
            {
                index.remove(path.as_path(), 0)?;
            }
        }
        for edit in edits {
            if let Edit::Put { path, entry } = edit {
                index.add(&git2::IndexEntry {
                    ctime: git2::IndexTime::new(0, 0),
                    mtime: git2::IndexTime::new(0, 0),
                    dev: 0,
                    ino: 0,
                    mode: entry.mode.bits(),
                    uid: 0,
                    gid: 0,
                    file_size: 0,
                    id: oid(&entry.oid)?,
                    flags: 0,
                    flags_extended: 0,
                    path: path.as_bytes().to_vec(),
                })?;
            }
        }
        Ok(id(index.write_tree_to(&self.0)?))
    }
}
