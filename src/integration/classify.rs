//! Names the kind of each conflict.
//!
//! Owns the way from git's messages and versions to typed conflicts. Versions
//! are grouped by message, not by path, since one rename conflict has two or
//! three paths. Where a git gives no messages, kinds follow from the versions
//! alone. Nothing that git called a conflict is left without a value.

use std::collections::BTreeSet;

use crate::git::{Message, Stage, TreeMerge};
use crate::model::{ConflictKind, RepoPath, TreeMode};

/// One conflict before its hunks are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// The path it is about.
    pub(super) path: RepoPath,
    /// Every path that it involves.
    pub(super) paths: BTreeSet<RepoPath>,
    /// Which kind it is.
    pub(super) kind: ConflictKind,
    /// What git says, for people.
    pub(super) text: String,
}

/// What decides between kinds that git calls by one word.
#[derive(Debug, Default)]
pub(super) struct Renames {
    /// Where the parent's side moved files to.
    pub(super) ours: BTreeSet<RepoPath>,
    /// Where the agent's side moved files to.
    pub(super) theirs: BTreeSet<RepoPath>,
}

/// Groups the versions of a merge into conflicts, by path.
///
/// `is_binary` is asked for files of which both sides have a version, and
/// only where git gave no messages.
pub(super) fn classify(
    merge: &TreeMerge,
    renames: &Renames,
    is_binary: &dyn Fn(&Stage) -> bool,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let conflicts = merge.messages.iter().filter(|m| m.is_conflict());
    for message in conflicts {
        if let Some(group) = group_of(message, merge, renames) {
            add(&mut groups, group);
        }
    }
    let named: BTreeSet<_> = groups
        .iter()
        .flat_map(|g| g.paths.iter().cloned())
        .collect();
    let unnamed: BTreeSet<_> = merge
        .stages
        .iter()
        .map(|s| &s.path)
        .filter(|p| !named.contains(*p))
        .collect();
    for path in unnamed {
        groups.push(Group {
            path: path.clone(),
            paths: BTreeSet::from([path.clone()]),
            kind: kind_of_versions(path, merge, renames, is_binary),
            text: String::new(),
        });
    }
    groups.sort_by(|a, b| a.path.cmp(&b.path));
    groups
}

/// Whether one word of git's needs the renames to be told apart.
pub(super) fn needs_renames(merge: &TreeMerge) -> bool {
    let mut paths: BTreeSet<_> = merge.stages.iter().map(|s| &s.path).collect();
    paths.retain(|path| has(path, merge) == [false, true, true]);
    !paths.is_empty()
}

/// Joins a group into one that holds all its paths already; the more special
/// kind names both.
fn add(groups: &mut Vec<Group>, new: Group) {
    for old in groups.iter_mut() {
        let (inner, outer) = (
            new.paths.is_subset(&old.paths),
            old.paths.is_subset(&new.paths),
        );
        if !inner && !outer {
            continue;
        }
        old.text = format!("{}\n{}", old.text, new.text);
        if rank(new.kind) < rank(old.kind) {
            old.kind = new.kind;
            old.path = new.path;
        }
        old.paths.extend(new.paths);
        return;
    }
    groups.push(new);
}

/// Lower is more special.
fn rank(kind: ConflictKind) -> u8 {
    match kind {
        ConflictKind::Submodule => 0,
        ConflictKind::FileDirectory => 1,
        ConflictKind::DirectoryRename => 2,
        ConflictKind::RenameRename => 3,
        ConflictKind::RenameDelete => 4,
        ConflictKind::RenameAdd => 5,
        ConflictKind::Type => 6,
        ConflictKind::Mode => 7,
        ConflictKind::Binary => 8,
        ConflictKind::ModifyDelete => 9,
        ConflictKind::AddAdd => 10,
        ConflictKind::Content => 11,
        ConflictKind::WouldOverwriteIgnored
        | ConflictKind::WouldOverwriteUntracked
        | ConflictKind::Scope => 12,
    }
}

fn group_of(message: &Message, merge: &TreeMerge, renames: &Renames) -> Option<Group> {
    let first = message.paths.first()?;
    let kind = match message.kind.as_str() {
        "CONFLICT (contents)" => return Some(contents(message, merge, renames)),
        "CONFLICT (binary)" => ConflictKind::Binary,
        "CONFLICT (file/directory)" => ConflictKind::FileDirectory,
        "CONFLICT (distinct modes)" => ConflictKind::Type,
        "CONFLICT (modify/delete)" => ConflictKind::ModifyDelete,
        "CONFLICT (rename/delete)" => ConflictKind::RenameDelete,
        "CONFLICT (rename involved in collision)" => ConflictKind::RenameAdd,
        "CONFLICT (rename/rename)" => ConflictKind::RenameRename,
        word if word.contains("submodule") => ConflictKind::Submodule,
        word if word.contains("director") => ConflictKind::DirectoryRename,
        // A word of a newer git: a conflict all the same, of the widest kind.
        _ => ConflictKind::Content,
    };
    // The file that had to make room is named `path~side`: the conflict is
    // about the shorter name that both wanted.
    let path = match kind {
        ConflictKind::FileDirectory | ConflictKind::Type => message
            .paths
            .iter()
            .min_by_key(|p| p.as_bytes().len())
            .unwrap_or(first),
        _ => first,
    };
    Some(Group {
        path: path.clone(),
        paths: message.paths.iter().cloned().collect(),
        kind,
        text: message.text.clone(),
    })
}

/// Git says `contents` of everything that lines were merged in.
fn contents(message: &Message, merge: &TreeMerge, renames: &Renames) -> Group {
    let path = message
        .paths
        .first()
        .expect("because the caller has seen one");
    Group {
        path: path.clone(),
        paths: message.paths.iter().cloned().collect(),
        kind: both_changed(path, merge, renames),
        text: message.text.clone(),
    }
}

fn both_changed(path: &RepoPath, merge: &TreeMerge, renames: &Renames) -> ConflictKind {
    let versions = versions(path, merge);
    if versions
        .iter()
        .flatten()
        .any(|s| s.mode == TreeMode::Gitlink)
    {
        return ConflictKind::Submodule;
    }
    let [base, Some(ours), Some(theirs)] = versions else {
        return ConflictKind::Content;
    };
    if ours.oid == theirs.oid && ours.mode != theirs.mode {
        return ConflictKind::Mode;
    }
    if base.is_some() {
        return ConflictKind::Content;
    }
    match (renames.ours.contains(path), renames.theirs.contains(path)) {
        (true, true) => ConflictKind::RenameRename,
        (true, false) | (false, true) => ConflictKind::RenameAdd,
        (false, false) => ConflictKind::AddAdd,
    }
}

fn kind_of_versions(
    path: &RepoPath,
    merge: &TreeMerge,
    renames: &Renames,
    is_binary: &dyn Fn(&Stage) -> bool,
) -> ConflictKind {
    let moved_aside = path.as_bytes().contains(&b'~');
    match versions(path, merge) {
        [_, Some(ours), Some(theirs)] => {
            let regular = |s: &Stage| matches!(s.mode, TreeMode::File | TreeMode::Executable);
            if regular(ours) != regular(theirs) {
                ConflictKind::Type
            } else if regular(ours)
                && ours.oid != theirs.oid
                && (is_binary(ours) || is_binary(theirs))
            {
                ConflictKind::Binary
            } else {
                both_changed(path, merge, renames)
            }
        }
        [Some(_), None, None] => ConflictKind::RenameRename,
        [Some(_), _, _] if moved_aside => ConflictKind::FileDirectory,
        [Some(_), _, _] => ConflictKind::ModifyDelete,
        [None, _, _] if moved_aside => ConflictKind::FileDirectory,
        [None, _, _] => ConflictKind::DirectoryRename,
    }
}

/// The base's, the parent's and the agent's version of a path.
pub(super) fn versions<'a>(path: &RepoPath, merge: &'a TreeMerge) -> [Option<&'a Stage>; 3] {
    [1, 2, 3].map(|n| {
        merge
            .stages
            .iter()
            .find(|s| s.stage == n && &s.path == path)
    })
}

fn has(path: &RepoPath, merge: &TreeMerge) -> [bool; 3] {
    versions(path, merge).map(|version| version.is_some())
}
