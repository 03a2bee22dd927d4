//! The launcher dies or is told to stop.
//!
//! Owns: after SIGKILL at any point the next command finds every piece of work
//! and leaves nothing else; after SIGTERM and SIGINT the launcher itself does,
//! and says by its exit code what ended it.

use std::fs;

use serde_json::Value;

use crate::support::{Repo, Signal, TestEnv, agents, only_agent, shown, text};

/// How many places in a run are tried.
const PLACES: usize = 10;

/// Every agent that the program knows of.
fn listed(repo: &Repo<'_>) -> Value {
    repo.cofferdam(["ls", "--all", "--json"])
        .expect_code(0)
        .json()
}

#[test]
fn work_of_a_run_whose_launcher_was_killed_is_found() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.expect_unchanged();
        let before = repo.print();
        let run = repo.ready(&[], "echo work > n.txt; echo ready; sleep 1000");
        run.signal(Signal::KILL);
        run.wait().expect_code(137);
        repo.cofferdam(["gc"]).expect_code(0);

        before.expect_same(&repo.print());
        let listed = listed(&repo);
        let agent = only_agent(&listed);
        assert_eq!(repo.show(text(&agent["result"], "ref"), "n.txt"), "work\n");
        repo.cofferdam(["apply", text(agent, "id")]).expect_code(0);
        assert_eq!(repo.text("n.txt"), "work\n");
    }
}

#[test]
fn the_next_run_recovers_what_a_killed_one_left() {
    let env = TestEnv::new();
    let repo = env.repo();
    let run = repo.ready(&[], "echo work > n.txt; echo ready; sleep 1000");
    run.signal(Signal::KILL);
    run.wait().expect_code(137);
    repo.agent("echo second > s.txt").expect_code(0);

    assert_eq!(repo.text("s.txt"), "second\n");
    assert!(!repo.path(".git/worktrees").exists() || worktrees(&repo) == 1);
    let kept = agents(&listed(&repo))
        .iter()
        .filter_map(|agent| agent["result"]["ref"].as_str())
        .any(|name| {
            repo.try_git(["cat-file", "-e", &format!("{name}:n.txt")])
                .code
                == 0
        });
    assert!(kept, "the killed run's work is not listed");
}

fn worktrees(repo: &Repo<'_>) -> usize {
    repo.git(["worktree", "list"]).lines().count()
}

/// Kills the launcher once it has written so many events, which spreads the
/// kills over the whole of a run; then one command has to put all right.
#[test]
fn a_launcher_killed_anywhere_leaves_whole_results_and_nothing_else() {
    for place in 1..=PLACES {
        let env = TestEnv::new();
        let repo = env.repo();
        repo.expect_unchanged();
        let tasks: String = (1..=3)
            .map(|n| {
                format!(
                    "[[task]]\nname = \"t{n}\"\ncommand = [\"sh\", \"-c\", \
                     \"echo one > {n}-one.txt; echo two > {n}-two.txt\"]\n"
                )
            })
            .collect();
        let plan = repo.plan(&tasks);
        let run = repo.start(["run", "--events", "-", shown(&plan)]);
        run.wait_for_lines(place * 3);
        run.signal(Signal::KILL);
        run.wait();
        repo.cofferdam(["gc"]).expect_code(0);

        for n in 1..=3 {
            let landed = ["one", "two"].map(|half| repo.has(format!("{n}-{half}.txt")));
            assert_eq!(
                landed[0], landed[1],
                "half of t{n} landed, killed at {place}"
            );
        }
        assert_eq!(worktrees(&repo), 1);
        for agent in agents(&listed(&repo)) {
            let n = text(agent, "name").trim_start_matches('t');
            let landed = agent["integration"]["status"] == "landed";
            assert_eq!(landed, repo.has(format!("{n}-one.txt")), "{agent:#}");
        }
        repo.git(["fsck", "--strict"]);
    }
}

#[test]
fn a_signal_ends_the_run_after_clean_up_with_the_work_kept() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let env = TestEnv::new();
        let repo = env.repo();
        repo.expect_unchanged();
        let before = repo.print();
        let run = repo.ready(&["--json"], "echo work > n.txt; echo ready; sleep 1000");
        run.signal(signal);
        let record = run.wait().expect_code(code).json();

        before.expect_same(&repo.print());
        assert_eq!(record["exit_code"], code);
        assert_eq!(record["cleanup"]["complete"], true);
        let agent = only_agent(&record);
        assert_eq!(agent["outcome"], "cancelled");
        assert_eq!(repo.show(text(&agent["result"], "ref"), "n.txt"), "work\n");
    }
}

#[test]
fn an_agent_that_ignores_every_signal_is_ended_all_the_same() {
    let env = TestEnv::new();
    let repo = env.repo();
    let run = repo.ready(
        &[],
        "trap '' TERM INT HUP; echo work > n.txt; echo ready; while :; do sleep 1; done",
    );
    run.signal(Signal::TERM);
    run.wait().expect_code(143);
}

#[test]
fn gc_leaves_a_live_run_alone() {
    let env = TestEnv::new();
    let repo = env.repo();
    let mut run = repo.ready(
        &["--stdin"],
        "echo work > n.txt; echo ready; read line; git status",
    );
    repo.cofferdam(["gc", "--older", "0s"]).expect_code(0);
    run.say("go on");
    run.wait().expect_code(0);
    assert_eq!(repo.text("n.txt"), "work\n");
}

#[test]
fn two_runs_on_one_repository_do_not_disturb_one_another() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.expect_unchanged();
    let runs: Vec<_> = (1..=4)
        .map(|n| {
            let edit = format!(
                "sed -i 's/^a {}$/run {n}/' a.txt; echo {n} > {n}.txt",
                n * 2
            );
            repo.start(["run", "--", "sh", "-c", &edit])
        })
        .collect();
    for run in runs {
        run.wait().expect_code(0);
    }
    for n in 1..=4 {
        assert_eq!(repo.text(format!("{n}.txt")), format!("{n}\n"));
        assert!(
            repo.text("a.txt").contains(&format!("run {n}\n")),
            "{}",
            repo.text("a.txt")
        );
    }
}

#[test]
fn a_run_without_its_journal_is_taken_away_and_its_work_is_kept() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let run = repo.ready(&[], "echo work > n.txt; echo ready; sleep 1000");
        run.signal(Signal::KILL);
        run.wait().expect_code(137);
        let runs = fs::read_dir(env.state().join("runs")).expect("because there was one");
        let runs: Vec<_> = runs
            .map(|run| run.expect("because it lists").path())
            .collect();
        let [directory] = &runs[..] else {
            panic!("one run was made: {runs:?}");
        };
        fs::remove_file(directory.join("journal")).expect("because a run has one");
        let after = repo.cofferdam(["gc"]).expect_code(0);
        assert!(after.stderr.contains("they are kept"), "{}", after.stderr);

        assert!(!directory.exists());
        let listed = listed(&repo);
        let agent = only_agent(&listed);
        assert_eq!(agent["state"], "quarantined", "{agent:#}");
        let run = directory.file_name().expect("because it has a name");
        let kept = env.state().join("kept").join(run).join(text(agent, "id"));
        assert_eq!(text(&agent["result"]["kept"], "directory"), shown(&kept));
        let file = kept.join("tree/n.txt");
        assert_eq!(fs::read_to_string(file).ok().as_deref(), Some("work\n"));
        assert_eq!(worktrees(&repo), 1);
        repo.cofferdam(["gc", "--older", "0s"]).expect_code(0);
        assert!(!kept.exists());
    }
}

/// The one run's directory, of a launcher that was killed.
fn dead_run(env: &TestEnv, repo: &Repo<'_>) -> std::path::PathBuf {
    let run = repo.ready(&[], "echo work > n.txt; echo ready; sleep 1000");
    run.signal(Signal::KILL);
    run.wait().expect_code(137);
    let mut runs = fs::read_dir(env.state().join("runs")).expect("because there was one");
    let run = runs.next().expect("because one was made");
    run.expect("because it lists").path()
}

#[test]
fn a_journal_that_lost_its_last_lines_loses_no_work() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let journal = dead_run(&env, &repo).join("journal");
        let lines = fs::read_to_string(&journal).expect("because a run has one");
        // The first names the run, the second its snapshot, the third the agent.
        let keeps: String = lines.split_inclusive('\n').take(2).collect();
        assert!(keeps.len() < lines.len(), "{lines}");
        fs::write(&journal, keeps).expect("because it is ours");
        repo.cofferdam(["gc"]).expect_code(0);

        let listed = listed(&repo);
        let agent = only_agent(&listed);
        assert_eq!(repo.show(text(&agent["result"], "ref"), "n.txt"), "work\n");
        assert_eq!(worktrees(&repo), 1);
    }
}

#[test]
fn a_record_that_lost_its_last_lines_still_names_every_result() {
    let env = TestEnv::new();
    let repo = env.repo();
    let plan = repo.plan(
        "[[task]]\nname = \"first\"\nintegrate = \"never\"\n\
         command = [\"sh\", \"-c\", \"echo done > f.txt\"]\n\
         [[task]]\nname = \"second\"\ncommand = [\"sh\", \"-c\", \"sleep 1000\"]\n",
    );
    let run = repo.start(["run", "--events", "-", shown(&plan)]);
    run.wait_for_text("\"state\":\"cleaned\"");
    run.signal(Signal::KILL);
    run.wait();
    let mut runs = fs::read_dir(env.state().join("runs")).expect("because there was one");
    let run = runs.next().expect("because one was made");
    let notes = run.expect("because it lists").path().join("agents.live");
    fs::remove_file(notes).expect("because a run has one");
    repo.cofferdam(["gc"]).expect_code(0);

    let listed = listed(&repo);
    let named = |agent: &&Value| agent["name"] == "first";
    let agent = agents(&listed).iter().find(named).expect("because it ran");
    assert_eq!(repo.show(text(&agent["result"], "ref"), "f.txt"), "done\n");
    assert_eq!(agent["changes"][0]["path"], "f.txt", "{agent:#}");
}
