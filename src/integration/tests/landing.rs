//! Landings that are not interrupted.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::scene::{Scene, Watcher};
use super::{Row, f, g, l, lines, path, x};
use crate::integration::{Error, Landing, Recovered, lock};
use crate::model::ConflictKind::{WouldOverwriteIgnored, WouldOverwriteUntracked};
use crate::model::ObjectId;
use crate::store::Root;

/// Lands rows over rows in a new scene; the picture must be that of the
/// second rows alone.
fn lands(name: &str, before: &[Row], after: &[Row]) {
    let scene = Scene::new();
    scene.put(before);
    let (ours, merged) = (scene.fixture.tree(before), scene.fixture.tree(after));
    let landing = scene.land(&ours, &merged);
    assert!(
        matches!(landing, Landing::Landed { .. }),
        "{name}: {landing:?}"
    );
    let expected = Scene::new();
    expected.put(after);
    assert_eq!(scene.picture(), expected.picture(), "{name}");
    assert!(!scene.staging().exists(), "{name}: staging is removed");
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn everything_a_tree_can_hold_lands_byte_for_byte() {
    let long = vec!["n".repeat(200); 18].join("/");
    let cases: Vec<(&str, Vec<Row>, Vec<Row>)> = vec![
        ("edit", vec![f("a", "1\n")], vec![f("a", "2\n")]),
        (
            "add",
            vec![f("a", "1\n")],
            vec![f("a", "1\n"), f("d/e/b", "2\n")],
        ),
        (
            "delete with its directory",
            vec![f("a", "1"), f("d/e/b", "2")],
            vec![f("a", "1")],
        ),
        (
            "mode alone",
            vec![f("a", "1"), x("b", "2")],
            vec![x("a", "1"), f("b", "2")],
        ),
        (
            "link",
            vec![l("a", "t"), l("b", "t")],
            vec![l("a", "/etc/passwd"), l("c", "t")],
        ),
        ("file to link", vec![f("a", "1")], vec![l("a", "../..")]),
        ("link to file", vec![l("a", "../..")], vec![f("a", "1")]),
        (
            "file to directory",
            vec![f("d", "1")],
            vec![f("d/a/b", "2"), x("d/c", "3")],
        ),
        (
            "directory to file",
            vec![f("d/a/b", "1"), f("d/c", "2")],
            vec![f("d", "3")],
        ),
        (
            "link to directory",
            vec![l("d", "/etc")],
            vec![f("d/passwd", "2")],
        ),
        (
            "directory to link",
            vec![f("d/passwd", "2")],
            vec![l("d", "/etc")],
        ),
        ("only the case", vec![f("Read", "1")], vec![f("READ", "1")]),
        (
            "names",
            vec![f(b"caf\xe9/a\nb", "1"), f("-rf", "1")],
            vec![f(b"caf\xe9/a\nb", "2"), f("\"\t*", "3")],
        ),
        (
            "line ends and no text",
            vec![f("a", "1\r\n"), f("b", "\0")],
            vec![f("a", "1\n\r"), f("b", b"\0\xff")],
        ),
        (
            "empty",
            vec![f("a", ""), f("b", "1")],
            vec![f("a", "1"), f("b", "")],
        ),
        (
            "a very long path",
            vec![f("k", "k")],
            vec![f("k", "k"), f(&long, "1")],
        ),
        (
            "submodule",
            vec![f("a", "1"), g("s", "1")],
            vec![f("a", "2"), g("s", "2"), g("t", "3")],
        ),
        (
            "submodule without files to file",
            vec![g("s", "1")],
            vec![f("s", "1")],
        ),
        ("nothing", vec![f("a", "1")], vec![f("a", "1")]),
    ];
    for (name, before, after) in &cases {
        lands(name, before, after);
    }
}

#[test]
fn a_path_longer_than_the_kernel_takes_at_once_lands() {
    let scene = Scene::new();
    let long = vec!["n".repeat(200); 25].join("/");
    let ours = scene.fixture.tree(&[]);
    let merged = scene.fixture.tree(&[f(&long, "1")]);
    let landing = scene.land(&ours, &merged);
    assert!(matches!(landing, Landing::Landed { .. }), "{landing:?}");
    let found = scene.root().read_file(&path(&long));
    assert_eq!(found.expect("because it landed"), b"1");
    let landing = scene.land(&merged, &ours);
    assert!(matches!(landing, Landing::Landed { .. }), "{landing:?}");
    assert!(scene.picture().is_empty(), "every directory goes with it");
}

#[test]
fn three_thousand_files_land() {
    let rows = |text: &str, d: &str| -> Vec<Row> {
        let row = |n: usize| f(format!("{d}{}/f{n}", n % 50), format!("{text} {}\n", n % 9));
        (0..1000).map(row).collect()
    };
    let before = [rows("old", "a"), rows("gone", "b")].concat();
    let after = [rows("new", "a"), rows("added", "c")].concat();
    lands("3 000", &before, &after);
}

#[test]
fn what_is_staged_unstaged_and_untracked_stays_so() {
    let scene = Scene::new();
    let (a, b) = (lines(9, &[]), lines(9, &[(1, "staged")]));
    scene.put(&[
        f("a", &a),
        f("b", &a),
        f("c", &a),
        f(".gitignore", "*.log\n"),
    ]);
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "x"]);
    scene.put(&[f("b", &b)]);
    scene.git(&["add", "b"]);
    let now = [
        f("a", &a),
        f("b", lines(9, &[(1, "staged"), (5, "unstaged")])),
        f("c", &a),
        f("new", "untracked\n"),
        f(".gitignore", "*.log\n"),
    ];
    scene.put(&now);
    scene.put(&[f("x.log", "ignored\n")]);
    let (index, status) = (scene.index(), scene.git(&["status", "--porcelain"]));
    assert_eq!(status, "MM b\n?? new");
    let ours = scene.fixture.tree(&now);
    let landed = f("a", lines(9, &[(3, "agent")]));
    let merged = scene.fixture.edited(&ours, &[landed, f("d/e", "agent\n")]);
    assert!(matches!(scene.land(&ours, &merged), Landing::Landed { .. }));
    assert_eq!(scene.index(), index, "the index is byte-identical");
    let status = super::run(&scene.top(), ["status", "--porcelain", "-uall"]).stdout;
    assert_eq!(
        String::from_utf8_lossy(&status),
        " M a\nMM b\n?? d/e\n?? new\n"
    );
    assert_eq!(
        fs::read(scene.at("x.log")).expect("because it is kept"),
        b"ignored\n"
    );
    assert_eq!(scene.git(&["diff", "--cached", "--name-only"]), "b");
}

#[test]
fn what_no_snapshot_holds_is_never_overwritten() {
    let ours = [
        f("k", "k"),
        f("d/a", "1"),
        f(".gitignore", "secret\nout/\n"),
    ];
    let secret = |row: Row, what: Row, kind| (vec![row], vec![what], kind);
    for (in_the_way, added, kind) in [
        secret(
            f("secret", "mine"),
            f("secret", "theirs"),
            WouldOverwriteIgnored,
        ),
        secret(
            f("out/x", "mine"),
            f("out/x", "theirs"),
            WouldOverwriteIgnored,
        ),
        secret(
            f("out", "mine"),
            f("out/x", "theirs"),
            WouldOverwriteUntracked,
        ),
        secret(
            l("secret", "/etc"),
            f("secret/passwd", "theirs"),
            WouldOverwriteIgnored,
        ),
        secret(
            f("n/secret", "mine"),
            f("n", "theirs"),
            WouldOverwriteUntracked,
        ),
        secret(g("n/empty", "1"), f("n", "theirs"), WouldOverwriteUntracked),
    ] {
        let scene = Scene::new();
        scene.put(&ours);
        scene.put(&in_the_way);
        let before = scene.picture();
        let ours = scene.fixture.tree(&ours);
        let merged = scene
            .fixture
            .edited(&ours, &[added[0].clone(), f("k", "k2")]);
        match scene.land(&ours, &merged) {
            Landing::Blocked { conflicts } => {
                assert_eq!(conflicts[0].kind, kind);
                assert!(conflicts[0].theirs.is_some());
            }
            // An untracked plain file would be in the next snapshot.
            Landing::Moved { paths, .. } => assert_eq!(paths, [path("out")]),
            Landing::Landed { .. } => panic!("landed over {:?}", in_the_way[0].1),
        }
        assert_eq!(scene.picture(), before);
        assert!(!scene.staging().exists());
    }
}

#[test]
fn a_directory_that_holds_more_than_the_landing_deletes_blocks() {
    let scene = Scene::new();
    let rows = [f("d/a", "1"), f(".gitignore", "*.o\n")];
    scene.put(&rows);
    scene.put(&[f("d/b.o", "mine")]);
    let ours = scene.fixture.tree(&rows);
    let merged = scene
        .fixture
        .tree(&[f("d", "file"), f(".gitignore", "*.o\n")]);
    let before = scene.picture();
    match scene.land(&ours, &merged) {
        Landing::Blocked { conflicts } => {
            assert_eq!(conflicts[0].path.text(), "d/b.o");
            assert_eq!(conflicts[0].kind, WouldOverwriteIgnored);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.picture(), before);
    // A deletion alone leaves the rest of the directory as it is.
    let merged = scene.fixture.tree(&[f(".gitignore", "*.o\n")]);
    assert!(matches!(scene.land(&ours, &merged), Landing::Landed { .. }));
    assert!(scene.at("d/b.o").exists() && !scene.at("d/a").exists());
}

#[test]
fn pipes_and_foreign_repositories_block() {
    for (make, added) in [("mkfifo p", f("p", "x")), ("git init -q p", f("p", "x"))] {
        let scene = Scene::new();
        scene.put(&[f("k", "k")]);
        let status = std::process::Command::new("sh")
            .args(["-c", make])
            .current_dir(scene.top())
            .status();
        assert!(status.expect("because there is a shell").success());
        let ours = scene.fixture.tree(&[f("k", "k")]);
        let merged = scene.fixture.edited(&ours, &[added]);
        match scene.land(&ours, &merged) {
            Landing::Blocked { conflicts } => {
                assert_eq!(conflicts[0].kind, WouldOverwriteUntracked, "{make}");
            }
            other => panic!("{make}: {other:?}"),
        }
    }
}

#[test]
fn no_link_that_was_put_in_the_way_is_followed() {
    let scene = Scene::new();
    let rows = [f("d/a", "1"), f("k", "k")];
    scene.put(&rows);
    let ours = scene.fixture.tree(&rows);
    let merged = scene
        .fixture
        .tree(&[f("d/a", "2"), f("d/b", "3"), f("k", "k")]);
    let outside = scene.fixture.dir.path().join("outside");
    fs::rename(scene.at("d"), &outside).expect("because both are ours");
    std::os::unix::fs::symlink(&outside, scene.at("d")).expect("because the name is free");
    let landing = scene.land(&ours, &merged);
    assert!(matches!(landing, Landing::Moved { .. }), "{landing:?}");
    assert_eq!(
        fs::read(outside.join("a")).expect("because it is there"),
        b"1"
    );
    assert!(!outside.join("b").exists());
}

#[test]
fn permissions_are_gits_and_never_wider_than_before() {
    let scene = Scene::new();
    scene.put(&[f("private", "1"), f("set", "1")]);
    let mode = |name: &str, mode| {
        fs::set_permissions(scene.at(name), fs::Permissions::from_mode(mode))
            .expect("because it is ours");
    };
    mode("private", 0o600);
    mode("set", 0o4644);
    let ours = scene.fixture.tree(&[f("private", "1"), f("set", "1")]);
    let merged = scene.fixture.tree(&[x("private", "2"), f("set", "2")]);
    assert!(matches!(scene.land(&ours, &merged), Landing::Landed { .. }));
    let found = |name| {
        fs::metadata(scene.at(name))
            .expect("because it landed")
            .mode()
            & 0o7777
    };
    assert_eq!(found("private"), 0o700);
    assert_eq!(found("set"), 0o644);
}

#[test]
fn another_file_system_is_refused_before_anything_is_written() {
    let scene = Scene::new();
    scene.put(&[f("a", "1")]);
    let shared = tempfile::tempdir_in("/dev/shm").expect("because there is shared memory");
    let root = Root::open(shared.path()).expect("because it exists");
    let header = crate::integration::Header {
        run: crate::model::RunId::from_bits(1),
        agent: crate::model::AgentId::from_bits(1),
        top: crate::integration::working_tree(shared.path()),
        ours: scene.fixture.tree(&[]),
        merged: scene.fixture.tree(&[f("a", "1")]),
    };
    let request = crate::integration::LandRequest {
        root: &root,
        staging: &scene.staging(),
        header: &header,
        ignored: &|_| false,
        landed: &|| {},
    };
    let answer = crate::integration::land(&scene.fixture.store, &request);
    assert!(
        matches!(answer, Err(Error::OtherFileSystem { .. })),
        "{answer:?}"
    );
    assert_eq!(
        fs::read_dir(shared.path())
            .expect("because it exists")
            .count(),
        0
    );
    assert!(!scene.staging().exists());
}

#[test]
fn one_landing_at_a_time() {
    let scene = Scene::new();
    let common = scene.top().join(".git");
    let held = lock(&common, &mut || true).expect("because it can be made");
    assert!(held.is_some());
    let second = lock(&common, &mut || true).expect("because it can be opened");
    assert!(second.is_none());
    drop(held);
    assert!(
        lock(&common, &mut || true)
            .expect("because it can be opened")
            .is_some()
    );
}

#[test]
fn what_has_landed_lands_again_without_a_change() {
    let scene = Scene::new();
    scene.put(&[f("a", "1")]);
    let (ours, merged): (ObjectId, ObjectId) = (
        scene.fixture.tree(&[f("a", "1")]),
        scene.fixture.tree(&[f("a", "2")]),
    );
    assert!(matches!(scene.land(&ours, &merged), Landing::Landed { .. }));
    let landing = scene.land(&merged, &merged);
    let nothing = Landing::Landed {
        paths: Vec::new(),
        submodules: Vec::new(),
    };
    assert_eq!(landing, nothing);
    let recovered = scene
        .recover(&Watcher::idle())
        .expect("because nothing is left");
    assert_eq!(recovered, Recovered::Nothing);
}
