//! Owns the attempts on files outside, and beside each what must work inside.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use cofferdam_sandbox::{Access, Rights};

use crate::cage::{Cage, Kind, everywhere, in_views, on, on_both, with, without_a_view};
use crate::canary::{Print, Victim};
use crate::setting::{FIXTURE, Setting, Who, bind, rule, tmpfs};

/// Puts more outside than the one file: directories, an attribute, a pair.
pub fn furnish(setting: &Setting) {
    let outside = setting.outside();
    fs::create_dir(outside.join("empty")).unwrap();
    fs::create_dir(outside.join("full")).unwrap();
    fs::write(outside.join("full/file"), "kept").unwrap();
    fs::write(outside.join("second"), "kept").unwrap();
    fs::write(setting.work().join("mine"), "mine").unwrap();
    fs::create_dir(setting.work().join("directory")).unwrap();
    // A file system without attributes has none that could be lost.
    let _ = rustix::fs::setxattr(
        setting.precious(),
        "user.kept",
        b"kept",
        rustix::fs::XattrFlags::empty(),
    );
    setting.own();
}

/// Makes attempts that must be denied and must leave what is outside as it is.
#[track_caller]
fn denied(cage: &Cage<'_>, attempts: &[String]) {
    let outside = cage.setting.outside();
    let before = Print::of(&outside);
    cage.assert_denied(attempts);
    before.assert_same(&outside);
}

/// T01: nothing outside is written, made or cut, by name or by handle.
#[test]
fn no_content_outside_changes() {
    everywhere(|cage| {
        furnish(cage.setting);
        let (precious, outside) = (cage.setting.precious(), cage.setting.outside());
        let new = outside.join("new");
        denied(
            cage,
            &[
                on("write", &precious),
                on("write", &new),
                on("append", &precious),
                on("open-write", &precious),
                on("truncate", &precious),
                on("truncate-name", &precious),
                on("mkdir", &new),
                on("fifo", &new),
                on("char", &new),
                on_both("symlink", Path::new("/"), &new),
                on("unnamed", &outside),
                with("write-at", &[outside.to_str().unwrap(), "precious"]),
                with("by-file-handle", &[precious.to_str().unwrap(), "1"]),
                with("by-file-handle", &[precious.to_str().unwrap(), "0"]),
            ],
        );
    });
}

/// T02: no name outside goes away, and none gets another content.
#[test]
fn no_name_outside_changes() {
    everywhere(|cage| {
        furnish(cage.setting);
        let (outside, work) = (cage.setting.outside(), cage.setting.work());
        let (precious, second, mine) = (
            outside.join("precious"),
            outside.join("second"),
            work.join("mine"),
        );
        denied(
            cage,
            &[
                on("unlink", &precious),
                on("rmdir", &outside.join("empty")),
                on_both("rename", &precious, &work.join("taken")),
                on_both("rename", &precious, &second),
                on_both("rename", &precious, &outside.join("full/moved")),
                on_both("rename", &mine, &precious),
                on_both("rename", &mine, &outside.join("given")),
                on_both("rename", &outside.join("empty"), &work.join("empty")),
                on_both("exchange", &mine, &precious),
                on_both("whiteout", &precious, &work.join("taken")),
            ],
        );
        assert_eq!(fs::read(mine).unwrap(), b"mine");
    });
}

/// T03: a file outside gets no name inside, so that no name inside writes it.
#[test]
fn nothing_outside_is_linked_in() {
    everywhere(|cage| {
        furnish(cage.setting);
        let (precious, work) = (cage.setting.precious(), cage.setting.work());
        denied(
            cage,
            &[
                on_both("link", &precious, &work.join("linked")),
                on("write", &work.join("linked/")),
                on_both("link-by-handle", &precious, &work.join("linked")),
                on_both(
                    "link",
                    &work.join("mine"),
                    &cage.setting.outside().join("given"),
                ),
            ],
        );
        assert!(!work.join("linked").exists());
    });
}

/// T04: no link leads out, whatever its chain; one that stays inside works.
#[test]
fn no_chain_of_links_leads_out() {
    everywhere(|cage| {
        furnish(cage.setting);
        let (outside, work) = (cage.setting.outside(), cage.setting.work());
        symlink(cage.setting.precious(), work.join("file")).unwrap();
        symlink(&outside, work.join("dir")).unwrap();
        symlink("dir", work.join("chain")).unwrap();
        symlink("../outside/new", work.join("dangling")).unwrap();
        symlink("directory/..", work.join("up")).unwrap();
        symlink("mine", work.join("inner")).unwrap();
        cage.setting.own();
        let at = |name: &str| work.join(name);
        denied(
            cage,
            &[
                on("write", &at("file")),
                on("truncate", &at("file")),
                on("write", &at("dir/new")),
                on("write", &at("chain/precious")),
                on("write", &at("dangling")),
                on("write", &at("up/../outside/new")),
                on("write", &at("dir/../outside/precious")),
                on_both("rename", &at("mine"), &at("chain/precious")),
                on_both("link", &at("mine"), &at("dir/given")),
                on("unlink", &at("chain/precious")),
            ],
        );
        cage.assert_works(&[on("write", &at("inner"))]);
        assert_eq!(fs::read(at("mine")).unwrap(), b"changed");
    });
}

fn properties(setting: &Setting) -> Vec<String> {
    let precious = setting.precious();
    [
        "chmod",
        "suid",
        "chmod2",
        "chmod-by-handle",
        "chown",
        "utimes",
        "touch",
        "setxattr",
    ]
    .iter()
    .chain(&["removexattr", "setflags"])
    .map(|what| on(what, &precious))
    .chain([
        on("chmod", &setting.outside()),
        on("setxattr", &setting.outside()),
    ])
    .collect()
}

/// T05: no property of a file outside changes.
#[test]
fn no_property_outside_changes() {
    in_views(|cage| {
        furnish(cage.setting);
        denied(cage, &properties(cage.setting));
    });
}

/// T05 without a view: what changes all the same is told by the report.
#[test]
fn what_no_view_protects_is_told() {
    without_a_view(|cage| {
        furnish(cage.setting);
        let policy = cage.attempts(&properties(cage.setting));
        let before = Print::of(&cage.setting.outside());
        let result = cage.launch(&policy);
        let same = before == Print::of(&cage.setting.outside());
        let told = result["enforcement"]["holes"]
            .as_array()
            .unwrap_or_else(|| panic!("{result}"))
            .iter()
            .any(|hole| hole.as_str().unwrap().contains("mode, owner and times"));
        assert!(same || told, "changed and not told: {result}");
    });
}

/// T06: no device and no capability of a file is made, not even inside.
#[test]
fn no_device_and_no_capability_is_made_inside() {
    everywhere(|cage| {
        furnish(cage.setting);
        let work = cage.setting.work();
        cage.assert_denied(&[
            on("char", &work.join("device")),
            on("block", &work.join("device")),
            on("setcap", &work.join("mine")),
        ]);
        assert!(!work.join("device").exists());
        let mut value = [0; 64];
        let found = rustix::fs::getxattr(work.join("mine"), "security.capability", &mut value[..]);
        assert!(found.is_err());
    });
}

/// T07: names move and multiply freely inside, also into a directory that was
/// made after the start, and with every layer in force.
#[test]
fn names_move_across_directories_inside() {
    everywhere(|cage| {
        furnish(cage.setting);
        let at = |name: &str| cage.setting.work().join(name);
        cage.assert_works(&[
            on("mkdir", &at("later")),
            on_both("rename", &at("mine"), &at("later/mine")),
            on_both("link", &at("later/mine"), &at("directory/linked")),
            on("write", &at("second")),
            on_both("exchange", &at("later/mine"), &at("second")),
            on_both("rename", &at("directory"), &at("later/directory")),
            on_both("symlink", Path::new("second"), &at("later/link")),
            on("fifo", &at("later/fifo")),
            on("unnamed", &at("later")),
            on("truncate-name", &at("later/directory/linked")),
            on("chmod", &at("second")),
            on("touch", &at("second")),
            on("chown", &at("second")),
        ]);
        assert_eq!(fs::read(at("later/mine")).unwrap(), b"changed");
        assert_eq!(
            fs::metadata(at("later/directory/linked")).unwrap().nlink(),
            2
        );
    });
}

/// T08: no name of procfs leads to files that have no rule.
#[test]
fn procfs_leads_nowhere() {
    everywhere(|cage| {
        furnish(cage.setting);
        let precious = cage.setting.precious();
        // Without the rule that makes what is outside readable.
        let beneath = precious.strip_prefix("/").unwrap().display();
        let mut victim = Victim::new(cage.setting);
        let pid = victim.pid();
        let roots = [
            format!("{pid}"),
            "1".into(),
            "self".into(),
            "thread-self".into(),
        ]
        .map(|who| format!("/proc/{who}/root/{beneath}"));
        let links = [
            "fd/2",
            "cwd/precious",
            "task/PID/fd/2",
            "task/PID/cwd/precious",
        ]
        .map(|link| format!("/proc/{pid}/{}", link.replace("PID", &pid.to_string())));
        let own = ["/proc/self/cwd/../outside/precious".to_owned()];
        let attempts: Vec<_> = roots
            .iter()
            .chain(&links)
            .chain(&own)
            .flat_map(|path| ["read", "write", "append"].map(|what| format!("{what}={path}")))
            .chain([
                format!("list=/proc/{pid}/cwd"),
                format!("chroot=/proc/{pid}/root"),
            ])
            .collect();
        let mut policy = cage.attempts(&attempts);
        policy.files.pop();
        let before = Print::of(&cage.setting.outside());
        let outcomes = cage.outcomes_of(&policy);
        before.assert_same(&cage.setting.outside());
        victim.assert_alive();
        let through: Vec<_> = attempts
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.parse::<i32>().is_err())
            .collect();
        assert!(through.is_empty(), "{:?}: {through:?}", cage.kind);
    });
}

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
            ])
            .collect();
        cage.assert_denied(&attempts);
        assert_eq!(before, switches());
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
