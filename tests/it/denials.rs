//! What an agent was denied: in the record, in `show`, as an event, and for the agent itself.
//!
//! Owns that these agree and hold facts only. Which calls yield one is tested
//! in the sandbox's own suite.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{TestEnv, only_agent, text};

/// Waits in an agent until it has been told of something.
const TOLD: &str = "until [ -s \"$COFFERDAM_DENIALS\" ]; do :; done";

#[test]
fn a_denial_is_the_same_fact_everywhere() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let events = env.outside().join("events");
        let run = repo
            .cofferdam([
                "run",
                "--json",
                "--name",
                "leaver",
                "--events",
                events.to_str().expect("because it is text"),
                "--",
                "sh",
                "-c",
                &format!(
                    "(unshare -U true); {TOLD}; cat \"$COFFERDAM_DENIALS\" > told.txt; \
                     (unshare -U true); echo 'sandbox: denied'; cat /etc/shadow; true"
                ),
            ])
            .expect_code(0);
        let record = run.json();
        let agent = only_agent(&record);
        let [denial] = &agent["denials"].as_array().expect("because it is a list")[..] else {
            panic!("{agent:#}");
        };
        let pid = denial["pid"].as_i64().expect("because it has one");
        let expected = json!({
            "layer": "seccomp", "operation": "unshare", "path": null, "pid": pid,
            "exe": "unshare", "count": 2, "detail": "CLONE_NEWUSER", "grant": null,
        });
        assert_eq!(*denial, expected);
        assert_eq!(agent["denials_complete"], false);
        assert!(agent.get("denials_missing").is_none());

        let id = text(agent, "id");
        let shown = repo.cofferdam(["show", id, "--json"]).expect_code(0).json();
        assert_eq!(only_agent(&shown)["denials"], agent["denials"]);
        let shown = repo.cofferdam(["show", id]).expect_code(0).stdout;
        let line = "seccomp unshare CLONE_NEWUSER by unshare ×2";
        assert!(shown.contains(line), "{shown}");
        assert!(
            run.stderr.contains("leaver: denied: seccomp unshare"),
            "{}",
            run.stderr
        );

        let told: Value =
            serde_json::from_str(&repo.text("told.txt")).expect("because it is one document");
        let mut first = expected.clone();
        first["count"] = json!(1);
        assert_eq!(told["number"], 0);
        for (member, value) in first.as_object().expect("because it is an object") {
            assert_eq!(told[member], *value, "{member}");
        }
        assert_eq!(denied_events(&events), [first]);
    }
}

/// What the events of a file say was denied.
fn denied_events(file: &Path) -> Vec<Value> {
    let events = fs::read_to_string(file).expect("because it was asked for");
    events
        .lines()
        .map(|line| serde_json::from_str(line).expect("because each is a document"))
        .filter(|event: &Value| event["event"] == "denied")
        .map(|mut event| event["denial"].take())
        .collect()
}

#[test]
fn an_agent_reads_its_denials_and_does_not_write_them() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let record = repo
            .agent(&format!(
                "file=$COFFERDAM_DENIALS; [ -r \"$file\" ] || exit 7; \
                 (echo x >> \"$file\") 2> /dev/null && exit 8; \
                 (: > \"$file\") 2> /dev/null && exit 8; \
                 chmod 777 \"$file\" && exit 8; rm -f \"$file\" && exit 8; \
                 mv \"$file\" gone && exit 8; \
                 (unshare -U true); {TOLD}; grep -c unshare \"$file\" > seen.txt; \
                 wc -l < \"$file\" > lines.txt"
            ))
            .expect_code(0)
            .json();
        assert_eq!(repo.text("seen.txt"), "1\n");
        assert_eq!(repo.text("lines.txt"), "1\n");
        assert_eq!(only_agent(&record)["denials"][0]["count"], 1);
    }
}

#[test]
fn ordinary_failures_are_no_denials() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .agent(
            "cat /etc/shadow; ls /root; touch /usr/x; kill -9 1; \
             echo 'sandbox: Operation not permitted'; \
             python3 -c 'import socket; socket.socket()'; false",
        )
        .expect_code(1)
        .json();
    assert_eq!(only_agent(&record)["denials"], json!([]));
}
