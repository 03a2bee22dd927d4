//! Owns the proof that the attempts are attempts: without a cage they succeed.
//!
//! A denial proves nothing where the same call would have failed anyway. Each
//! attempt here is made bare, on things that the test has just made, by an
//! ordinary user where it needs no privilege.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cage::{on, on_both, with};
use crate::canary::{Print, Victim};
use crate::files::{PROPERTIES_BY_READERS, furnish};
use crate::killed::AGENTS;
use crate::setting::{FIXTURE, Setting, Who, as_everyone};

/// Makes attempts without a cage.
pub fn bare(setting: &Setting, attempts: &[String]) -> Vec<String> {
    let mut command = Command::new(FIXTURE);
    command
        .arg("try")
        .args(attempts)
        .current_dir(setting.work())
        .stdin(Stdio::null())
        .process_group(0);
    if setting.who == Who::Ordinary {
        command.uid(1000).gid(1000);
    }
    let output = command.output().unwrap();
    let outcomes: Value = serde_json::from_slice(&output.stdout).unwrap();
    attempts
        .iter()
        .map(|attempt| outcomes[attempt].as_str().unwrap().to_owned())
        .collect()
}

fn paths(setting: &Setting) -> Vec<String> {
    let (outside, work, precious) = (setting.outside(), setting.work(), setting.precious());
    let new = outside.join("new");
    let mut all: Vec<_> = [
        "write",
        "append",
        "open-write",
        "truncate",
        "truncate-name",
        "unlink",
        "chmod",
        "suid",
        "chmod2",
        "chmod-by-handle",
        "chown",
        "utimes",
        "touch",
        "setxattr",
        "removexattr",
        "setflags",
        "setxattr-at",
        "setflags-at",
    ]
    .iter()
    .chain(&PROPERTIES_BY_READERS)
    .map(|what| on(what, &precious))
    .collect();
    all.extend([
        on("mkdir", &new),
        on("fifo", &new),
        on_both("symlink", Path::new("/"), &new),
        on("rmdir", &outside.join("empty")),
        with("write-at", &[outside.to_str().unwrap(), "precious"]),
        on_both("rename", &precious, &work.join("taken")),
        on_both("rename", &work.join("mine"), &precious),
        on_both("exchange", &work.join("mine"), &precious),
        on_both("link", &precious, &work.join("linked")),
        on_both("link-by-handle", &precious, &work.join("linked")),
        format!("write=/proc/self/root{}", precious.display()),
        "append=/proc/self/cwd/../outside/precious".to_owned(),
    ]);
    all
}

/// T01 to T05, T08: bare, each of them changes the host.
#[test]
fn bare_attempts_on_files_change_the_host() {
    for who in [Who::Myself, Who::Ordinary] {
        if who == Who::Ordinary && !rustix::process::geteuid().is_root() {
            continue;
        }
        let count = paths(&Setting::new(who)).len();
        for number in 0..count {
            let setting = Setting::new(who);
            furnish(&setting);
            let attempt = paths(&setting).swap_remove(number);
            let before = Print::of(&setting.outside());
            let outcome = bare(&setting, std::slice::from_ref(&attempt));
            // Some file systems have neither attributes nor flags, and some
            // kernels not the newest calls for them.
            let lacking = ["25", "38", "95"].contains(&outcome[0].as_str());
            let exempt = attempt.starts_with("open-write") || lacking;
            let changed = before != Print::of(&setting.outside());
            assert!(
                (outcome == ["ok"] || lacking) && (changed || exempt),
                "{who:?}: {attempt}: {outcome:?}"
            );
        }
    }
}

/// T01, T06: bare and with privilege, these succeed too.
#[test]
fn bare_attempts_with_privilege_succeed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let setting = Setting::new(Who::Myself);
    furnish(&setting);
    let at = |name: &str| setting.work().join(name);
    let attempts = [
        on("char", &at("char")),
        on("setcap", &at("mine")),
        on_both("whiteout", &at("mine"), &at("moved")),
        on("unnamed", &at("directory")),
        "chroot=/".to_owned(),
        "realtime=0".to_owned(),
        format!("call={},0,0,-5", libc::SYS_setpriority),
        format!("call={},1,0,{}", libc::SYS_ioprio_set, 1 << 13),
        format!("call={},28,0", libc::SYS_prctl),
        "regain".to_owned(),
    ];
    assert_eq!(bare(&setting, &attempts), ["ok"; 10]);
}

/// T21: bare, each of these ends the process outside.
#[test]
fn bare_signals_end_the_victim() {
    let signals = [
        "signal-thread=PID",
        "signal-task=PID",
        "queue=PID",
        "signal-by-handle=PID",
        "signal-by-owner=PID",
        "signal=PID,9",
        "signal=-PID,9",
    ];
    as_everyone(|setting| {
        for signal in signals {
            let victim = Victim::new(setting);
            let attempt = signal.replace("PID", &victim.pid().to_string());
            assert_eq!(bare(setting, std::slice::from_ref(&attempt)), ["ok"]);
            victim.wait_for_death();
        }
    });
}

/// T23 to T25: bare, the process outside is looked into and put in order.
#[test]
fn bare_attempts_on_a_process_succeed() {
    as_everyone(|setting| {
        let victim = Victim::new(setting);
        let pid = victim.pid();
        let attempts: Vec<_> = ["nice", "affinity", "scheduler", "ioprio", "rlimit"]
            .iter()
            .map(|what| format!("{what}={pid}"))
            .chain(["environ", "maps", "auxv"].map(|name| format!("read=/proc/{pid}/{name}")))
            .chain([
                format!("put=/proc/{pid}/oom_score_adj,500"),
                format!("put=/proc/{pid}/coredump_filter,0"),
                format!("open-write=/proc/{pid}/mem"),
                format!("steal-descriptor={pid}"),
                format!("call={},{pid},{pid},0", libc::SYS_kcmp),
                format!("seize={pid}"),
            ])
            .collect();
        let before = victim.facts();
        let outcomes = bare(setting, &attempts);
        let failed: Vec<_> = attempts
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| *outcome != "ok")
            .collect();
        assert!(failed.is_empty(), "{:?}: {failed:?}", setting.who);
        let after = victim.facts();
        let same: Vec<_> = before
            .iter()
            .zip(&after)
            .filter(|(old, new)| old == new)
            .collect();
        // Its group, its memory's place, its name, and what only it may set.
        assert!(same.len() <= 5, "{same:?}");
    });
}

/// T14, T43, T44: bare, the ways to execute, to listen and to stack work.
#[test]
fn bare_ways_to_execute_work() {
    as_everyone(|setting| {
        fs::copy("/bin/true", setting.work().join("program")).unwrap();
        setting.own();
        let attempts = [
            on("execute", &setting.work().join("program")),
            "execute-from-memory=/bin/true".to_owned(),
            "pass-descriptor".to_owned(),
        ];
        assert_eq!(bare(setting, &attempts), ["ok"; 3]);
    });
}

/// T58 to T61: every way to resist that there is, is in the kill matrix.
#[test]
fn the_kill_matrix_has_every_agent() {
    let output = Command::new(FIXTURE)
        .args(["agent", "kinds", "-"])
        .output()
        .unwrap();
    let kinds = String::from_utf8(output.stdout).unwrap();
    assert_eq!(kinds.split_whitespace().collect::<Vec<_>>(), AGENTS);
}
