//! Merges one result into the parent's tree, as trees.
//!
//! Owns the order of the questions: what changed, is it in scope, does git
//! merge it, what conflicts, what is doubtful, and what follows from the
//! caller's setting. Writes objects only; no file of the parent, no ref and
//! no index is touched here. The same trees give the same answer.

use std::collections::BTreeSet;

use super::classify::{self, Group, Renames};
use super::objects::{differences, entry, is_binary, object_error, read};
use super::settle::Settling;
use super::verify::{self, Deltas};
use super::{Difference, Error, ObjectStore, hunks, scope};
use crate::config::Scope;
use crate::git::{Favour, MergeSpace, Stage, Style, TreeMerge, Trees};
use crate::model::{
    Conflict, ConflictKind, HeldFor, ObjectId, OnConflict, PathText, RepoPath, Warning, WarningKind,
};

/// What a merge that a second look does not agree with means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// It lands, with a warning.
    Warn,
    /// It waits for a person.
    Hold,
}

/// Who wants a result to land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// The launcher, by itself: the limits of the agent hold.
    Launcher,
    /// A person who has looked at the result: its scope, the launcher's own
    /// settings and mass deletion are theirs to decide. Conflicts still hold.
    Person,
}

/// One result that wants into the parent's tree.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'a> {
    /// The snapshot that the agent started from.
    pub base_tree: &'a ObjectId,
    /// The parent's tree now, with what siblings landed.
    pub ours_tree: &'a ObjectId,
    /// What the agent ended with, as captured.
    pub theirs_tree: &'a ObjectId,
    /// What it may change.
    pub scope: &'a Scope,
    /// By whose decision it lands.
    pub authority: Authority,
    /// What a conflict means.
    pub on_conflict: OnConflict,
    /// What a doubtful merge means.
    pub doubt: Doubt,
}

impl<'a> Proposal<'a> {
    /// The proposal that takes a landing back: `landed` was made of `before`,
    /// and `ours_tree` is the parent's tree now. What was changed since and
    /// overlaps is a conflict, and holds.
    #[must_use]
    pub fn undo(
        before: &'a ObjectId,
        landed: &'a ObjectId,
        ours_tree: &'a ObjectId,
        scope: &'a Scope,
    ) -> Self {
        Self {
            base_tree: landed,
            ours_tree,
            theirs_tree: before,
            scope,
            authority: Authority::Launcher,
            on_conflict: OnConflict::Hold,
            doubt: Doubt::Hold,
        }
    }
}

/// How the conflicts of a merge were dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// There were none.
    Clean,
    /// They were not: nothing lands.
    Held,
    /// They stand in the tree with markers.
    Marked,
    /// The parent's side won.
    Ours,
    /// The agent's side won.
    Theirs,
}

/// What came of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Merged {
    /// What the parent's tree is to become. Where conflicts hold it back this
    /// is the parent's own tree: landing it would change nothing.
    pub tree: ObjectId,
    /// What git made, with markers where it conflicts; for a resolver.
    pub marked: ObjectId,
    /// What conflicts, outside of the scope included.
    pub conflicts: Vec<Conflict>,
    /// What a person should look at.
    pub warnings: Vec<Warning>,
    /// Why it may not land by itself; empty when it may.
    pub held_for: Vec<HeldFor>,
    /// How conflicts were dealt with.
    pub settled: Settled,
    /// What git says about the conflicts, for people, by the order of paths.
    pub notes: Vec<String>,
}

impl Merged {
    /// Whether it may land by itself.
    #[must_use]
    pub fn may_land(&self) -> bool {
        self.held_for.is_empty()
    }
}

/// Merges a result into the parent's tree.
///
/// A conflict, a change outside of the scope and a doubt are values in the
/// answer. Results that landed in between are part of `ours_tree`, so nothing
/// of them is taken back.
///
/// # Errors
/// Git failed, or an object could not be read or written.
pub fn merge(
    space: &MergeSpace,
    objects: &impl ObjectStore,
    proposal: &Proposal<'_>,
) -> Result<Merged, Error> {
    let changed = differences(objects, proposal.base_tree, proposal.theirs_tree)?;
    let merge = merge_trees(space, proposal, &changed)?;
    let groups = classify_merge(objects, proposal, &merge)?;
    let deltas = Deltas {
        ours: verify::by_path(differences(
            objects,
            proposal.base_tree,
            proposal.ours_tree,
        )?),
        merged: verify::by_path(differences(objects, proposal.base_tree, &merge.tree)?),
        theirs: verify::by_path(changed.clone()),
    };
    let mut conflicts = Vec::new();
    for group in &groups {
        conflicts.push(describe(objects, &merge, group)?);
    }
    if !merge.clean && groups.is_empty() {
        conflicts.push(unnamed());
    }
    let (tree, settled) = settle(space, objects, proposal, (&merge, &groups, &deltas))?;
    let mut held_for = BTreeSet::new();
    if settled == Settled::Held {
        held_for.insert(HeldFor::Conflict);
    }
    match proposal.authority {
        Authority::Launcher => {
            let beyond = out_of_scope(proposal, &changed, &deltas);
            if !beyond.is_empty() {
                held_for.insert(HeldFor::Scope);
            }
            conflicts.extend(beyond);
            held_for.extend(held_by_delta(objects, proposal, &changed)?);
        }
        Authority::Person => {}
    }
    let warnings = warnings(objects, &merge, &groups, &deltas)?;
    let doubtful = warnings
        .iter()
        .any(|w| w.kind == WarningKind::DoubtfulMerge);
    if doubtful && proposal.doubt == Doubt::Hold {
        held_for.insert(HeldFor::Review);
    }
    Ok(Merged {
        tree,
        marked: merge.tree,
        conflicts,
        warnings,
        held_for: held_for.into_iter().collect(),
        settled,
        notes: groups
            .into_iter()
            .map(|group| group.text)
            .filter(|text| !text.is_empty())
            .collect(),
    })
}

/// A side that changed nothing needs no engine: the other side is the answer.
fn merge_trees(
    space: &MergeSpace,
    proposal: &Proposal<'_>,
    changed: &[Difference],
) -> Result<TreeMerge, Error> {
    let (ours, theirs) = (proposal.ours_tree, proposal.theirs_tree);
    let alone = match (changed.is_empty(), ours == proposal.base_tree) {
        (true, _) => Some(ours),
        (false, true) => Some(theirs),
        (false, false) if ours == theirs => Some(ours),
        (false, false) => None,
    };
    if let Some(tree) = alone {
        return Ok(TreeMerge {
            tree: tree.clone(),
            clean: true,
            stages: Vec::new(),
            messages: Vec::new(),
        });
    }
    let trees = Trees {
        base: proposal.base_tree,
        ours,
        theirs,
    };
    space
        .merge(trees, Style::Zdiff3)
        .map_err(|source| Error::Merge {
            ours: ours.clone(),
            theirs: theirs.clone(),
            source,
        })
}

fn classify_merge(
    objects: &impl ObjectStore,
    proposal: &Proposal<'_>,
    merge: &TreeMerge,
) -> Result<Vec<Group>, Error> {
    if merge.clean {
        return Ok(Vec::new());
    }
    let mut renames = Renames::default();
    if classify::needs_renames(merge) {
        let renamed = |tree: &ObjectId| {
            let failed = object_error("compare the tree", tree);
            objects.renamed_to(proposal.base_tree, tree).map_err(failed)
        };
        renames.ours = renamed(proposal.ours_tree)?.into_iter().collect();
        renames.theirs = renamed(proposal.theirs_tree)?.into_iter().collect();
    }
    let binary = |stage: &Stage| {
        let bytes = objects.read_blob(&stage.oid);
        bytes.is_ok_and(|bytes| is_binary(&bytes))
    };
    Ok(classify::classify(merge, &renames, &binary))
}

/// A conflict of which git names no path, as an old one does when it cannot
/// tell where a renamed directory went.
fn unnamed() -> Conflict {
    Conflict {
        path: PathText::from_raw(b"."),
        kind: ConflictKind::DirectoryRename,
        base: None,
        ours: None,
        theirs: None,
        hunks: Vec::new(),
    }
}

/// A conflict with its three versions and its hunks.
fn describe(
    objects: &impl ObjectStore,
    merge: &TreeMerge,
    group: &Group,
) -> Result<Conflict, Error> {
    let version = |stage: u8| {
        let of = |s: &&Stage| s.stage == stage && group.paths.contains(&s.path);
        let here = merge
            .stages
            .iter()
            .filter(of)
            .find(|s| s.path == group.path);
        here.or_else(|| merge.stages.iter().find(of))
            .map(|s| s.oid.clone())
    };
    Ok(Conflict {
        path: PathText::from(&group.path),
        kind: group.kind,
        base: version(1),
        ours: version(2),
        theirs: version(3),
        hunks: marked_lines(objects, &merge.tree, &group.path)?,
    })
}

fn marked_lines(
    objects: &impl ObjectStore,
    tree: &ObjectId,
    path: &RepoPath,
) -> Result<Vec<[u32; 2]>, Error> {
    match entry(objects, tree, path)? {
        Some(found) if found.mode.bits() & 0o170_000 == 0o100_000 => {
            Ok(hunks::ranges(&read(objects, &found.oid)?))
        }
        Some(_) | None => Ok(Vec::new()),
    }
}

fn settle(
    space: &MergeSpace,
    objects: &impl ObjectStore,
    proposal: &Proposal<'_>,
    (merge, groups, deltas): (&TreeMerge, &[Group], &Deltas),
) -> Result<(ObjectId, Settled), Error> {
    if merge.clean {
        return Ok((merge.tree.clone(), Settled::Clean));
    }
    let in_favour = |favour| {
        let settling = Settling {
            space,
            proposal,
            merge,
            deltas,
            favour,
        };
        settling.tree(objects, groups)
    };
    match proposal.on_conflict {
        OnConflict::Hold => Ok((proposal.ours_tree.clone(), Settled::Held)),
        OnConflict::Markers => Ok((merge.tree.clone(), Settled::Marked)),
        OnConflict::Ours => Ok((in_favour(Favour::Ours)?, Settled::Ours)),
        OnConflict::Theirs => Ok((in_favour(Favour::Theirs)?, Settled::Theirs)),
    }
}

fn out_of_scope(proposal: &Proposal<'_>, changed: &[Difference], deltas: &Deltas) -> Vec<Conflict> {
    let conflict = |change: &Difference| {
        let ours = match deltas.ours.get(&change.path) {
            Some(ours) => &ours.new,
            None => &change.old,
        };
        Conflict {
            path: PathText::from(&change.path),
            kind: ConflictKind::Scope,
            base: change.old.as_ref().map(|e| e.oid.clone()),
            ours: ours.as_ref().map(|e| e.oid.clone()),
            theirs: change.new.as_ref().map(|e| e.oid.clone()),
            hunks: Vec::new(),
        }
    };
    scope::outside(proposal.scope, changed)
        .map(conflict)
        .collect()
}

/// Why the delta as a whole waits for a person.
fn held_by_delta(
    objects: &impl ObjectStore,
    proposal: &Proposal<'_>,
    changed: &[Difference],
) -> Result<Vec<HeldFor>, Error> {
    let mut held = Vec::new();
    if scope::touches_settings(changed) {
        held.push(HeldFor::Review);
    }
    let gone = scope::deletions(changed);
    if scope::is_worth_counting(gone) {
        let failed = || object_error("read the tree", proposal.base_tree);
        let files = objects.entries(proposal.base_tree).map_err(failed())?.len();
        // What was only moved is not lost.
        let moved = objects
            .renamed_to(proposal.base_tree, proposal.theirs_tree)
            .map_err(failed())?
            .len();
        if scope::is_mass_deletion(gone.saturating_sub(moved), files) {
            held.push(HeldFor::MassDelete);
        }
    }
    Ok(held)
}

fn warnings(
    objects: &impl ObjectStore,
    merge: &TreeMerge,
    groups: &[Group],
    deltas: &Deltas,
) -> Result<Vec<Warning>, Error> {
    let conflicted: BTreeSet<_> = groups
        .iter()
        .flat_map(|g| g.paths.iter().cloned())
        .collect();
    let doubtful = verify::doubtful(objects, deltas, &conflicted)?;
    let is_added = |d: &&Difference| d.old.is_none() && deltas.ours.get(&d.path) != Some(d);
    let added = deltas
        .merged
        .values()
        .filter(is_added)
        .map(|d| d.path.clone())
        .collect();
    let failed = object_error("read the tree", &merge.tree);
    let collisions = verify::collisions(objects, &merge.tree, &added).map_err(failed)?;
    let warning = |kind| {
        move |path: RepoPath| Warning {
            path: PathText::from(&path),
            kind,
        }
    };
    let doubtful = doubtful
        .into_iter()
        .map(warning(WarningKind::DoubtfulMerge));
    let collisions = collisions
        .into_iter()
        .map(warning(WarningKind::CaseCollision));
    Ok(doubtful.chain(collisions).collect())
}
