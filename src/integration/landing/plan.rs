//! Turns the difference of two trees into steps.
//!
//! Owns the order: deletions, deepest first; directories that they emptied;
//! new directories; then files and links. So a file can take the place of a
//! directory and the other way round. Reads blobs and looks at the tree's
//! directories; writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::content::Content;
use super::lines::{Act, Step};
use crate::integration::objects::read;
use crate::integration::{Difference, Entry, Error, ObjectStore};
use crate::model::{ObjectId, RepoPath, TreeMode};
use crate::store::{Kind, Root};

/// What is to be done.
pub(super) struct Plan {
    /// The steps, in their order; inodes are not known yet.
    pub(super) steps: Vec<(RepoPath, Act)>,
    /// The new content of each staged path.
    pub(super) staged: BTreeMap<RepoPath, Entry>,
    /// Every path that is deleted.
    pub(super) deleted: BTreeSet<RepoPath>,
    /// Every directory that is removed once it is empty.
    pub(super) emptied: BTreeSet<RepoPath>,
    /// Submodules that the trees move: reported, never entered.
    pub(super) submodules: Vec<RepoPath>,
}

impl Plan {
    /// The steps with their slots; `inode` knows the new file of a slot.
    pub(super) fn steps(&self, inode: impl Fn(u32) -> u64) -> Vec<Step> {
        let numbered = self.steps.iter().zip(0_u32..);
        let step = |((path, act), slot): (&(RepoPath, Act), u32)| {
            let mut act = act.clone();
            if let Act::Replace { inode: known, .. } = &mut act {
                *known = inode(slot);
            }
            Step::new(slot, path, act)
        };
        numbered.map(step).collect()
    }
}

/// Plans the way from one tree to the other.
pub(super) fn plan(
    objects: &impl ObjectStore,
    root: &Root,
    delta: &[Difference],
) -> Result<Plan, Error> {
    let mut parts = Parts::default();
    for change in delta {
        parts.add(objects, change)?;
    }
    let kept: BTreeSet<_> = parts
        .files
        .keys()
        .chain(&parts.makes)
        .flat_map(above)
        .collect();
    parts.emptied.extend(
        parts
            .deleted
            .keys()
            .flat_map(above)
            .filter(|d| !kept.contains(d)),
    );
    let land = |source| Error::Land {
        tree: root.path().to_owned(),
        source,
    };
    let mut steps: Vec<_> = parts
        .deleted
        .iter()
        .rev()
        .map(|(path, old)| (path.clone(), Act::Delete { old: old.clone() }))
        .collect();
    let mut emptied = BTreeSet::new();
    for path in parts.emptied.into_iter().rev() {
        if let Some(stat) = root.stat_directory(&path).map_err(land)? {
            steps.push((path.clone(), Act::RemoveDirectory { mode: stat.mode }));
            emptied.insert(path);
        }
    }
    parts.makes.extend(kept);
    for path in parts.makes {
        let stands = root.stat(&path).map_err(land)?;
        let is_directory = stands.is_some_and(|stat| stat.kind == Kind::Directory);
        if !is_directory {
            steps.push((path, Act::MakeDirectory));
        }
    }
    steps.extend(parts.files);
    Ok(Plan {
        steps,
        staged: parts.staged,
        deleted: parts.deleted.into_keys().collect(),
        emptied,
        submodules: parts.submodules,
    })
}

#[derive(Default)]
struct Parts {
    deleted: BTreeMap<RepoPath, Content>,
    emptied: BTreeSet<RepoPath>,
    makes: BTreeSet<RepoPath>,
    files: BTreeMap<RepoPath, Act>,
    staged: BTreeMap<RepoPath, Entry>,
    submodules: Vec<RepoPath>,
}

impl Parts {
    fn add(&mut self, objects: &impl ObjectStore, change: &Difference) -> Result<(), Error> {
        let path = change.path.clone();
        let is_link =
            |entry: &Option<Entry>| entry.as_ref().is_some_and(|e| e.mode == TreeMode::Gitlink);
        if is_link(&change.old) || is_link(&change.new) {
            self.submodules.push(path.clone());
        }
        let old = change.old.as_ref().filter(|e| e.mode != TreeMode::Gitlink);
        let new = change.new.as_ref().filter(|e| e.mode != TreeMode::Gitlink);
        match (old, new) {
            (Some(old), Some(new)) => {
                let act = Act::Replace {
                    old: content(objects, old)?,
                    new: content(objects, new)?,
                    inode: 0,
                };
                self.staged.insert(path.clone(), new.clone());
                self.files.insert(path, act);
            }
            (None, Some(new)) => {
                if is_link(&change.old) {
                    self.emptied.insert(path.clone());
                }
                let act = Act::Create {
                    new: content(objects, new)?,
                };
                self.staged.insert(path.clone(), new.clone());
                self.files.insert(path, act);
            }
            (Some(old), None) => {
                self.deleted.insert(path.clone(), content(objects, old)?);
                if is_link(&change.new) {
                    self.makes.insert(path);
                }
            }
            // A checkout of a submodule is its own repository: only the empty
            // directory that git expects is made.
            (None, None) => {
                if is_link(&change.new) {
                    self.makes.insert(path);
                }
            }
        }
        Ok(())
    }
}

fn content(objects: &impl ObjectStore, entry: &Entry) -> Result<Content, Error> {
    let Entry { mode, oid } = entry;
    let id: &ObjectId = oid;
    Ok(Content::of(*mode, &read(objects, id)?))
}

/// The directories above a path, innermost first.
pub(super) fn above(path: &RepoPath) -> Vec<RepoPath> {
    std::iter::successors(path.parent(), RepoPath::parent).collect()
}
