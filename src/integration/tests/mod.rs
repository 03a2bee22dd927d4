//! Tests of integration on real repositories.
//!
//! Owns the test's own object store (on the library) and the fixture: a
//! repository, trees written as tables, git itself as oracle.

mod landing;
mod laws;
mod meanwhile;
mod merge_cases;
mod merge_table;
mod merging;
mod recovery;
mod scene;
mod store;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use tempfile::TempDir;

use super::{Authority, Doubt, Edit, Entry, Merged, ObjectStore, Proposal};
use crate::config::Scope;
use crate::git::{Git, MergeSpace, ObjectFormat};
use crate::model::{ObjectId, OnConflict, RepoPath, TreeMode};
use store::Store;

/// A path from any bytes.
fn path(bytes: impl AsRef<[u8]>) -> RepoPath {
    RepoPath::from_bytes(bytes.as_ref()).expect("because the test names a plain path")
}

/// One entry of a tree in a table.
#[derive(Clone)]
struct Row(TreeMode, Vec<u8>, Vec<u8>);

impl Row {
    fn new(mode: TreeMode, path: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Self {
        Self(mode, path.as_ref().to_vec(), bytes.as_ref().to_vec())
    }
}

fn f(path: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> Row {
    Row::new(TreeMode::File, path, text)
}

fn x(path: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> Row {
    Row::new(TreeMode::Executable, path, text)
}

fn l(path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Row {
    Row::new(TreeMode::Symlink, path, target)
}

/// A submodule; the digit makes up its commit.
fn g(path: impl AsRef<[u8]>, digit: &str) -> Row {
    Row::new(TreeMode::Gitlink, path, digit.repeat(40))
}

/// Numbered lines, some of them replaced.
fn lines(count: usize, replaced: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let own = replaced.iter().find(|(at, _)| *at == number);
        own.map_or_else(
            || format!("line {number}\n"),
            |(_, text)| format!("{text}\n"),
        )
    };
    (1..=count).map(line).collect()
}

/// A repository of its own, and a place to merge in.
struct Fixture {
    dir: TempDir,
    store: Store,
    space: MergeSpace,
    scope: Scope,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let top = dir.path().join("repo");
        git(dir.path(), ["init", "-q", "-b", "main", "repo"]);
        let store = Store(git2::Repository::open(&top).expect("because it was just made"));
        let found = Git::require().expect("because the tests need git");
        let space = MergeSpace::create(
            &found,
            &dir.path().join("space"),
            &top.join(".git/objects"),
            ObjectFormat::Sha1,
        );
        Self {
            store,
            space: space.expect("because its parent is writable"),
            scope: Scope::everything().expect("because the glob is right"),
            dir,
        }
    }

    fn top(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    fn tree(&self, rows: &[Row]) -> ObjectId {
        self.edited(&self.store.empty_tree(), rows)
    }

    /// A tree with more entries.
    fn edited(&self, tree: &ObjectId, rows: &[Row]) -> ObjectId {
        let put = |Row(mode, at, bytes): &Row| {
            let oid = match mode {
                TreeMode::Gitlink => {
                    ObjectId::from_str(&String::from_utf8_lossy(bytes)).expect("because it is one")
                }
                TreeMode::File | TreeMode::Executable | TreeMode::Symlink => self
                    .store
                    .write_blob(bytes)
                    .expect("because objects can be written"),
            };
            let entry = Entry { mode: *mode, oid };
            Edit::Put {
                path: path(at),
                entry,
            }
        };
        let edits: Vec<_> = rows.iter().map(put).collect();
        self.store
            .edit_tree(tree, &edits)
            .expect("because objects can be written")
    }

    fn merge(&self, trees: [&ObjectId; 3], on_conflict: OnConflict) -> Merged {
        super::merge(&self.space, &self.store, &self.proposal(trees, on_conflict))
            .expect("because git can merge these trees")
    }

    fn proposal<'a>(&'a self, trees: [&'a ObjectId; 3], on_conflict: OnConflict) -> Proposal<'a> {
        let [base_tree, ours_tree, theirs_tree] = trees;
        Proposal {
            base_tree,
            ours_tree,
            theirs_tree,
            scope: &self.scope,
            authority: Authority::Launcher,
            on_conflict,
            doubt: Doubt::Warn,
        }
    }

    /// The bytes at a path of a tree.
    fn text(&self, tree: &ObjectId, at: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let entry = self
            .store
            .entry(tree, &path(at))
            .expect("because the tree exists")?;
        let bytes = self.store.read_blob(&entry.oid);
        Some(bytes.expect("because the blob exists"))
    }

    /// The paths of a tree, lossy.
    fn paths(&self, tree: &ObjectId) -> Vec<String> {
        let entries = self.store.entries(tree).expect("because the tree exists");
        entries.iter().map(|(path, _)| path.to_string()).collect()
    }

    /// What `git merge` makes of the trees in a worktree of its own.
    fn oracle(&self, [base, ours, theirs]: [&ObjectId; 3]) -> Option<ObjectId> {
        let top = self.top();
        let commit = |tree: &ObjectId, parents: &[&str]| {
            let mut words = vec!["commit-tree", "-m", "x", tree.as_str()];
            parents
                .iter()
                .for_each(|parent| words.extend(["-p", parent]));
            git(&top, words)
        };
        let base = commit(base, &[]);
        let (ours, theirs) = (commit(ours, &[&base]), commit(theirs, &[&base]));
        let tree = self.dir.path().join("oracle");
        let place = tree.to_str().expect("because the temporary path is text");
        let add = ["worktree", "add", "-q", "--detach", "--force", place, &ours];
        git(&top, add);
        let renormalize = "merge.renormalize=true";
        let merge = [
            "-c",
            renormalize,
            "merge",
            "-q",
            "--no-commit",
            "--no-ff",
            &theirs,
        ];
        let merged = run(&tree, merge);
        let clean = merged.status.success();
        let result = clean.then(|| git(&tree, ["write-tree"]));
        git(&top, ["worktree", "remove", "--force", place]);
        result.map(|text| ObjectId::from_str(&text).expect("because git prints an id"))
    }
}

/// Runs git, hermetically, whatever it ends with.
fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(dir: &Path, words: I) -> std::process::Output {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
        .args(words)
        .output()
        .expect("because the tests need git")
}

/// Runs git, which must succeed, and returns its trimmed output.
fn git<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(dir: &Path, words: I) -> String {
    let output = run(dir, words);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
