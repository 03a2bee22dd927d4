//! What one agent's result does to the parent's files, and what it does not.
//!
//! Owns landing, holding and conflicts of a single `run -- CMD`. What may be
//! in a result at all is in `kinds`, decisions afterwards are in `results`.

use crate::support::{TestEnv, only_agent, paths, shown, text};

#[test]
fn an_edit_lands_in_the_files_and_not_in_the_index() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.expect_unchanged();
        let record = repo
            .agent("echo more >> a.txt; echo new > n.txt; rm b.txt")
            .expect_code(0)
            .json();

        assert_eq!(repo.status(), " M a.txt\n D b.txt\n?? n.txt\n");
        assert!(repo.text("a.txt").ends_with("a 10\nmore\n"));
        assert_eq!(repo.text("n.txt"), "new\n");
        let agent = only_agent(&record);
        assert_eq!(agent["state"], "cleaned");
        assert_eq!(agent["outcome"], "succeeded");
        assert_eq!(agent["integration"]["status"], "landed");
        assert_eq!(paths(&agent["changes"]), ["a.txt", "b.txt", "n.txt"]);
        assert_eq!(record["cleanup"]["complete"], true);
    }
}

#[test]
fn an_agent_that_changes_nothing_moves_nothing() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write("a.txt", "dirty\n");
    repo.write("target/cache", "ignored\n");
    let before = repo.print();
    let record = repo.agent("touch a.txt; git status").expect_code(0).json();

    before.expect_same(&repo.print());
    let agent = only_agent(&record);
    assert_eq!(agent["integration"]["status"], "no_change");
    assert_eq!(paths(&agent["changes"]), [""; 0]);
}

#[test]
fn edits_of_the_parent_and_of_the_agent_merge_within_a_file() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.expect_unchanged();
    let mut run = repo.ready(
        &["--json", "--stdin"],
        "sed -i 's/^a 9$/agent 9/' a.txt; echo ready; read line",
    );
    repo.edit("a.txt", "a 2\n", "parent 2\n");
    run.say("go on");
    run.wait().expect_code(0);

    let merged = repo.text("a.txt");
    assert!(
        merged.contains("parent 2\n") && merged.contains("agent 9\n"),
        "{merged}"
    );
}

#[test]
fn a_conflict_leaves_the_parent_byte_identical_and_names_the_place() {
    let env = TestEnv::new();
    let repo = env.repo();
    let mut run = repo.ready(
        &["--json", "--stdin"],
        "sed -i 's/^a 5$/agent 5/' a.txt; echo kept > n.txt; echo ready; read line",
    );
    repo.edit("a.txt", "a 5\n", "parent 5\n");
    let before = repo.print();
    run.say("go on");
    let record = run.wait().expect_code(5).json();

    before.expect_same(&repo.print());
    let agent = only_agent(&record);
    assert_eq!(agent["outcome"], "succeeded");
    let integration = &agent["integration"];
    assert_eq!(integration["status"], "held");
    assert_eq!(integration["held_for"], serde_json::json!(["conflict"]));
    assert_eq!(paths(&integration["conflicts"]), ["a.txt"]);
    assert_eq!(integration["conflicts"][0]["kind"], "content");
    for side in ["base", "ours", "theirs"] {
        let blob = text(&integration["conflicts"][0], side);
        assert!(blob.len() >= 40, "`{side}` is not an object: {blob}");
    }
}

#[test]
fn a_held_conflict_lands_once_the_parent_has_made_way() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.expect_unchanged();
    let record = repo
        .agent_integrating("hold", "sed -i 's/^a 5$/agent 5/' a.txt")
        .expect_code(0)
        .json();
    let id = text(only_agent(&record), "id").to_owned();
    repo.edit("a.txt", "a 5\n", "parent 5\n");
    let before = repo.print();
    let held = repo
        .cofferdam(["apply", &id, "--json"])
        .expect_code(5)
        .json();
    before.expect_same(&repo.print());
    assert_eq!(only_agent(&held)["integration"]["held_for"][0], "conflict");

    repo.edit("a.txt", "parent 5\n", "a 5\n");
    repo.cofferdam(["apply", &id]).expect_code(0);
    assert!(repo.text("a.txt").contains("agent 5\n"));
}

#[test]
fn a_result_waits_where_the_caller_asked_for_it() {
    for (choice, status) in [("hold", "held"), ("never", "not_requested")] {
        let env = TestEnv::new();
        let repo = env.repo();
        let before = repo.print();
        let record = repo
            .agent_integrating(choice, "echo new > n.txt")
            .expect_code(0)
            .json();

        before.expect_same(&repo.print());
        let agent = only_agent(&record);
        assert_eq!(agent["integration"]["status"], status);
        assert_eq!(repo.show(text(&agent["result"], "ref"), "n.txt"), "new\n");
    }
}

#[test]
fn work_of_an_agent_that_fails_is_kept_and_does_not_land() {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    let record = repo
        .agent("echo half > n.txt; exit 3")
        .expect_code(1)
        .json();

    before.expect_same(&repo.print());
    let agent = only_agent(&record);
    assert_eq!(agent["outcome"], "failed");
    assert_eq!(
        agent["exit"],
        serde_json::json!({"code": 3, "signal": null})
    );
    assert_eq!(repo.show(text(&agent["result"], "ref"), "n.txt"), "half\n");
    assert_eq!(repo.show(text(&agent["result"], "tree"), "n.txt"), "half\n");
}

#[test]
fn work_of_an_agent_that_a_signal_ends_is_kept() {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    let record = repo
        .agent("echo half > n.txt; kill -9 $$")
        .expect_code(1)
        .json();

    before.expect_same(&repo.print());
    let agent = only_agent(&record);
    assert_eq!(agent["outcome"], "crashed");
    assert_eq!(
        agent["exit"],
        serde_json::json!({"code": null, "signal": 9})
    );
    assert_eq!(repo.show(text(&agent["result"], "ref"), "n.txt"), "half\n");
}

#[test]
fn a_deadline_cuts_the_agent_short_and_keeps_its_work() {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    let record = repo
        .cofferdam([
            "run",
            "--json",
            "--deadline",
            "5s",
            "--",
            "sh",
            "-c",
            "echo kept > n.txt; trap '' TERM; while :; do sleep 1; done",
        ])
        .expect_code(6)
        .json();

    before.expect_same(&repo.print());
    let agent = only_agent(&record);
    assert_eq!(agent["outcome"], "timed_out");
    assert_eq!(repo.show(text(&agent["result"], "ref"), "n.txt"), "kept\n");
}

#[test]
fn a_change_outside_the_file_scope_does_not_land() {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    let record = repo
        .cofferdam([
            "run",
            "--json",
            "--paths",
            "docs/**",
            "--",
            "sh",
            "-c",
            "echo in >> docs/guide.md; echo out >> a.txt || :",
        ])
        .expect_code(5)
        .json();

    before.expect_same(&repo.print());
    let integration = &only_agent(&record)["integration"];
    assert_eq!(integration["held_for"], serde_json::json!(["scope"]));
    assert_eq!(paths(&integration["conflicts"]), ["a.txt"]);
}

#[test]
fn ignored_files_do_not_land_and_are_named() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write("target/mine", "the person's\n");
    let record = repo
        .agent("mkdir -p target; echo built > target/out; echo new > n.txt")
        .expect_code(0)
        .json();

    assert!(!repo.has("target/out"));
    assert_eq!(repo.text("target/mine"), "the person's\n");
    let agent = only_agent(&record);
    assert_eq!(paths(&agent["changes"]), ["n.txt"]);
    assert_eq!(agent["ignored"][0]["path"], "target/");
    assert_eq!(agent["ignored"][0]["files"], 1);
}

#[test]
fn files_of_the_parent_that_git_does_not_track_are_never_overwritten() {
    for (ignore, kind) in [("n.txt\n", "would_overwrite_ignored"), ("", "add_add")] {
        let env = TestEnv::new();
        let repo = env.repo();
        let record = repo
            .agent_integrating("hold", "echo agent > n.txt; echo more >> a.txt")
            .expect_code(0)
            .json();
        repo.write(".gitignore", format!("target/\n{ignore}"));
        repo.write("n.txt", "the person's\n");
        let before = repo.print();
        let id = text(only_agent(&record), "id");
        let held = repo
            .cofferdam(["apply", id, "--json"])
            .expect_code(5)
            .json();

        before.expect_same(&repo.print());
        let conflict = &only_agent(&held)["integration"]["conflicts"][0];
        assert_eq!(conflict["path"], "n.txt");
        assert_eq!(conflict["kind"], kind);
    }
}

#[test]
fn a_check_of_the_merged_tree_decides_on_landing() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.cofferdam([
        "run",
        "--verify",
        "grep -q good n.txt",
        "--",
        "sh",
        "-c",
        "echo good > n.txt",
    ])
    .expect_code(0);
    assert_eq!(repo.text("n.txt"), "good\n");
    let before = repo.print();
    let record = repo
        .cofferdam([
            "run",
            "--json",
            "--verify",
            "grep -q good n.txt || { echo it is bad; false; }",
            "--",
            "sh",
            "-c",
            "echo bad > n.txt",
        ])
        .expect_code(5)
        .json();

    before.expect_same(&repo.print());
    let agent = only_agent(&record);
    assert_eq!(
        agent["integration"]["held_for"],
        serde_json::json!(["verify"])
    );
    // Who is refused is told where the check says why.
    let log = text(agent, "reason").split('`').nth(1);
    let log = std::fs::read_to_string(log.expect("because it names the log"));
    assert_eq!(log.ok().as_deref(), Some("it is bad\n"));
    let shown = repo.cofferdam(["show", text(agent, "id")]).expect_code(0);
    assert!(
        shown
            .stdout
            .contains("the check of the merged tree said no")
    );
}

#[test]
fn a_result_lands_on_a_branch_and_leaves_the_files_alone() {
    for (land, named) in [("branch", None), ("branch=mine", Some("mine"))] {
        let env = TestEnv::new();
        let repo = env.repo();
        let record = repo
            .cofferdam([
                "run",
                "--json",
                "--land",
                land,
                "--",
                "sh",
                "-c",
                "echo new > n.txt",
            ])
            .expect_code(0)
            .json();

        let agent = only_agent(&record);
        let made = format!("cofferdam/{}/sh", text(&record, "run"));
        let branch = named.unwrap_or(&made);
        assert_eq!(agent["integration"]["status"], "landed");
        assert_eq!(repo.show(&format!("refs/heads/{branch}"), "n.txt"), "new\n");
        assert_eq!(repo.status(), "");
    }
}

#[test]
fn landing_where_nothing_can_land_is_refused_before_anything_starts() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.git(["branch", "taken"]);
    let before = repo.print();
    let mark = env.outside().join("events");
    for land in ["branch=taken", "commit", "branch=a..b"] {
        repo.cofferdam([
            "run",
            "--json",
            "--events",
            shown(&mark),
            "--land",
            land,
            "--",
            "sh",
            "-c",
            "echo new > n.txt",
        ])
        .expect_error(2);
        before.expect_same(&repo.print());
        assert_eq!(repo.added_refs(), [""; 0]);
        let events = std::fs::read_to_string(&mark).unwrap_or_default();
        assert!(!events.contains("running"), "{land}: {events}");
    }
}

#[test]
fn a_check_that_does_not_end_is_cut_by_the_deadline_and_the_work_is_kept() {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    let record = repo
        .cofferdam([
            "run",
            "--json",
            "--deadline",
            "2s",
            "--verify",
            "sleep 1000",
            "--",
            "sh",
            "-c",
            "echo kept > n.txt",
        ])
        .expect_code(6)
        .json();

    before.expect_same(&repo.print());
    let agent = only_agent(&record);
    assert_ne!(agent["integration"]["status"], "landed");
    assert_eq!(repo.show(text(&agent["result"], "ref"), "n.txt"), "kept\n");
}
