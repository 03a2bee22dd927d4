//! The snapshot holds what lies on disk, and the parent notices nothing.

use std::ffi::OsStr;

use super::fixture::{Fixture, warned};
use crate::model::{Base, ObjectId, TreeMode, WarningKind};
use crate::workspace::{current_tree, snapshot};

fn dirty(fixture: &Fixture) {
    fixture.write("a.txt", "alpha staged\n");
    fixture.git(&["add", "a.txt"]);
    fixture.write("a.txt", "alpha unstaged\n");
    fixture.write("src/lib.rs", "pub fn two() {}\n");
    fixture.remove("src/deep/er/mod.rs");
    fixture.chmod("run.sh", 0o644);
    fixture.write("new/un tracked.rs", "new\n");
    fixture.write("staged-new", "x\n");
    fixture.git(&["add", "staged-new"]);
    fixture.write_raw(b"\xff\xfe\n", b"odd\n");
    fixture.write("only.log", "ignored\n");
    fixture.remove("link");
    fixture.link("link", "/etc/passwd");
    fixture.git(&["rm", "-q", "--cached", "--", "-rf"]);
    fixture.write("intent", "to add\n");
    fixture.git(&["add", "-N", "intent"]);
}

#[test]
fn equals_what_git_would_add_and_changes_nothing_in_the_parent() {
    let fixture = Fixture::new();
    dirty(&fixture);
    fixture.git(&["config", "status.showUntrackedFiles", "no"]);
    let before = fixture.git_files();
    let taken = fixture.snapshot();
    assert_eq!(fixture.git_files(), before);
    assert_eq!(
        fixture.listing(&taken.tree),
        fixture.listing(&fixture.oracle())
    );
    assert!(taken.dirty);
    assert_eq!(taken.head_ref.as_deref(), Some("refs/heads/main"));
    assert_eq!(taken.operation, None);
    assert_eq!(
        current_tree(&fixture.repo(), &fixture.scratch()).expect("because it can be read"),
        taken.tree
    );
    let head = fixture.git(&["rev-parse", "HEAD"]);
    let parent = fixture.git(&["rev-parse", &format!("{}^", taken.commit)]);
    assert_eq!(parent, head);
}

#[test]
fn a_clean_tree_is_heads_own_and_the_same_state_has_the_same_commit() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.snapshot(), fixture.snapshot());
    assert!(!one.dirty);
    assert_eq!(
        one.tree.as_str(),
        fixture.git(&["rev-parse", "HEAD^{tree}"]).trim()
    );
    assert_eq!(one.commit, two.commit);
}

#[test]
fn an_unborn_branch_has_a_snapshot_too() {
    let fixture = Fixture::unborn();
    assert!(!fixture.snapshot().dirty);
    fixture.write("x/y", "1\n");
    fixture.write("staged", "2\n");
    fixture.git(&["add", "staged"]);
    let taken = fixture.snapshot();
    assert_eq!(taken.head, None);
    assert_eq!(taken.head_ref.as_deref(), Some("refs/heads/main"));
    assert_eq!(taken.tree, fixture.oracle());
    assert_eq!(fixture.content(&taken.tree, "x/y").as_deref(), Some("1\n"));
}

#[test]
fn files_become_directories_and_directories_files() {
    let fixture = Fixture::new();
    fixture.remove("a.txt");
    fixture.write("a.txt/inner", "now a directory\n");
    std::fs::remove_dir_all(fixture.top.join("src")).expect("because it is there");
    fixture.link("src", "a.txt");
    let taken = fixture.snapshot();
    assert_eq!(taken.tree, fixture.oracle());
}

#[test]
fn bytes_on_disk_count_where_git_would_convert_them() {
    let fixture = Fixture::unborn();
    fixture.write(
        ".gitattributes",
        "*.txt text\n*.id ident\n*.up filter=up\n*.wide working-tree-encoding=UTF-16LE\n",
    );
    let marker = fixture.state.join("filter-ran");
    fixture.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    fixture.write("crlf.txt", "one\r\ntwo\r\n");
    fixture.write("x.id", "$Id: 0123456789012345678901234567890123456789 $\n");
    fixture.write("x.up", "same length\n");
    fixture.write_raw(b"x.wide", b"h\0i\0\n\0");
    fixture.commit("converted");
    let filter = format!("touch '{}'; cat", marker.display());
    fixture.git(&["config", "filter.up.clean", &filter]);
    let read = |tree: &ObjectId, name| fixture.content(tree, name).expect("because it is there");
    for touched in [false, true] {
        if touched {
            // The index no longer vouches for anything.
            for name in ["crlf.txt", "x.id", "x.up", "x.wide"] {
                let bytes = std::fs::read(fixture.top.join(name)).expect("because it is there");
                fixture.remove(name);
                fixture.write_raw(name.as_bytes(), &bytes);
            }
        }
        let taken = fixture.snapshot();
        assert_eq!(read(&taken.tree, "crlf.txt"), "one\r\ntwo\r\n");
        assert!(read(&taken.tree, "x.id").starts_with("$Id: 0123"));
        assert_eq!(read(&taken.tree, "x.up"), "same length\n");
        assert_eq!(read(&taken.tree, "x.wide"), "h\0i\0\n\0");
        assert!(!marker.exists(), "a filter ran");
    }
}

#[test]
fn line_endings_by_setting_alone_count_as_on_disk() {
    let fixture = Fixture::unborn();
    fixture.git(&["config", "core.autocrlf", "input"]);
    fixture.write("a.txt", "one\r\ntwo\r\n");
    fixture.commit("normalised");
    assert_eq!(fixture.git(&["cat-file", "-p", "HEAD:a.txt"]), "one\ntwo\n");
    let taken = fixture.snapshot();
    assert_eq!(
        fixture.content(&taken.tree, "a.txt").as_deref(),
        Some("one\r\ntwo\r\n")
    );
    assert!(taken.dirty);
}

#[test]
fn nothing_hides_behind_a_flag_or_a_restored_time() {
    let fixture = Fixture::new();
    fixture.write("hidden", "before\n");
    fixture.write("timed", "before\n");
    fixture.write("skipped", "before\n");
    fixture.commit("three");
    fixture.git(&["config", "core.checkStat", "minimal"]);
    fixture.git(&["config", "core.trustctime", "false"]);
    fixture.git(&["update-index", "--assume-unchanged", "hidden"]);
    fixture.git(&["update-index", "--skip-worktree", "skipped"]);
    fixture.git(&["status"]);
    fixture.write("hidden", "edited\n");
    fixture.write("skipped", "edited\n");
    let timed = fixture.top.join("timed");
    let modified = timed
        .metadata()
        .and_then(|metadata| metadata.modified())
        .expect("because it is there");
    fixture.write("timed", "after!\n");
    std::fs::File::options()
        .write(true)
        .open(&timed)
        .and_then(|file| file.set_modified(modified))
        .expect("because it is ours");
    let tree = fixture.snapshot().tree;
    assert_eq!(
        fixture.content(&tree, "hidden").as_deref(),
        Some("edited\n")
    );
    assert_eq!(
        fixture.content(&tree, "skipped").as_deref(),
        Some("edited\n")
    );
    assert_eq!(fixture.content(&tree, "timed").as_deref(), Some("after!\n"));
}

#[test]
fn a_sparse_checkout_keeps_its_files_in_the_tree_and_off_the_disk() {
    let fixture = Fixture::new();
    fixture.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "new"]);
    fixture.write("new/file", "1\n");
    let taken = fixture.snapshot();
    assert!(!fixture.top.join("src/lib.rs").exists());
    assert_eq!(
        fixture.content(&taken.tree, "src/lib.rs").as_deref(),
        Some("pub fn one() {}\n")
    );
    let absent: Vec<String> = taken.absent.iter().map(ToString::to_string).collect();
    assert_eq!(absent, ["src/deep/er/mod.rs", "src/lib.rs"]);
    let workspace = fixture.create(&taken);
    assert!(!workspace.tree.join("src").exists());
    let inside = fixture.git_in(&workspace.tree, &["status", "--porcelain"]);
    assert_eq!(inside, "?? new/\n");
    assert!(fixture.capture(&workspace).changes.is_empty());
}

#[test]
fn submodules_keep_their_commit_and_nested_repositories_are_told() {
    let fixture = Fixture::new();
    let other = Fixture::new();
    let url = other.top.display().to_string();
    fixture.git(&["submodule", "--quiet", "add", &url, "sub"]);
    fixture.commit("with a submodule");
    let sub = fixture.top.join("sub");
    let first = fixture.snapshot();
    assert!(!first.dirty);
    assert_eq!(first.warnings, []);
    std::fs::write(sub.join("a.txt"), "inside\n").expect("because it is ours");
    let id = ["-c", "user.name=x", "-c", "user.email=x@y"];
    fixture.git_in(&sub, &[&id[..], &["commit", "-qam", "moved"]].concat());
    std::fs::write(sub.join("dirt"), "inside\n").expect("because it is ours");
    fixture.git(&["init", "-q", "nested"]);
    fixture.write("nested/file", "not seen\n");
    fixture.write("nested-not", "seen\n");
    let taken = fixture.snapshot();
    let listing = fixture.listing(&taken.tree);
    let head = fixture.git_in(&sub, &["rev-parse", "HEAD"]);
    assert_eq!(
        listing.get(&b"sub"[..]),
        Some(&(TreeMode::Gitlink, head.trim().as_bytes().to_vec()))
    );
    assert!(!listing.keys().any(|path| path.starts_with(b"nested/")));
    let mut warnings = warned(&taken.warnings);
    warnings.sort();
    assert_eq!(
        warnings,
        [
            ("nested/".to_owned(), WarningKind::NestedRepository),
            ("sub".to_owned(), WarningKind::SubmoduleChanged),
        ]
    );
}

#[test]
fn a_merge_that_stopped_is_taken_as_it_lies_on_disk() {
    let fixture = Fixture::new();
    fixture.git(&["switch", "-qc", "side"]);
    fixture.write("a.txt", "side\n");
    fixture.commit("side");
    fixture.git(&["switch", "-q", "main"]);
    fixture.write("a.txt", "main\n");
    fixture.commit("main");
    let merge = fixture.try_git(&fixture.top, &["merge", "side"], &[]);
    assert!(!merge.status.success());
    let taken = fixture.snapshot();
    assert_eq!(taken.operation, Some("merge"));
    let text = fixture
        .content(&taken.tree, "a.txt")
        .expect("because it is there");
    assert!(text.starts_with("<<<<<<< HEAD\n"));
    let workspace = fixture.create(&taken);
    let status = ["status", "--porcelain=v2", "-z"];
    assert_eq!(
        fixture.git_in(&workspace.tree, &status),
        fixture.git(&status)
    );
}

#[test]
fn a_revision_is_a_clean_start() {
    let fixture = Fixture::new();
    let old = fixture.git(&["rev-parse", "HEAD"]);
    fixture.write("a.txt", "later\n");
    fixture.commit("later");
    let taken = snapshot(
        &fixture.repo(),
        &Base::Revision("HEAD~1".to_owned()),
        &fixture.scratch(),
    )
    .expect("because it names a commit");
    assert_eq!(
        taken.head.as_ref().map(|oid| oid.as_str()),
        Some(old.trim())
    );
    assert!(!taken.dirty);
    let workspace = fixture.create(&taken);
    assert_eq!(
        fixture.git_in(&workspace.tree, &["status", "--porcelain"]),
        ""
    );
    let error = snapshot(
        &fixture.repo(),
        &Base::Revision("nothing".to_owned()),
        &fixture.scratch(),
    )
    .expect_err("because it names none");
    assert_eq!(
        error.to_string(),
        "resolve `nothing`: it names no commit of this repository"
    );
}

#[test]
fn modes_come_from_the_index_where_the_file_system_cannot_tell() {
    let fixture = Fixture::new();
    fixture.git(&["config", "core.fileMode", "false"]);
    fixture.chmod("run.sh", 0o644);
    fixture.write("run.sh", "#!/bin/sh\n:\n");
    fixture.write("new.sh", "x\n");
    fixture.chmod("new.sh", 0o755);
    let tree = fixture.snapshot().tree;
    assert_eq!(tree, fixture.oracle());
    let listing = fixture.listing(&tree);
    assert_eq!(listing[&b"run.sh"[..]].0, TreeMode::Executable);
    assert_eq!(listing[&b"new.sh"[..]].0, TreeMode::File);
}

#[test]
fn special_files_and_split_indexes_do_not_stop_it() {
    let fixture = Fixture::new();
    fixture.git(&["update-index", "--split-index"]);
    fixture.remove("a.txt");
    let pipe = fixture.top.join("a.txt");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::Mode::from_raw_mode(0o644),
    )
    .expect("because pipes can be made");
    let taken = fixture.snapshot();
    assert_eq!(
        warned(&taken.warnings),
        [("a.txt".to_owned(), WarningKind::SpecialFile)]
    );
    assert_eq!(fixture.content(&taken.tree, "a.txt"), None);
    std::fs::remove_file(pipe).expect("because it is there");
    let workspace = fixture.create(&taken);
    let status = ["status", "--porcelain=v2", "-z"];
    assert_eq!(
        fixture.git_in(&workspace.tree, &status),
        fixture.git(&status)
    );
}

#[test]
fn a_linked_worktree_and_borrowed_objects_serve_as_parent() {
    let fixture = Fixture::unborn_at("odd \n\"name");
    fixture.write("f", "1\n");
    fixture.commit("one");
    let linked = fixture.state.join("linked");
    fixture.git(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        &linked.display().to_string(),
    ]);
    let clone = fixture.state.join("clone");
    let lender = Fixture::unborn();
    lender.write("f", "1\n");
    lender.commit("one");
    let from = lender.top.display().to_string();
    let to = clone.display().to_string();
    fixture.git(&["clone", "-q", "--shared", &from, &to]);
    for top in [linked, clone] {
        std::fs::write(top.join("f"), "2\n").expect("because it is ours");
        let git = crate::git::Git::require().expect("because git is installed");
        let repo = crate::git::Repository::discover(&git, &top).expect("because it is one");
        let taken = snapshot(&repo, &Base::Worktree, &fixture.scratch());
        let taken = taken.expect("because it can be read");
        let dir = fixture.state.join("an agent");
        std::fs::create_dir_all(&dir).expect("because it is ours");
        let order = crate::workspace::Order {
            repo: &repo,
            snapshot: &taken,
            agent: &super::fixture::agent(9),
            dir: &dir,
            mode: crate::model::ViewMode::InPlace,
            carry: &[],
            writer: crate::workspace::Access::Writer,
            stop: crate::workspace::Stop::NEVER,
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        let workspace = fixture.backend().create(&order).expect("because it fits");
        let output = fixture.try_git(&workspace.tree, &["status", "--porcelain"], &[]);
        assert_eq!(
            OsStr::new(" M f\n"),
            OsStr::new(&*String::from_utf8_lossy(&output.stdout))
        );
        let id = ["-c", "user.name=x", "-c", "user.email=x@y"];
        let commit = [&id[..], &["commit", "-qam", "inside"]].concat();
        fixture.git_in(&workspace.tree, &commit);
        crate::workspace::dispose(&dir).expect("because it is ours");
    }
}

#[test]
fn the_copy_of_the_index_keeps_its_time() {
    let fixture = Fixture::new();
    let taken = fixture.snapshot();
    let index = taken.index.as_ref().expect("because there is one");
    let time = |path: &std::path::Path| path.metadata().and_then(|metadata| metadata.modified());
    assert_eq!(
        time(index.path()).expect("because it is there"),
        time(&fixture.top.join(".git/index")).expect("because it is there")
    );
}
