//! A repository in a temporary directory, and git as a person would run it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::git::{Error, Git, Objects, Repository};
use crate::model::ObjectId;

pub(super) struct Fixture {
    pub(super) home: tempfile::TempDir,
    pub(super) top: PathBuf,
}

impl Fixture {
    pub(super) fn with(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("because /tmp takes a directory");
        let top = home
            .path()
            .canonicalize()
            .expect("because it exists")
            .join("r");
        fs::create_dir(&top).expect("because it is ours");
        let fixture = Self { home, top };
        fixture.git(&[&["init", "-q", "-b", "main"], arguments].concat());
        fixture
    }

    pub(super) fn new() -> Self {
        let fixture = Self::with(&[]);
        for (path, text) in [
            ("a", "1\n"),
            ("d/x", "2\n"),
            ("d/y/z", "3\n"),
            ("d.c", "4\n"),
        ] {
            let path = fixture.top.join(path);
            fs::create_dir_all(path.parent().expect("because it has one")).expect("ours");
            fs::write(path, text).expect("because it is ours");
        }
        fixture.git(&["add", "-A"]);
        fixture.git(&["commit", "-q", "-m", "one"]);
        fixture
    }

    pub(super) fn git_in(&self, directory: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=x", "-c", "user.email=x@example.invalid"])
            .args(arguments)
            .current_dir(directory)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.home.path())
            .output()
            .expect("because git is installed");
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    pub(super) fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.top, arguments)
    }

    pub(super) fn oid(&self, rev: &str) -> ObjectId {
        let text = self.git(&["rev-parse", rev]);
        text.parse().expect("because git prints an id")
    }

    pub(super) fn discover(&self, directory: &Path) -> Result<Repository, Error> {
        Repository::discover(
            &Git::require().expect("because git is installed"),
            directory,
        )
    }

    pub(super) fn repo(&self) -> Repository {
        self.discover(&self.top)
            .expect("because it is a repository")
    }

    pub(super) fn objects(&self) -> Objects {
        self.repo().objects().expect("because they are readable")
    }
}
