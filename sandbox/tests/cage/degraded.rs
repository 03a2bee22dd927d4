//! Owns the tests of a cage on a machine that lacks a layer: it holds without it, or is refused.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;

use cofferdam_sandbox::{Layer, Limits, Policy, ViewMode};
use serde_json::{Value, json};

use crate::setting::{FIXTURE, Setting, as_everyone, assert_all_denied, attempt};

#[test]
fn holds_without_namespaces_and_mounts() {
    as_everyone(|setting| {
        let pid = std::process::id();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let attempts = [
            attempt("write", &[&setting.precious()]),
            attempt("read", &[&setting.precious()]),
            format!("kill={pid}"),
            format!("list=/proc/{pid}/root"),
            "open-write=/proc/sys/kernel/core_pattern".to_owned(),
            format!("tcp={}", tcp.local_addr().unwrap()),
        ];
        let mut policy = setting.attempts(&attempts);
        policy.view.mode = ViewMode::InPlace;
        policy.view.mounts.clear();
        policy.waived.insert(Layer::Namespaces);
        policy.required = [Layer::Landlock, Layer::Seccomp].into();
        assert_all_denied(&attempts, &setting.outcomes(&policy));
        let result = setting.launch("launch", &policy);
        assert_eq!(result["emptied"], "subreaper-swept");
        assert_eq!(
            result["enforcement"]["layers"]["mounts"]["status"],
            "absent"
        );
        assert_eq!(
            result["enforcement"]["layers"]["namespaces"]["status"],
            "waived"
        );
        assert!(setting.unharmed());
    });
}

#[test]
fn sets_limits_and_says_what_holds_them() {
    as_everyone(|setting| {
        let mut policy =
            setting.policy(&["sh", "-c", "ulimit -n; ulimit -t; ulimit -c; ulimit -f"]);
        policy.limits = Limits {
            open_files: Some(64),
            cpu_seconds: Some(7),
            file_bytes: Some(1 << 20),
            memory_bytes: Some(1 << 32),
            processes: Some(50),
            disk: None,
        };
        let result = setting.launch("launch", &policy);
        assert_eq!(result["stdout"], "64\n7\n0\n2048\n", "{result}");
        let held = &result["enforcement"]["limits"];
        let whole = held["memory"] != "watchdog" && held["processes"] != "watchdog";
        assert_eq!(
            result["enforcement"]["layers"]["limits"]["status"],
            if whole { "full" } else { "partial" },
            "{result}"
        );
        assert_eq!(held["open_files"], "rlimit", "{result}");
    });
}

#[test]
fn holds_on_a_machine_without_namespaces() {
    // A cage is such a machine: its filter forbids them.
    as_everyone(|setting| {
        let attempts = [
            attempt("write", &[&setting.precious()]),
            attempt("read", &[&setting.precious()]),
            "tcp-listen=127.0.0.1:0".to_owned(),
            "udp=127.0.0.1:9".to_owned(),
            format!("call={},{}", libc::SYS_unshare, libc::CLONE_NEWUSER),
        ];
        let mut inner = setting.attempts(&attempts);
        inner.view.mode = ViewMode::InPlace;
        inner.view.mounts.clear();
        inner.required = [Layer::Landlock, Layer::Seccomp].into();
        let result = nested(setting, "launch", &inner);
        assert_eq!(result["emptied"], "subreaper-swept", "{result}");
        let status = |layer: &str| result["enforcement"]["layers"][layer]["status"].clone();
        assert_eq!(
            (status("namespaces"), status("mounts"), status("network")),
            (json!("absent"), json!("absent"), json!("partial"))
        );
        let outcomes: BTreeMap<String, String> =
            serde_json::from_str(result["stdout"].as_str().unwrap()).unwrap();
        let outcomes: Vec<_> = attempts
            .iter()
            .map(|attempt| outcomes[attempt].clone())
            .collect();
        assert_all_denied(&attempts, &outcomes);
    });
}

#[test]
fn refuses_on_a_machine_without_namespaces_what_needs_them() {
    as_everyone(|setting| {
        let result = nested(setting, "launch", &setting.policy(&["true"]));
        assert_eq!(result["error"], "unavailable", "{result}");
        assert!(
            result["text"].as_str().unwrap().contains("mounts"),
            "{result}"
        );
        let result = nested(setting, "probe", &setting.policy(&["true"]));
        let status = |layer: &str| result["enforcement"]["layers"][layer]["status"].clone();
        assert_eq!(
            (status("namespaces"), status("mounts")),
            (json!("absent"), json!("absent")),
            "{result}"
        );
        assert_eq!(
            (status("landlock"), status("seccomp")),
            (json!("full"), json!("full")),
            "{result}"
        );
    });
}

/// Launches in a cage from within a cage.
pub fn nested(setting: &Setting, mode: &str, inner: &Policy) -> Value {
    let file = setting.work().join("inner.json");
    fs::write(&file, serde_json::to_vec(inner).unwrap()).unwrap();
    setting.own();
    let script = format!("exec {FIXTURE} {mode} < inner.json");
    let result = setting.launch("launch", &setting.policy(&["sh", "-c", &script]));
    serde_json::from_str(result["stdout"].as_str().unwrap()).unwrap_or_else(|_| panic!("{result}"))
}
