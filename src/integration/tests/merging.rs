//! What follows from a merge: settings, scope, doubts, rendering.

use std::str::FromStr;

use super::{Fixture, Row, f, l, lines, path, x};
use crate::config::Scope;
use crate::git::{Configuration, Git, MergeSpace, ObjectFormat, Style, Trees};
use crate::integration::{
    Authority, Doubt, Error, ObjectStore, Proposal, Settled, merge, render_conflict, render_diff,
};
use crate::model::{ConflictKind, HeldFor, ObjectId, OnConflict, WarningKind};

fn conflicting(fixture: &Fixture) -> [ObjectId; 3] {
    let sides: [&[(usize, &str)]; 3] = [
        &[],
        &[(3, "ours 3"), (18, "ours 18")],
        &[(3, "theirs 3"), (10, "theirs 10")],
    ];
    sides.map(|edits| fixture.tree(&[f("a", lines(20, edits)), f("k", "k\n")]))
}

#[test]
fn hold_changes_nothing_and_says_where_the_conflict_stands() {
    let fixture = Fixture::new();
    let [base, ours, theirs] = conflicting(&fixture);
    let merged = fixture.merge([&base, &ours, &theirs], OnConflict::Hold);
    assert_eq!((merged.settled, &merged.tree), (Settled::Held, &ours));
    assert_eq!(merged.held_for, [HeldFor::Conflict]);
    let conflict = &merged.conflicts[0];
    assert_eq!(conflict.kind, ConflictKind::Content);
    assert_eq!(conflict.hunks, [[3, 9]]);
    let oid = |tree| {
        let entry = fixture.store.entry(tree, &path("a"));
        entry.expect("because the tree exists").map(|e| e.oid)
    };
    assert_eq!(conflict.base, oid(&base));
    assert_eq!(conflict.ours, oid(&ours));
    assert_eq!(conflict.theirs, oid(&theirs));
}

#[test]
fn markers_land_with_the_conflict_listed() {
    let fixture = Fixture::new();
    let [base, ours, theirs] = conflicting(&fixture);
    let merged = fixture.merge([&base, &ours, &theirs], OnConflict::Markers);
    assert_eq!(merged.settled, Settled::Marked);
    assert!(merged.may_land());
    assert_eq!(merged.conflicts.len(), 1);
    let text = fixture
        .text(&merged.tree, "a")
        .expect("because it is there");
    let text = String::from_utf8(text).expect("because it is text");
    for part in [
        "<<<<<<< parent\nours 3\n||||||| ",
        "theirs 3\n>>>>>>> agent\n",
        "theirs 10\n",
        "ours 18\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_chosen_side_wins_only_where_both_changed() {
    let fixture = Fixture::new();
    let [base, ours, theirs] = conflicting(&fixture);
    for (on_conflict, winner) in [
        (OnConflict::Ours, "ours 3"),
        (OnConflict::Theirs, "theirs 3"),
    ] {
        let merged = fixture.merge([&base, &ours, &theirs], on_conflict);
        let expected = lines(20, &[(3, winner), (10, "theirs 10"), (18, "ours 18")]);
        assert_eq!(fixture.text(&merged.tree, "a"), Some(expected.into_bytes()));
        assert!(merged.may_land());
        assert_eq!(merged.conflicts.len(), 1, "what was settled is recorded");
    }
}

#[test]
fn a_chosen_side_stands_whole_where_lines_mean_nothing() {
    let fixture = Fixture::new();
    let big = lines(30, &[]);
    let base = fixture.tree(&[
        f("d/x", "q\n"),
        f("d/y", "y\n"),
        f("bin", "\0a"),
        f("gone", "g\n"),
        l("l", "t"),
        f("r", &big),
    ]);
    let ours = fixture.tree(&[
        f("d", "file\n"),
        f("bin", "\0b"),
        l("l", "u"),
        f("r1", &big),
    ]);
    let theirs = fixture.tree(&[
        f("d/x", "q2\n"),
        f("d/y", "y\n"),
        f("bin", "\0c"),
        f("gone", "g2\n"),
        l("l", "v"),
        f("r2", &big),
    ]);
    for (on_conflict, side) in [(OnConflict::Ours, &ours), (OnConflict::Theirs, &theirs)] {
        let merged = fixture.merge([&base, &ours, &theirs], on_conflict);
        let mut expected = fixture.paths(side);
        // Only ours changed it, by deleting it: nobody's choice brings it back.
        expected.retain(|path| path != "d/y");
        assert_eq!(fixture.paths(&merged.tree), expected, "{on_conflict:?}");
        for at in ["bin", "l", "gone", "r1", "r2", "d", "d/x"] {
            let (found, wanted) = (fixture.text(&merged.tree, at), fixture.text(side, at));
            assert_eq!(found, wanted, "{on_conflict:?} {at}");
        }
    }
}

#[test]
fn no_side_drops_a_file_that_was_added_into_a_renamed_directory() {
    let fixture = Fixture::new();
    let rows = |d: &str| ["a", "b"].map(|n| f(format!("{d}/{n}"), format!("{n}{}", lines(9, &[]))));
    let base = fixture.tree(&rows("d"));
    let ours = fixture.tree(&rows("e"));
    let theirs = fixture.edited(&base, &[f("d/new", "n\n")]);
    for on_conflict in [OnConflict::Ours, OnConflict::Theirs] {
        let merged = fixture.merge([&base, &ours, &theirs], on_conflict);
        assert_eq!(fixture.paths(&merged.tree), ["e/a", "e/b", "e/new"]);
    }
}

#[test]
fn what_lies_outside_of_the_scope_is_held_by_path() {
    let fixture = Fixture::new();
    let base = fixture.tree(&[f("docs/a", "a\n"), f("src/b", "b\n")]);
    let theirs = fixture.tree(&[f("docs/a", "a2\n"), f("src/b", "b2\n")]);
    let scope = Scope::parse("paths", ["docs/**"]).expect("because the glob is right");
    let mut proposal = fixture.proposal([&base, &base, &theirs], OnConflict::Hold);
    proposal.scope = &scope;
    let merged = merge(&fixture.space, &fixture.store, &proposal).expect("because it merges");
    assert_eq!(merged.held_for, [HeldFor::Scope]);
    let found: Vec<_> = merged
        .conflicts
        .iter()
        .map(|c| (c.kind, c.path.text()))
        .collect();
    assert_eq!(found, [(ConflictKind::Scope, "src/b")]);
}

#[test]
fn settings_of_the_launcher_and_mass_deletion_wait_for_a_person() {
    let fixture = Fixture::new();
    let rows = |d: &str| -> Vec<Row> {
        let row = |n| f(format!("{d}/f{n}"), format!("content {n}\n"));
        (0..30).map(row).collect()
    };
    let base = fixture.edited(&fixture.tree(&rows("d")), &[f("k", "k\n")]);
    let settings = fixture.edited(&base, &[f(".cofferdam/roles.toml", "x = 1\n")]);
    let merged = fixture.merge([&base, &base, &settings], OnConflict::Hold);
    assert_eq!(merged.held_for, [HeldFor::Review]);
    let gone = fixture.tree(&[f("k", "k\n")]);
    let merged = fixture.merge([&base, &base, &gone], OnConflict::Hold);
    assert_eq!(merged.held_for, [HeldFor::MassDelete]);
    // The same bytes under other names are not lost.
    let moved = fixture.edited(&gone, &rows("e"));
    let merged = fixture.merge([&base, &base, &moved], OnConflict::Hold);
    assert_eq!(merged.held_for, []);
}

#[test]
fn a_person_decides_about_scope_settings_and_deletion_but_not_about_conflicts() {
    let fixture = Fixture::new();
    let rows: Vec<Row> = (0..30)
        .map(|n| f(format!("d/f{n}"), format!("{n}\n")))
        .collect();
    let base = fixture.edited(&fixture.tree(&rows), &[f("k", "k\n")]);
    let theirs = fixture.tree(&[f("k", "theirs\n"), f(".cofferdam/roles.toml", "x = 1\n")]);
    let scope = Scope::parse("paths", ["docs/**"]).expect("because the glob is right");
    let mut proposal = fixture.proposal([&base, &base, &theirs], OnConflict::Hold);
    proposal.scope = &scope;
    let merged = |proposal: &Proposal<'_>| {
        merge(&fixture.space, &fixture.store, proposal).expect("because it merges")
    };
    let held = merged(&proposal).held_for;
    assert_eq!(held, [HeldFor::Scope, HeldFor::Review, HeldFor::MassDelete]);
    proposal.authority = Authority::Person;
    let landing = merged(&proposal);
    assert!(landing.may_land(), "{:?}", landing.held_for);
    assert_eq!(
        (landing.conflicts, landing.tree),
        (Vec::new(), theirs.clone())
    );
    let ours = fixture.edited(&base, &[f("k", "ours\n")]);
    proposal.ours_tree = &ours;
    let held = merged(&proposal);
    assert_eq!(held.held_for, [HeldFor::Conflict]);
    assert_eq!(held.tree, ours);
}

#[test]
fn a_doubtful_merge_warns_or_holds_by_setting() {
    let fixture = Fixture::new();
    let tree = |text: &str| fixture.tree(&[f(".gitattributes", "a merge=union\n"), f("a", text)]);
    let (base, ours, theirs) = (tree("o\n"), tree("o\ny\n"), tree("o\nz\n"));
    let mut proposal = fixture.proposal([&base, &ours, &theirs], OnConflict::Hold);
    let warned = merge(&fixture.space, &fixture.store, &proposal).expect("because it merges");
    assert_eq!(warned.warnings[0].kind, WarningKind::DoubtfulMerge);
    assert!(warned.may_land());
    proposal.doubt = Doubt::Hold;
    let held = merge(&fixture.space, &fixture.store, &proposal).expect("because it merges");
    assert_eq!(held.held_for, [HeldFor::Review]);
}

#[test]
fn line_ends_that_attributes_make_equal_do_not_conflict() {
    let fixture = Fixture::new();
    let tree = |text: &str| fixture.tree(&[f(".gitattributes", "a text\n"), f("a", text)]);
    let base = tree(&lines(9, &[]));
    let ours = tree(&lines(9, &[]).replace('\n', "\r\n"));
    let edited = lines(9, &[(3, "z")]);
    let merged = fixture.merge([&base, &ours, &tree(&edited)], OnConflict::Hold);
    assert!(merged.conflicts.is_empty(), "{:?}", merged.conflicts);
    assert_eq!(fixture.text(&merged.tree, "a"), Some(edited.into_bytes()));
    assert_eq!(merged.warnings[0].kind, WarningKind::DoubtfulMerge);
}

#[test]
fn attributes_of_the_base_alone_count() {
    let fixture = Fixture::new();
    let base = fixture.tree(&[f("a", "o\n")]);
    let ours = fixture.tree(&[f("a", "o\ny\n")]);
    let theirs = fixture.tree(&[f(".gitattributes", "* merge=union\n"), f("a", "o\nz\n")]);
    let merged = fixture.merge([&base, &ours, &theirs], OnConflict::Hold);
    assert_eq!(merged.held_for, [HeldFor::Conflict]);
}

#[test]
fn no_driver_of_the_repository_runs() {
    let fixture = Fixture::new();
    let mark = fixture.dir.path().join("ran");
    let driver = format!("touch {}", mark.display());
    super::git(&fixture.top(), ["config", "merge.evil.driver", &driver]);
    super::git(&fixture.top(), ["config", "filter.evil.clean", &driver]);
    let attributes = "* merge=evil filter=evil\n";
    let tree = |text: &str| fixture.tree(&[f(".gitattributes", attributes), f("a", text)]);
    let (base, ours, theirs) = (tree("o\n"), tree("y\n"), tree("z\n"));
    let merged = fixture.merge([&base, &ours, &theirs], OnConflict::Hold);
    assert_eq!(merged.held_for, [HeldFor::Conflict]);
    assert!(!mark.exists());
}

#[test]
fn a_missing_object_is_an_error_and_never_clean() {
    let fixture = Fixture::new();
    let [base, ours, _] = conflicting(&fixture);
    let nothing = ObjectId::from_str(&"1".repeat(40)).expect("because it is an id");
    let trees = Trees {
        base: &base,
        ours: &ours,
        theirs: &nothing,
    };
    assert!(fixture.space.merge(trees, Style::Merge).is_err());
    let proposal = fixture.proposal([&base, &ours, &nothing], OnConflict::Hold);
    let answer = merge(&fixture.space, &fixture.store, &proposal);
    assert!(matches!(answer, Err(Error::Object { .. })));
}

#[test]
fn a_landing_is_taken_back_unless_later_edits_overlap() {
    let fixture = Fixture::new();
    let nine = |edits: &[(usize, &str)]| f("a", lines(9, edits));
    let before = fixture.tree(&[nine(&[]), f("b", "b\n")]);
    let landed = fixture.tree(&[nine(&[(2, "agent")]), f("b", "b\n"), f("n", "n\n")]);
    let apart = [
        nine(&[(2, "agent"), (8, "me")]),
        f("b", "c\n"),
        f("n", "n\n"),
    ];
    let apart = fixture.tree(&apart);
    let undo = |ours: &ObjectId| {
        let proposal = Proposal::undo(&before, &landed, ours, &fixture.scope);
        merge(&fixture.space, &fixture.store, &proposal).expect("because it merges")
    };
    let merged = undo(&apart);
    assert!(merged.may_land());
    let expected = fixture.tree(&[nine(&[(8, "me")]), f("b", "c\n")]);
    assert_eq!(merged.tree, expected);
    let merged = undo(&fixture.edited(&landed, &[f("n", "mine\n")]));
    assert_eq!(merged.held_for, [HeldFor::Conflict]);
    assert_eq!(merged.conflicts[0].path.text(), "n");
}

#[test]
fn synthetic_commits_stay_out_of_the_repository() {
    let fixture = Fixture::new();
    let [base, ours, theirs] = conflicting(&fixture);
    let merged = fixture.merge([&base, &ours, &theirs], OnConflict::Markers);
    let form = "--batch-check=%(objecttype) %(objectname)";
    let listed = super::git(&fixture.top(), ["cat-file", "--batch-all-objects", form]);
    assert!(!listed.contains("commit"), "{listed}");
    assert!(
        listed.contains(merged.tree.as_str()),
        "what was merged is there"
    );
}

#[test]
fn a_repository_with_long_ids_merges_too() {
    let dir = tempfile::tempdir().expect("because /tmp is writable");
    super::git(dir.path(), ["init", "-q", "--object-format=sha256", "repo"]);
    let top = dir.path().join("repo");
    let trees = [lines(9, &[]), lines(9, &[(1, "y")]), lines(9, &[(9, "z")])].map(|text| {
        std::fs::write(top.join("a"), text).expect("because it is ours");
        super::git(&top, ["add", "a"]);
        ObjectId::from_str(&super::git(&top, ["write-tree"])).expect("because git prints an id")
    });
    let git = Git::require().expect("because the tests need git");
    // A colon and a quote in the path must not divide git's list.
    let odd = dir.path().join("odd:\"\\space");
    let objects = top.join(".git/objects");
    let space = MergeSpace::create(&git, &odd, &objects, ObjectFormat::of(&trees[0]))
        .expect("because its parent is writable");
    let [base, ours, theirs] = &trees;
    let trees = Trees { base, ours, theirs };
    let merged = space.merge(trees, Style::Zdiff3);
    let merged = merged.expect("because git can merge these trees");
    assert!(merged.clean);
    let shown = git
        .at(&top.join(".git"), Configuration::Hermetic)
        .args(["cat-file", "blob"])
        .arg(format!("{}:a", merged.tree))
        .output();
    let expected = lines(9, &[(1, "y"), (9, "z")]);
    let shown = shown.expect("because it was written there");
    assert_eq!(String::from_utf8_lossy(&shown), expected);
}

#[test]
fn conflicts_and_differences_read_well_and_drive_no_terminal() {
    let fixture = Fixture::new();
    let [base, ours, theirs] = conflicting(&fixture);
    let merged = fixture.merge([&base, &ours, &theirs], OnConflict::Hold);
    let text = render_conflict(&fixture.store, &merged.marked, &merged.conflicts[0]);
    let text = text.expect("because the objects exist");
    assert!(
        text.starts_with("a: both sides changed the same lines\n"),
        "{text}"
    );
    assert!(text.contains("@@ lines 3-9 @@"), "{text}");
    assert!(text.contains("     4 ours 3"), "{text}");
    let from = fixture.tree(&[f("a", "one\ntwo\n"), f("b", "\0"), f("e", "x\n")]);
    let to = fixture.tree(&[f("a", "one\n\x1b[31m2\n"), f("b", "\0\0"), x("e", "x\n")]);
    let text = render_diff(&fixture.store, &from, &to).expect("because the objects exist");
    let expected = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n\
        +\\u{1b}[31m2\ndiff --git a/b b/b\nBinary files a/b and b/b differ\n\
        diff --git a/e b/e\nold mode 100644\nnew mode 100755\n";
    assert_eq!(text, expected);
}
