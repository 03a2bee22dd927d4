//! Unusual states of the parent, and that they are told.
//!
//! Owns: a merge, rebase or other operation under way, shallow and partial
//! clones, sparse checkouts and changes inside submodules stand in the record.
//! What a partial clone does not have is named, and nothing is ever fetched.

use serde_json::Value;

use crate::support::{Repo, TestEnv, only_agent, shown, text};

/// What a run that changes nothing says that it started from.
#[track_caller]
fn base_of(repo: &Repo<'_>) -> Value {
    let record = repo.agent("true").expect_code(0).json();
    let shown = repo
        .cofferdam(["show", text(only_agent(&record), "id")])
        .expect_code(0);
    for state in record["base"]["states"].as_array().into_iter().flatten() {
        let word = state.as_str().unwrap_or_default();
        assert!(shown.stdout.contains(word), "{word}: {}", shown.stdout);
    }
    record["base"].clone()
}

/// Two branches that conflict in `a.txt`, the first checked out.
fn conflicting(env: &TestEnv) -> Repo<'_> {
    let repo = env.repo();
    repo.git(["checkout", "-q", "-b", "other"]);
    repo.edit("a.txt", "a 5", "other");
    repo.commit_all("other");
    repo.git(["checkout", "-q", "main"]);
    repo.edit("a.txt", "a 5", "main");
    repo.commit_all("main");
    repo
}

#[test]
fn an_operation_that_is_under_way_is_told() {
    for (command, word) in [
        ("merge", "merge"),
        ("rebase", "rebase"),
        ("cherry-pick", "cherry-pick"),
    ] {
        let env = TestEnv::new();
        let repo = conflicting(&env);
        let stopped = repo.try_git([command, "other"]);
        assert_ne!(stopped.code, 0, "{command} did not stop");
        let before = repo.status();
        assert_eq!(base_of(&repo)["states"], serde_json::json!([word]));
        assert_eq!(repo.status(), before);
    }
    let env = TestEnv::new();
    let repo = conflicting(&env);
    assert_eq!(base_of(&repo)["states"], Value::Null);
    repo.git(["bisect", "start"]);
    assert_eq!(base_of(&repo)["states"], serde_json::json!(["bisect"]));
}

#[test]
fn a_shallow_clone_and_a_sparse_checkout_are_told() {
    let env = TestEnv::new();
    let source = env.repo();
    source.edit("a.txt", "a 1", "later");
    source.commit_all("later");
    let clone = env.outside().join("shallow");
    let url = format!("file://{}", shown(source.root()));
    source.git(["clone", "-q", "--depth=1", &url, shown(&clone)]);
    let clone = env.adopt(clone);
    assert_eq!(base_of(&clone)["states"], serde_json::json!(["shallow"]));
    clone.git(["sparse-checkout", "set", "--no-cone", "/a.txt"]);
    assert_eq!(
        base_of(&clone)["states"],
        serde_json::json!(["shallow", "sparse_checkout"])
    );
    let record = clone.agent("test ! -e b.txt && echo new > n.txt");
    let record = record.expect_code(0).json();
    assert_eq!(only_agent(&record)["integration"]["status"], "landed");
    assert!(!clone.has("b.txt"));
}

#[test]
fn changes_inside_a_submodule_are_told() {
    let env = TestEnv::new();
    let repo = env.repo();
    let inner = env.outside().join("inner");
    repo.git(["clone", "-q", shown(repo.root()), shown(&inner)]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"];
    repo.git([&add[..], &[shown(&inner), "sub"]].concat());
    repo.commit_all("with a submodule");
    assert_eq!(base_of(&repo)["warnings"], Value::Null);
    repo.write("sub/a.txt", "changed\n");
    let warnings = base_of(&repo)["warnings"].clone();
    assert_eq!(warnings[0]["path"], "sub", "{warnings:#}");
    assert_eq!(warnings[0]["kind"], "submodule_changed");
    repo.git(["-C", "sub", "checkout", "-q", "a.txt"]);
}

/// A clone that leaves with `source` what `filter` says.
fn partial<'e>(env: &'e TestEnv, source: &Repo<'_>, filter: &str, checkout: &str) -> Repo<'e> {
    source.git(["config", "uploadpack.allowFilter", "true"]);
    let clone = env.outside().join("partial");
    let url = format!("file://{}", shown(source.root()));
    let filter = format!("--filter={filter}");
    source.git(["clone", "-q", &filter, checkout, &url, shown(&clone)]);
    env.adopt(clone)
}

fn missing(repo: &Repo<'_>) -> usize {
    let listed = repo.git(["rev-list", "--objects", "--all", "--missing=print"]);
    listed.lines().filter(|line| line.starts_with('?')).count()
}

#[test]
fn what_a_partial_clone_lacks_is_named_and_never_fetched() {
    let env = TestEnv::new();
    let source = env.repo();
    source.edit("docs/guide.md", "use it", "handle it");
    source.commit_all("later");
    let clone = partial(&env, &source, "blob:none", "--checkout");
    let lacks = missing(&clone);
    assert_eq!(lacks, 1);
    assert_eq!(
        base_of(&clone)["states"],
        serde_json::json!(["partial_clone"])
    );
    let before = clone.print();
    let error = clone
        .cofferdam(["run", "--json", "--base", "HEAD~1", "--", "true"])
        .expect_error(2);
    let message = text(&error, "message");
    assert!(
        message.contains("`docs/guide.md`") && message.contains("git fetch"),
        "{message}"
    );
    before.expect_same(&clone.print());
    // Inside, git does not get it either.
    let script = "git cat-file -p HEAD~1:docs/guide.md && exit 9; echo new > n.txt";
    clone.agent(script).expect_code(0);
    assert_eq!(missing(&clone), lacks);
    // What the message says helps.
    clone.git(["fetch", "-q", "--refetch", "--no-filter"]);
    assert_eq!(missing(&clone), 0);
    clone
        .cofferdam(["run", "--base", "HEAD~1", "--", "true"])
        .expect_code(0);
}

#[test]
fn a_clone_without_its_directories_is_refused_clearly() {
    let env = TestEnv::new();
    let source = env.repo();
    source.edit("docs/guide.md", "use it", "handle it");
    source.commit_all("later");
    let clone = partial(&env, &source, "tree:0", "--no-checkout");
    for base in [&["--base", "HEAD~1"][..], &[]] {
        let run = clone.cofferdam([&["run", "--json"], base, &["--", "true"]].concat());
        let error = run.expect_error(2);
        assert!(text(&error, "message").contains("git fetch"), "{error:#}");
    }
    clone.git(["checkout", "-q", "HEAD", "."]);
    let record = clone.agent("echo more >> a.txt").expect_code(0).json();
    assert_eq!(only_agent(&record)["integration"]["status"], "landed");
}
