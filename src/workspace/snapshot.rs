//! The parent's state as a tree.
//!
//! Owns the snapshot that agents start from and the same look on its own for
//! integration. Writes objects only: the parent's index, refs, stash,
//! configuration and files are not touched. Pinning the commit under a ref is
//! the caller's business.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;

use super::look::{Look, TreeFound};
use super::mirror::Settings;
use super::{Error, IndexCopy, Mirror, missing};
use crate::git::Repository;
use crate::model::{Base, ObjectId, RepoPath, Warning};

/// When a file was last modified: seconds and nanoseconds.
pub type FileTime = (i64, u32);

/// What agents start from.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The parent's commit; `None` while its branch has none.
    pub head: Option<ObjectId>,
    /// The branch that the parent's HEAD names.
    pub head_ref: Option<String>,
    /// The tree of the files as they lay on disk.
    pub tree: ObjectId,
    /// A commit of that tree on top of `head`; the same state gives the same id.
    pub commit: ObjectId,
    /// Whether the tree is not HEAD's.
    pub dirty: bool,
    /// Files of a sparse checkout that are in the tree and not on disk.
    pub absent: BTreeSet<RepoPath>,
    /// What the parent is in the middle of.
    pub operation: Option<&'static str>,
    /// The parent's index as it was then; `None` when the tree is a revision's.
    pub index: Option<IndexCopy>,
    /// The tree that the index lists, where it is one: nothing is staged, in
    /// conflict or flagged.
    pub index_tree: Option<ObjectId>,
    /// What the tree could not hold.
    pub warnings: Vec<Warning>,
    /// When the files that had to be read were modified.
    pub seen: BTreeMap<RepoPath, FileTime>,
    /// What of the parent's git directory an agent gets to see.
    pub mirror: Mirror,
}

/// Takes the snapshot that agents start from.
///
/// `scratch` is a directory of ours; a private copy of the index stays there
/// as long as workspaces are made from the snapshot. Files that change while
/// they are read are taken as they were when read.
///
/// # Errors
/// A revision names no commit; a file cannot be read (it is named); git could
/// not be run; or the objects directory takes no more.
pub fn snapshot(repo: &Repository, base: &Base, scratch: &Path) -> Result<Snapshot, Error> {
    let taken = match base {
        Base::Worktree => of_worktree(repo, scratch),
        Base::Revision(rev) => of_revision(repo, rev),
    }?;
    missing::require_all(repo, &taken)?;
    Ok(taken)
}

/// The parent's tree as it stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// What a merge is made with; files of a sparse checkout are part of it.
    pub tree: ObjectId,
    /// Those of them that are not on disk.
    pub absent: BTreeSet<RepoPath>,
}

/// The parent's tree as it stands now, by the same look as [`snapshot`].
///
/// # Errors
/// As [`snapshot`].
pub fn current(repo: &Repository, scratch: &Path) -> Result<Current, Error> {
    let look = Look::take(repo, scratch)?;
    let found = look.tree(repo);
    look.index.remove();
    let found = found?;
    Ok(Current {
        tree: found.tree,
        absent: found.absent,
    })
}

/// The tree of [`current`] alone.
///
/// # Errors
/// As [`snapshot`].
pub fn current_tree(repo: &Repository, scratch: &Path) -> Result<ObjectId, Error> {
    Ok(current(repo, scratch)?.tree)
}

fn of_worktree(repo: &Repository, scratch: &Path) -> Result<Snapshot, Error> {
    let (look, head_ref, mirror) = std::thread::scope(|threads| {
        let head_ref = threads.spawn(|| repo.head_ref());
        let mirror = threads.spawn(|| Mirror::take(repo));
        let look = Look::take(repo, scratch);
        let head_ref = head_ref.join().expect("because asking git cannot panic");
        let mirror = mirror.join().expect("because asking git cannot panic");
        (look, head_ref, mirror)
    });
    let look = look.map_err(|error| missing::of_look(repo, error))?;
    let head_ref = head_ref?;
    let TreeFound {
        tree,
        head_tree,
        seen,
        absent,
        warnings,
    } = look.tree(repo)?;
    let head = look.status.head.clone();
    let commit = synthetic(repo, head.as_ref(), &tree)?;
    Ok(Snapshot {
        dirty: tree != head_tree,
        head,
        head_ref,
        tree,
        commit,
        absent,
        operation: repo.operation(),
        index_tree: look.lists_head().then_some(head_tree),
        index: Some(look.index),
        warnings,
        seen,
        mirror: mirror.with(look.settings),
    })
}

fn of_revision(repo: &Repository, rev: &str) -> Result<Snapshot, Error> {
    let head = repo.resolve_commit(rev)?;
    let tree = repo.objects()?.tree_of(&head)?;
    Ok(Snapshot {
        commit: synthetic(repo, Some(&head), &tree)?,
        head: Some(head),
        head_ref: None,
        index_tree: Some(tree.clone()),
        tree,
        dirty: false,
        absent: BTreeSet::new(),
        operation: None,
        index: None,
        warnings: Vec::new(),
        seen: BTreeMap::new(),
        mirror: Mirror::take(repo).with(Settings::take(repo)?),
    })
}

/// The commit that results are based on.
fn synthetic(
    repo: &Repository,
    head: Option<&ObjectId>,
    tree: &ObjectId,
) -> Result<ObjectId, Error> {
    let objects = repo.objects()?;
    // The parent commit's date, so that one state has one id at any time.
    let at = match head {
        Some(head) => objects.commit_time(head)?,
        None => Timestamp::UNIX_EPOCH,
    };
    let parents: Vec<ObjectId> = head.into_iter().cloned().collect();
    Ok(objects.commit(tree, &parents, "cofferdam: snapshot of the parent", at)?)
}
