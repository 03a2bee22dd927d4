//! A repository of a test, in any state.
//!
//! Owns putting it there with plain files and plain git, and asking plain git
//! about it afterwards. Acts as whoever acts in the test's world.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::env::TestEnv;
use super::print::TreePrint;
use super::run::{Run, Running};

/// A repository with a working tree.
#[derive(Debug)]
pub(crate) struct Repo<'e> {
    env: &'e TestEnv,
    root: PathBuf,
}

impl<'e> Repo<'e> {
    pub(super) fn new(env: &'e TestEnv, root: PathBuf) -> Self {
        Self { env, root }
    }

    /// The world that it stands in.
    pub(crate) fn env(&self) -> &'e TestEnv {
        self.env
    }

    /// Its top directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path in it.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Writes a file.
    pub(crate) fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        self.env.put(&self.path(path), content);
    }

    /// Puts one line in place of another in a file.
    #[track_caller]
    pub(crate) fn edit(&self, path: &str, old: &str, new: &str) {
        let text = self.text(path);
        assert!(text.contains(old), "`{old}` is not in {path}:\n{text}");
        self.write(path, text.replacen(old, new, 1));
    }

    /// Deletes a file.
    pub(crate) fn delete(&self, path: impl AsRef<Path>) {
        let path = self.path(path);
        fs::remove_file(&path).unwrap_or_else(|error| panic!("delete {}: {error}", path.display()));
    }

    /// The text of a file, lossy.
    #[track_caller]
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> String {
        let path = self.path(path);
        let bytes =
            fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether anything stands at a path.
    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    /// The permission bits of a path.
    pub(crate) fn mode(&self, path: impl AsRef<Path>) -> u32 {
        let path = self.path(path);
        fs::symlink_metadata(&path)
            .unwrap_or_else(|error| panic!("look at {}: {error}", path.display()))
            .permissions()
            .mode()
            & 0o777
    }

    /// Runs git in it, whatever it ends with.
    pub(crate) fn try_git<I, S>(&self, arguments: I) -> Run
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.env.finish(
            self.env
                .command("git")
                .args(arguments)
                .current_dir(&self.root),
        )
    }

    /// Runs git in it and returns what it printed.
    #[track_caller]
    pub(crate) fn git<I, S>(&self, arguments: I) -> String
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.try_git(arguments).expect_code(0).stdout
    }

    /// Commits everything that stands in it.
    pub(crate) fn commit_all(&self, message: &str) {
        self.git(["add", "-A"]);
        self.git(["commit", "-q", "-m", message]);
    }

    /// What `git status` says, for machines.
    pub(crate) fn status(&self) -> String {
        self.git(["status", "--porcelain=v1", "-uall"])
    }

    /// The tree that git makes of everything that stands in it; index and
    /// refs stay as they are.
    pub(crate) fn tree_of_files(&self) -> String {
        let index = self.env.root().join("scratch-index");
        let git = |arguments: &[&str]| {
            self.env
                .finish(
                    self.env
                        .command("git")
                        .args(arguments)
                        .env("GIT_INDEX_FILE", &index)
                        .current_dir(&self.root),
                )
                .expect_code(0)
                .stdout
        };
        git(&["read-tree", "HEAD"]);
        git(&["add", "-A"]);
        let tree = git(&["write-tree"]);
        fs::remove_file(&index).expect("because git wrote the index a moment ago");
        tree.trim().to_owned()
    }

    /// A file of a tree or commit, by any name that git takes.
    #[track_caller]
    pub(crate) fn show(&self, tree: &str, path: &str) -> String {
        self.git(["cat-file", "blob", &format!("{tree}:{path}")])
    }

    /// The refs that the program added, one name a line.
    pub(crate) fn added_refs(&self) -> Vec<String> {
        self.git(["for-each-ref", "--format=%(refname)", "refs/cofferdam"])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// A fingerprint of files, index, configuration, hooks and refs.
    pub(crate) fn print(&self) -> TreePrint {
        TreePrint::of_repository(&self.root)
    }

    /// Demands, when the test is over, that git's own files have not moved.
    pub(crate) fn expect_unchanged(&self) {
        let mut watched = self.env.watched.borrow_mut();
        for entry in watched.iter_mut().filter(|entry| entry.root == self.root) {
            entry.authority = Some(TreePrint::of_authority(&self.root));
        }
    }

    /// Runs the program in it.
    pub(crate) fn cofferdam<I, S>(&self, arguments: I) -> Run
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.env.cofferdam_in(&self.root, arguments)
    }

    /// Starts the program in it.
    pub(crate) fn start<I, S>(&self, arguments: I) -> Running
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        Running::start(self.env.program().args(arguments).current_dir(&self.root))
    }

    /// Starts one shell script as an agent, with these options of `run`, and
    /// waits until it prints `ready`.
    #[track_caller]
    pub(crate) fn ready(&self, options: &[&str], script: &str) -> Running {
        let run = self.start([&["run"], options, &["--", "sh", "-c", script]].concat());
        run.wait_for("ready");
        run
    }

    /// Runs one shell script as an agent, with the record on standard output.
    pub(crate) fn agent(&self, script: &str) -> Run {
        self.cofferdam(["run", "--json", "--", "sh", "-c", script])
    }

    /// As [`Repo::agent`], with what is to become of the result.
    pub(crate) fn agent_integrating(&self, choice: &str, script: &str) -> Run {
        let options = ["run", "--json", "--integrate", choice];
        self.cofferdam([&options[..], &["--", "sh", "-c", script]].concat())
    }

    /// Writes a plan outside of the repository and returns its path.
    pub(crate) fn plan(&self, text: &str) -> PathBuf {
        let path = self.env.root().join("PLAN.toml");
        self.env.put(&path, text);
        path
    }
}
