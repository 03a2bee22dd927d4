//! What an agent may use up.
//!
//! Owns: an agent that takes too much is cut short or refused, the record says
//! by which limit, others go on, and no control group is left. What an agent
//! takes has a bound of its own that the machine survives.

use std::fs;

use serde_json::Value;

use crate::support::{
    Repo, Run, Signal, TestEnv, agent, backends, groups, only_agent, shown, text,
};

/// Runs a script as an agent under a limit.
fn limited(repo: &Repo<'_>, limit: [&str; 2], script: &str) -> Run {
    let options = [
        "run", "--json", limit[0], limit[1], "--", "sh", "-c", script,
    ];
    repo.cofferdam(options)
}

/// Demands that a limit cut an agent short, by name, and that nothing landed.
#[track_caller]
fn expect_cut_short(agent: &Value, limit: &str, amount: &str) {
    assert_eq!(agent["outcome"], "partial", "{agent:#}");
    let reason = text(agent, "reason");
    assert!(
        reason.starts_with(&format!("the limit `{limit}` of {amount} was reached (")),
        "{reason}"
    );
    assert_eq!(denied(agent, limit), 1, "{agent:#}");
    assert_ne!(agent["integration"]["status"], "landed", "{agent:#}");
}

/// How many entries tell of a limit.
fn denied(agent: &Value, limit: &str) -> usize {
    let denials = agent["denials"].as_array().map(Vec::as_slice);
    denials
        .unwrap_or_default()
        .iter()
        .filter(|denial| denial["layer"] == "limits" && denial["operation"] == limit)
        .count()
}

#[test]
fn an_agent_that_takes_too_much_memory_is_cut_short_and_another_goes_on() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let go = env.outside().join("go");
        env.put(
            &env.root().join("PLAN.toml"),
            "[[task]]\nname = \"hog\"\nmemory = \"256MiB\"\n\
             command = [\"sh\", \"-c\", \"echo part > part.txt; head -c 1500M /dev/zero | tail > /dev/null; sleep 1000\"]\n\
             [[task]]\nname = \"modest\"\n\
             command = [\"sh\", \"-c\", \"sleep 1; echo made > made.txt\"]\n",
        );
        let plan = env.root().join("PLAN.toml");
        let record = repo
            .cofferdam(["run", "--json", shown(&plan)])
            .expect_code(6)
            .json();

        let hog = agent(&record, "hog");
        expect_cut_short(hog, "memory", "256 MiB");
        let whole = text(&hog["limits"], "memory").starts_with("cgroup");
        let status = if whole { "full" } else { "partial" };
        assert_eq!(hog["enforcement"]["limits"], status, "{hog:#}");
        assert_eq!(repo.show(text(&hog["result"], "ref"), "part.txt"), "part\n");
        assert_eq!(agent(&record, "modest")["outcome"], "succeeded");
        assert_eq!(repo.text("made.txt"), "made\n");
        assert!(!go.exists());
    }
}

#[test]
fn an_agent_that_fills_the_disk_is_cut_short() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        // Several files, and not only in the copy.
        let script = "for n in 1 2 3; do head -c 30M /dev/zero > $n; head -c 30M /dev/zero > ~/$n; \
                      done; sleep 1000";
        let record = limited(&repo, ["--disk", "64MiB"], script)
            .expect_code(6)
            .json();

        let agent = only_agent(&record);
        expect_cut_short(agent, "disk", "64 MiB");
        assert_eq!(agent["limits"]["disk"], "watchdog");
    }
}

#[test]
fn an_agent_that_makes_too_many_files_is_cut_short() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let script = "mkdir target; cd target; seq 40000 | xargs touch; sleep 1000";
        let record = limited(&repo, ["--disk", "16MiB"], script)
            .expect_code(6)
            .json();

        expect_cut_short(only_agent(&record), "disk_files", "16384");
    }
}

#[test]
fn an_agent_that_prints_without_end_is_cut_short() {
    let env = TestEnv::new();
    let repo = env.repo();
    for script in [
        "yes 'a line of some length'",
        "yes | tr -d '\\n'",
        "cat /dev/zero >&2",
    ] {
        let record = limited(&repo, ["--output", "8MiB"], script)
            .expect_code(6)
            .json();
        let agent = only_agent(&record);
        expect_cut_short(agent, "output", "8 MiB");
        let logs = env.state().join("outputs").join(text(&record, "run"));
        let kept: u64 = fs::read_dir(&logs)
            .map(|entries| {
                entries
                    .flatten()
                    .map(|entry| entry.metadata().map_or(0, |data| data.len()))
                    .sum()
            })
            .unwrap_or_default();
        assert!(kept < 6 << 20, "{kept} bytes are kept");
    }
}

#[test]
fn processes_beyond_the_limit_are_refused_and_told_of() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let script = "(for n in $(seq 400); do sleep 1000 & done) 2>/dev/null; sleep 1; exit 3";
        let record = limited(&repo, ["--procs", "20"], script)
            .expect_code(1)
            .json();

        let agent = only_agent(&record);
        let reason = text(agent, "reason");
        assert!(
            reason.starts_with(
                "the command ended with exit code 3; the limit `processes` of 20 was reached ("
            ),
            "{reason}"
        );
        assert_eq!(denied(agent, "processes"), 1, "{agent:#}");
    }
}

#[test]
fn a_file_of_a_tebibyte_is_refused() {
    let env = TestEnv::new();
    let repo = env.repo();
    let script = "exec truncate -s 1T target-file";
    let record = repo.agent(script).expect_code(6).json();

    expect_cut_short(only_agent(&record), "file_size", "16 GiB");
}

#[test]
fn a_limit_that_leaves_nothing_is_refused_before_anything_starts() {
    let env = TestEnv::new();
    let repo = env.repo();
    let run = limited(&repo, ["--memory", "1MiB"], "echo made > made.txt").expect_code(2);

    assert!(run.stdout.contains("memory_bytes"), "{}", run.stdout);
    assert!(!repo.has("made.txt"));
}

#[test]
fn the_next_command_takes_away_the_group_of_a_killed_launcher() {
    let env = TestEnv::new();
    let repo = env.repo();
    let run = repo.ready(&[], "echo ready; sleep 1000");
    let owner = format!("-{}-", run.pid());
    let own = || {
        let all = groups().into_iter();
        all.filter(|path| shown(path).contains(&owner)).count()
    };
    let record = repo.cofferdam(["ls", "--json"]).expect_code(0).json();
    let held = &only_agent(&record)["limits"];
    // A machine that lets nobody make groups has none to leave.
    let made = held["memory"]
        .as_str()
        .is_some_and(|by| by.starts_with("cgroup"));
    assert_eq!(own() > 0, made, "{record:#}");
    run.signal(Signal::KILL);
    run.wait().expect_code(137);
    repo.cofferdam(["gc"]).expect_code(0);

    assert_eq!(own(), 0);
}

#[test]
fn an_agent_waits_for_the_checkout_of_another_run_no_longer_than_its_deadline() {
    let env = TestEnv::new();
    if !backends(&env).contains(&"overlay") {
        // No other backend waits; that this one is refused is a test of its own.
        return;
    }
    let repo = env.repo();
    let run = |more: &[&str]| {
        let options = ["run", "--json", "--workspace", "overlay"];
        repo.cofferdam([&options[..], more, &["--", "true"]].concat())
    };
    run(&[]).expect_code(0);
    let bases = env.state().join("bases");
    let mut shared = fs::read_dir(bases).expect("because a run was made with them");
    let shared = shared.next().expect("because there is one repository");
    let shared = shared.expect("because it can be listed").path();
    // Without the checkout each run wants to make it; somebody seems to.
    fs::remove_dir_all(&shared).expect("because it is the test's");
    env.make_dir(&shared);
    env.put(&shared.join("building.lock"), "");
    let another = fs::File::open(shared.join("building.lock")).expect("because it was made");
    another.lock().expect("because nobody has it");
    let error = run(&["--deadline", "2s"]).expect_error(3);
    let message = text(&error, "message");
    let told = "refused: the deadline passed before its workspace was made";
    assert!(message.starts_with(told), "{message}");
    drop(another);
    run(&[]).expect_code(0);
}
