//! A parent repository, the agents' directories beside it, and git.
//!
//! Owns everything beneath one temporary directory, which goes away with it.
//! Git is run here as the person or the agent would run it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use jiff::Timestamp;

use crate::git::{Git, Objects, Repository};
use crate::model::{
    AgentId, Base, ObjectId, RepoPath, TreeMode, ViewMode, WarningKind, WorkspaceChoice,
};
use crate::workspace::{
    Access, Backend, Capture, Error, Ground, Harvest, Order, Snapshot, Stop, Workspace, capture,
    choose, snapshot,
};

pub(super) struct Fixture {
    pub(super) top: PathBuf,
    pub(super) state: PathBuf,
    home: tempfile::TempDir,
}

impl Fixture {
    /// A repository with nothing in it.
    pub(super) fn unborn() -> Self {
        Self::unborn_at("a repo")
    }

    pub(super) fn unborn_at(name: &str) -> Self {
        let home = tempfile::tempdir().expect("because /tmp takes a directory");
        Self::unborn_in(home, name)
    }

    /// A repository with a little of each, on another file system.
    pub(super) fn on(file_system: &Path) -> Self {
        let home = tempfile::tempdir_in(file_system).expect("because it is ours");
        let fixture = Self::unborn_in(home, "a repo");
        fixture.fill();
        fixture
    }

    fn unborn_in(home: tempfile::TempDir, name: &str) -> Self {
        let root = home.path().canonicalize().expect("because it exists");
        let (top, state) = (root.join(name), root.join("state"));
        fs::create_dir_all(&top).expect("because it is ours");
        fs::create_dir_all(state.join("scratch")).expect("because it is ours");
        let fixture = Self { top, state, home };
        fixture.git(&["init", "-q", "-b", "main"]);
        fixture.git(&["config", "user.name", "A Person"]);
        fixture.git(&["config", "user.email", "person@example.invalid"]);
        fixture
    }

    /// A repository with a little of each in one commit.
    pub(super) fn new() -> Self {
        let fixture = Self::unborn();
        fixture.fill();
        fixture
    }

    fn fill(&self) {
        let fixture = self;
        fixture.write("a.txt", "alpha\n");
        fixture.write("run.sh", "#!/bin/sh\n");
        fixture.chmod("run.sh", 0o755);
        fixture.write("src/lib.rs", "pub fn one() {}\n");
        fixture.write("src/deep/er/mod.rs", "// deep\n");
        fixture.write("-rf", "dash\n");
        fixture.write_raw(b"caf\xe9\nnew line", b"raw name\n");
        fixture.link("link", "a.txt");
        fixture.write(".gitignore", "target/\n*.log\n/only-top\n");
        fixture.commit("base");
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.top, args)
    }

    pub(super) fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.try_git(dir, args, &[]);
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(super) fn try_git(&self, dir: &Path, args: &[&str], env: &[(&str, &OsStr)]) -> Output {
        Command::new("git")
            .args([
                "-c",
                "protocol.file.allow=always",
                "-c",
                "commit.gpgSign=false",
            ])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.home.path())
            .envs(env.iter().copied())
            .output()
            .expect("because git is installed")
    }

    pub(super) fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        self.write_raw(path.as_bytes(), text.as_bytes());
    }

    pub(super) fn write_raw(&self, path: &[u8], bytes: &[u8]) {
        put(&self.top, path, bytes);
    }

    pub(super) fn chmod(&self, path: &str, mode: u32) {
        chmod(&self.top.join(path), mode);
    }

    pub(super) fn link(&self, path: &str, text: &str) {
        std::os::unix::fs::symlink(text, self.top.join(path)).expect("because nothing is there");
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_file(self.top.join(path)).expect("because it is there");
    }

    pub(super) fn repo(&self) -> Repository {
        let git = Git::require().expect("because git is installed");
        Repository::discover(&git, &self.top).expect("because it is a repository")
    }

    pub(super) fn objects(&self) -> Objects {
        self.repo().objects().expect("because objects are readable")
    }

    pub(super) fn scratch(&self) -> PathBuf {
        self.state.join("scratch")
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        snapshot(&self.repo(), &Base::Worktree, &self.scratch()).expect("because it can be read")
    }

    /// What `git add -A` and `git write-tree` make of the working tree, on an
    /// index and objects of their own.
    pub(super) fn oracle(&self) -> ObjectId {
        self.oracle_of(&self.top, &self.top.join(".git"))
    }

    pub(super) fn oracle_of(&self, tree: &Path, git_dir: &Path) -> ObjectId {
        let index = self.state.join("oracle-index");
        drop(fs::remove_file(&index));
        let env: [(&str, &OsStr); 3] = [
            ("GIT_INDEX_FILE", index.as_os_str()),
            ("GIT_DIR", git_dir.as_os_str()),
            ("GIT_WORK_TREE", tree.as_os_str()),
        ];
        for args in [
            &["read-tree", "HEAD"][..],
            &["-c", "advice.addEmbeddedRepo=false", "add", "-A"],
        ] {
            // An unborn HEAD has no tree to read.
            let output = self.try_git(tree, args, &env);
            assert!(output.status.success() || args[0] == "read-tree");
        }
        let output = self.try_git(tree, &["write-tree"], &env);
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .expect("because git prints an id")
    }

    pub(super) fn listing(&self, tree: &ObjectId) -> BTreeMap<Vec<u8>, (TreeMode, Vec<u8>)> {
        let objects = self.objects();
        let entries = objects.entries(tree).expect("because the tree is there");
        entries
            .into_iter()
            .map(|entry| {
                let bytes = match entry.mode {
                    TreeMode::Gitlink => entry.oid.as_str().as_bytes().to_vec(),
                    TreeMode::File | TreeMode::Executable | TreeMode::Symlink => {
                        objects.read_blob(&entry.oid).expect("because it is there")
                    }
                };
                (entry.path.as_bytes().to_vec(), (entry.mode, bytes))
            })
            .collect()
    }

    pub(super) fn content(&self, tree: &ObjectId, path: &str) -> Option<String> {
        let path = RepoPath::from_bytes(path.as_bytes()).expect("because it is plain");
        let objects = self.objects();
        let entry = objects
            .entry(tree, &path)
            .expect("because it is readable")?;
        let bytes = objects.read_blob(&entry.oid).expect("because it is there");
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn backend(&self) -> Arc<dyn Backend> {
        let repo = self.repo();
        let ground = Ground {
            repo: &repo,
            state: &self.state,
            bases: &self.state.join("bases"),
            mode: ViewMode::InPlace,
            merges: Err("nothing is mounted"),
            warm: None,
        };
        choose(WorkspaceChoice::Auto, ground)
            .expect("because one backend works everywhere")
            .0
    }

    pub(super) fn agent_dir(&self, number: u64) -> PathBuf {
        self.state.join(agent(number).as_str())
    }

    pub(super) fn try_create(
        &self,
        snapshot: &Snapshot,
        number: u64,
        carry: &[String],
    ) -> Result<Workspace, Error> {
        let dir = self.agent_dir(number);
        fs::create_dir_all(&dir).expect("because it is ours");
        self.backend().create(&Order {
            repo: &self.repo(),
            snapshot,
            agent: &agent(number),
            dir: &dir,
            mode: ViewMode::InPlace,
            carry,
            writer: Access::Writer,
            stop: Stop::NEVER,
            now: jiff::Timestamp::UNIX_EPOCH,
        })
    }

    pub(super) fn create(&self, snapshot: &Snapshot) -> Workspace {
        self.try_create(snapshot, 1, &[])
            .expect("because the disk takes it")
    }

    pub(super) fn keep(&self) -> PathBuf {
        self.state.join("keep")
    }

    pub(super) fn capture(&self, workspace: &Workspace) -> Capture {
        let keep = self.keep();
        let harvest = Harvest {
            keep: &keep,
            at: Timestamp::UNIX_EPOCH,
            message: "result",
        };
        capture(workspace, &harvest).expect("because it can be read")
    }

    /// The bytes of everything in the parent's git directory that is not ours
    /// and no object.
    pub(super) fn git_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let root = self.top.join(".git");
        walkdir::WalkDir::new(&root)
            .into_iter()
            .map(|entry| entry.expect("because it can be listed"))
            .filter(|entry| entry.file_type().is_file())
            .map(|entry| {
                let path = entry.path().strip_prefix(&root).expect("because it is in");
                (
                    path.to_owned(),
                    fs::read(entry.path()).expect("because it is a file"),
                )
            })
            .filter(|(path, _)| {
                !["objects", "cofferdam", "worktrees"]
                    .iter()
                    .any(|ours| path.starts_with(ours))
            })
            .collect()
    }
}

pub(super) fn agent(number: u64) -> AgentId {
    AgentId::from_bits(number)
}

pub(super) fn put(root: &Path, path: &[u8], bytes: &[u8]) {
    let path = root.join(OsStr::from_bytes(path));
    fs::create_dir_all(path.parent().expect("because it is beneath")).expect("because it is ours");
    fs::write(path, bytes).expect("because it is ours");
}

pub(super) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("because it is ours");
}

pub(super) fn warned(warnings: &[crate::model::Warning]) -> Vec<(String, WarningKind)> {
    warnings
        .iter()
        .map(|warning| (warning.path.text().to_owned(), warning.kind))
        .collect()
}
