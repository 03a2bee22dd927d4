//! The machine-readable face: documents, events, streams, help.
//!
//! Owns what a program that calls this one relies on, beyond the fields that
//! each stage's tests look at.

use std::fs;

use serde_json::Value;

use crate::support::{TestEnv, only_agent, shown, text};

#[test]
fn a_run_prints_exactly_one_document_of_the_contract() {
    let env = TestEnv::new();
    let repo = env.repo();
    let run = repo.agent("echo sa''id; echo new > n.txt").expect_code(0);
    // The command stands in the record; what it printed does not.
    assert!(!run.stdout.contains("said") && run.stderr.contains("said"));
    let record = run.json();

    assert_eq!(record["schema"], "cofferdam.run/1");
    assert_eq!(record["exit_code"], 0);
    assert_eq!(text(&record, "repo"), shown(repo.root()));
    assert_eq!(
        text(&record["base"], "head"),
        repo.git(["rev-parse", "HEAD"]).trim()
    );
    assert_eq!(
        text(&record["base"], "tree"),
        repo.git(["rev-parse", "HEAD^{tree}"]).trim()
    );
    assert_eq!(record["base"]["dirty"], false);
    assert_eq!(
        record["cleanup"],
        serde_json::json!({"complete": true, "left": []})
    );
}

#[test]
fn an_agent_in_the_record_has_every_member_of_the_contract() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo.agent("echo new > n.txt").expect_code(0).json();
    let agent = only_agent(&record);
    for member in [
        "id",
        "name",
        "role",
        "parent",
        "depth",
        "label_in",
        "label_out",
        "state",
        "outcome",
        "reason",
        "exit",
        "result",
        "changes",
        "ignored",
        "integration",
        "enforcement",
        "guarantees",
        "denials",
        "denials_complete",
        "ledger",
        "times",
        "model",
    ] {
        assert!(agent.get(member).is_some(), "no `{member}` in {agent:#}");
    }
    for layer in [
        "landlock",
        "mounts",
        "namespaces",
        "seccomp",
        "capabilities",
        "network",
        "limits",
    ] {
        let status = text(&agent["enforcement"], layer);
        assert!(
            ["full", "partial", "absent", "waived"].contains(&status),
            "`{layer}` is `{status}`"
        );
    }
    assert_eq!(agent["enforcement"]["landlock"], "full");
    assert_eq!(agent["label_out"], "untrusted");
    assert!(agent["ledger"]["wall_ms"].is_u64());
    assert!(agent["times"]["started_at"].is_string());
}

#[test]
fn output_of_agents_goes_to_standard_error_behind_their_name() {
    let env = TestEnv::new();
    let repo = env.repo();
    let run = repo
        .cofferdam([
            "run",
            "--name",
            "docs",
            "--",
            "sh",
            "-c",
            "echo out; echo err >&2; printf cut",
        ])
        .expect_code(0);
    for line in ["docs │ out", "docs │ err", "docs │ cut"] {
        assert!(
            run.stderr.lines().any(|told| told == line),
            "no `{line}`: {}",
            run.stderr
        );
    }
}

#[test]
fn a_reader_of_standard_error_that_stalls_stops_no_run() {
    let env = TestEnv::new();
    let repo = env.repo();
    // Nobody reads the pipe before the program has ended.
    let (reader, writer) = std::io::pipe().expect("because pipes can be made");
    let output = env
        .program()
        .args(["run", "--json", "--", "sh", "-c"])
        .arg("yes 'many words on a line' | head -c 20000000; echo new > n.txt")
        .current_dir(repo.root())
        .stdin(std::process::Stdio::null())
        .stderr(writer)
        .output()
        .expect("because the program can be started");
    drop(reader);

    let record: Value =
        serde_json::from_slice(&output.stdout).expect("because it prints one document");
    assert_eq!(record["exit_code"], 0);
    assert_eq!(repo.text("n.txt"), "new\n");
}

#[test]
fn events_are_one_document_a_line() {
    let env = TestEnv::new();
    let repo = env.repo();
    let file = env.outside().join("events");
    repo.cofferdam([
        "run",
        "--events",
        shown(&file),
        "--",
        "sh",
        "-c",
        "echo new > n.txt",
    ])
    .expect_code(0);
    let text = fs::read_to_string(&file).expect("because the run wrote its events");
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("because each line is a document"))
        .collect();
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();

    assert_eq!(names.first(), Some(&"run_started"));
    assert_eq!(names.last(), Some(&"run_ended"));
    for name in ["admitted", "state", "ended", "integrated"] {
        assert!(names.contains(&name), "no `{name}` in {names:?}");
    }
    assert!(
        events
            .iter()
            .all(|event| event["schema"] == "cofferdam.event/1")
    );
}

#[test]
fn events_and_the_record_cannot_share_standard_output() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.cofferdam(["run", "--json", "--events", "-", "--", "true"])
        .expect_error(2);
    let run = repo
        .cofferdam(["run", "--events", "-", "--", "true"])
        .expect_code(0);
    for line in run.stdout.lines() {
        let event: Value = serde_json::from_str(line).expect("because each line is a document");
        assert_eq!(event["schema"], "cofferdam.event/1");
    }
}

#[test]
fn doctor_tries_each_layer_and_each_guarantee() {
    for env in TestEnv::identities() {
        let run = env
            .cofferdam_in(env.root(), ["doctor", "--json"])
            .expect_code(0);
        let document = run.json();
        assert_eq!(document["schema"], "cofferdam.doctor/1");
        for (list, name) in [("layers", "layer"), ("guarantees", "guarantee")] {
            let entries = document[list].as_array().expect("because it is a list");
            assert!(!entries.is_empty());
            for entry in entries {
                assert!(!text(entry, name).is_empty() && !text(entry, "status").is_empty());
            }
        }
    }
}

#[test]
fn roles_explain_gives_up_what_a_run_with_the_same_names_would() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let explain = |names: &[&str]| {
            let mut program = env.program();
            program.args(["roles", "explain", "writer", "--json"]);
            for name in names {
                program.args(["--allow-degraded", name]);
            }
            env.finish(program.current_dir(repo.root()))
        };
        let promised = |names: &[&str]| {
            let document = explain(names).expect_code(0).json();
            assert_eq!(document["schema"], "cofferdam.explain/1");
            let list = document["promised"].as_array().map(Vec::len);
            list.expect("because it is a list")
        };
        assert_eq!(promised(&["no_host_sockets"]) + 1, promised(&[]));
        explain(&["nonsense"]).expect_error(2);
        // What only that layer holds goes with it, as in a run.
        assert!(promised(&["mounts"]) < promised(&[]));
    }
}

#[test]
fn help_names_every_command_and_version_says_which() {
    let env = TestEnv::new();
    let help = env
        .cofferdam_in(env.root(), ["--help"])
        .expect_code(0)
        .stdout;
    for command in [
        "demo", "run", "ls", "show", "diff", "log", "apply", "discard", "gc", "doctor",
    ] {
        assert!(
            help.contains(command),
            "no `{command}` in the help:\n{help}"
        );
    }
    let version = env
        .cofferdam_in(env.root(), ["--version"])
        .expect_code(0)
        .stdout;
    assert_eq!(
        version.trim(),
        concat!("cofferdam ", env!("CARGO_PKG_VERSION"))
    );
}
