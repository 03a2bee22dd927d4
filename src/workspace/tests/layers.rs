//! What an agent sees through the layers is what the parent has.
//!
//! The layers are merged by the kernel in namespaces of their own, at the
//! repository's own path, as an ordinary user may.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fixture::{Fixture, agent};
use crate::model::{Base, ViewMode, ViewSource, WorkspaceChoice};
use crate::workspace::{
    Access, Ground, Order, Snapshot, Stop, Workspace, choose, dispose, snapshot,
};

/// Prints every path with its kind, mode and bytes, and what git says.
const LOOK: &str = r#"
find . -path ./.git -prune -o -printf '%p %y %m\n' | LC_ALL=C sort
find . -path ./.git -prune -o -type l -printf '%p -> %l\n' | LC_ALL=C sort
find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0r sha1sum
git status --porcelain=v2 --untracked-files=all
git diff --stat
git ls-files --stage
"#;

pub(super) struct Scene<'a> {
    pub(super) fixture: &'a Fixture,
    pub(super) taken: Snapshot,
}

impl Scene<'_> {
    pub(super) fn create(&self, number: u64, carry: &[String]) -> Workspace {
        let repo = self.fixture.repo();
        let bases = self.fixture.state.join("bases");
        let ground = Ground {
            repo: &repo,
            state: &self.fixture.state,
            bases: &bases,
            mode: ViewMode::Mounted,
            merges: Ok(()),
            warm: None,
        };
        let (backend, reason) =
            choose(WorkspaceChoice::Auto, ground).expect("because it can be had");
        assert!(reason.starts_with("overlay: "), "{reason}");
        let dir = self.fixture.agent_dir(number);
        fs::create_dir_all(&dir).expect("because it is ours");
        let order = Order {
            repo: &repo,
            snapshot: &self.taken,
            agent: &agent(number),
            dir: &dir,
            mode: ViewMode::Mounted,
            carry,
            writer: Access::Writer,
            stop: Stop::NEVER,
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        backend.create(&order).expect("because the disk takes it")
    }
}

fn shell(at: &Path, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(at)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .expect("because there is a shell");
    let (out, err) = (output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert_eq!(err, "");
    String::from_utf8_lossy(&out).into_owned()
}

/// Runs a script where the agent would.
fn inside(workspace: &Workspace, script: &str) -> String {
    let mut mounts = String::new();
    for mount in &workspace.view.mounts {
        let target = quoted(&mount.target);
        let made = match &mount.source {
            ViewSource::Path(source) => format!("mount --rbind {} {target}\n", quoted(source)),
            ViewSource::Layers { lower, upper, work } => {
                let [delta, base] = &lower[..] else {
                    panic!("there are two layers");
                };
                // Links without characters that mean something to `mount`.
                format!(
                    "d=$(mktemp -d); mount -t tmpfs none $d; cd $d; ln -s {} 1; ln -s {} 2; ln -s {} u; ln -s {} w\n\
                     mount -t overlay none -o userxattr,volatile,lowerdir=1:2,upperdir=u,workdir=w {target}\n\
                     cd {target}; umount $d; rmdir $d\n",
                    quoted(delta),
                    quoted(base),
                    quoted(upper),
                    quoted(work)
                )
            }
        };
        mounts.push_str(&made);
    }
    let script = format!("{mounts}{script}");
    let at = workspace.original();
    let command = format!(
        "exec unshare --user --map-root-user --mount sh -ec {}",
        quoted(Path::new(&script))
    );
    shell(at, &command)
}

pub(super) fn quoted(path: &Path) -> String {
    let text = path.to_str().expect("because the fixture names it so");
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn sees_the_same(fixture: &Fixture, what: &str) {
    let taken = fixture.snapshot();
    let scene = Scene { fixture, taken };
    let workspace = scene.create(1, &[]);
    let (here, there) = (shell(&fixture.top, LOOK), inside(&workspace, LOOK));
    assert_eq!(there, here, "{what}");
    // Nothing that the agent does without changing anything shows up above.
    let names: Vec<PathBuf> = walkdir::WalkDir::new(&workspace.tree)
        .into_iter()
        .map(|entry| entry.expect("because it can be listed").into_path())
        .filter(|path| path.is_file() && !path.starts_with(workspace.tree.join(".git")))
        .collect();
    assert_eq!(names, Vec::<PathBuf>::new(), "{what}");
    dispose(&workspace.dir).expect("because it is ours");
    assert!(!workspace.dir.exists());
}

type Change = fn(&Fixture);

/// What a person may have done.
const CHANGES: &[(&str, Change)] = &[
    ("converted", |f| {
        f.write(".gitattributes", "*.crlf text eol=crlf\n*.id ident\n");
        f.write("x.crlf", "a\r\nb\r\n");
        f.write("y.id", "$Id$\n");
        f.commit("converted");
        f.remove("y.id");
        f.git(&["checkout", "-q", "y.id"]);
    }),
    ("clean", |_| {}),
    ("modified", |f| f.write("a.txt", "other\n")),
    ("untracked", |f| f.write("src/new/file", "new\n")),
    ("deleted", |f| f.remove("a.txt")),
    ("a directory deleted", |f| {
        fs::remove_dir_all(f.top.join("src")).expect("because it is there")
    }),
    ("the last file of a directory", |f| {
        fs::remove_dir_all(f.top.join("src/deep")).expect("because it is there");
    }),
    ("file to directory", |f| {
        f.remove("a.txt");
        f.write("a.txt/inner/most", "x\n");
    }),
    ("directory to file", |f| {
        fs::remove_dir_all(f.top.join("src")).expect("because it is there");
        f.write("src", "a file\n");
    }),
    ("link to file, file to link", |f| {
        f.remove("link");
        f.write("link", "a.txt");
        f.remove("a.txt");
        f.link("a.txt", "src/lib.rs");
    }),
    ("mode", |f| f.chmod("a.txt", 0o755)),
    ("staged", |f| {
        f.write("a.txt", "staged\n");
        f.write("more", "staged too\n");
        f.git(&["rm", "-q", "--cached", "run.sh"]);
        f.git(&["add", "a.txt", "more"]);
        f.write("a.txt", "and changed again\n");
    }),
    ("announced", |f| {
        f.write("later", "x\n");
        f.git(&["add", "-N", "later"]);
    }),
    ("assumed unchanged", |f| {
        f.git(&["update-index", "--assume-unchanged", "a.txt"]);
        f.write("a.txt", "unseen\n");
    }),
    ("sparse", |f| {
        f.git(&["sparse-checkout", "set", "--cone", "src/deep"]);
    }),
    ("sparse, by file", |f| {
        f.git(&[
            "sparse-checkout",
            "set",
            "--no-cone",
            "/*",
            "!/a.txt",
            "!/src/deep/",
        ]);
    }),
    ("in conflict", |f| {
        f.git(&["checkout", "-q", "-b", "side"]);
        f.write("a.txt", "theirs\n");
        f.commit("theirs");
        f.git(&["checkout", "-q", "main"]);
        f.write("a.txt", "ours\n");
        f.commit("ours");
        let merged = f.try_git(&f.top, &["merge", "side"], &[]);
        assert!(!merged.status.success());
    }),
    ("no index", |f| {
        fs::remove_file(f.top.join(".git/index")).expect("because it is there");
    }),
];

#[test]
fn whatever_the_parent_has_is_seen() {
    for (what, change) in CHANGES {
        let fixture = Fixture::new();
        change(&fixture);
        sees_the_same(&fixture, what);
    }
}

#[test]
fn an_unborn_branch_is_seen() {
    let fixture = Fixture::unborn();
    sees_the_same(&fixture, "nothing at all");
    fixture.write("first", "1\n");
    sees_the_same(&fixture, "a file");
    fixture.git(&["add", "first"]);
    sees_the_same(&fixture, "a staged file");
}

#[test]
fn a_checkout_of_an_older_commit_serves_with_what_changed_since() {
    let fixture = Fixture::new();
    sees_the_same(&fixture, "the first");
    let base = bases(&fixture);
    fixture.write("a.txt", "second\n");
    fixture.remove("run.sh");
    fixture.write("src/more.rs", "more\n");
    fixture.commit("second");
    fixture.write("src/lib.rs", "uncommitted\n");
    sees_the_same(&fixture, "a commit later");
    assert_eq!(bases(&fixture), base, "no other was made");
}

fn bases(fixture: &Fixture) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(fixture.state.join("bases"))
        .min_depth(2)
        .max_depth(2);
    let paths = entries
        .into_iter()
        .map(|entry| entry.expect("because it is ours").into_path());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

#[test]
fn a_revision_is_seen_without_what_is_uncommitted() {
    let fixture = Fixture::new();
    let before = shell(&fixture.top, LOOK);
    fixture.write("a.txt", "uncommitted\n");
    let repo = fixture.repo();
    let revision = Base::Revision("HEAD".to_owned());
    let taken = snapshot(&repo, &revision, &fixture.state.join("scratch"));
    let taken = taken.expect("because it is a commit");
    let scene = Scene {
        fixture: &fixture,
        taken,
    };
    let workspace = scene.create(1, &[]);
    assert_eq!(inside(&workspace, LOOK), before);
}

#[test]
fn agents_of_one_snapshot_share_all_but_what_they_change() {
    let fixture = Fixture::new();
    fixture.write("target/cache", "built\n");
    fixture.write("a.txt", "uncommitted\n");
    let carry = ["target/".to_owned()];
    let scene = Scene {
        fixture: &fixture,
        taken: fixture.snapshot(),
    };
    let (one, two) = (scene.create(1, &carry), scene.create(2, &carry));
    assert_eq!(
        inside(
            &one,
            "cat target/cache a.txt; echo mine > a.txt; rm -r target src; git mv run.sh walk.sh; git status --short; git add -A; git -c user.name=x -c user.email=x@y commit -qm one; git log --oneline | wc -l"
        ),
        "built\nuncommitted\n M a.txt\n D src/deep/er/mod.rs\n D src/lib.rs\nR  run.sh -> walk.sh\n2\n"
    );
    assert_eq!(
        inside(
            &two,
            "cat target/cache a.txt run.sh; git log --oneline | wc -l; git status --short"
        ),
        "built\nuncommitted\n#!/bin/sh\n1\n M a.txt\n"
    );
    assert_eq!(
        fs::read(fixture.top.join("target/cache")).ok(),
        Some(b"built\n".to_vec())
    );
    assert_eq!(fixture.git(&["status", "--short"]), " M a.txt\n");
}

#[test]
fn what_was_built_and_carried_along_stays_older_or_newer_than_its_sources() {
    let fixture = Fixture::new();
    sees_the_same(&fixture, "the checkout is made");
    // Built, then changed and changed back: the file is newer than what was
    // built, and no byte of it says so.
    fixture.write("target/built", "from alpha\n");
    let later = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(2_000_000_000);
    fs::File::options()
        .append(true)
        .open(fixture.top.join("a.txt"))
        .and_then(|file| file.set_modified(later))
        .expect("because it is ours");
    fixture.git(&["status"]);
    let taken = fixture.snapshot();
    let scene = Scene {
        fixture: &fixture,
        taken,
    };
    let workspace = scene.create(1, &["target/".to_owned()]);
    let script =
        "test a.txt -nt target/built; ! test src/lib.rs -nt target/built; git status --short";
    assert_eq!(inside(&workspace, script), "");
}

#[test]
fn what_is_carried_and_what_is_gone_may_lie_in_one_place() {
    let fixture = Fixture::new();
    fixture.write(".env", "committed\n");
    fixture.write("dist/one", "1\n");
    fixture.write("dist/sub/two", "2\n");
    fixture.commit("what should not have been");
    fixture.git(&["rm", "-q", "--cached", "-r", ".env", "dist"]);
    fs::remove_file(fixture.top.join("dist/one")).expect("because it is there");
    fixture.write(".gitignore", ".env\ndist/\n");
    fixture.write(".env", "SECRET\n");
    fixture.write("dist/cache", "built\n");
    let carry = [".env".to_owned(), "dist/cache".to_owned()];
    let taken = fixture.snapshot();
    let scene = Scene {
        fixture: &fixture,
        taken,
    };
    let workspace = scene.create(1, &carry);
    let seen = inside(&workspace, "cat .env; find dist | sort");
    assert_eq!(seen, "SECRET\ndist\ndist/cache\n");
    // An older commit's own file is what its agents get, and it is told.
    let revision = Base::Revision("HEAD".to_owned());
    let taken = snapshot(&fixture.repo(), &revision, &fixture.state.join("scratch"));
    let scene = Scene {
        fixture: &fixture,
        taken: taken.expect("because it is a commit"),
    };
    let workspace = scene.create(2, &carry);
    let seen = inside(&workspace, "cat .env; find dist | sort; git status --short");
    assert_eq!(
        seen,
        "committed\ndist\ndist/cache\ndist/one\ndist/sub\ndist/sub/two\n?? dist/cache\n"
    );
    let told: Vec<&str> = workspace
        .warnings
        .iter()
        .map(|one| one.path.text())
        .collect();
    assert_eq!(told, [".env"]);
}
