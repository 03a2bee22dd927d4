//! A workspace shows exactly what the parent shows.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;

use super::fixture::{Fixture, agent, chmod, put};
use crate::model::{ViewAccess, ViewMode, ViewSource, WorkspaceChoice};
use crate::workspace::{Access, Ground, Order, Stop, choose};

#[test]
fn status_inside_is_the_parents_and_reads_no_file() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "alpha staged\n");
    fixture.git(&["add", "a.txt"]);
    fixture.write("a.txt", "alpha unstaged\n");
    fixture.remove("src/lib.rs");
    fixture.git(&["rm", "-q", "--", "-rf"]);
    fixture.write("new", "x\n");
    fixture.write("intent", "x\n");
    fixture.git(&["add", "-N", "intent"]);
    fixture.write("hidden.txt", "x\n");
    fixture.git(&["add", "hidden.txt"]);
    fixture.git(&["update-index", "--chmod=+x", "hidden.txt"]);
    let workspace = fixture.create(&fixture.snapshot());
    let status = ["status", "--porcelain=v2", "-z", "--untracked-files=all"];
    assert_eq!(
        fixture.git_in(&workspace.tree, &status),
        fixture.git(&status)
    );
    // Entries with right stat data are not listed as to be refreshed.
    let stale = fixture.git_in(&workspace.tree, &["diff-files", "--name-only"]);
    assert_eq!(stale, fixture.git(&["diff-files", "--name-only"]));
    for (path, mode) in [("run.sh", 0o755), ("a.txt", 0o644), ("src/deep", 0o755)] {
        let found = workspace
            .tree
            .join(path)
            .metadata()
            .expect("because it is there");
        assert_eq!(found.permissions().mode() & 0o777, mode, "{path}");
    }
}

#[test]
fn files_have_the_times_of_the_parents() {
    let fixture = Fixture::new();
    fixture.write("dirty", "x\n");
    fixture.write("a.txt", "edited\n");
    let workspace = fixture.create(&fixture.snapshot());
    for path in ["dirty", "a.txt", "src/lib.rs", "run.sh"] {
        let time = |root: &std::path::Path| {
            let metadata = root.join(path).metadata().expect("because it is there");
            (metadata.mtime(), metadata.mtime_nsec())
        };
        assert_eq!(time(&workspace.tree), time(&fixture.top), "{path}");
    }
}

#[test]
fn git_works_inside_and_touches_nothing_outside() {
    let fixture = Fixture::new();
    fixture.git(&["tag", "-a", "v1", "-m", "one"]);
    fixture.git(&["branch", "other"]);
    let before = fixture.git_files();
    let refs = fixture.git(&["for-each-ref"]);
    let workspace = fixture.create(&fixture.snapshot());
    let inside = |args: &[&str]| fixture.git_in(&workspace.tree, args);
    assert_eq!(inside(&["for-each-ref"]), refs);
    assert_eq!(
        inside(&["rev-parse", "v1^{commit}"]),
        fixture.git(&["rev-parse", "HEAD"])
    );
    assert_eq!(inside(&["config", "user.name"]), "A Person\n");
    fs::write(workspace.tree.join("a.txt"), "inside\n").expect("because it is ours");
    inside(&["stash"]);
    inside(&["stash", "pop"]);
    inside(&["switch", "-qc", "work"]);
    inside(&["commit", "-qam", "inside"]);
    inside(&["branch", "-D", "other"]);
    inside(&["tag", "-d", "v1"]);
    inside(&["rebase", "-q", "main"]);
    inside(&["gc", "--prune=now", "-q"]);
    inside(&["fsck", "--strict"]);
    assert_eq!(inside(&["status", "--porcelain"]), "");
    assert_eq!(fixture.git_files(), before);
    assert_eq!(fixture.git(&["for-each-ref"]), refs);
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_unborn_branch_stays_unborn_inside() {
    let fixture = Fixture::unborn();
    fixture.write("staged", "1\n");
    fixture.git(&["add", "staged"]);
    fixture.write("untracked", "1\n");
    let workspace = fixture.create(&fixture.snapshot());
    let status = ["status", "--porcelain=v2", "--branch"];
    assert_eq!(
        fixture.git_in(&workspace.tree, &status),
        fixture.git(&status)
    );
    // The parent may still make its first commit on its branch.
    fixture.commit("first");
}

#[test]
fn the_view_mounts_the_copy_at_the_repositorys_own_path() {
    let fixture = Fixture::new();
    let taken = fixture.snapshot();
    let repo = fixture.repo();
    for (number, writer, access) in [
        (1, Access::Writer, ViewAccess::ReadWrite),
        (2, Access::Reader, ViewAccess::ReadOnly),
    ] {
        let dir = fixture.agent_dir(number);
        fs::create_dir_all(&dir).expect("because it is ours");
        let workspace = fixture
            .backend()
            .create(&Order {
                repo: &repo,
                snapshot: &taken,
                agent: &agent(number),
                dir: &dir,
                mode: ViewMode::Mounted,
                carry: &[],
                writer,
                stop: Stop::NEVER,
                now: jiff::Timestamp::UNIX_EPOCH,
            })
            .expect("because the disk takes it");
        let view = &workspace.view;
        assert_eq!(view.root, repo.top());
        assert_eq!(view.mounts[1].source, ViewSource::Path(dir.join("tree")));
        assert_eq!(view.mounts[1].target, repo.top());
        assert_eq!(view.mounts[1].access, access);
        assert_eq!(
            view.mounts[0].source,
            ViewSource::Path(repo.objects_dir().to_owned())
        );
        assert_eq!(view.mounts[0].target, dir.join("objects"));
        assert_eq!(view.mounts[0].access, ViewAccess::ReadOnly);
        assert_eq!(
            view.writable.iter().any(|path| path == repo.top()),
            writer == Access::Writer
        );
        let alternates = fs::read_to_string(dir.join("tree/.git/objects/info/alternates"));
        assert_eq!(
            alternates.expect("because it was written"),
            format!("{}\n", dir.join("objects").display())
        );
        let list = fixture.git(&["worktree", "list", "--porcelain"]);
        let registered = list.contains(&dir.join("tree").display().to_string());
        assert_eq!(registered, writer == Access::Writer);
    }
}

#[test]
fn carried_files_come_along_and_only_their_changes_are_told() {
    let fixture = Fixture::new();
    fixture.write(".gitignore", ".env*\nnode_modules/\ntarget/\n");
    fixture.write(
        ".worktreeinclude",
        "# needed\n.env\nnode_modules/\n!node_modules/big\n",
    );
    fixture.commit("rules");
    fixture.write(".env", "SECRET=1\n");
    fixture.write(".env.local", "x\n");
    fixture.write("node_modules/a/index.js", "a\n");
    fixture.write("node_modules/big", "big\n");
    fixture.write("target/out", "o\n");
    fixture.link("node_modules/bin", "a/index.js");
    let carry = ["target/*".to_owned()];
    let workspace = fixture
        .try_create(&fixture.snapshot(), 1, &carry)
        .expect("because the disk takes it");
    let tree = &workspace.tree;
    assert_eq!(
        fs::read(tree.join(".env")).expect("because it came"),
        b"SECRET=1\n"
    );
    assert!(tree.join("target/out").exists());
    assert!(!tree.join(".env.local").exists());
    assert!(!tree.join("node_modules/big").exists());
    assert!(
        tree.join("node_modules/bin")
            .symlink_metadata()
            .is_ok_and(|m| m.is_symlink())
    );
    assert_eq!(
        tree.join(".env")
            .metadata()
            .expect("because it came")
            .nlink(),
        1
    );
    assert_eq!(fixture.git_in(tree, &["status", "--porcelain"]), "");
    let idle = fixture.capture(&workspace);
    assert!(idle.changes.is_empty() && idle.changes.ignored.is_empty());
    put(tree, b".env", b"SECRET=2\n");
    put(tree, b"node_modules/b/new.js", b"b\n");
    let capture = fixture.capture(&workspace);
    assert!(capture.changes.is_empty());
    let ignored: Vec<(&str, u64)> = capture
        .changes
        .ignored
        .iter()
        .map(|one| (one.path.text(), one.files))
        .collect();
    assert_eq!(ignored, [(".env", 1), ("node_modules/b/", 1)]);
    assert_eq!(
        fs::read(fixture.keep().join(".env")).expect("because it was kept"),
        b"SECRET=2\n"
    );
}

#[test]
fn what_cannot_be_had_is_refused_by_name() {
    let fixture = Fixture::new();
    let repo = fixture.repo();
    let bases = fixture.state.join("bases");
    let ground = |mode, merges| Ground {
        repo: &repo,
        state: &fixture.state,
        bases: &bases,
        mode,
        merges,
        warm: None,
    };
    let in_place = || ground(ViewMode::InPlace, Ok(()));
    let (_, reason) = choose(WorkspaceChoice::Auto, in_place()).expect("because one works");
    assert!(
        reason.contains("; no overlay: no mounts can be made here"),
        "{reason}"
    );
    let (_, reason) = choose(WorkspaceChoice::Checkout, in_place()).expect("because it works");
    assert_eq!(
        reason,
        "checkout: plain files work on any file system and kernel"
    );
    let refused = |ground: Ground<'_>| {
        let error =
            choose(WorkspaceChoice::Overlay, ground).expect_err("because it is not to be had");
        assert!(error.is_usage());
        error.to_string()
    };
    assert!(refused(in_place()).contains("no mounts can be made"));
    let why = refused(ground(
        ViewMode::Mounted,
        Err("its file system keeps no attributes"),
    ));
    assert!(why.contains("keeps no attributes"), "{why}");
}

#[test]
fn a_failed_create_leaves_nothing() {
    let fixture = Fixture::new();
    let taken = fixture.snapshot();
    let blob = fixture.git(&["rev-parse", "HEAD:src/lib.rs"]);
    let blob = blob.trim();
    let object = fixture
        .top
        .join(".git/objects")
        .join(&blob[..2])
        .join(&blob[2..]);
    chmod(&object, 0o644);
    fs::remove_file(&object).expect("because it is loose");
    let error = fixture
        .try_create(&taken, 1, &[])
        .expect_err("because an object is missing");
    assert!(!error.is_disk());
    assert!(!fixture.agent_dir(1).exists());
    assert!(!fixture.top.join(".git/worktrees").exists());
}
