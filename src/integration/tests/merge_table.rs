//! Every kind of file and change in one table, git as oracle.

use std::collections::BTreeSet;

use super::merge_cases::{
    Case,
    Expected::{At, Clean},
    all,
};
use super::{Fixture, path};
use crate::git::{Git, MergeSpace, ObjectFormat};
use crate::model::ConflictKind::{AddAdd, Content, Mode, RenameAdd, Submodule};
use crate::model::{Conflict, OnConflict};

#[test]
fn every_kind_merges_as_git_does_or_conflicts_by_name() {
    let fixture = Fixture::new();
    let cases = all();
    assert!(cases.len() >= 55, "{}", cases.len());
    for Case(name, rows, expected) in &cases {
        let [base, ours, theirs] = rows.each_ref().map(|rows| fixture.tree(rows));
        let trees = [&base, &ours, &theirs];
        let merged = fixture.merge(trees, OnConflict::Hold);
        match expected {
            Clean(warnings) => {
                assert_eq!(merged.conflicts, [], "{name}");
                assert_eq!(Some(&merged.tree), fixture.oracle(trees).as_ref(), "{name}");
                let kinds: BTreeSet<_> = merged.warnings.iter().map(|w| w.kind).collect();
                assert_eq!(kinds, warnings.iter().copied().collect(), "{name}");
                assert!(merged.may_land(), "{name}");
            }
            At(kind, at) => {
                let pair = |c: &Conflict| (c.kind, c.path.to_path().ok());
                let found: Vec<_> = merged.conflicts.iter().map(pair).collect();
                let wanted = (*kind, Some(path(at)));
                assert!(found.contains(&wanted), "{name}: {found:?}");
                assert_eq!(merged.tree, ours, "{name}: nothing may land");
                assert!(!merged.may_land(), "{name}");
                assert_eq!(fixture.oracle(trees), None, "{name}");
            }
        }
    }
}

#[test]
fn the_oldest_git_gives_the_same_trees_and_no_conflict_is_lost() {
    let fixture = Fixture::new();
    let found = Git::require().expect("because the tests need git");
    let objects = fixture.top().join(".git/objects");
    let dir = fixture.dir.path().join("old");
    let old = MergeSpace::create(&found, &dir, &objects, ObjectFormat::Sha1)
        .expect("because its parent is writable")
        .into_oldest();
    for Case(name, rows, _) in &all() {
        let [base, ours, theirs] = rows.each_ref().map(|rows| fixture.tree(rows));
        let proposal = fixture.proposal([&base, &ours, &theirs], OnConflict::Markers);
        let merge = |space| {
            crate::integration::merge(space, &fixture.store, &proposal)
                .expect("because git can merge these trees")
        };
        let (new, old) = (merge(&fixture.space), merge(&old));
        assert_eq!(new.marked, old.marked, "{name}");
        assert_eq!(new.conflicts.is_empty(), old.conflicts.is_empty(), "{name}");
        // Where both name one path, lines and types are told the same way;
        // only what a rename did needs the messages.
        for conflict in &old.conflicts {
            let is_same = |other: &&Conflict| other.path == conflict.path;
            let plain = [Content, AddAdd, Mode, Submodule, RenameAdd];
            if let Some(other) = new.conflicts.iter().find(is_same)
                && plain.contains(&other.kind)
            {
                assert_eq!(conflict.kind, other.kind, "{name}");
            }
        }
    }
}
