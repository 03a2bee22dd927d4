//! Many at once, the parent's own doings meanwhile, and removal.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::fixture::{Fixture, agent, chmod, put};
use crate::git::{Error as GitError, Registration};
use crate::workspace::{Error, remove_beneath};

#[test]
fn thirty_two_at_once_are_made_registered_and_removed() {
    let fixture = Fixture::new();
    fixture.write("dirty", "x\n");
    let taken = fixture.snapshot();
    std::thread::scope(|scope| {
        for number in 0..32 {
            let (fixture, taken) = (&fixture, &taken);
            scope.spawn(move || {
                let workspace = fixture
                    .try_create(taken, number, &[])
                    .expect("because the disk takes it");
                assert!(fixture.capture(&workspace).changes.is_empty());
            });
        }
    });
    let repo = fixture.repo();
    let ours = Registration::ours(&repo).expect("because it can be listed");
    let expected: Vec<_> = (0..32)
        .map(|number| (agent(number), fixture.agent_dir(number).join("tree")))
        .collect();
    assert_eq!(ours, expected);
    let list = fixture.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(list.matches("locked cofferdam agent a-").count(), 32);
    fixture.git(&["worktree", "prune"]);
    fixture.git(&["fsck", "--strict"]);
    std::thread::scope(|scope| {
        for number in 0..32 {
            let fixture = &fixture;
            scope.spawn(move || {
                let dir = fixture.agent_dir(number);
                crate::workspace::dispose(&dir).expect("because it is ours");
                crate::workspace::dispose(&dir).expect("because gone is fine");
            });
        }
    });
    assert!(!fixture.top.join(".git/worktrees").exists());
    assert_eq!(fixture.git(&["worktree", "list"]).lines().count(), 1);
    let left = fs::read_dir(&fixture.state)
        .expect("because it is ours")
        .count();
    assert_eq!(left, 1, "only the scratch directory stays");
}

#[test]
fn the_parent_may_commit_and_collect_garbage_meanwhile() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "uncommitted\n");
    let taken = fixture.snapshot();
    fixture
        .repo()
        .create_ref("refs/cofferdam/base/1", &taken.commit)
        .expect("because it is new");
    let workspace = fixture.create(&taken);
    fixture.git(&["checkout", "-q", "--orphan", "elsewhere"]);
    fixture.git(&["commit", "-q", "-m", "unrelated"]);
    fixture.git(&["branch", "-D", "main"]);
    fixture.git(&["reflog", "expire", "--expire=now", "--all"]);
    fixture.git(&["gc", "-q", "--prune=now"]);
    put(&workspace.tree, b"a.txt", b"agent\n");
    fixture.git_in(&workspace.tree, &["commit", "-qam", "inside"]);
    let capture = fixture.capture(&workspace);
    assert_eq!(
        fixture.content(&capture.changes.tree, "a.txt").as_deref(),
        Some("agent\n")
    );
    fixture.git(&["fsck", "--strict"]);
}

#[test]
fn removal_takes_away_whatever_an_agent_left() {
    let fixture = Fixture::new();
    let workspace = fixture.create(&fixture.snapshot());
    let outside = fixture.state.join("outside");
    put(&outside, b"precious", b"x\n");
    let tree = &workspace.tree;
    symlink(&outside, tree.join("to-outside")).expect("because nothing is there");
    put(tree, b"locked/in/file", b"x\n");
    chmod(&tree.join("locked/in"), 0o000);
    chmod(&tree.join("locked"), 0o000);
    // Deeper than a path can name.
    let made = Command::new("sh")
        .current_dir(tree)
        .args(["-c", "n=0; while [ $n -lt 400 ]; do mkdir 0123456789abcdef; cd -P 0123456789abcdef || exit 1; n=$((n+1)); done; touch end"])
        .status()
        .expect("because there is a shell");
    assert!(made.success());
    put(tree, b"deep-1", b"in the way\n");
    crate::workspace::dispose(&workspace.dir).expect("because it is ours");
    assert!(!workspace.dir.exists());
    assert!(outside.join("precious").exists());
    assert!(!fixture.top.join(".git/worktrees").exists());
    // A link in the place of the directory is not followed.
    symlink(&outside, fixture.state.join("bent")).expect("because nothing is there");
    assert!(remove_beneath(&fixture.state.join("bent")).is_err());
    assert!(outside.join("precious").exists());
}

#[test]
fn registrations_of_others_are_never_touched() {
    let fixture = Fixture::new();
    let foreign = fixture.top.join(".git/worktrees").join(agent(1).as_str());
    put(&foreign, b"locked", b"somebody else\n");
    put(
        &foreign,
        b"HEAD",
        fixture.git(&["rev-parse", "HEAD"]).as_bytes(),
    );
    let error = fixture
        .try_create(&fixture.snapshot(), 1, &[])
        .expect_err("because the entry is not ours");
    assert!(matches!(
        error,
        Error::Git(GitError::ForeignRegistration { .. })
    ));
    assert!(foreign.join("locked").exists());
}
