//! Owns the tests of `/dev` inside: what is in it, what works, what is not there.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use cofferdam_sandbox::Rights;

use crate::setting::{
    Setting, as_everyone, assert_all_denied, assert_all_work, attempt, bind, rule, tmpfs,
};

/// What every cage may see there, the machine permitting.
const USUAL: [&str; 13] = [
    "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
    "urandom", "zero",
];

/// What a command lists in a directory, sorted.
fn listed(setting: &Setting, directory: &str, rights: &[(&str, Rights)]) -> Vec<String> {
    let mut policy = setting.policy(&["ls", "-A", directory]);
    for (path, rights) in rights {
        policy.files.push(rule(Path::new(path), *rights));
    }
    let result = setting.launch("launch", &policy);
    let mut names: Vec<String> = result["stdout"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"))
        .lines()
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

/// Nodes of the host that are not among the usual ones.
fn others() -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev").unwrap().flatten();
    let nodes = entries.filter(|entry| {
        let kind = entry.file_type().unwrap();
        let usual = USUAL.iter().any(|name| entry.file_name() == *name);
        (kind.is_block_device() || kind.is_char_device()) && !usual
    });
    nodes.map(|entry| entry.path()).collect()
}

#[test]
fn shows_the_usual_devices_and_no_other() {
    as_everyone(|setting| {
        // The widest rules there can be: what is missing is missing because
        // it is not there.
        for path in ["/", "/dev"] {
            let seen = listed(setting, "/dev", &[(path, Rights::Device)]);
            let host = |name: &&&str| Path::new("/dev").join(name).exists();
            let expected: Vec<&str> = USUAL.iter().filter(host).copied().collect();
            assert_eq!(seen, expected);
        }
        let attempts: Vec<String> = others()
            .iter()
            .map(|node| attempt("stat", &[node]))
            .collect();
        let mut policy = setting.attempts(&attempts);
        policy.files.push(rule(Path::new("/dev"), Rights::Device));
        for outcome in setting.outcomes(&policy) {
            assert_eq!(outcome, "2", "a node of the host is there");
        }
    });
}

#[test]
fn has_only_nodes_with_a_rule() {
    as_everyone(|setting| {
        let attempts = ["null", "zero", "full", "random", "urandom", "tty", "shm"]
            .map(|name| format!("stat=/dev/{name}"));
        let mut policy = setting.attempts(&attempts);
        policy
            .files
            .push(rule(Path::new("/dev/zero"), Rights::Device));
        assert_eq!(
            setting.outcomes(&policy),
            ["ok", "ok", "2", "2", "2", "2", "ok"]
        );
    });
}

#[test]
fn shows_another_node_where_a_rule_names_it() {
    as_everyone(|setting| {
        // A machine that is a container itself may have none.
        for node in others().into_iter().take(1) {
            let attempts = [attempt("stat", &[&node])];
            let mut policy = setting.attempts(&attempts);
            policy.files.push(rule(&node, Rights::Device));
            assert_all_work(&attempts, &setting.outcomes(&policy));
        }
    });
}

#[test]
fn changes_nothing_in_it() {
    as_everyone(|setting| {
        let attempts = [
            "mkdir=/dev/made".to_owned(),
            "write=/dev/made".to_owned(),
            "unlink=/dev/null".to_owned(),
            "unlink=/dev/ptmx".to_owned(),
            "chmod=/dev/null".to_owned(),
            "utimes=/dev/null".to_owned(),
            "rename=/dev/null,/dev/zero".to_owned(),
        ];
        let mut policy = setting.attempts(&attempts);
        policy
            .files
            .push(rule(Path::new("/dev"), Rights::ReadWriteExecute));
        policy.files.push(rule(Path::new("/dev"), Rights::Device));
        assert_all_denied(&attempts, &setting.outcomes(&policy));
    });
}

#[test]
fn leads_to_the_commands_own_streams_and_terminals() {
    as_everyone(|setting| {
        let script = "set -e; echo a > /dev/stdout; echo b > /dev/fd/1; echo c > /dev/null; \
             echo d | cat /dev/stdin; ls -A /dev/pts; head -c 2 /dev/zero | wc -c";
        let mut policy = setting.policy(&["sh", "-c", script]);
        for (path, rights) in [
            ("/dev/pts", Rights::Device),
            ("/dev/ptmx", Rights::Device),
            ("/dev/zero", Rights::Device),
        ] {
            policy.files.push(rule(Path::new(path), rights));
        }
        let result = setting.launch("launch", &policy);
        assert_eq!(result["stdout"], "a\nb\nd\nptmx\n2\n", "{result}");
    });
}

#[test]
fn is_what_a_mount_of_the_policy_shows_instead() {
    as_everyone(|setting| {
        let shown = setting.work().join("dev");
        fs::create_dir(&shown).unwrap();
        fs::write(shown.join("mine"), "").unwrap();
        setting.own();
        let mut policy = setting.policy(&["ls", "-A", "/dev"]);
        policy.view.mounts.push(bind(
            &shown,
            Path::new("/dev"),
            cofferdam_sandbox::Access::ReadOnly,
        ));
        policy
            .files
            .retain(|rule| !rule.path.starts_with("/dev/null"));
        policy.files.push(rule(Path::new("/dev"), Rights::Read));
        let result = setting.launch("launch", &policy);
        assert_eq!(result["stdout"], "mine\n", "{result}");
    });
}

#[test]
fn can_be_hidden_again_below() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&["sh", "-c", "ls -A /dev/shm; echo end"]);
        policy.view.mounts.push(tmpfs(
            Path::new("/dev/shm"),
            cofferdam_sandbox::Access::ReadOnly,
        ));
        policy.files.push(rule(Path::new("/dev/shm"), Rights::Read));
        let result = setting.launch("launch", &policy);
        assert_eq!(result["stdout"], "end\n", "{result}");
    });
}
