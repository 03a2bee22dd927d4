//! The command that makes a workspace ready, and commands that never run.
//!
//! Owns: a set-up command runs before the agent's, in the same cage, with its
//! own time; one that fails ends the agent; one that comes from the repository
//! runs only once a person approved exactly its content. And no hook of the
//! repository ever runs on the program's account.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::support::{Repo, Run, TestEnv, agent, only_agent, paths, shown, text};

/// Runs a script as an agent after a set-up command of the person's.
fn after(repo: &Repo<'_>, options: &[&str], setup: &str, script: &str) -> Run {
    let begin = ["run", "--json", "--setup", setup];
    repo.cofferdam([&begin[..], options, &["--", "sh", "-c", script]].concat())
}

/// The hash by which a set-up command is approved, as the refusal names it.
#[track_caller]
fn hash_in(error: &Value) -> String {
    let hint = text(error, "hint");
    let at = hint
        .find("sha256:")
        .unwrap_or_else(|| panic!("no hash in {hint}"));
    hint[at..at + "sha256:".len() + 64].to_owned()
}

#[test]
fn a_set_up_command_runs_before_the_agent_and_what_it_makes_is_there() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let run = after(
            &repo,
            &["--name", "docs"],
            "mkdir target && echo dependency > target/dep && echo private > ~/.made && echo said",
            "test \"$(cat target/dep)\" = dependency && test -f ~/.made && echo new > n.txt",
        )
        .expect_code(0);
        assert!(run.stderr.contains("docs setup │ said"), "{}", run.stderr);
        let record = run.json();
        let agent = only_agent(&record);
        assert_eq!(agent["outcome"], "succeeded");
        assert_eq!(paths(&agent["changes"]), ["n.txt"]);
        let setup = &agent["setup"];
        assert_eq!(setup["exit"]["code"], 0, "{setup:#}");
        assert_eq!(setup["author"], "person");
        assert!(text(setup, "hash").starts_with("sha256:"));
        assert!(setup["running_ms"].is_u64(), "{setup:#}");
        assert_eq!(repo.text("n.txt"), "new\n");
        assert!(!repo.has("target"));
        let shown = repo.cofferdam(["show", text(agent, "id")]).expect_code(0);
        assert!(shown.stdout.contains("set-up"), "{}", shown.stdout);
    }
}

#[test]
fn a_tracked_file_that_a_set_up_command_changes_is_a_change_of_the_agent() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = after(&repo, &[], "echo more >> a.txt", "true")
        .expect_code(0)
        .json();
    assert_eq!(paths(&only_agent(&record)["changes"]), ["a.txt"]);
    assert!(repo.text("a.txt").ends_with("more\n"));
}

#[test]
fn a_set_up_command_is_confined_as_its_agent() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let outside = env.outside().join("mark");
        let home = env.home().join("mark");
        let setup = format!(
            "(echo x > '{}') 2>/dev/null; (echo x > '{}') 2>/dev/null; \
             tail -n +3 /proc/net/dev | grep -v ' lo:' > interfaces; true",
            shown(&outside),
            shown(&home)
        );
        let record = after(&repo, &[], &setup, "test ! -s interfaces && rm interfaces")
            .expect_code(0)
            .json();
        assert_eq!(only_agent(&record)["integration"]["status"], "no_change");
        assert!(!outside.exists() && !home.exists());
    }
}

#[test]
fn links_that_a_set_up_command_leaves_in_the_private_home_lead_nowhere() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let outside = shown(&env.outside()).to_owned();
        env.put(&env.outside().join("kept"), "kept\n");
        let setup = format!(
            "cd && for n in .cargo .config .cache .m2 .gitconfig .npmrc; do \
             rm -rf \"$n\"; ln -s '{outside}' \"$n\"; done"
        );
        let script = "for n in .cargo .config .cache .m2 .gitconfig .npmrc; do \
                      echo x > ~/$n/escaped; done 2>/dev/null; true";
        let run = after(&repo, &[], &setup, script);
        assert!([0, 4].contains(&run.code), "{} {}", run.code, run.stderr);
        let names: Vec<_> = fs::read_dir(env.outside())
            .expect("because it is there")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(names, ["kept"]);
    }
}

#[test]
fn a_set_up_command_that_fails_ends_the_agent_and_its_work_is_kept() {
    let env = TestEnv::new();
    let repo = env.repo();
    let run = after(
        &repo,
        &[],
        "echo part > part.txt; echo why >&2; exit 9",
        "echo ran > ran.txt",
    )
    .expect_code(1);
    let record = run.json();
    let agent = only_agent(&record);
    assert_eq!(agent["outcome"], "failed");
    assert_eq!(agent["exit"]["code"], Value::Null);
    assert_eq!(agent["setup"]["exit"]["code"], 9);
    assert_eq!(agent["times"]["started_at"], Value::Null);
    assert_eq!(
        text(agent, "reason"),
        "the set-up command `echo part > part.txt; echo why >&2; exit 9` failed and the agent \
         was not started: it ended with exit code 9"
    );
    assert_eq!(
        repo.show(text(&agent["result"], "ref"), "part.txt"),
        "part\n"
    );
    assert!(!repo.has("part.txt") && !repo.has("ran.txt"));
}

#[test]
fn a_set_up_command_that_hangs_is_ended_by_its_own_time_or_its_agents() {
    for (options, words) in [
        (["--setup-wall", "1s"], "it did not end within 1 s"),
        (["--deadline", "2s"], "the deadline passed"),
    ] {
        let env = TestEnv::new();
        let repo = env.repo();
        let record = after(&repo, &options, "sleep 1000", "echo ran > ran.txt")
            .expect_code(6)
            .json();
        let agent = only_agent(&record);
        assert_eq!(agent["outcome"], "timed_out", "{agent:#}");
        let reason = text(agent, "reason");
        assert!(
            reason.contains("`sleep 1000`") && reason.ends_with(words),
            "{reason}"
        );
        assert!(!repo.has("ran.txt"));
    }
}

#[test]
fn a_set_up_command_of_the_repository_runs_once_its_content_is_approved() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write(
        ".cofferdam/config.toml",
        "setup = \"echo one > target-one\"\n",
    );
    repo.commit_all("settings");
    let run = |options: &[&str]| {
        let end = ["--", "sh", "-c", "rm -f target-*; echo ran > ran.txt"];
        repo.cofferdam([&["run", "--json"], options, &end[..]].concat())
    };
    let before = repo.print();
    let error = run(&[]).expect_error(3);
    let message = text(&error, "message");
    assert!(message.contains("`echo one > target-one`"), "{message}");
    let hash = hash_in(&error);
    assert!(message.contains(&hash), "{message}");
    before.expect_same(&repo.print());
    assert!(!repo.has("ran.txt"));
    let wrong = format!("sha256:{}", "0".repeat(64));
    run(&["--approve-setup", &wrong]).expect_error(3);

    let record = run(&["--approve-setup", &hash]).expect_code(0).json();
    let setup = &only_agent(&record)["setup"];
    assert_eq!(
        (text(setup, "author"), text(setup, "hash")),
        ("repository", &*hash)
    );
    run(&[]).expect_code(0);

    repo.write(
        ".cofferdam/config.toml",
        "setup = \"echo two > target-two\"\n",
    );
    let error = run(&[]).expect_error(3);
    assert_ne!(hash_in(&error), hash);
    run(&["--approve-setup", &hash]).expect_error(3);
    let record = run(&["--setup", ""]).expect_code(0).json();
    assert_eq!(only_agent(&record)["setup"], Value::Null);
    let record = run(&["--setup", "true"]).expect_code(0).json();
    assert_eq!(only_agent(&record)["setup"]["author"], "person");
}

#[test]
fn a_role_may_bring_its_own_set_up_command() {
    let env = TestEnv::new();
    let repo = env.repo();
    let roles = |command: &str| {
        format!(
            "[role.builder]\nwrite = [\"**\"]\nread = [\"**\"]\nexecute = true\n\
             setup = {{ command = \"{command}\", wall = \"5m\" }}\n"
        )
    };
    let own = env.outside().join("roles.toml");
    env.put(&own, roles("echo made > target"));
    let begin = ["run", "--json", "--role", "builder"];
    let end = ["--", "sh", "-c", "rm target; echo ran > ran.txt"];
    let record = repo
        .cofferdam([&begin[..], &["--roles", shown(&own)], &end].concat())
        .expect_code(0)
        .json();
    assert_eq!(only_agent(&record)["setup"]["author"], "person");

    repo.write(".cofferdam/roles.toml", roles("echo other > target"));
    let error = repo.cofferdam([&begin[..], &end].concat()).expect_error(3);
    let hash = hash_in(&error);
    repo.cofferdam([&begin[..], &["--approve-setup", &hash], &end].concat())
        .expect_code(0);
}

#[test]
fn tasks_of_a_plan_have_their_own_set_up_and_readers_none_of_the_repositorys() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write(".cofferdam/config.toml", "setup = \"exit 9\"\n");
    let plan = repo.plan(
        "[[task]]\nname = \"one\"\nsetup = \"echo 1 > ~/n\"\n\
         command = [\"sh\", \"-c\", \"cat ~/n > one.txt\"]\n\
         [[task]]\nname = \"look\"\nrole = \"reader\"\ncommand = [\"cat\", \"a.txt\"]\n",
    );
    let record = repo
        .cofferdam(["run", "--json", shown(&plan)])
        .expect_code(0)
        .json();
    assert_eq!(
        text(&agent(&record, "one")["setup"], "command"),
        "echo 1 > ~/n"
    );
    assert_eq!(agent(&record, "look")["setup"], Value::Null);
    assert_eq!(repo.text("one.txt"), "1\n");
}

/// Every name that git runs a program by, in a repository of a person.
const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "query-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-pre-submit",
    "post-index-change",
];

/// Puts a program that leaves a mark behind every name by which git runs one.
fn lay_hooks(env: &TestEnv, repo: &Repo<'_>, hooks: &Path, marks: &Path) {
    for name in HOOKS {
        let path = hooks.join(name);
        let mark = shown(&marks.join(name)).to_owned();
        env.put(&path, format!("#!/bin/sh\necho > '{mark}'\ncat\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .expect("because the test wrote it");
    }
    let any = hooks.join("update");
    for (key, value) in [
        ("core.fsmonitor", shown(&hooks.join("fsmonitor-watchman"))),
        ("core.fsmonitorHookVersion", "2"),
        ("core.pager", shown(&any)),
        ("diff.external", shown(&any)),
        ("core.editor", shown(&any)),
        ("gc.auto", "1"),
    ] {
        repo.git(["config", key, value]);
    }
}

/// The programs that left a mark; the marks are taken away.
fn take_marks(marks: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(marks).expect("because the test made it");
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    for name in &names {
        fs::remove_file(marks.join(name)).expect("because a hook wrote it");
    }
    names
}

/// Every command that asks git for something.
fn use_everything(repo: &Repo<'_>) {
    let script = "echo new > n.txt; echo more >> a.txt; git add -A; git commit -qm inside; \
                  git checkout -q -b side";
    let record = repo.agent(script).expect_code(0).json();
    assert_eq!(only_agent(&record)["integration"]["status"], "landed");
    let branch = ["run", "--land", "branch=side", "--", "sh", "-c"];
    repo.cofferdam([&branch[..], &["echo b >> b.txt"]].concat())
        .expect_code(0);
    let record = repo
        .agent_integrating("hold", "echo held > held.txt")
        .expect_code(0)
        .json();
    let id = text(only_agent(&record), "id").to_owned();
    repo.cofferdam(["diff", &id]).expect_code(0);
    repo.cofferdam(["apply", &id]).expect_code(0);
    repo.cofferdam(["gc", "--older", "0s"]).expect_code(0);
    repo.cofferdam(["doctor"]);
}

#[test]
fn no_hook_of_the_repository_ever_runs() {
    for elsewhere in [false, true] {
        let env = TestEnv::new();
        let repo = env.repo();
        repo.write("scratch.txt", "untracked\n");
        let marks = env.outside().join("marks");
        env.make_dir(&marks);
        let hooks = if elsewhere {
            let hooks = env.outside().join("hooks");
            repo.git(["config", "core.hooksPath", shown(&hooks)]);
            hooks
        } else {
            repo.path(".git/hooks")
        };
        lay_hooks(&env, &repo, &hooks, &marks);
        // They work: git's own commands run them.
        repo.git(["commit", "-q", "--allow-empty", "-m", "hooks run"]);
        assert!(!take_marks(&marks).is_empty());

        use_everything(&repo);
        assert_eq!(take_marks(&marks), Vec::<OsString>::new());
        // Left in place they would run under the oracle's own git.
        fs::remove_dir_all(&hooks).expect("because the test made it");
        repo.git(["config", "--unset", "core.fsmonitor"]);
    }
}
