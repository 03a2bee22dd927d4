//! Ignored files that agents get along.
//!
//! Owns: what `--carry` and `.worktreeinclude` name is there, whole, with its
//! links; it is the agent's own, so that nothing it does reaches the parent's,
//! and none of it is a result.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use crate::support::{Repo, TestEnv, TreePrint, backends, only_agent, run_in, shown};

/// A repository with what people leave out of theirs.
fn prepared(env: &TestEnv) -> Repo<'_> {
    let repo = env.repo();
    repo.write(".gitignore", "target/\nnode_modules/\n.env*\n");
    repo.write(".worktreeinclude", ".env\nnode_modules/\n/target\n");
    repo.commit_all("rules");
    repo.write(".env", "SECRET=1\n");
    fs::set_permissions(repo.path(".env"), fs::Permissions::from_mode(0o600))
        .expect("because the test wrote it");
    repo.write(".env.local", "not asked for\n");
    repo.write("node_modules/pkg/bin/tool", "#!/bin/sh\necho tool\n");
    fs::set_permissions(
        repo.path("node_modules/pkg/bin/tool"),
        fs::Permissions::from_mode(0o755),
    )
    .expect("because the test wrote it");
    env.make_dir(&repo.path("node_modules/.bin"));
    let link = |text: &str, name: &str| {
        symlink(text, repo.path(name)).expect("because nothing stands there");
    };
    link("../pkg/bin/tool", "node_modules/.bin/tool");
    link("nowhere", "node_modules/dangling");
    link(shown(&repo.path("a.txt")), "node_modules/absolute");
    link(shown(&env.outside().join("far")), "node_modules/far");
    fs::hard_link(
        repo.path("node_modules/pkg/bin/tool"),
        repo.path("node_modules/pkg/again"),
    )
    .expect("because both are on one disk");
    let stored = env.outside().join("store");
    env.put(&stored, "stored\n");
    fs::hard_link(&stored, repo.path("node_modules/stored")).expect("because it is one disk");
    repo.write("sub/node_modules/x", "x\n");
    repo.write("target/debug/out", "built\n");
    for number in 0..300 {
        repo.write(format!("node_modules/many/{number}"), "x\n");
    }
    for name in ["node_modules/.bin/tool", "node_modules/dangling"] {
        env.own(&repo.path(name));
    }
    repo
}

#[test]
fn what_is_asked_for_is_there_and_is_the_agents_own() {
    for env in TestEnv::identities() {
        let repo = prepared(&env);
        env.put(&env.outside().join("far"), "far\n");
        let before = (repo.print(), TreePrint::with_times(&env.outside()));
        let expect = "set -e; grep -q SECRET .env; test \"$(stat -c %a .env)\" = 600; \
             test ! -e .env.local; test \"$(node_modules/.bin/tool)\" = tool; \
             test \"$(readlink node_modules/dangling)\" = nowhere; \
             grep -q stored node_modules/stored; grep -q x sub/node_modules/x; \
             grep -q built target/debug/out; test \"$(ls node_modules/many | wc -l)\" = 300; \
             test \"$(find node_modules target .env -type f -links +1 | wc -l)\" = 0; \
             test -z \"$(git status --porcelain)\"; set +e; \
             find node_modules target sub/node_modules .env -type f -exec sh -c \
             'for f; do echo changed > \"$f\"; chmod 777 \"$f\"; done' x {} +; \
             echo changed > node_modules/far; chmod 777 node_modules/far; \
             rm -rf node_modules/many; echo done > n.txt";
        for backend in backends(&env) {
            let run = run_in(&env, repo.root(), backend, expect).expect_code(0);
            let record = run.json();
            let changes = &only_agent(&record)["changes"];
            assert_eq!(changes[0]["path"], "n.txt", "{changes:#}");
            assert_eq!(changes.as_array().map(Vec::len), Some(1));
            repo.delete("n.txt");
            before.0.expect_same(&repo.print());
            before.1.expect_same(&TreePrint::with_times(&env.outside()));
        }
    }
}

#[test]
fn a_copy_shares_no_file_with_the_parent() {
    let env = TestEnv::new();
    let repo = prepared(&env);
    let outside: BTreeSet<(u64, u64)> = walk(&repo)
        .into_iter()
        .map(|data| (data.dev(), data.ino()))
        .collect();
    let list = "find node_modules target .env -type f -printf '%D %i\\n' > numbers";
    // Through a merged mount a number is the mount's own, so it must be plain.
    let record = run_in(&env, repo.root(), "checkout", list)
        .expect_code(0)
        .json();
    assert_eq!(only_agent(&record)["integration"]["status"], "landed");
    let text = repo.text("numbers");
    let inside: BTreeSet<(u64, u64)> = text
        .lines()
        .filter_map(|line| {
            let (device, number) = line.split_once(' ')?;
            Some((device.parse().ok()?, number.parse().ok()?))
        })
        .collect();
    assert!(inside.len() > 300);
    assert_eq!(inside.intersection(&outside).count(), 0);
}

/// The regular files of what is ignored.
fn walk(repo: &Repo<'_>) -> Vec<fs::Metadata> {
    let mut open = vec![repo.path("node_modules"), repo.path("target")];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory)
            .expect("because it is there")
            .flatten()
        {
            let data = entry
                .path()
                .symlink_metadata()
                .expect("because it is there");
            if data.is_dir() {
                open.push(entry.path());
            } else if data.is_file() {
                found.push(data);
            }
        }
    }
    found
}

#[test]
fn what_cannot_come_along_is_told() {
    let env = TestEnv::new();
    let repo = prepared(&env);
    repo.git(["init", "-q", "node_modules/own"]);
    for backend in backends(&env) {
        let record = run_in(&env, repo.root(), backend, "true")
            .expect_code(0)
            .json();
        let notes = only_agent(&record)["view_notes"].to_string();
        assert!(notes.contains("node_modules/own"), "{notes}");
    }
}

#[test]
fn a_glob_that_takes_nothing_along_is_told() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write(".gitignore", "dir/\n");
    repo.write("dir/file", "ignored\n");
    for (glob, told) in [("dir", true), ("nothing/**", true), ("dir/**", false)] {
        let run = repo.cofferdam(["run", "--carry", glob, "--", "true"]);
        let said = run.expect_code(0).stdout;
        assert_eq!(said.contains("took nothing along"), told, "{glob}: {said}");
    }
}
