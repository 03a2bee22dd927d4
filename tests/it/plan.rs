//! Fleets: many agents from one plan.
//!
//! Owns order, concurrency, dependence and what siblings do to one another's
//! results. Plans that are refused are in `plan_errors`.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::{Repo, TestEnv, agent, agents, paths, shown};

/// Runs a plan and returns its exit code, its record and its events.
fn run(env: &TestEnv, repo: &Repo<'_>, plan: &str, options: &[&str]) -> (i32, Value, Vec<Value>) {
    let plan = repo.plan(plan);
    let events = env.outside().join("events");
    let run = env.finish(
        env.program()
            .args(["run", "--json", "--events", shown(&events)])
            .args(options)
            .arg(&plan)
            .current_dir(repo.root()),
    );
    let lines = fs::read_to_string(&events).unwrap_or_default();
    let events = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("because each line is a document"))
        .collect();
    (run.code, run.json(), events)
}

/// One task that runs a shell script, with further keys.
fn task(name: &str, script: &str, keys: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n{keys}\n")
}

/// The names of agents in the order in which an event of that kind came.
fn order_of(events: &[Value], kind: &str) -> Vec<String> {
    events
        .iter()
        .filter(|event| event["event"] == kind)
        .filter_map(|event| event["name"].as_str())
        .map(str::to_owned)
        .collect()
}

#[test]
fn eight_writers_land_what_each_made() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.expect_unchanged();
        let plan: String = (1..=8)
            .map(|n| {
                let script =
                    format!("sed -i 's/^a {n}$/agent {n}/' a.txt; mkdir d{n}; echo {n} > d{n}/f");
                // Lines next to each other conflict; every second file is another.
                let script = if n % 2 == 0 {
                    script
                } else {
                    script.replace("a.txt", "no.txt")
                };
                task(
                    &format!("w{n}"),
                    &script.replace("; mkdir", " || :; mkdir"),
                    "",
                )
            })
            .collect();
        let (code, record, _) = run(&env, &repo, &plan, &[]);

        assert_eq!(code, 0, "{record:#}");
        assert_eq!(agents(&record).len(), 8);
        for n in 1..=8 {
            assert_eq!(repo.text(format!("d{n}/f")), format!("{n}\n"));
            assert_eq!(
                repo.text("a.txt").contains(&format!("agent {n}\n")),
                n % 2 == 0
            );
        }
        let ids: BTreeSet<_> = agents(&record)
            .iter()
            .map(|agent| agent["id"].as_str())
            .collect();
        assert_eq!(ids.len(), 8);
    }
}

#[test]
fn the_plan_of_the_readme_runs() {
    let env = TestEnv::new();
    let repo = env.repo();
    let readme = include_str!("../../README.md");
    let plan = readme
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("because the README shows a plan");
    let (code, record, _) = run(&env, &repo, plan, &[]);
    assert_eq!(code, 0, "{record:#}");
    assert!(!repo.status().is_empty());
}

#[test]
fn a_task_that_follows_sees_what_landed_before() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan = task(
        "last",
        "cat one.txt two.txt > seen.txt",
        "after = [\"one\", \"two\"]",
    ) + &task("one", "echo one > one.txt", "")
        + &task("two", "test ! -e one.txt && echo two > two.txt", "");
    let (code, record, _) = run(&env, &repo, &plan, &["--max-live", "1"]);

    assert_eq!(code, 0, "{record:#}");
    assert_eq!(repo.text("seen.txt"), "one\ntwo\n");
}

#[test]
fn results_land_in_the_order_of_the_plan() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan = task("slow", "sleep 1; echo slow > s.txt", "")
        + &task("quick", "echo quick > q.txt", "")
        + &task("third", "echo third > t.txt", "");
    let (code, _, events) = run(&env, &repo, &plan, &[]);

    assert_eq!(code, 0);
    assert_eq!(order_of(&events, "integrated"), ["slow", "quick", "third"]);
}

#[test]
fn no_more_agents_run_at_once_than_may() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan: String = (1..=7)
        .map(|n| {
            task(
                &format!("w{n}"),
                &format!("echo {n} > {n}.txt; sleep 0.3"),
                "",
            )
        })
        .collect();
    let (code, _, events) = run(&env, &repo, &plan, &["--max-live", "2"]);

    assert_eq!(code, 0);
    let mut live = BTreeSet::new();
    let mut most = 0;
    for event in &events {
        let name = event["name"].as_str().unwrap_or_default();
        if event["event"] == "state" && event["state"] == "running" {
            live.insert(name);
        } else if event["event"] == "ended" {
            live.remove(name);
        }
        most = most.max(live.len());
    }
    assert_eq!(most, 2);
}

#[test]
fn overlapping_edits_of_one_file_merge() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.edit("a.txt", "a 5\n", "uncommitted 5\n");
    repo.expect_unchanged();
    let plan = task("top", "sed -i 's/^a 1$/top/' a.txt", "")
        + &task("bottom", "sed -i 's/^a 10$/bottom/' a.txt", "")
        + &task("mover", "git mv b.txt c.txt", "")
        + &task("editor", "echo edited >> b.txt", "");
    let (code, record, _) = run(&env, &repo, &plan, &[]);

    assert_eq!(code, 0, "{record:#}");
    assert_eq!(
        repo.text("a.txt"),
        "top\na 2\na 3\na 4\nuncommitted 5\na 6\na 7\na 8\na 9\nbottom\n"
    );
    assert!(!repo.has("b.txt"));
    assert!(repo.text("c.txt").ends_with("edited\n"));
}

#[test]
fn of_two_that_conflict_the_first_lands_and_the_second_waits() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan = task(
        "first",
        "sed -i 's/^a 5$/first/' a.txt; echo 1 > one.txt",
        "",
    ) + &task(
        "second",
        "sed -i 's/^a 5$/second/' a.txt; echo 2 > two.txt",
        "",
    ) + &task("third", "echo 3 > three.txt", "");
    let (code, record, _) = run(&env, &repo, &plan, &[]);

    assert_eq!(code, 5, "{record:#}");
    assert!(repo.text("a.txt").contains("first\n"));
    assert!(repo.has("one.txt") && !repo.has("two.txt") && repo.has("three.txt"));
    let held = &agent(&record, "second")["integration"];
    assert_eq!(held["status"], "held");
    assert_eq!(paths(&held["conflicts"]), ["a.txt"]);
    assert_eq!(agent(&record, "third")["integration"]["status"], "landed");
}

#[test]
fn siblings_of_one_that_fails_go_on() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan =
        task("broken", "echo half > h.txt; exit 1", "") + &task("whole", "echo whole > w.txt", "");
    let (code, record, _) = run(&env, &repo, &plan, &[]);

    assert_eq!(code, 1);
    assert!(repo.has("w.txt") && !repo.has("h.txt"));
    assert_eq!(agent(&record, "broken")["outcome"], "failed");
    assert_eq!(agent(&record, "whole")["outcome"], "succeeded");
}

#[test]
fn a_task_whose_forerunner_did_not_land_is_refused() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan = task("broken", "exit 1", "")
        + &task("next", "echo next > n.txt", "after = [\"broken\"]")
        + &task("last", "echo last > l.txt", "after = [\"next\"]");
    let (code, record, _) = run(&env, &repo, &plan, &[]);

    assert_eq!(code, 3);
    for name in ["next", "last"] {
        let refused = agent(&record, name);
        assert_eq!(refused["state"], "refused");
        assert_eq!(refused["outcome"], "refused");
        assert_eq!(refused["refusal"]["gate"], "after");
    }
    assert_eq!(repo.status(), "");
}

#[test]
fn all_tasks_start_from_one_snapshot() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan: String = (1..=4)
        .map(|n| {
            task(
                &format!("w{n}"),
                &format!("ls > seen{n}.txt; echo {n} > f{n}"),
                "",
            )
        })
        .collect();
    // One after another, so that earlier results have landed long before.
    let (code, _, _) = run(&env, &repo, &plan, &["--max-live", "1"]);

    assert_eq!(code, 0);
    for n in 1..=4 {
        let seen = repo.text(format!("seen{n}.txt"));
        assert!(!seen.contains("f1") && !seen.contains("f2"), "{seen}");
    }
}

#[test]
fn keys_of_a_task_apply_to_it_alone() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan = task("held", "echo h > h.txt", "integrate = \"hold\"")
        + &task("reader", "! touch r.txt", "role = \"reader\"")
        + &task(
            "told",
            "echo \"$WORD\" > t.txt",
            "env = { WORD = \"hello\" }",
        );
    let (code, record, _) = run(&env, &repo, &plan, &[]);

    assert_eq!(code, 0, "{record:#}");
    assert_eq!(repo.status(), "?? t.txt\n");
    assert_eq!(repo.text("t.txt"), "hello\n");
    assert_eq!(agent(&record, "held")["integration"]["status"], "held");
    assert_eq!(agent(&record, "reader")["role"], "reader");
}

#[test]
fn the_fleet_of_the_fixtures_ends_as_it_says() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan = include_str!("../../fixtures/plans/eight-writers.toml");
    let (code, record, _) = run(&env, &repo, plan, &[]);

    assert_eq!(code, 5, "{record:#}");
    assert_eq!(repo.text("fleet-disputed.txt"), "by the left one\n");
    let conflict = &agent(&record, "right")["integration"]["conflicts"][0];
    assert_eq!(conflict["kind"], "add_add");
}

#[test]
fn tasks_that_overlap_an_exclusive_one_queue() {
    let env = TestEnv::new();
    let repo = env.repo();
    // The second sees what the first landed, although both could run at once.
    let plan = task("one", "echo one > order.txt", "exclusive = true")
        + &task("two", "cat order.txt > seen.txt", "exclusive = true");
    let (code, record, events) = run(&env, &repo, &plan, &[]);

    assert_eq!(code, 0, "{record:#}");
    assert_eq!(repo.text("seen.txt"), "one\n");
    assert_eq!(order_of(&events, "integrated"), ["one", "two"]);
}
