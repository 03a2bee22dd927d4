//! A parent that does not stand still while its agents run.
//!
//! Owns: whatever the person does meanwhile (commits, checks out, prunes), an
//! agent goes on in what it started from, and its result is what it did to
//! that. Every test runs with every backend that works here.

use std::fs;

use crate::support::{Repo, Running, TestEnv, backends, only_agent, paths};

/// Starts an agent that says `ready`, waits to be told to go on, and then
/// looks at what it started from and changes a little.
fn waiting(repo: &Repo<'_>, backend: &str) -> Running {
    let script = "echo ready >&2; read word; set -e; test \"$(git status --porcelain)\" = ' M b.txt'; \
                  grep -q 'a 5' a.txt; grep -q 'uncommitted' b.txt; git log --oneline >&2; \
                  git cat-file -p HEAD:docs/guide.md >&2; git fsck >&2; \
                  sed -i 's/a 9/agent 9/' a.txt; git add -A; git commit -qm inside; echo new > n.txt";
    let options = ["--json", "--stdin", "--workspace", backend];
    let run = repo.start([&["run"], &options[..], &["--", "sh", "-c", script]].concat());
    run.wait_for("ready");
    run
}

/// Lets the agent go on and demands that its change landed beside the person's.
#[track_caller]
fn expect_landed(repo: &Repo<'_>, mut run: Running) {
    run.say("go");
    let record = run.wait().expect_code(0).json();
    let agent = only_agent(&record);
    assert_eq!(agent["integration"]["status"], "landed", "{agent:#}");
    assert_eq!(paths(&agent["changes"]), ["a.txt", "n.txt"]);
    assert!(repo.text("a.txt").contains("agent 9"));
    assert_eq!(repo.text("n.txt"), "new\n");
}

fn prepared(env: &TestEnv) -> Repo<'_> {
    let repo = env.repo();
    repo.edit("b.txt", "b 2", "uncommitted");
    repo
}

#[test]
fn the_person_may_commit_and_edit_meanwhile() {
    for backend in backends(&TestEnv::new()) {
        let env = TestEnv::new();
        let repo = prepared(&env);
        let run = waiting(&repo, backend);
        repo.edit("a.txt", "a 1", "person 1");
        repo.write("other.txt", "other\n");
        repo.commit_all("meanwhile");
        repo.edit("b.txt", "b 8", "person 8");
        expect_landed(&repo, run);
        assert!(repo.text("a.txt").starts_with("person 1"));
        assert!(repo.text("b.txt").contains("person 8"));
        assert!(repo.has("other.txt"));
    }
}

#[test]
fn the_person_may_check_out_something_else_meanwhile() {
    for backend in backends(&TestEnv::new()) {
        let env = TestEnv::new();
        let repo = env.repo();
        repo.git(["checkout", "-q", "-b", "other"]);
        repo.edit("a.txt", "a 1", "other 1");
        repo.delete("docs/guide.md");
        repo.commit_all("other");
        repo.git(["checkout", "-q", "main"]);
        repo.edit("b.txt", "b 2", "uncommitted");
        let run = waiting(&repo, backend);
        repo.git(["stash", "-q"]);
        repo.git(["checkout", "-q", "other"]);
        repo.git(["branch", "-q", "-D", "main"]);
        expect_landed(&repo, run);
        assert!(repo.text("a.txt").starts_with("other 1"));
        assert!(!repo.has("docs/guide.md"));
    }
}

#[test]
fn what_an_agent_started_from_is_never_pruned() {
    for backend in backends(&TestEnv::new()) {
        let env = TestEnv::new();
        let repo = prepared(&env);
        let run = waiting(&repo, backend);
        // What HEAD was is reachable from nowhere but the agent's base.
        repo.git(["checkout", "-q", "--orphan", "fresh"]);
        repo.git(["commit", "-q", "-a", "-m", "fresh"]);
        repo.git(["branch", "-q", "-D", "main"]);
        repo.git(["reflog", "expire", "--expire=now", "--all"]);
        repo.git(["worktree", "prune"]);
        repo.git(["gc", "-q", "--prune=now"]);
        repo.git(["repack", "-q", "-a", "-d"]);
        repo.git(["prune", "--expire=now"]);
        expect_landed(&repo, run);
        repo.git(["fsck"]);
    }
}

#[test]
fn the_person_may_delete_everything_meanwhile() {
    for backend in backends(&TestEnv::new()) {
        let env = TestEnv::new();
        let repo = prepared(&env);
        let mut run = waiting(&repo, backend);
        for name in ["a.txt", "b.txt", ".gitignore"] {
            repo.delete(name);
        }
        fs::remove_dir_all(repo.path("docs")).expect("because the test made it");
        run.say("go");
        let record = run.wait().expect_code(5).json();
        let agent = only_agent(&record);
        assert_eq!(paths(&agent["integration"]["conflicts"]), ["a.txt"]);
        assert!(!repo.has("a.txt") && !repo.has("n.txt"));
    }
}
