//! Owns the attempts on places: switches of the kernel, where the cage stands,
//! what runs there, directories that all share, other file systems.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cofferdam_sandbox::{Access, Rights};

use crate::cage::{Cage, Kind, everywhere, in_views, on, on_both};
use crate::files::{denied, furnish};
use crate::setting::{FIXTURE, Setting, Who, bind, rule, tmpfs};

/// The switches, each with what it holds now.
fn switches() -> Vec<(String, String)> {
    [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/sysrq",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/randomize_va_space",
        "/proc/sys/kernel/yama/ptrace_scope",
        "/proc/sys/fs/protected_hardlinks",
        "/proc/sys/fs/suid_dumpable",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sys/net/ipv4/ip_forward",
        "/sys/kernel/mm/ksm/run",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ]
    .iter()
    .filter_map(|path| Some(((*path).to_owned(), fs::read_to_string(path).ok()?)))
    .collect()
}

/// T09: no switch of the kernel can be opened for writing, even by who owns
/// it, and the values are what they were.
#[test]
fn no_switch_of_the_kernel_moves() {
    everywhere(|cage| {
        let before = switches();
        // Opened only: writing is left to nobody.
        let attempts: Vec<_> = before
            .iter()
            .map(|(path, _)| format!("open-write={path}"))
            .chain([
                "open-write=/proc/sysrq-trigger".to_owned(),
                "open-write=/proc/self/uid_map".to_owned(),
                "open-write=/proc/self/gid_map".to_owned(),
                "open-write=/proc/self/setgroups".to_owned(),
                "open-write=/dev/kmsg".to_owned(),
                "open-write=/dev/mem".to_owned(),
                "put=/proc/self/oom_score_adj,-1000".to_owned(),
                "open-write=/proc/sys/fs/binfmt_misc/register".to_owned(),
                "open-write=/sys/kernel/uevent_helper".to_owned(),
                "open-write=/sys/power/state".to_owned(),
                "list=/sys/kernel/debug".to_owned(),
                "list=/sys/kernel/tracing".to_owned(),
                "mkdir=/sys/fs/cgroup/cage-made".to_owned(),
                "mkdir=/sys/fs/cgroup/pids/cage-made".to_owned(),
            ])
            .collect();
        cage.assert_denied(&attempts);
        assert_eq!(before, switches());
    });
}

/// T09: of the devices of the machine only those with a rule are opened, and
/// these work.
#[test]
fn no_device_of_the_machine_is_opened() {
    everywhere(|cage| {
        let devices = [
            "mem",
            "kmsg",
            "port",
            "kvm",
            "fuse",
            "net/tun",
            "loop-control",
            "loop0",
            "vhost-net",
            "vhost-vsock",
            "mapper/control",
            "uinput",
            "console",
            "tty0",
            "vcs",
            "sda",
            "vda",
            "nvme0n1",
            "snapshot",
            "cpu_dma_latency",
            "hwrng",
            "random",
        ];
        let attempts: Vec<_> = devices
            .iter()
            .flat_map(|name| ["read", "open-write"].map(|what| format!("{what}=/dev/{name}")))
            .filter(|attempt| attempt != "read=/dev/random")
            .collect();
        cage.assert_denied(&attempts);
        cage.assert_works(&["write=/dev/null".to_owned(), "read=/dev/null".to_owned()]);
    });
}

/// T11: the place that the cage stands in can neither be moved nor replaced.
#[test]
fn the_place_of_the_work_cannot_be_moved() {
    everywhere(|cage| {
        furnish(cage.setting);
        let (root, work) = (cage.setting.root.path(), cage.setting.work());
        let aside = root.with_extension("aside");
        denied(
            cage,
            &[
                on_both("rename", root, &aside),
                on_both("rename", &work, &root.join("aside")),
                on_both("rename", &work, &cage.setting.outside().join("aside")),
                on_both("exchange", &work, &cage.setting.outside()),
                on("rmdir", &work),
                on_both("symlink", &work, &root.join("link")),
            ],
        );
        assert!(!aside.exists() && work.join("mine").exists());
    });
}

/// T14: what was written inside runs only where the rule says so. A loader that
/// reads it, and a copy in memory, need no such right (Landlock has none for
/// it); what runs that way is in the same cage.
#[test]
fn what_was_written_inside_runs_by_the_rule() {
    everywhere(|cage| {
        let (work, precious) = (cage.setting.work(), cage.setting.precious());
        fs::copy("/bin/true", work.join("program")).unwrap();
        fs::write(work.join("script"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(work.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
        cage.setting.own();
        let attempts = [
            on("execute", &work.join("program")),
            on("execute", &work.join("script")),
        ];
        cage.assert_works(&attempts);
        let mut policy = cage.attempts(&attempts);
        policy.files[0] = rule(&work, Rights::ReadWrite);
        let outcomes = cage.outcomes_of(&policy);
        assert_eq!(outcomes, ["13", "13"], "{:?}", cage.kind);
        // By way of memory: it may run, and can no more than any other.
        let inner = format!(
            "cp {FIXTURE} copy; exec ./copy try write={0} execute-from-memory=/bin/true",
            precious.display()
        );
        let result = cage.launch(&cage.policy(&["sh", "-c", &inner]));
        assert!(result["stdout"].is_string(), "{result}");
        assert!(cage.setting.unharmed());
    });
}

/// T16 and T17: temporary files and shared memory of others are not there, and
/// names that others could guess lead to files of one's own.
#[test]
fn predictable_names_are_ones_own() {
    in_views(|cage| {
        let name = format!("cage-{}-{:?}", std::process::id(), cage.setting.who);
        let theirs = ["/var/tmp", "/dev/shm"].map(|place| Path::new(place).join(&name));
        for path in &theirs {
            fs::write(path, "theirs").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
        }
        let attempts: Vec<_> = theirs
            .iter()
            .flat_map(|path| [on("stat", path), on("write", path), on("write", path)])
            .collect();
        let mut policy = cage.attempts(&attempts);
        policy
            .view
            .mounts
            .push(tmpfs(Path::new("/var/tmp"), Access::ReadWrite));
        for place in ["/var/tmp", "/dev/shm"] {
            policy.files.push(rule(Path::new(place), Rights::ReadWrite));
        }
        let outcomes = cage.outcomes_of(&policy);
        let after = theirs.each_ref().map(|path| fs::read(path).unwrap());
        for path in &theirs {
            fs::remove_file(path).unwrap();
        }
        assert_eq!(after, [b"theirs", b"theirs"]);
        // Not there at first; then made inside and written there.
        assert_eq!(outcomes, ["2", "ok", "ok", "2", "ok", "ok"]);
    });
}

/// T20: a workspace on a file system of another kind is confined like any
/// other. The file systems are mounted where only this test sees them.
#[test]
fn workspaces_on_other_file_systems_are_confined() {
    if !rustix::process::geteuid().is_root() {
        // Nobody else may mount; the cage itself is the same for them.
        return;
    }
    for mount in [
        "mount -t tmpfs none work",
        "mount --bind outside/full work",
        "mkdir up low here; mount -t tmpfs none up; mkdir up/u up/w; \
         mount -t overlay -o lowerdir=low,upperdir=up/u,workdir=up/w none work",
    ] {
        let setting = Setting::new(Who::Myself);
        furnish(&setting);
        let cage = Cage {
            setting: &setting,
            kind: Kind::View,
        };
        let mut policy = cage.attempts(&[
            on("write", &setting.work().join("new")),
            on("write", &setting.precious()),
            on("chmod", &setting.precious()),
            on_both(
                "rename",
                &setting.work().join("new"),
                &setting.outside().join("new"),
            ),
        ]);
        policy.view.mounts = vec![bind(&setting.work(), &setting.work(), Access::ReadWrite)];
        fs::write(
            setting.root.path().join("policy"),
            serde_json::to_vec(&policy).unwrap(),
        )
        .unwrap();
        let script = format!("set -e; {mount}; exec {FIXTURE} launch < policy");
        let output = Command::new("unshare")
            .args(["-m", "--", "sh", "-c", &script])
            .current_dir(setting.root.path())
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let result: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{mount}: {text}"));
        let outcomes: serde_json::Value = serde_json::from_str(
            result["stdout"]
                .as_str()
                .unwrap_or_else(|| panic!("{result}")),
        )
        .unwrap();
        let worked: Vec<_> = outcomes
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, outcome)| *outcome == "ok")
            .map(|(attempt, _)| attempt.clone())
            .collect();
        assert_eq!(
            worked,
            [on("write", &setting.work().join("new"))],
            "{mount}"
        );
        assert_eq!(fs::read(setting.precious()).unwrap(), b"precious");
    }
}
