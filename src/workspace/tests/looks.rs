//! What the index says, in every form, and what is remembered of it.

use std::fs;
use std::path::PathBuf;

use super::fixture::Fixture;
use crate::git::{IndexFlag, read_index};
use crate::model::TreeMode;

fn index(fixture: &Fixture) -> Vec<(Vec<u8>, IndexFlag, u8)> {
    let bytes = fs::read(fixture.top.join(".git/index")).expect("because it is there");
    let mut found = Vec::new();
    read_index(&bytes, fixture.repo().object_format(), |item| {
        found.push((item.path.to_vec(), item.flag, item.stage));
    })
    .expect("because it holds every path");
    found
}

/// The file in which conversions are remembered.
fn known(fixture: &Fixture) -> PathBuf {
    fixture.top.join(".git/cofferdam/handle.known")
}

#[test]
fn an_index_of_any_version_reads_as_git_reads_it() {
    let fixture = Fixture::new();
    fixture.write("flagged", "x\n");
    fixture.write("hidden", "x\n");
    fixture.commit("more");
    let blob = fixture.git(&["rev-parse", "HEAD:flagged"]);
    let long = ["d/"; 2100].concat() + "end";
    let info = format!("100644,{},{long}", blob.trim());
    fixture.git(&["update-index", "--add", "--cacheinfo", &info]);
    fixture.git(&["update-index", "--skip-worktree", "flagged"]);
    fixture.git(&["update-index", "--assume-unchanged", "hidden"]);
    for version in ["4", "3", "2"] {
        fixture.git(&["update-index", "--index-version", version]);
        let listed = fixture.try_git(&fixture.top, &["ls-files", "-v", "-z"], &[]);
        let expected: Vec<(Vec<u8>, IndexFlag, u8)> = listed
            .stdout
            .split(|b| *b == 0)
            .filter(|record| !record.is_empty())
            .map(|record| {
                let flag = match record[0] {
                    b'S' => IndexFlag::SkipWorktree,
                    b'h' => IndexFlag::AssumeUnchanged,
                    _ => IndexFlag::Plain,
                };
                (record[2..].to_vec(), flag, 0)
            })
            .collect();
        assert_eq!(index(&fixture), expected, "version {version}");
    }
    let file = fixture.top.join(".git/index");
    let bytes = fs::read(&file).expect("because it is there");
    let format = fixture.repo().object_format();
    // Cut within its entries, it is refused and nothing is read beyond.
    for end in 0..bytes.len().min(4000) {
        assert_eq!(read_index(&bytes[..end], format, |_| {}), None);
    }
    fixture.git(&["update-index", "--split-index"]);
    let bytes = fs::read(&file).expect("because it is there");
    assert_eq!(read_index(&bytes, format, |_| {}), None);
}

#[test]
fn a_flag_shows_through_a_split_and_a_sparse_index_of_any_version() {
    for (version, form) in [
        ("2", "--split-index"),
        ("4", "--split-index"),
        ("4", "sparse"),
    ] {
        let fixture = Fixture::new();
        fixture.write("top", "before\n");
        fixture.commit("top");
        fixture.git(&["update-index", "--index-version", version]);
        fixture.git(&["update-index", "--assume-unchanged", "top"]);
        match form {
            "sparse" => {
                let set = ["sparse-checkout", "set", "--cone", "--sparse-index", "new"];
                fixture.git(&set);
            }
            split => drop(fixture.git(&["update-index", split])),
        }
        fixture.write("top", "edited\n");
        let taken = fixture.snapshot();
        let content = |path| fixture.content(&taken.tree, path);
        assert_eq!(content("top").as_deref(), Some("edited\n"), "{form}");
        assert!(content("src/lib.rs").is_some(), "{form}");
    }
}

#[test]
fn bytes_that_were_converted_under_rules_that_are_gone_count_as_on_disk() {
    let fixture = Fixture::unborn();
    fixture.write(".gitattributes", "*.txt text\n");
    fixture.write("a.txt", "one\r\ntwo\r\n");
    fixture.commit("converted");
    fixture.remove(".gitattributes");
    fixture.git(&["add", "-A"]);
    fixture.git(&["commit", "-qm", "no rules"]);
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
    let taken = fixture.snapshot();
    assert_eq!(
        fixture.content(&taken.tree, "a.txt").as_deref(),
        Some("one\r\ntwo\r\n")
    );
}

/// A repository with a filter that keeps the length, one that does not, and
/// line endings.
fn converting() -> Fixture {
    let fixture = Fixture::unborn();
    fixture.write(".gitattributes", "* text=auto\n");
    fixture.write("assets/.gitattributes", "*.up filter=up -text\n");
    fixture.write("assets/.gitignore", "/deep/.gitattributes\n");
    fixture.write("assets/deep/.gitattributes", "ptr filter=ptr -text\n");
    fixture.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    fixture.git(&["config", "filter.ptr.clean", "wc -c"]);
    fixture.git(&["config", "filter.ptr.required", "true"]);
    fixture.write("crlf.txt", "one\r\ntwo\r\n");
    fixture.write("plain.txt", "one\n");
    fixture.write("assets/x.up", "same length\n");
    fixture.write("assets/deep/ptr", "a large file, let us say\n");
    fixture.commit("converted");
    fixture
}

#[test]
fn what_a_snapshot_learnt_holds_until_a_file_changes() {
    let fixture = converting();
    let disk = [
        ("crlf.txt", "one\r\ntwo\r\n"),
        ("plain.txt", "one\n"),
        ("assets/x.up", "same length\n"),
        ("assets/deep/ptr", "a large file, let us say\n"),
    ];
    // Times that the index is sure of.
    for (path, _) in disk {
        let file = fs::File::options().write(true).open(fixture.top.join(path));
        let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        file.and_then(|file| file.set_modified(then))
            .expect("because it is ours");
    }
    fixture.git(&["add", "--renormalize", "."]);
    fixture.git(&["update-index", "--refresh"]);
    let check = |expected: &[(&str, &str)]| {
        let taken = fixture.snapshot();
        for (path, bytes) in expected {
            let found = fixture.content(&taken.tree, path);
            assert_eq!(found.as_deref(), Some(*bytes), "{path}");
        }
        taken.tree
    };
    let first = check(&disk);
    assert_eq!(check(&disk), first);
    let remembered = fs::read(known(&fixture)).expect("because it was written");
    assert_eq!(check(&disk), first);
    assert_eq!(
        fs::read(known(&fixture)).expect("because it stays"),
        remembered
    );
    // Objects that are remembered may be pruned.
    fixture.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(check(&disk), first);
    // A file of the same length and time is another file.
    let path = fixture.top.join("assets/x.up");
    let time = path
        .metadata()
        .and_then(|metadata| metadata.modified())
        .expect("because it is there");
    fixture.write("assets/x.up", "SAME length\n");
    fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_modified(time))
        .expect("because it is ours");
    check(&[disk[0], ("assets/x.up", "SAME length\n"), disk[3]]);
    // A damaged list costs time and nothing else.
    for damaged in [
        &b""[..],
        b"cofferdam known index 1\n\xff\xff\xff\xff\xff\xff\xff\xff",
        b"x",
    ] {
        fs::write(known(&fixture), damaged).expect("because it is ours");
        check(&[disk[0], ("assets/x.up", "SAME length\n"), disk[3]]);
    }
    fs::remove_file(known(&fixture)).expect("because it is there");
    fs::create_dir(known(&fixture)).expect("because it is ours");
    check(&[disk[0], disk[1], disk[3]]);
}

#[test]
fn no_filter_runs_whichever_file_asks_for_it() {
    let fixture = Fixture::unborn();
    let marker = fixture.state.join("ran");
    let filter = format!("touch '{}'; cat", marker.display());
    for (key, value) in [
        ("clean", filter.as_str()),
        ("process", &filter),
        ("required", "true"),
    ] {
        let name = format!("filter.a=b \"c.{key}");
        if key != "process" {
            fixture.git(&["config", &name, value]);
        }
    }
    fixture.write("f", "bytes\n");
    fixture.git(&["add", "f"]);
    fixture.write("g", "bytes\n");
    fixture.git(&["add", "g"]);
    fixture.write(".git/info/attributes", "* filter=\"x\n* filter=a=b\n");
    fixture.git(&["config", "filter.a=b.clean", &filter]);
    fixture.git(&["config", "filter.a=b.required", "true"]);
    fixture.write("f", "touch\n");
    fixture.write("new", "new\n");
    let taken = fixture.snapshot();
    assert_eq!(
        fixture.content(&taken.tree, "f").as_deref(),
        Some("touch\n")
    );
    assert_eq!(
        fixture.content(&taken.tree, "g").as_deref(),
        Some("bytes\n")
    );
    assert!(!marker.exists(), "a filter ran");
}

#[test]
fn files_that_are_as_young_as_the_index_are_looked_at() {
    let fixture = Fixture::new();
    for round in 0..20 {
        let (before, after) = (format!("a{round:03}\n"), format!("b{round:03}\n"));
        fixture.write("racy", &before);
        fixture.git(&["add", "racy"]);
        fixture.write("racy", &after);
        let tree = fixture.snapshot().tree;
        assert_eq!(
            fixture.content(&tree, "racy").as_deref(),
            Some(after.as_str())
        );
    }
}

#[test]
fn links_of_a_file_system_without_links_stay_links() {
    let fixture = Fixture::new();
    fixture.git(&["config", "core.symlinks", "false"]);
    fixture.git(&["config", "core.ignoreCase", "true"]);
    fixture.remove("link");
    fixture.git(&["checkout", "--", "link"]);
    assert!(
        fixture
            .top
            .join("link")
            .metadata()
            .is_ok_and(|m| m.is_file())
    );
    assert!(!fixture.snapshot().dirty);
    fixture.write("link", "src/lib.rs");
    let listing = fixture.listing(&fixture.snapshot().tree);
    let expected = (TreeMode::Symlink, b"src/lib.rs".to_vec());
    assert_eq!(listing[&b"link"[..]], expected);
    let states = crate::workspace::states(&fixture.repo(), &fixture.snapshot());
    assert_eq!(states, ["links_as_files"]);
    // The agent's copy lies on a file system that has some.
    fixture.commit("another link");
    let workspace = fixture.create(&fixture.snapshot());
    fixture.git_in(&workspace.tree, &["checkout", "-f", "--", "link"]);
    let capture = fixture.capture(&workspace);
    assert!(capture.changes.is_empty(), "{:?}", capture.changes.changes);
}

#[test]
fn names_that_differ_in_case_are_two_where_the_file_system_says_so() {
    let fixture = Fixture::new();
    fixture.git(&["config", "core.ignoreCase", "true"]);
    fixture.write("A.txt", "another\n");
    fixture.write("SRC/new", "new\n");
    let listing = fixture.listing(&fixture.snapshot().tree);
    for (path, text) in [
        ("a.txt", "alpha\n"),
        ("A.txt", "another\n"),
        ("SRC/new", "new\n"),
    ] {
        assert_eq!(listing[path.as_bytes()].1, text.as_bytes(), "{path}");
    }
    let workspace = fixture.create(&fixture.snapshot());
    assert!(fixture.capture(&workspace).changes.is_empty());
}

#[test]
fn a_rebase_that_stopped_is_told() {
    let fixture = Fixture::new();
    fixture.git(&["switch", "-qc", "side"]);
    fixture.write("a.txt", "side\n");
    fixture.commit("side");
    fixture.git(&["switch", "-q", "main"]);
    fixture.write("a.txt", "main\n");
    fixture.commit("main");
    let rebase = fixture.try_git(&fixture.top, &["rebase", "-q", "side"], &[]);
    assert!(!rebase.status.success());
    fixture.write("untracked", "x\n");
    let taken = fixture.snapshot();
    assert_eq!(taken.operation, Some("rebase"));
    assert_eq!(taken.head_ref, None);
    assert_eq!(taken.tree, fixture.oracle());
}
