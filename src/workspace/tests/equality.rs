//! Whatever an agent does, every way of finding it finds the same.
//!
//! One random program is carried out on a plain copy, over layers in a user
//! namespace, and, where this process may, over layers as the superuser
//! mounts them. The captures are equal, and where git is of the same opinion
//! the tree is what it would add.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::edits::{Program, programs};
use super::fixture::{Fixture, warned};
use super::layers::{Scene, quoted};
use crate::model::{Change, ObjectId, ViewSource, WarningKind};
use crate::workspace::lowers::Attributes;
use crate::workspace::{Harvest, Workspace, capture, dispose};

/// Where the process that carries out a program finds what to do.
const TOLD: &str = "COFFERDAM_TEST_EDITS";
/// A number for another series of programs, and how many.
const SERIES: &str = "COFFERDAM_TEST_SERIES";
const PROGRAMS: &str = "COFFERDAM_TEST_PROGRAMS";

const CARRIED: [(&str, &str); 3] = [
    (".env", "SECRET=1\n"),
    ("node_modules/b/x", "carried\n"),
    ("node_modules/y", "carried too\n"),
];

/// A kept path: what it is, and its bytes or the text of a link, escaped.
type Kept = BTreeMap<String, (String, String)>;

/// Everything that a capture says and leaves.
#[derive(Debug, PartialEq)]
struct Summary {
    tree: ObjectId,
    changes: Vec<Change>,
    ignored: Vec<(String, u64)>,
    warnings: Vec<(String, WarningKind)>,
    kept: Kept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mounter {
    User,
    Superuser,
}

/// The parent, the same for every program.
struct Ground {
    fixture: Fixture,
    /// Whether git is asked, too.
    gits: bool,
}

impl Ground {
    fn usual() -> Self {
        let fixture = Fixture::new();
        fixture.write(
            ".gitignore",
            "target/\n*.log\n/only-top\n.env\nnode_modules/\n",
        );
        fixture.write("src/deep/other", "other\n");
        fixture.write("doomed/one", "1\n");
        fixture.commit("more");
        for (path, text) in CARRIED {
            fixture.write(path, text);
        }
        // The parent's own changes are a layer of their own.
        fixture.write("a.txt", "uncommitted\n");
        fixture.write("src/untracked", "untracked\n");
        fixture.write("y/deep/new", "new\n");
        fs::remove_dir_all(fixture.top.join("doomed")).expect("because it is there");
        fixture.remove("src/deep/other");
        Self {
            fixture,
            gits: true,
        }
    }

    /// With a submodule, and with files that are not checked out.
    fn odd() -> Self {
        let other = Fixture::new();
        let mut ground = Self::usual();
        let fixture = &ground.fixture;
        let url = other.top.display().to_string();
        fixture.git(&["submodule", "--quiet", "add", &url, "sub"]);
        fixture.git(&["submodule", "--quiet", "add", &url, "src/b"]);
        fixture.write("x/y/lib.rs", "sparse\n");
        fixture.write("src/fresh/only", "sparse\n");
        fixture.commit("odd");
        let sparse = ["/*", "!/x/", "!/src/fresh/", "!/src/lib.rs"];
        let mut set = vec!["sparse-checkout", "set", "--no-cone"];
        set.extend(sparse);
        fixture.git(&set);
        ground.gits = false;
        ground
    }
}

/// Carries out what another test tells it to, in a process of its own; told
/// nothing, sees that a program survives being written down.
#[test]
fn a_program_is_carried_out_as_it_was_written_down() {
    if let Some(told) = std::env::var_os(TOLD) {
        let told = PathBuf::from(told);
        let text = fs::read(told.join("program")).expect("because it was told");
        let (root, program): (PathBuf, Program) =
            serde_json::from_slice(&text).expect("because it is one");
        let done = program.run(&root);
        let done = serde_json::to_vec(&done).expect("because it is plain");
        return fs::write(told.join("done"), done).expect("because it is ours");
    }
    let mut runner = runner(16);
    let run = runner.run(&programs(), |program| {
        let text = serde_json::to_string(&program).expect("because it is plain");
        let again: Program = serde_json::from_str(&text).expect("because it was just written");
        let done = [program, again].map(|program| {
            let dir = tempfile::tempdir().expect("because /tmp takes a directory");
            let done = program.run(dir.path());
            (done, kept(dir.path()))
        });
        match done[0] == done[1] {
            true => Ok(()),
            false => Err(TestCaseError::fail(format!("{done:?}"))),
        }
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_way_of_finding_finds_the_same() {
    check(&Ground::usual(), 20);
}

#[test]
fn every_way_of_finding_finds_the_same_with_what_is_not_checked_out() {
    check(&Ground::odd(), 10);
}

fn runner(cases: u32) -> TestRunner {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let asked = number(PROGRAMS).and_then(|cases| cases.try_into().ok());
    let cases = asked.unwrap_or(cases);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&number(SERIES).unwrap_or(0).to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

fn check(ground: &Ground, cases: u32) {
    let agents = std::cell::Cell::new(0);
    let scene = Scene {
        fixture: &ground.fixture,
        taken: ground.fixture.snapshot(),
    };
    let run = runner(cases).run(&programs(), |program| {
        let number = agents.get() + 10;
        agents.set(number);
        let plain = of_plain_files(&scene, number, &program, ground.gits);
        for (mounter, number) in [
            (Mounter::User, number + 1),
            (Mounter::Superuser, number + 2),
        ] {
            let Some(layers) = of_layers(&scene, number, &program, mounter) else {
                continue;
            };
            if layers != plain {
                let message = format!("{mounter:?}\n{layers:#?}\nis not\n{plain:#?}");
                return Err(TestCaseError::fail(message));
            }
        }
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}

fn carry() -> Vec<String> {
    vec![".env".to_owned(), "node_modules/".to_owned()]
}

fn of_plain_files(
    scene: &Scene<'_>,
    number: u64,
    program: &Program,
    gits: bool,
) -> (Vec<bool>, Summary) {
    let fixture = scene.fixture;
    let workspace = fixture
        .try_create(&scene.taken, number, &carry())
        .expect("because the disk takes it");
    let done = program.run(&workspace.tree);
    let git_dir = workspace.tree.join(".git");
    let expected =
        (gits && program.is_gits()).then(|| fixture.oracle_of(&workspace.tree, &git_dir));
    let summary = summary(&workspace);
    if let Some(expected) = expected {
        assert_eq!(summary.tree, expected, "what git would add: {program:?}");
    }
    (done, summary)
}

/// `None` where such a mount is refused, which is asserted.
fn of_layers(
    scene: &Scene<'_>,
    number: u64,
    program: &Program,
    mounter: Mounter,
) -> Option<(Vec<bool>, Summary)> {
    let mut workspace = scene.create(number, &carry());
    let may = Attributes::here(&workspace.tree) == Attributes::Trusted;
    workspace.basis.marks = Some(match mounter {
        Mounter::User => Attributes::User,
        Mounter::Superuser => Attributes::Trusted,
    });
    let told = workspace.dir.join("told");
    fs::create_dir(&told).expect("because it is ours");
    let text = serde_json::to_vec(&(workspace.original(), program));
    fs::write(told.join("program"), text.expect("because it is plain"))
        .expect("because it is ours");
    let output = mounted(&workspace, &told, mounter);
    if mounter == Mounter::Superuser && !may {
        assert!(!output.status.success(), "it may not mount");
        return None;
    }
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    let done = fs::read(told.join("done")).expect("because it was carried out");
    let done = serde_json::from_slice(&done).expect("because it is a list");
    Some((done, summary(&workspace)))
}

/// Carries out a program over a workspace's layers, in a process of its own.
fn mounted(workspace: &Workspace, told: &Path, mounter: Mounter) -> std::process::Output {
    let layers = workspace.view.mounts.iter().find_map(|mount| {
        let ViewSource::Layers { lower, upper, work } = &mount.source else {
            return None;
        };
        Some((lower, upper, work, &mount.target))
    });
    let (lower, upper, work, target) = layers.expect("because it is made of layers");
    let (wanted, options) = match mounter {
        Mounter::User => ("--user --map-root-user --mount", "userxattr"),
        Mounter::Superuser => ("--mount", "redirect_dir=on,metacopy=off,index=off"),
    };
    let exe = std::env::current_exe().expect("because it runs");
    let script = format!(
        "cd {}; ln -s {} 1; ln -s {} 2; ln -s {} u; ln -s {} w\n\
         mount -t overlay none -o {options},volatile,lowerdir=1:2,upperdir=u,workdir=w {}\n\
         exec {} --exact {} --quiet",
        quoted(told),
        quoted(&lower[0]),
        quoted(&lower[1]),
        quoted(upper),
        quoted(work),
        quoted(target),
        quoted(&exe),
        "workspace::tests::equality::a_program_is_carried_out_as_it_was_written_down",
    );
    Command::new("unshare")
        .args(wanted.split(' '))
        .args(["sh", "-ec", &script])
        .env(TOLD, told)
        .output()
        .expect("because it is installed")
}

/// Captures twice: the second time there is nothing more to move.
fn summary(workspace: &Workspace) -> Summary {
    let keep = workspace.dir.join("keep");
    let harvest = |keep| Harvest {
        keep,
        at: Timestamp::UNIX_EPOCH,
        message: "result",
    };
    let first = capture(workspace, &harvest(&keep)).expect("because it can be read");
    let none = workspace.dir.join("nothing");
    let second = capture(workspace, &harvest(&none)).expect("because it can be read");
    assert_eq!(second.changes.tree, first.changes.tree, "a second look");
    assert_eq!(second.kept, Vec::<PathBuf>::new(), "a second look");
    let changes = first.changes;
    let ignored = changes.ignored.iter().map(|one| {
        let path = one.path.to_path();
        let text = one.path.text().trim_end_matches('/').as_bytes().to_vec();
        let bytes = path.map_or(text, |path| path.as_bytes().to_vec());
        (escaped(&bytes), one.files)
    });
    let mut summary = Summary {
        tree: changes.tree,
        changes: changes.changes,
        ignored: ignored.collect(),
        warnings: warned(&changes.warnings),
        kept: kept(&keep),
    };
    // What was carried and is what it was may be told as changed: a plain
    // copy has no more than the times to go by.
    for (path, text) in CARRIED {
        let as_before = ("-".to_owned(), escaped(text.as_bytes()));
        if summary.kept.get(path) == Some(&as_before) {
            summary.kept.remove(path);
            summary.ignored.retain(|(one, _)| one != path);
        }
    }
    dispose(&workspace.dir).expect("because it is ours");
    summary
}

/// Files, links and empty directories beneath a directory.
fn kept(root: &Path) -> Kept {
    let mut found = Kept::new();
    if root.symlink_metadata().is_err() {
        return found;
    }
    // Files of an agent may be closed to whoever is not the superuser.
    let opened = Command::new("chmod")
        .args(["-R", "u+rwX"])
        .arg(root)
        .status();
    assert!(opened.is_ok_and(|status| status.success()), "chmod");
    for entry in walkdir::WalkDir::new(root).min_depth(1) {
        let entry = entry.expect("because it can be listed");
        let path = entry.path();
        let is = entry.metadata().expect("because it is there");
        let what = if is.is_dir() {
            let mut list = fs::read_dir(path).expect("because it can be listed");
            if list.next().is_some() {
                continue;
            }
            ("d".to_owned(), String::new())
        } else if is.is_symlink() {
            let text = fs::read_link(path).expect("because it is a link");
            ("l".to_owned(), escaped(text.as_os_str().as_bytes()))
        } else if is.is_file() {
            let kind = if is.permissions().mode() & 0o100 == 0 {
                "-"
            } else {
                "x"
            };
            (
                kind.to_owned(),
                escaped(&fs::read(path).expect("because it is a file")),
            )
        } else {
            (format!("{:?}", is.file_type()), String::new())
        };
        let relative = path.strip_prefix(root).expect("because it is beneath");
        found.insert(escaped(relative.as_os_str().as_bytes()), what);
    }
    found
}

fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
