//! The environment: exactly the allow-list, whatever the launcher holds.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::super::{INHERITED, is_never_inherited};
use super::{Machine, STATE};
use crate::config::builtin;
use crate::model::EnvEntry;

fn environment(machine: &Machine) -> BTreeMap<String, OsString> {
    machine
        .policy(&builtin::writer())
        .expect("because everything fits")
        .command
        .env
        .into_iter()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .collect()
}

#[test]
fn the_environment_is_private_directories_facts_and_little_else() {
    let mut machine = Machine::new();
    for (name, value) in [
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C"),
        ("TERM", "xterm"),
        ("EDITOR", "vi"),
    ] {
        machine.variables.insert(name.into(), value.into());
    }
    let home = format!("{STATE}/home");
    let expected = [
        ("CARGO_HOME", format!("{home}/.cargo")),
        ("COFFERDAM_AGENT", "docs".to_owned()),
        ("COFFERDAM_AGENT_ID", "a-0000000000000002".to_owned()),
        ("COFFERDAM_BRIEF", "/brief.json".to_owned()),
        ("COFFERDAM_DENIALS", "/denials.jsonl".to_owned()),
        ("COFFERDAM_DEPTH", "1".to_owned()),
        ("COFFERDAM_REPO", "/home/me/repo".to_owned()),
        ("COFFERDAM_ROLE", "writer".to_owned()),
        ("COFFERDAM_RUN", "r-0000000000000001".to_owned()),
        ("GRADLE_USER_HOME", format!("{home}/.gradle")),
        ("HOME", home.clone()),
        ("LANG", "C.UTF-8".to_owned()),
        ("LC_ALL", "C".to_owned()),
        (
            "MAVEN_OPTS",
            format!("-Dmaven.repo.local={home}/.m2/repository"),
        ),
        (
            "PATH",
            "/home/me/.cargo/bin:/home/me/bin:/usr/bin:/home/me:/home/me/.ssh:/opt/cofferdam"
                .to_owned(),
        ),
        ("PORT", "20001".to_owned()),
        ("RUSTUP_HOME", "/home/me/.rustup".to_owned()),
        ("TERM", "xterm".to_owned()),
        ("TMPDIR", "/tmp".to_owned()),
        ("XDG_CACHE_HOME", format!("{home}/.cache")),
        ("XDG_CONFIG_HOME", format!("{home}/.config")),
        ("XDG_DATA_HOME", format!("{home}/.local/share")),
        ("XDG_RUNTIME_DIR", "/tmp/runtime".to_owned()),
        ("XDG_STATE_HOME", format!("{home}/.local/state")),
    ];
    let expected: BTreeMap<String, OsString> = expected
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    assert_eq!(environment(&machine), expected);
}

#[test]
fn no_secret_is_inherited_whatever_the_launcher_holds() {
    let mut machine = Machine::new();
    let clean = environment(&machine);
    for name in [
        "GITHUB_TOKEN",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "NPM_TOKEN",
        "PGPASSWORD",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "GIT_DIR",
        "GIT_SSH_COMMAND",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "SSH_AUTH_SOCK",
        "SSH_AGENT_PID",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "XAUTHORITY",
        "DISPLAY",
        "DOCKER_HOST",
        "KUBECONFIG",
        "HTTP_PROXY",
        "COFFERDAM_STATE_DIR",
        "COFFERDAM_DEADLINE",
        "COFFERDAM_MAX_DEPTH",
        "RUSTC_WRAPPER",
        "MAKEFLAGS",
        "CARGO_REGISTRY_TOKEN",
    ] {
        machine.variables.insert(name.into(), "leaked".into());
    }
    let environment = environment(&machine);
    assert_eq!(environment, clean);
    assert!(
        environment
            .keys()
            .all(|name| { name.starts_with("COFFERDAM_") || !is_never_inherited(name) })
    );
    assert!(!INHERITED.iter().any(|name| is_never_inherited(name)));
}

#[test]
fn what_was_asked_for_by_name_is_added_as_asked() {
    let mut machine = Machine::new();
    for (name, value) in [
        ("GITHUB_TOKEN", "t"),
        ("LD_PRELOAD", "x.so"),
        ("PORT", "80"),
    ] {
        machine.env.push(EnvEntry {
            name: name.to_owned(),
            value: value.into(),
        });
    }
    let environment = environment(&machine);
    assert_eq!(environment["GITHUB_TOKEN"], "t");
    assert_eq!(environment["LD_PRELOAD"], "x.so");
    assert_eq!(environment["PORT"], "80");
}
