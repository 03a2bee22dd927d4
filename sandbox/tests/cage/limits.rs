//! Owns the tests that a tree uses up no more than it may, and that it is told why.
//!
//! Each hungry command has a bound of its own that the machine survives.

use std::fs;
use std::path::{Path, PathBuf};

use cofferdam_sandbox::{Access, Counted, Disk, Layer, Limits, Mount, Policy, Reach, sweep_groups};
use serde_json::Value;

use crate::setting::{FIXTURE, Setting, Who, as_everyone, until};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn consume(
    setting: &Setting,
    what: &str,
    bound: u64,
    place: &Path,
    limits: Limits,
) -> Policy {
    let bound = bound.to_string();
    let argv = [FIXTURE, "consume", what, &bound, place.to_str().unwrap()];
    let mut policy = setting.policy(&argv);
    policy.limits = limits;
    policy
}

fn disk(setting: &Setting, bytes: Option<u64>, files: Option<u64>) -> Limits {
    Limits {
        disk: Some(Disk {
            directories: vec![setting.work().into()],
            bytes,
            files,
            counted: Counted::All,
        }),
        ..Limits::default()
    }
}

/// How many a command got, as it printed.
fn reached(result: &Value) -> u64 {
    let text = result["stdout"].as_str().unwrap_or_default();
    let number = text.split_whitespace().nth(1);
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{result}"))
}

#[track_caller]
pub(crate) fn assert_ended_by(result: &Value, limit: &str, value: u64) {
    let named = &result["limit"];
    assert_eq!(
        (named["limit"].as_str(), named["value"].as_u64()),
        (Some(limit), Some(value)),
        "{result}"
    );
}

/// The groups of this test's launchers that are left, anywhere.
fn groups_of(pid: u32) -> Vec<PathBuf> {
    // The launcher is in this process's PID namespace, whose number is in the name.
    let namespace =
        std::os::unix::fs::MetadataExt::ino(&fs::metadata("/proc/self/ns/pid").unwrap());
    let name = format!("cofferdam-{namespace}-{pid}-");
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with(&name) {
                found.push(entry.path());
            } else {
                open.push(entry.path());
            }
        }
    }
    found
}

/// Launches a hungry command beside a modest one, which must not notice.
pub(crate) fn launch_beside_another(setting: &Setting, policy: &Policy) -> Value {
    let other = Setting::new(setting.who);
    let mut modest = other.policy(&["sh", "-c", "read line < go; echo made > made; cat made"]);
    modest.limits = Limits {
        memory_bytes: Some(256 * MIB),
        processes: Some(16),
        ..Limits::default()
    };
    assert!(
        std::process::Command::new("mkfifo")
            .arg(other.work().join("go"))
            .status()
            .unwrap()
            .success()
    );
    other.own();
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| other.launch("launch", &modest));
        let result = setting.launch("launch", policy);
        fs::write(other.work().join("go"), "go\n").unwrap();
        let beside = beside.join().unwrap();
        assert_eq!(beside["stdout"], "made\n", "{beside}");
        assert!(beside["limit"].is_null(), "{beside}");
        result
    })
}

#[test]
fn a_fork_bomb_gets_no_further_than_the_limit() {
    as_everyone(|setting| {
        let limits = Limits {
            processes: Some(40),
            ..Limits::default()
        };
        let policy = consume(setting, "processes", 2000, Path::new(""), limits);
        let result = launch_beside_another(setting, &policy);
        if result["limit"].is_null() {
            // The kernel refused: the command itself is one of them.
            assert_eq!(reached(&result), 39, "{result}");
        } else {
            assert_ended_by(&result, "processes", 40);
        }
        assert_eq!(result["hits"][0]["limit"], "processes", "{result}");
        assert_eq!(result["hits"][0]["value"], 40, "{result}");
    });
}

#[test]
fn threads_count_as_processes_do() {
    as_everyone(|setting| {
        let limits = Limits {
            processes: Some(40),
            ..Limits::default()
        };
        let policy = consume(setting, "threads", 2000, Path::new(""), limits);
        let result = setting.launch("launch", &policy);
        if result["limit"].is_null() {
            assert_eq!(reached(&result), 39, "{result}");
        }
        assert_eq!(result["hits"][0]["limit"], "processes", "{result}");
    });
}

#[test]
fn limits_that_were_waived_end_nothing() {
    as_everyone(|setting| {
        let file = setting.work().join("file");
        let mut policy = consume(
            setting,
            "file",
            8 * MIB,
            &file,
            disk(setting, Some(4 * MIB), None),
        );
        policy.waived.insert(Layer::Limits);
        let result = setting.launch("launch", &policy);
        assert_eq!(reached(&result), 8 * MIB);
        assert!(result["limit"].is_null(), "{result}");
        let status = &result["enforcement"]["layers"]["limits"]["status"];
        assert_eq!(status, "waived", "{result}");
    });
}

#[test]
fn a_huge_file_of_holes_is_refused() {
    as_everyone(|setting| {
        let file = setting.work().join("sparse");
        let limits = Limits {
            file_bytes: Some(1 << 30),
            ..Limits::default()
        };
        let policy = consume(setting, "sparse", 1 << 40, &file, limits);
        let result = setting.launch("launch", &policy);
        assert_ended_by(&result, "file_size", 1 << 30);
        assert_eq!(result["limit"]["by"], "rlimit", "{result}");
        assert_eq!(fs::metadata(&file).unwrap().len(), 0);
    });
}

#[test]
fn a_tree_that_fills_the_disk_ends_and_is_told_why() {
    as_everyone(|setting| {
        let file = setting.work().join("big");
        for what in ["file", "nameless"] {
            let limits = disk(setting, Some(64 * MIB), None);
            let mut policy = consume(setting, what, 1536 * MIB, &file, limits);
            policy.command.argv.push("stay".into());
            let result = setting.launch("launch", &policy);
            assert_ended_by(&result, "disk", 64 * MIB);
            assert_eq!(result["limit"]["by"], "watchdog", "{result}");
            let _ = fs::remove_file(&file);
        }
    });
}

#[test]
fn a_tree_that_makes_too_many_files_ends_and_is_told_why() {
    as_everyone(|setting| {
        let limits = disk(setting, None, Some(5_000));
        let mut policy = consume(setting, "files", 100_000, &setting.work(), limits);
        policy.command.argv.push("stay".into());
        let result = setting.launch("launch", &policy);
        assert_ended_by(&result, "disk_files", 5_000);
    });
}

#[test]
fn what_is_too_deep_to_be_counted_is_too_much() {
    as_everyone(|setting| {
        let limits = disk(setting, Some(1 << 30), None);
        let mut policy = consume(setting, "deep", 400, &setting.work(), limits);
        policy.command.argv.push("stay".into());
        assert_ended_by(&setting.launch("launch", &policy), "disk_depth", 256);
    });
}

#[test]
fn what_was_there_before_counts_only_where_all_does() {
    as_everyone(|setting| {
        fs::write(setting.work().join("before"), vec![1; 8 << 20]).unwrap();
        setting.own();
        let script = "i=0; while [ $i -lt 20 ]; do sleep 0.02; i=$((i+1)); done; echo over";
        let mut policy = setting.policy(&["sh", "-c", script]);
        policy.limits = disk(setting, Some(4 * MIB), None);
        assert_ended_by(&setting.launch("launch", &policy), "disk", 4 * MIB);
        if let Some(disk) = &mut policy.limits.disk {
            disk.counted = Counted::Added;
        }
        let result = setting.launch("launch", &policy);
        assert_eq!(result["stdout"], "over\n", "{result}");
        assert!(result["limit"].is_null(), "{result}");
    });
}

#[test]
fn a_private_directory_holds_so_many_files_and_no_more() {
    as_everyone(|setting| {
        let private = setting.work().join("private");
        fs::create_dir(&private).unwrap();
        setting.own();
        let mut policy = consume(setting, "files", 100_000, &private, Limits::default());
        policy.view.mounts.push(Mount::Tmpfs {
            target: private.as_path().into(),
            access: Access::ReadWrite,
            bytes: 16 * MIB,
        });
        let made = reached(&setting.launch("launch", &policy));
        assert!((1_000..=2_048).contains(&made), "{made}");
    });
}

#[test]
fn descriptors_run_out() {
    as_everyone(|setting| {
        let limits = Limits {
            open_files: Some(64),
            ..Limits::default()
        };
        let policy = consume(setting, "descriptors", 10_000, Path::new(""), limits);
        assert_eq!(reached(&setting.launch("launch", &policy)), 61);
    });
}

#[test]
fn processor_time_is_that_of_the_whole_tree() {
    as_everyone(|setting| {
        let limits = Limits {
            cpu_seconds: Some(1),
            ..Limits::default()
        };
        let policy = consume(setting, "spin", 30, Path::new(""), limits);
        let result = setting.launch("launch", &policy);
        assert_ended_by(&result, "cpu", 1);
        assert_eq!(result["limit"]["by"], "watchdog", "{result}");
        let used = result["cpu_ms"].as_u64().unwrap();
        assert!(used < 4_000, "{result}");
    });
}

#[test]
fn a_command_that_uses_up_its_own_processor_time_is_told_why() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&["sh", "-c", "while :; do :; done"]);
        policy.limits.cpu_seconds = Some(1);
        assert_ended_by(&setting.launch("launch", &policy), "cpu", 1);
    });
}

#[test]
fn leaves_no_group_behind_however_the_command_ends() {
    as_everyone(|setting| {
        let limits = Limits {
            memory_bytes: Some(256 * MIB),
            processes: Some(16),
            cpu_seconds: Some(60),
            ..Limits::default()
        };
        for (mode, argv) in [
            ("launch", &["sh", "-c", "echo ready"][..]),
            ("launch", &["missing"]),
            ("kill", &["sh", "-c", "echo ready; exec sleep 1000"]),
            ("drop", &["sh", "-c", "echo ready; exec sleep 1000"]),
        ] {
            let mut policy = setting.policy(argv);
            policy.limits = limits.clone();
            let mut launcher = setting.start(mode, &policy);
            until(|| launcher.try_wait().unwrap().is_some());
            assert_eq!(groups_of(launcher.id()), Vec::<PathBuf>::new(), "{mode}");
        }
    });
}

#[test]
fn the_group_of_a_killed_launcher_goes_with_the_next_sweep() {
    let setting = Setting::new(Who::Myself);
    let mut policy = setting.policy(&["sh", "-c", "echo ready; exec sleep 1000"]);
    policy.limits.memory_bytes = Some(256 * MIB);
    let mut launcher = setting.start("hold", &policy);
    let mut line = String::new();
    let mut out = std::io::BufReader::new(launcher.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let pid = launcher.id();
    let made = groups_of(pid);
    // One that lives is never taken for dead.
    let _ = sweep_groups(Reach::Everywhere);
    assert_eq!(groups_of(pid), made);
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    for reach in [Reach::Nearby, Reach::Everywhere] {
        until(|| {
            let _ = sweep_groups(reach);
            groups_of(pid).is_empty()
        });
    }
}

#[test]
fn limits_that_leave_nothing_are_refused() {
    let setting = Setting::new(Who::Myself);
    for (limits, text) in [
        (
            Limits {
                memory_bytes: Some(MIB),
                ..Limits::default()
            },
            "memory_bytes",
        ),
        (disk(&setting, Some(0), None), "disk.bytes"),
        (
            Limits {
                disk: Some(Disk {
                    directories: vec![],
                    bytes: Some(MIB),
                    files: None,
                    counted: Counted::All,
                }),
                ..Limits::default()
            },
            "limits.disk",
        ),
        (
            Limits {
                disk: Some(Disk {
                    directories: vec![setting.work().join("missing").into()],
                    bytes: Some(MIB),
                    files: None,
                    counted: Counted::All,
                }),
                ..Limits::default()
            },
            "missing",
        ),
    ] {
        let mut policy = setting.policy(&["true"]);
        policy.limits = limits;
        let result = setting.launch("launch", &policy);
        assert_eq!(result["error"], "policy", "{result}");
        assert!(result["text"].as_str().unwrap().contains(text), "{result}");
    }
}
