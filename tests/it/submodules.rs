//! Submodules: an agent gets an empty directory, the parent keeps its checkout.
//!
//! Owns: whatever an agent does at a submodule's path, nothing in the parent's
//! checkout of it is lost, and nothing that the agent wrote.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Repo, TestEnv, backends, only_agent, paths, run_in, text};

/// A repository with a submodule that is checked out.
fn with_submodule(env: &TestEnv) -> Repo<'_> {
    let repo = env.repo();
    let inner = env.outside().join("inner");
    env.make_dir(&inner);
    let inner = env.adopt(inner);
    inner.git(["init", "-q", "-b", "main"]);
    inner.write("inside.txt", "inside\n");
    inner.commit_all("inner");
    repo.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        inner.root().to_str().expect("because it is plain"),
        "sub",
    ]);
    repo.commit_all("with a submodule");
    repo.write("sub/edited by hand", "not committed\n");
    repo
}

/// Runs an agent; whatever it did, nothing in the checkout is touched.
#[track_caller]
fn run(repo: &Repo<'_>, backend: &str, script: &str) -> Value {
    let agent = run_in(repo.env(), repo.root(), backend, script).json();
    assert_eq!(repo.text("sub/inside.txt"), "inside\n", "{script}");
    assert_eq!(repo.text("sub/edited by hand"), "not committed\n");
    only_agent(&agent).clone()
}

fn warned(agent: &Value) -> Vec<(&str, &str)> {
    let warnings = agent["integration"]["warnings"].as_array();
    let warnings = warnings.expect("because it is a list").iter();
    warnings
        .map(|one| (text(one, "path"), text(one, "kind")))
        .collect()
}

#[test]
fn a_submodule_that_an_agent_removes_is_removed_from_the_tree_alone() {
    for backend in backends(&TestEnv::new()) {
        for script in ["rmdir sub", "git rm -q sub"] {
            let env = TestEnv::new();
            let repo = with_submodule(&env);
            let agent = run(&repo, backend, script);
            assert_eq!(agent["integration"]["status"], "landed", "{script}");
            assert!(paths(&agent["changes"]).contains(&"sub"), "{script}");
            assert!(warned(&agent).contains(&("sub", "submodule_moved")));
            let tree = text(&agent["result"], "tree");
            let listed = repo.git(["ls-tree", "-r", "--name-only", tree]);
            assert!(!listed.contains("sub"), "{script}: {listed}");
        }
    }
}

#[test]
fn a_submodule_that_an_agent_moves_is_moved_in_the_tree() {
    for backend in backends(&TestEnv::new()) {
        let env = TestEnv::new();
        let repo = with_submodule(&env);
        let commit = repo.git(["rev-parse", "HEAD:sub"]);
        let agent = run(&repo, backend, "mkdir deep; git mv sub deep/other");
        assert_eq!(agent["integration"]["status"], "landed", "{agent:#}");
        let tree = text(&agent["result"], "tree");
        let listed = repo.git(["ls-tree", "-r", tree]);
        assert!(!listed.contains("\tsub"), "{listed}");
        let moved = format!("160000 commit {}\tdeep/other", commit.trim());
        assert!(listed.contains(&moved), "{listed}");
        assert!(warned(&agent).contains(&("sub", "submodule_moved")));
        assert!(repo.text(".gitmodules").contains("deep/other"));
    }
}

/// A list that names what is not so, or is none, is a file like others.
#[test]
fn what_a_list_of_submodules_says_alone_moves_none() {
    for backend in backends(&TestEnv::new()) {
        for script in [
            "git config -f .gitmodules submodule.sub.path a.txt",
            "mkdir x; git config -f .gitmodules submodule.sub.path x",
            "rmdir sub; mkdir x; git config -f .gitmodules submodule.sub.path ../x",
            "rmdir sub; mkdir x; echo '[submodule' > .gitmodules",
        ] {
            let env = TestEnv::new();
            let repo = with_submodule(&env);
            let agent = run(&repo, backend, script);
            let tree = text(&agent["result"], "tree");
            let listed = repo.git(["ls-tree", "-r", tree]);
            let links = listed.lines().filter(|line| line.starts_with("160000"));
            let links: Vec<_> = links.filter_map(|line| line.split('\t').nth(1)).collect();
            let stays = !script.starts_with("rmdir");
            let expected: &[&str] = if stays { &["sub"] } else { &[] };
            assert_eq!(links, expected, "{script}");
        }
    }
}

#[test]
fn what_an_agent_puts_in_the_place_of_a_submodule_waits_for_a_person() {
    for backend in backends(&TestEnv::new()) {
        let env = TestEnv::new();
        let repo = with_submodule(&env);
        let agent = run(&repo, backend, "rmdir sub; echo work > sub");
        assert_eq!(agent["integration"]["status"], "held", "{agent:#}");
        assert_eq!(
            agent["integration"]["conflicts"][0]["kind"],
            "would_overwrite_untracked"
        );
        let tree = text(&agent["result"], "tree");
        assert_eq!(repo.show(tree, "sub"), "work\n");
    }
}

#[test]
fn what_an_agent_writes_in_a_submodules_directory_is_kept() {
    for backend in backends(&TestEnv::new()) {
        let env = TestEnv::new();
        let repo = with_submodule(&env);
        let script = "echo work > sub/new; echo more >> a.txt";
        let agent = run(&repo, backend, script);
        assert_eq!(agent["integration"]["status"], "landed", "{agent:#}");
        assert_eq!(paths(&agent["changes"]), ["a.txt"]);
        assert_eq!(warned(&agent), [("sub", "submodule_changed")]);
        let kept = &agent["result"]["kept"];
        assert_eq!(paths(&kept["paths"]), ["sub"], "{agent:#}");
        let place = Path::new(text(kept, "directory")).join("sub/new");
        assert_eq!(fs::read_to_string(place).ok().as_deref(), Some("work\n"));
        let shown = repo.cofferdam(["show", text(&agent, "id")]).expect_code(0);
        assert!(shown.stdout.contains("sub in /"), "{}", shown.stdout);
    }
}
