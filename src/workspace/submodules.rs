//! Submodules that an agent moved.
//!
//! Owns one inference: where the tree's `.gitmodules` names a submodule at
//! another path than the snapshot's, the directory of the old path is gone or
//! another submodule's now, and an empty one stands at the new path, the
//! submodule's commit goes there, as
//! `git mv` records it. The agent's own index is never asked. What the file
//! says is the agent's word like any other file of it; the commit is the one
//! that the parent had.

use std::collections::HashMap;

use super::Error;
use super::findings::Findings;
use crate::git::{Objects, Repository, TreeEdit};
use crate::model::{ObjectId, RepoPath, TreeMode};

const LIST: &[u8] = b".gitmodules";

/// The submodules that moved from `base` to `tree`, as edits of `tree`; their
/// directories are empty no more.
///
/// # Errors
/// A tree cannot be read, or git not be run.
pub(super) fn moved(
    repo: &Repository,
    objects: &Objects,
    (base, tree): (&ObjectId, &ObjectId),
    findings: &mut Findings,
) -> Result<Vec<TreeEdit>, Error> {
    let list = RepoPath::from_bytes(LIST).expect("because it is a plain name");
    let (before, after) = (objects.entry(base, &list)?, objects.entry(tree, &list)?);
    let (Some(before), Some(after)) = (before, after) else {
        return Ok(Vec::new());
    };
    if before.oid == after.oid || findings.empty_directories.is_empty() {
        return Ok(Vec::new());
    }
    let was: HashMap<Vec<u8>, Vec<u8>> = repo.submodule_paths(&before.oid)?.into_iter().collect();
    // Of one that is named twice the last word counts, as with git.
    let is: HashMap<Vec<u8>, Vec<u8>> = repo.submodule_paths(&after.oid)?.into_iter().collect();
    let said: Vec<(RepoPath, RepoPath)> = is.iter().filter_map(|one| change(&was, one)).collect();
    let link_at = |tree: &ObjectId, path: &RepoPath| -> Result<_, Error> {
        let entry = objects.entry(tree, path)?;
        Ok(entry.filter(|entry| entry.mode == TreeMode::Gitlink))
    };
    let mut edits = Vec::new();
    for (from, to) in &said {
        let Some(link) = link_at(base, from)? else {
            continue;
        };
        // Where another one took its place nothing is gone.
        let left = objects.entry(tree, from)?.is_none() || said.iter().any(|(_, to)| to == from);
        let empty = findings.empty_directories.iter().position(|one| one == to);
        if !left || (empty.is_none() && link_at(tree, to)?.is_none()) {
            continue;
        }
        if let Some(at) = empty {
            findings.empty_directories.swap_remove(at);
        }
        edits.push(TreeEdit::Put {
            path: to.clone(),
            mode: TreeMode::Gitlink,
            oid: link.oid,
        });
    }
    Ok(edits)
}

/// From where to where a list says that a submodule moved.
fn change(
    was: &HashMap<Vec<u8>, Vec<u8>>,
    (name, path): (&Vec<u8>, &Vec<u8>),
) -> Option<(RepoPath, RepoPath)> {
    let from = was.get(name).filter(|from| *from != path)?;
    let plain = |path: &Vec<u8>| RepoPath::from_bytes(path).ok();
    Some((plain(from)?, plain(path)?))
}
