//! Decisions on a result after its run, and what can be looked up.
//!
//! Owns `ls`, `show`, `diff`, `log`, `apply`, `discard` and `gc`.

use std::fs;

use crate::support::{Repo, TestEnv, agents, only_agent, shown, text};

/// An agent whose new file `n.txt` is held; returns its id.
fn held(repo: &Repo<'_>) -> String {
    let record = repo
        .cofferdam([
            "run",
            "--json",
            "--name",
            "waiting",
            "--integrate",
            "hold",
            "--",
            "sh",
            "-c",
            "echo new > n.txt",
        ])
        .expect_code(0)
        .json();
    text(only_agent(&record), "id").to_owned()
}

#[test]
fn a_held_result_can_be_looked_at_and_landed() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.expect_unchanged();
        let id = held(&repo);
        assert!(
            repo.cofferdam(["show", &id])
                .expect_code(0)
                .stdout
                .contains("waiting")
        );
        let shown = repo
            .cofferdam(["show", &id, "--json"])
            .expect_code(0)
            .json();
        assert!(text(&shown, "schema").starts_with("cofferdam."));
        let diff = repo.cofferdam(["diff", &id]).expect_code(0).stdout;
        assert!(diff.contains("n.txt") && diff.contains("+new"), "{diff}");

        let applied = repo
            .cofferdam(["apply", &id, "--json"])
            .expect_code(0)
            .json();
        assert_eq!(only_agent(&applied)["integration"]["status"], "landed");
        assert_eq!(repo.text("n.txt"), "new\n");
        assert_eq!(repo.status(), "?? n.txt\n");
    }
}

#[test]
fn a_unique_prefix_of_an_id_or_its_run_names_an_agent() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .agent_integrating("hold", "echo n > n.txt")
        .expect_code(0)
        .json();
    let id = text(only_agent(&record), "id");
    repo.cofferdam(["show", &id[..id.len() - 4]]).expect_code(0);
    repo.cofferdam(["diff", text(&record, "run")])
        .expect_code(0);
    held(&repo);
    // Both agents' ids begin with the same letter.
    repo.cofferdam(["show", &id[..1], "--json"]).expect_error(2);
}

#[test]
fn a_discarded_result_is_gone_and_nothing_landed() {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    let id = held(&repo);
    assert_eq!(repo.added_refs().len(), 1);
    let discarded = repo
        .cofferdam(["discard", &id, "--yes", "--json"])
        .expect_code(0)
        .json();

    assert_eq!(only_agent(&discarded)["integration"]["status"], "rejected");
    assert_eq!(repo.added_refs(), [""; 0]);
    before.expect_same(&repo.print());
    repo.cofferdam(["apply", &id, "--json"]).expect_error(2);
}

#[test]
fn discarding_asks_first() {
    let env = TestEnv::new();
    let repo = env.repo();
    let id = held(&repo);
    let run = repo.cofferdam(["discard", &id]);
    assert_ne!(run.code, 0, "{}", run.stderr);
    assert_eq!(repo.added_refs().len(), 1);
}

#[test]
fn a_result_lands_once() {
    let env = TestEnv::new();
    let repo = env.repo();
    let id = held(&repo);
    repo.cofferdam(["apply", &id]).expect_code(0);
    let before = repo.print();
    repo.cofferdam(["apply", &id]);
    before.expect_same(&repo.print());
}

#[test]
fn every_added_ref_is_listed_and_none_outlives_gc() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.expect_unchanged();
    held(&repo);
    repo.agent("echo half > h.txt; exit 1").expect_code(1);
    repo.agent("echo landed > l.txt").expect_code(0);
    let listed = repo
        .cofferdam(["ls", "--all", "--json"])
        .expect_code(0)
        .json();

    assert_eq!(listed["schema"], "cofferdam.ls/1");
    assert_eq!(agents(&listed).len(), 3);
    let refs: Vec<_> = agents(&listed)
        .iter()
        .filter_map(|agent| agent["result"]["ref"].as_str())
        .collect();
    for added in repo.added_refs() {
        assert!(refs.contains(&added.as_str()), "{added} is not in {refs:?}");
    }
    repo.cofferdam(["gc"]).expect_code(0);
    assert!(!repo.added_refs().is_empty(), "gc took what is to be kept");
    repo.cofferdam(["gc", "--older", "0s", "--json"])
        .expect_code(0)
        .json();
    assert_eq!(repo.added_refs(), [""; 0]);
}

#[test]
fn the_plain_list_shows_the_newest_run_and_what_waits_of_older_ones() {
    let env = TestEnv::new();
    let repo = env.repo();
    let waiting = held(&repo);
    repo.agent("echo one > one.txt").expect_code(0);
    repo.agent("echo two > two.txt").expect_code(0);
    let names = |listed: &serde_json::Value| -> Vec<(String, String)> {
        let all = agents(listed);
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        all.iter()
            .map(|agent| (text(&agent["id"]), text(&agent["integration"]["status"])))
            .collect()
    };
    let listed = repo.cofferdam(["ls", "--json"]).expect_code(0).json();
    let listed = names(&listed);
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!(listed[0].0, waiting);
    assert_eq!(listed[1].1, "landed");
}

#[test]
fn results_of_another_repository_are_not_listed() {
    let env = TestEnv::new();
    let repo = env.repo();
    held(&repo);
    let other = env.adopt(env.root().join("other"));
    env.make_dir(other.root());
    other.git(["init", "-q", "-b", "main"]);
    let listed = other
        .cofferdam(["ls", "--all", "--json"])
        .expect_code(0)
        .json();
    assert_eq!(agents(&listed).len(), 0);
}

#[test]
fn git_itself_keeps_a_held_result() {
    let env = TestEnv::new();
    let repo = env.repo();
    let id = held(&repo);
    repo.git(["gc", "-q", "--prune=now"]);
    repo.git(["fsck", "--strict"]);
    repo.cofferdam(["apply", &id]).expect_code(0);
    assert_eq!(repo.text("n.txt"), "new\n");
}

#[test]
fn the_log_tells_what_happened_and_checks_itself() {
    let env = TestEnv::new();
    let repo = env.repo();
    let dropped = held(&repo);
    repo.cofferdam(["discard", &dropped, "--yes"])
        .expect_code(0);
    let id = held(&repo);
    repo.cofferdam(["apply", &id]).expect_code(0);
    let document = repo.cofferdam(["log", &id, "--json"]).expect_code(0).json();
    assert_eq!(document["schema"], "cofferdam.log/1");
    let events = document["events"].as_array().expect("because it is a list");
    assert!(events.iter().all(|event| event["agent"] == id.as_str()));
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert_eq!(names.first(), Some(&"admitted"), "{names:?}");
    assert_eq!(names.last(), Some(&"decided"), "{names:?}");

    let all = repo.cofferdam(["log"]).expect_code(0).stdout;
    for (agent, command) in [(&id, "apply"), (&dropped, "discard")] {
        let told = all
            .lines()
            .any(|line| line.contains(agent.as_str()) && line.contains(&format!("\"{command}\"")));
        assert!(told, "no `{command}` of {agent} in:\n{all}");
    }
}

#[test]
fn gc_within_a_repository_takes_nothing_of_another() {
    let env = TestEnv::new();
    let repo = env.repo();
    held(&repo);
    let other = env.adopt(env.root().join("other"));
    env.make_dir(other.root());
    other.git(["init", "-q", "-b", "main"]);
    other.write("o.txt", "other\n");
    other.commit_all("begin");
    let id = held(&other);
    repo.cofferdam(["gc", "--older", "0s"]).expect_code(0);

    assert_eq!(repo.added_refs(), [""; 0]);
    assert_eq!(other.added_refs().len(), 1);
    other.cofferdam(["apply", &id]).expect_code(0);
    assert_eq!(other.text("n.txt"), "new\n");
    env.cofferdam_in(&env.outside(), ["gc", "--older", "0s"])
        .expect_code(0);
    assert_eq!(other.added_refs(), [""; 0]);
}

/// An agent chooses the dates of its commits; they decide nothing of what stays.
#[test]
fn the_age_of_what_no_record_names_is_its_results() {
    for date in ["1000000 +0000", "999999999999999 +0000"] {
        let env = TestEnv::new();
        let repo = env.repo();
        let script = "echo work > w.txt; git add w.txt; \
                      tree=$(git write-tree); \
                      commit=$(printf 'tree %s\\nauthor A <a@b> DATE\\ncommitter A <a@b> DATE\\n\\nmine\\n' \
                      $tree | git hash-object -t commit -w --stdin --literally); git reset -q --hard $commit";
        repo.agent_integrating("never", &script.replace("DATE", date))
            .expect_code(0);
        let refs = repo.added_refs();
        fs::remove_dir_all(env.state()).expect("because it is the test's");
        repo.cofferdam(["gc", "--older", "1h"]).expect_code(0);
        assert_eq!(repo.added_refs(), refs, "{date}");
        repo.cofferdam(["gc", "--older", "0s"]).expect_code(0);
        assert_eq!(repo.added_refs(), [""; 0], "{date}");
    }
}

#[test]
fn a_result_that_touches_the_roles_is_held_until_somebody_applies_it() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .agent("mkdir -p .cofferdam; echo '# looked at' > .cofferdam/roles.toml; echo new > n.txt")
        .expect_code(5)
        .json();
    let agent = only_agent(&record);
    assert_eq!(agent["integration"]["status"], "held");
    assert!(!repo.has(".cofferdam") && !repo.has("n.txt"));

    repo.cofferdam(["apply", text(agent, "id")]).expect_code(0);
    assert_eq!(repo.text(".cofferdam/roles.toml"), "# looked at\n");
    assert_eq!(repo.text("n.txt"), "new\n");
}

#[test]
fn a_repository_that_cannot_be_used_does_not_pass_for_none() {
    let env = TestEnv::new();
    let bare = env.root().join("bare.git");
    env.finish(env.command("git").args(["init", "-q", "--bare"]).arg(&bare))
        .expect_code(0);
    env.cofferdam_in(&bare, ["ls", "--json"]).expect_error(2);
    env.cofferdam_in(&env.outside(), ["ls", "--json"])
        .expect_code(0);
}

#[test]
fn an_id_that_names_nothing_is_told_from_one_that_names_too_much() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan = repo.plan(
        "[[task]]\nname = \"one\"\ncommand = [\"true\"]\n\
         [[task]]\nname = \"two\"\ncommand = [\"true\"]\n",
    );
    let record = repo
        .cofferdam(["run", "--json", shown(&plan)])
        .expect_code(0)
        .json();
    for command in ["show", "log"] {
        repo.cofferdam([command, text(&record, "run"), "--json"])
            .expect_code(0);
        let unknown = repo
            .cofferdam([command, "a-zzzz", "--json"])
            .expect_error(2);
        assert!(text(&unknown, "message").contains("no agent and no run"));
        let ambiguous = repo.cofferdam([command, "a-", "--json"]).expect_error(2);
        assert!(
            text(&ambiguous, "message").contains("2 ids"),
            "{ambiguous:#}"
        );
    }
}

#[test]
fn an_unknown_id_is_told() {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    for command in ["show", "diff", "apply"] {
        repo.cofferdam([command, "a-0000000000000000", "--json"])
            .expect_error(2);
    }
    repo.cofferdam(["discard", "a-0000000000000000", "--yes", "--json"])
        .expect_error(2);
    before.expect_same(&repo.print());
}

#[test]
fn the_patch_of_a_result_is_one_that_git_applies() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write("go.sh", "#!/bin/sh\n");
    repo.commit_all("a script");
    let script =
        "head -c 3000 /dev/urandom > new.bin; chmod +x go.sh; git mv a.txt moved.txt; exit 3";
    let record = repo
        .cofferdam(["run", "--json", "--", "sh", "-c", script])
        .expect_code(1)
        .json();
    let agent = only_agent(&record);
    let id = text(agent, "id");

    let patch = env.outside().join("x.patch");
    let made = format!("\"$0\" diff {id} > '{}'", patch.display());
    let program = env.program_path();
    env.finish(
        env.command("sh")
            .arg("-c")
            .arg(made)
            .arg(program)
            .current_dir(repo.root()),
    )
    .expect_code(0);
    repo.git(["apply", "--index", &patch.display().to_string()]);
    let tree = repo.git(["write-tree"]);
    assert_eq!(tree.trim(), text(&agent["result"], "tree"));
    repo.git(["reset", "-q", "--hard"]);
}
