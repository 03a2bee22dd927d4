//! Every kind of thing that a result can hold.
//!
//! Owns names, links, modes, binaries, renames and what no tree can hold. Each
//! must come through capture and landing as it was made.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::support::{TestEnv, only_agent, paths};

#[test]
fn names_of_every_kind_land_as_they_are() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .agent(
            "set -e; n=$(printf 'new\\nline'); echo 1 > \"$n\"; n=$(printf 'caf\\351'); \
             echo 2 > \"$n\"; echo 3 > ./-dash; echo 4 > 'a \"quoted\"	tab'; echo 5 > '*?[x]'; \
             mkdir 'ü b'; echo 6 > 'ü b/名'; echo 7 > ':(top)x'; echo 8 > '\\back'",
        )
        .expect_code(0)
        .json();

    let names: [(&[u8], &str); 8] = [
        (b"new\nline", "1\n"),
        (b"caf\xe9", "2\n"),
        (b"-dash", "3\n"),
        (b"a \"quoted\"\ttab", "4\n"),
        (b"*?[x]", "5\n"),
        ("ü b/名".as_bytes(), "6\n"),
        (b":(top)x", "7\n"),
        (b"\\back", "8\n"),
    ];
    for (name, content) in names {
        let path = OsStr::from_bytes(name);
        assert!(repo.has(path), "{path:?} did not land");
        assert_eq!(repo.text(path), content, "{path:?}");
    }
    let changes = only_agent(&record)["changes"]
        .as_array()
        .expect("because it is a list");
    assert_eq!(changes.len(), 8);
    let lossy: Vec<_> = changes
        .iter()
        .filter_map(|change| change["path_b64"].as_str())
        .collect();
    assert_eq!(lossy, ["Y2Fm6Q=="]);
}

#[test]
fn names_of_every_kind_in_the_parent_are_seen_and_changed() {
    let env = TestEnv::new();
    let repo = env.repo();
    for name in [&b"new\nline"[..], b"caf\xe9", b"-dash", b"*?[x]"] {
        repo.write(OsStr::from_bytes(name), "before\n");
    }
    repo.commit_all("names");
    repo.write(OsStr::from_bytes(b"un\xe9tracked"), "before\n");
    repo.agent("for f in ./*; do test ! -f \"$f\" || echo after >> \"$f\"; done")
        .expect_code(0);

    for name in [
        &b"new\nline"[..],
        b"caf\xe9",
        b"-dash",
        b"*?[x]",
        b"un\xe9tracked",
    ] {
        assert_eq!(repo.text(OsStr::from_bytes(name)), "before\nafter\n");
    }
}

#[test]
fn links_modes_and_binaries_land_as_they_are() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write("tool", "#!/bin/sh\n");
    repo.git(["add", "tool"]);
    repo.git(["update-index", "--chmod=+x", "tool"]);
    env.finish(env.command("chmod").args(["+x"]).arg(repo.path("tool")))
        .expect_code(0);
    repo.git(["commit", "-q", "-m", "tool"]);
    let record = repo
        .agent(
            "set -e; ln -s a.txt link; ln -s no-such dangling; chmod +x a.txt; chmod -x tool; \
             printf '\\000\\001\\377' > binary; : > empty; \
             dd if=/dev/zero of=large bs=1024 count=3000 status=none",
        )
        .expect_code(0)
        .json();

    assert_eq!(
        repo.status(),
        " M a.txt\n M tool\n?? binary\n?? dangling\n?? empty\n?? large\n?? link\n"
    );
    for (link, target) in [("link", "a.txt"), ("dangling", "no-such")] {
        let found = fs::read_link(repo.path(link)).expect("because the agent made a link");
        assert_eq!(found.to_str(), Some(target));
    }
    assert_eq!(repo.mode("a.txt") & 0o100, 0o100);
    assert_eq!(repo.mode("tool") & 0o111, 0);
    assert_eq!(
        fs::read(repo.path("binary")).expect("because it landed"),
        [0, 1, 0xff]
    );
    let large = fs::metadata(repo.path("large")).expect("because it landed");
    assert_eq!(large.len(), 3000 * 1024);
    let agent = only_agent(&record);
    let kind = |path: &str| {
        let changes = agent["changes"].as_array().expect("because it is a list");
        let change = changes.iter().find(|change| change["path"] == path);
        change.expect("because it changed")["kind"].clone()
    };
    assert_eq!(kind("a.txt"), "mode");
    assert_eq!(kind("link"), "added");
}

#[test]
fn things_that_change_their_kind_land() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.agent(
        "set -e; rm a.txt; mkdir a.txt; echo in > a.txt/in; \
         rm -r docs; echo flat > docs; rm b.txt; ln -s docs b.txt",
    )
    .expect_code(0);

    assert_eq!(repo.text("a.txt/in"), "in\n");
    assert_eq!(repo.text("docs"), "flat\n");
    assert!(repo.path("b.txt").is_symlink());
}

#[test]
fn a_rename_is_told_as_git_tells_it() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .agent("set -e; mkdir moved; git mv a.txt moved/a.txt; echo more >> moved/a.txt")
        .expect_code(0)
        .json();

    assert!(!repo.has("a.txt"));
    assert!(repo.text("moved/a.txt").ends_with("more\n"));
    let change = &only_agent(&record)["changes"][0];
    assert_eq!(change["kind"], "renamed");
    assert_eq!(change["from"], "a.txt");
    assert_eq!(change["path"], "moved/a.txt");
}

#[test]
fn what_no_tree_can_hold_is_told_and_loses_nothing_else() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .agent(
            "set -e; mkfifo pipe; mkdir hollow; git init -q nested; echo in > nested/in; \
             git -C nested add in; git -C nested commit -q -m nested; echo new > n.txt",
        )
        .expect_code(0)
        .json();

    assert_eq!(repo.text("n.txt"), "new\n");
    assert_eq!(repo.text("nested/in"), "in\n");
    assert!(!repo.has("nested/.git") && !repo.has("pipe"));
    let warnings = &only_agent(&record)["integration"]["warnings"];
    let told = paths(warnings);
    for path in ["pipe", "nested"] {
        assert!(
            told.iter().any(|told| told.trim_end_matches('/') == path),
            "no warning about {path}: {told:?}"
        );
    }
}

#[test]
fn line_endings_and_encodings_are_not_touched() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write("dos.txt", "one\r\ntwo\r\n");
    repo.write(".gitattributes", "*.txt text\n");
    repo.git(["config", "core.autocrlf", "input"]);
    repo.agent("printf 'three\\r\\n' >> dos.txt; printf '\\351\\r\\n' > latin")
        .expect_code(0);

    let bytes = |path: &str| fs::read(repo.path(path)).expect("because it is there");
    assert_eq!(bytes("dos.txt"), b"one\r\ntwo\r\nthree\r\n");
    assert_eq!(bytes("latin"), b"\xe9\r\n");
}
