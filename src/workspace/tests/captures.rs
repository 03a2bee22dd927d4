//! The capture finds everything, and believes nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::fixture::{Fixture, chmod, put, warned};
use crate::model::{ChangeKind, TreeMode, WarningKind};
use crate::workspace::{Capture, Workspace, reopen};

fn changes(capture: &Capture) -> Vec<(String, ChangeKind)> {
    let changes = capture.changes.changes.iter();
    changes
        .map(|change| (change.path.text().to_owned(), change.kind))
        .collect()
}

/// A name and what an agent does.
type Edit = (&'static str, fn(&Path));

fn rm(path: &Path) {
    fs::remove_file(path).expect("because it is there");
}

const EDITS: &[Edit] = &[
    ("nothing", |_| {}),
    ("edit", |tree| put(tree, b"a.txt", b"edited\n")),
    ("add", |tree| put(tree, b"x/y/z.rs", b"new\n")),
    ("delete", |tree| rm(&tree.join("src/lib.rs"))),
    ("delete a directory", |tree| {
        fs::remove_dir_all(tree.join("src")).expect("because it is there");
    }),
    ("rename", |tree| {
        fs::rename(tree.join("src"), tree.join("lib")).expect("because both are there");
    }),
    ("mode", |tree| chmod(&tree.join("a.txt"), 0o755)),
    ("other bits", |tree| chmod(&tree.join("a.txt"), 0o4600)),
    ("touch", |tree| put(tree, b"a.txt", b"alpha\n")),
    ("file to link", |tree| {
        rm(&tree.join("a.txt"));
        symlink("run.sh", tree.join("a.txt")).expect("because nothing is there");
    }),
    ("link to file", |tree| {
        rm(&tree.join("link"));
        put(tree, b"link", b"a.txt");
    }),
    ("link text", |tree| {
        rm(&tree.join("link"));
        symlink("-rf", tree.join("link")).expect("because nothing is there");
    }),
    ("file to directory", |tree| {
        rm(&tree.join("a.txt"));
        put(tree, b"a.txt/inner", b"x\n");
    }),
    ("directory to file", |tree| {
        fs::remove_dir_all(tree.join("src")).expect("because it is there");
        put(tree, b"src", b"x\n");
    }),
    ("directory to link", |tree| {
        fs::remove_dir_all(tree.join("src")).expect("because it is there");
        symlink("..", tree.join("src")).expect("because nothing is there");
    }),
    ("hard link", |tree| {
        fs::hard_link(tree.join("a.txt"), tree.join("b.txt")).expect("because it is there");
    }),
    ("odd names", |tree| {
        put(tree, b"\xff\n", b"x\n");
        put(tree, b" ", b"x\n");
        put(tree, b":(top)x", b"x\n");
        put(tree, b"a\\b\"", b"x\n");
    }),
    ("binary", |tree| put(tree, b"bin", b"a\0b\r\n\xff")),
    ("ignored by a rule", |tree| {
        put(tree, b"x.log", b"x\n");
        put(tree, b"target/debug/out", b"x\n");
        put(tree, b"only-top", b"x\n");
        put(tree, b"sub/only-top", b"x\n");
    }),
];

#[test]
fn every_kind_of_edit_gives_the_tree_that_git_would_add() {
    for (name, edit) in EDITS {
        let fixture = Fixture::new();
        let workspace = fixture.create(&fixture.snapshot());
        edit(&workspace.tree);
        let expected = fixture.oracle_of(&workspace.tree, &workspace.tree.join(".git"));
        // The oracle's objects are in the workspace; its id is what counts.
        let capture = fixture.capture(&workspace);
        assert_eq!(capture.changes.tree, expected, "{name}");
        assert_eq!(
            capture.commit.is_none(),
            capture.changes.is_empty(),
            "{name}"
        );
        fixture.git(&["fsck", "--strict"]);
        if let Some(commit) = &capture.commit {
            let parent = fixture.git(&["rev-parse", &format!("{commit}^")]);
            assert_eq!(parent.trim(), workspace.base().as_str(), "{name}");
        }
    }
}

#[test]
fn changes_are_named_as_git_names_them() {
    let fixture = Fixture::new();
    let long = "line\n".repeat(50);
    fixture.write("long.txt", &long);
    fixture.commit("long");
    let workspace = fixture.create(&fixture.snapshot());
    let tree = &workspace.tree;
    fs::rename(tree.join("long.txt"), tree.join("moved.txt")).expect("because it is there");
    put(tree, b"a.txt", b"edited\n");
    chmod(&tree.join("src/lib.rs"), 0o755);
    rm(&tree.join("link"));
    put(tree, b"link", b"file\n");
    rm(&tree.join("-rf"));
    let capture = fixture.capture(&workspace);
    let expected = [
        ("-rf", ChangeKind::Deleted),
        ("a.txt", ChangeKind::Modified),
        ("link", ChangeKind::Type),
        ("moved.txt", ChangeKind::Renamed),
        ("src/lib.rs", ChangeKind::Mode),
    ];
    let expected = expected.map(|(path, kind)| (path.to_owned(), kind));
    assert_eq!(changes(&capture), expected);
    assert_eq!(capture.changes.changes[3].from.as_deref(), Some("long.txt"));
}

/// Everything an agent may do to hide an edit from git.
fn hide(fixture: &Fixture, workspace: &Workspace) {
    let tree = &workspace.tree;
    let inside = |args: &[&str]| fixture.git_in(tree, args);
    inside(&["update-index", "--assume-unchanged", "a.txt"]);
    inside(&["update-index", "--skip-worktree", "run.sh"]);
    inside(&["config", "core.ignoreStat", "true"]);
    inside(&["config", "core.fsmonitor", "touch pwned; true"]);
    inside(&["config", "filter.evil.clean", "touch pwned; echo hidden"]);
    put(tree, b".gitattributes", b"* filter=evil\n");
    put(tree, b".gitignore", b"*\n");
    put(tree, b".git/info/exclude", b"*\n");
    put(tree, b"a.txt", b"edited\n");
    put(tree, b"run.sh", b"#!/bin/ed\n");
    put(tree, b"secret.rs", b"new\n");
    let timed = tree.join("src/lib.rs");
    let metadata = timed.metadata().expect("because it is there");
    put(tree, b"src/lib.rs", b"pub fn six() {}\n");
    let file = fs::File::options()
        .write(true)
        .open(&timed)
        .expect("because it is ours");
    file.set_modified(metadata.modified().expect("because it has a time"))
        .expect("because it is ours");
}

fn assert_found(fixture: &Fixture, capture: &Capture) {
    let tree = &capture.changes.tree;
    for (path, text) in [
        ("a.txt", "edited\n"),
        ("run.sh", "#!/bin/ed\n"),
        ("secret.rs", "new\n"),
        ("src/lib.rs", "pub fn six() {}\n"),
        (".gitignore", "*\n"),
        (".gitattributes", "* filter=evil\n"),
    ] {
        assert_eq!(fixture.content(tree, path).as_deref(), Some(text), "{path}");
    }
}

#[test]
fn nothing_of_git_hides_an_edit() {
    let fixture = Fixture::new();
    let workspace = fixture.create(&fixture.snapshot());
    hide(&fixture, &workspace);
    let capture = fixture.capture(&workspace);
    assert_found(&fixture, &capture);
    assert!(!workspace.tree.join("pwned").exists());
    assert!(!fixture.top.join("pwned").exists());
}

#[test]
fn a_deleted_or_replaced_git_directory_changes_nothing() {
    for replacement in ["nothing", "file", "link"] {
        let fixture = Fixture::new();
        let workspace = fixture.create(&fixture.snapshot());
        hide(&fixture, &workspace);
        let git = workspace.tree.join(".git");
        fs::remove_dir_all(&git).expect("because it is there");
        match replacement {
            "file" => fs::write(&git, "gitdir: /").expect("because nothing is there"),
            "link" => symlink("/", &git).expect("because nothing is there"),
            _ => {}
        }
        assert_found(&fixture, &fixture.capture(&workspace));
    }
}

#[test]
fn a_later_process_captures_the_same_with_or_without_the_list() {
    let fixture = Fixture::new();
    let workspace = fixture.create(&fixture.snapshot());
    hide(&fixture, &workspace);
    rm(&workspace.tree.join("-rf"));
    let (repo, agent) = (fixture.repo(), workspace.agent().clone());
    let again = reopen(&repo, &agent, &workspace.dir).expect("because it is finished");
    assert_eq!(again.view, workspace.view);
    assert_eq!(again.base(), workspace.base());
    let one = fixture.capture(&again);
    rm(&workspace.dir.join("identities"));
    let again = reopen(&repo, &agent, &workspace.dir).expect("because it is finished");
    let two = fixture.capture(&again);
    assert_found(&fixture, &one);
    assert_eq!(one, two);
    rm(&workspace.dir.join("ready"));
    let error = reopen(&repo, &agent, &workspace.dir).expect_err("because it is not finished");
    assert!(error.to_string().contains("never finished"));
}

#[test]
fn ignored_files_are_told_and_kept() {
    let fixture = Fixture::new();
    let workspace = fixture.create(&fixture.snapshot());
    let tree = &workspace.tree;
    put(tree, b"target/debug/one", b"1\n");
    put(tree, b"target/two", b"2\n");
    put(tree, b"src/x.log", b"x\n");
    put(tree, b"deep/target/three", b"3\n");
    put(tree, b"deep/kept.rs", b"k\n");
    fs::create_dir_all(tree.join("target/empty")).expect("because it is ours");
    fs::create_dir_all(tree.join("target/nested/.git")).expect("because it is ours");
    let capture = fixture.capture(&workspace);
    let ignored: Vec<(&str, u64)> = capture
        .changes
        .ignored
        .iter()
        .map(|one| (one.path.text(), one.files))
        .collect();
    assert_eq!(
        ignored,
        [("deep/target/", 1), ("src/x.log", 1), ("target/", 2)]
    );
    assert_eq!(
        changes(&capture),
        [("deep/kept.rs".to_owned(), ChangeKind::Added)]
    );
    assert_eq!(warned(&capture.changes.warnings), []);
    for path in [
        "target/debug/one",
        "target/two",
        "src/x.log",
        "deep/target/three",
    ] {
        assert!(fixture.keep().join(path).exists(), "{path}");
        assert!(!tree.join(path).exists(), "{path}");
    }
    // A second look finds the same result, and nothing more to move.
    let second = fixture.capture(&workspace);
    assert_eq!(second.changes.tree, capture.changes.tree);
    assert_eq!(second.kept, Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_a_tree_cannot_hold_is_told() {
    let fixture = Fixture::new();
    let workspace = fixture.create(&fixture.snapshot());
    let tree = &workspace.tree;
    fixture.git_in(tree, &["init", "-q", "app"]);
    put(tree, b"app/main.c", b"c\n");
    put(tree, b"GIT~1/x", b"x\n");
    put(tree, b".envrc", b"x\n");
    put(tree, b".git/MERGE_HEAD", b"x\n");
    symlink("/etc/passwd", tree.join("absolute")).expect("because nothing is there");
    symlink("../../x", tree.join("src/out")).expect("because nothing is there");
    symlink("../a.txt", tree.join("src/in")).expect("because nothing is there");
    fs::create_dir_all(tree.join("empty/er")).expect("because it is ours");
    rm(&tree.join("a.txt"));
    for name in ["a.txt", "pipe"] {
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mkfifoat(rustix::fs::CWD, tree.join(name), mode).expect("because it can");
    }
    chmod(&tree.join("run.sh"), 0o000);
    put(tree, b"locked/file", b"x\n");
    chmod(&tree.join("locked/file"), 0o000);
    chmod(&tree.join("locked"), 0o000);
    let capture = fixture.capture(&workspace);
    let expected = [
        (".envrc", WarningKind::RunsOnHost),
        (".git/MERGE_HEAD", WarningKind::UnfinishedOperation),
        ("GIT~1", WarningKind::GitName),
        ("a.txt", WarningKind::SpecialFile),
        ("absolute", WarningKind::EscapingLink),
        ("app", WarningKind::NestedRepository),
        ("empty/er", WarningKind::EmptyDirectory),
        ("pipe", WarningKind::SpecialFile),
        ("src/out", WarningKind::EscapingLink),
    ];
    let expected = expected.map(|(path, kind)| (path.to_owned(), kind));
    assert_eq!(warned(&capture.changes.warnings), expected);
    let listed: Vec<String> = changes(&capture)
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert_eq!(
        listed,
        [
            ".envrc",
            "a.txt",
            "absolute",
            "app/main.c",
            "locked/file",
            "run.sh",
            "src/in",
            "src/out"
        ]
    );
    assert!(fixture.keep().join("app/.git/HEAD").exists());
    assert!(fixture.keep().join("GIT~1/x").exists());
}

#[test]
fn what_lies_in_a_submodules_directory_is_kept_and_changes_nothing() {
    let fixture = Fixture::new();
    let other = Fixture::new();
    let url = other.top.display().to_string();
    fixture.git(&["submodule", "--quiet", "add", &url, "sub"]);
    fixture.commit("with a submodule");
    let workspace = fixture.create(&fixture.snapshot());
    assert!(workspace.tree.join("sub").is_dir());
    assert!(fixture.capture(&workspace).changes.is_empty());
    put(&workspace.tree, b"sub/inside", b"x\n");
    let capture = fixture.capture(&workspace);
    assert!(capture.changes.is_empty());
    assert_eq!(
        warned(&capture.changes.warnings),
        [("sub".to_owned(), WarningKind::SubmoduleChanged)]
    );
    assert!(fixture.keep().join("sub/inside").exists());
    assert!(fixture.capture(&workspace).changes.is_empty());
}

#[test]
fn a_submodule_that_is_gone_or_replaced_is_captured_so() {
    let fixture = Fixture::new();
    let other = Fixture::new();
    let url = other.top.display().to_string();
    for path in [
        "gone", "file", "links", "moved", "in/deep", "kept", "again", "fifo",
    ] {
        fixture.git(&["submodule", "--quiet", "add", &url, path]);
    }
    fixture.commit("with submodules");
    let workspace = fixture.create(&fixture.snapshot());
    let script = "rmdir gone file links fifo; echo work > file; ln -s a.txt links; mkfifo fifo\n\
                  mv moved elsewhere; rm -r in; echo work > in; rmdir again; mkdir again\n";
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(&workspace.tree)
        .status();
    assert!(done.expect("because there is a shell").success());
    let capture = fixture.capture(&workspace);
    let listing = fixture.listing(&capture.changes.tree);
    let at = |path: &str| listing.get(path.as_bytes()).map(|(mode, _)| *mode);
    assert_eq!(at("file"), Some(TreeMode::File));
    assert_eq!(at("links"), Some(TreeMode::Symlink));
    assert_eq!(at("in"), Some(TreeMode::File));
    for path in ["gone", "moved", "elsewhere", "in/deep", "fifo"] {
        assert_eq!(at(path), None, "{path}");
    }
    for path in ["kept", "again"] {
        assert_eq!(at(path), Some(TreeMode::Gitlink), "{path}");
    }
    assert_eq!(
        warned(&capture.changes.warnings),
        [
            ("elsewhere".to_owned(), WarningKind::EmptyDirectory),
            ("fifo".to_owned(), WarningKind::SpecialFile)
        ]
    );
    // Git refuses a directory with one; to the tree it is as if it were not there.
    fs::remove_file(workspace.tree.join("fifo")).expect("because it was made");
    let expected = fixture.oracle_of(&workspace.tree, &workspace.tree.join(".git"));
    assert_eq!(capture.changes.tree, expected);
}

#[test]
fn large_files_are_streamed() {
    let fixture = Fixture::new();
    let workspace = fixture.create(&fixture.snapshot());
    let bytes: Vec<u8> = (0..9_000_000_u32).map(|n| (n % 251) as u8).collect();
    put(&workspace.tree, b"big", &bytes);
    let capture = fixture.capture(&workspace);
    let listing = fixture.listing(&capture.changes.tree);
    assert_eq!(listing[&b"big"[..]].1, bytes);
    let expected = fixture.oracle_of(&workspace.tree, &workspace.tree.join(".git"));
    assert_eq!(capture.changes.tree, expected);
}
