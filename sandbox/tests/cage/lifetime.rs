//! Owns the tests that a tree ends: all of it, whoever ends it, however it resists.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use cofferdam_sandbox::{Layer, Policy, ViewMode};

use crate::setting::{FIXTURE, Setting, as_everyone, until};

/// Both ways of keeping a tree.
fn both_ways(case: impl Fn(&Setting, &dyn Fn(&[&str]) -> Policy)) {
    as_everyone(|setting| case(setting, &|argv| setting.policy(argv)));
    as_everyone(|setting| {
        case(setting, &|argv| {
            let mut policy = setting.policy(argv);
            policy.view.mode = ViewMode::InPlace;
            policy.view.mounts.clear();
            policy.waived.insert(Layer::Namespaces);
            policy.required = [Layer::Landlock].into();
            policy
        });
    });
}

fn tree(
    setting: &Setting,
    role: &str,
    policy: &dyn Fn(&[&str]) -> Policy,
) -> (std::path::PathBuf, Policy) {
    let beat = setting.work().join("beat");
    let policy = policy(&[FIXTURE, "tree", beat.to_str().unwrap(), role]);
    (beat, policy)
}

/// Whether nothing has this file open, which is what a live tree does.
fn assert_dead(beat: &Path) {
    // The tree writes every 20 ms while it lives. Its processes carry the
    // file's path in their command lines, which are gone with them.
    let needle = beat.to_str().unwrap().as_bytes();
    let alive = fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| line.windows(needle.len()).any(|window| window == needle))
    });
    assert!(!alive, "something of the tree is alive");
    assert!(beat.exists(), "the tree never lived");
}

fn is_dead(beat: &Path) -> bool {
    let needle = beat.to_str().unwrap().as_bytes();
    !fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| line.windows(needle.len()).any(|window| window == needle))
    })
}

#[test]
fn reports_exit_codes_and_signals() {
    both_ways(|setting, policy| {
        let result = setting.launch("launch", &policy(&["sh", "-c", "exit 7"]));
        assert_eq!(
            (result["code"].as_i64(), result["signal"].as_i64()),
            (Some(7), None),
            "{result}"
        );
        let result = setting.launch("launch", &policy(&["sh", "-c", "kill -9 $$"]));
        assert_eq!(
            (result["code"].as_i64(), result["signal"].as_i64()),
            (None, Some(9)),
            "{result}"
        );
    });
}

#[test]
fn ends_a_daemon_with_its_command() {
    both_ways(|setting, policy| {
        let (beat, policy) = tree(setting, "leave", policy);
        // The daemon holds the standard output too: this would hang.
        let result = setting.launch("launch", &policy);
        assert_eq!(result["code"], 0, "{result}");
        assert_dead(&beat);
    });
}

#[test]
fn kills_a_tree_that_ignores_requests() {
    both_ways(|setting, policy| {
        let (beat, policy) = tree(setting, "stay", policy);
        let result = setting.launch("kill", &policy);
        assert_eq!(result["signal"], 9, "{result}");
        assert_dead(&beat);
    });
}

#[test]
fn asks_everything_to_end() {
    both_ways(|setting, policy| {
        let (beat, policy) = tree(setting, "stay", policy);
        let result = setting.launch("terminate", &policy);
        assert_eq!(result["signal"], 15, "{result}");
        assert_dead(&beat);
    });
}

#[test]
fn kills_when_dropped() {
    both_ways(|setting, policy| {
        let (beat, policy) = tree(setting, "stay", policy);
        assert_eq!(setting.launch("drop", &policy)["stdout"], "ready\n");
        assert_dead(&beat);
    });
}

#[test]
fn dies_with_its_launcher() {
    both_ways(|setting, policy| {
        let (beat, policy) = tree(setting, "stay", policy);
        let mut launcher = setting.start("hold", &policy);
        let mut line = String::new();
        BufReader::new(launcher.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("ready"), "{line}");
        assert!(!is_dead(&beat));
        // SIGKILL: the launcher can do nothing about it.
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        until(|| is_dead(&beat));
    });
}

#[test]
fn starts_many_at_once() {
    as_everyone(|setting| {
        std::thread::scope(|scope| {
            for number in 0..20 {
                scope.spawn(move || {
                    let script = format!("echo {number} > {number}; cat {number}");
                    let result = setting.launch("launch", &setting.policy(&["sh", "-c", &script]));
                    assert_eq!(result["stdout"], format!("{number}\n"), "{result}");
                });
            }
        });
        assert_eq!(fs::read_dir(setting.work()).unwrap().count(), 20);
    });
}

#[test]
fn dies_with_its_helper() {
    as_everyone(|setting| {
        let (beat, policy) = tree(setting, "stay", &|argv| setting.policy(argv));
        let mut launcher = setting.start("launch", &policy);
        until(|| beat.exists());
        let child = format!("/proc/{0}/task/{0}/children", launcher.id());
        let helper = fs::read_to_string(child).unwrap().trim().parse().unwrap();
        let helper = rustix::process::Pid::from_raw(helper).unwrap();
        rustix::process::kill_process(helper, rustix::process::Signal::KILL).unwrap();
        // The launcher's own wait proves it, by the handle of the init.
        until(|| launcher.try_wait().unwrap().is_some());
        let mut text = String::new();
        launcher
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&result["signal"], &result["emptied"]),
            (&9.into(), &"pid-namespace".into()),
            "{result}"
        );
        assert_dead(&beat);
    });
}
