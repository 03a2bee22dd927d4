//! Owns the attempts on the kernel: namespaces, mounts, privilege, filters.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::cage::{everywhere, on};
use crate::setting::{FIXTURE, Who};

const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    0x80, // CLONE_NEWTIME
];

/// T39: no namespace is made, by whichever call, nor is one entered.
#[test]
fn no_namespace_is_made_or_entered() {
    everywhere(|cage| {
        let before = fs::read_dir("/proc/self/ns").unwrap().count();
        let mut attempts: Vec<_> = NAMESPACES
            .iter()
            .flat_map(|flag| {
                [
                    format!("call={},{flag}", libc::SYS_unshare),
                    format!("clone3={flag}"),
                ]
            })
            .collect();
        // The last of them has no bit of its own in this call.
        attempts.extend(
            NAMESPACES[..7]
                .iter()
                .map(|flag| format!("call={},{flag}", libc::SYS_clone)),
        );
        attempts
            .extend(["user", "mnt", "pid", "net"].map(|name| format!("join=/proc/self/ns/{name}")));
        cage.assert_denied(&attempts);
        assert_eq!(fs::read_dir("/proc/self/ns").unwrap().count(), before);
    });
}

/// T12: no mount is made, changed or taken away, in the old way or the new,
/// and no file system of a program's own.
#[test]
fn no_mount_is_made_or_taken_away() {
    everywhere(|cage| {
        let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut attempts: Vec<_> = [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fspick,
            libc::SYS_mount_setattr,
            467,
        ]
        .iter()
        .map(|call| format!("call={call}"))
        .collect();
        attempts.push("open-write=/dev/fuse".to_owned());
        attempts.push(on("chroot", &cage.setting.work()));
        cage.assert_denied(&attempts);
        assert_eq!(before, fs::read_to_string("/proc/self/mountinfo").unwrap());
    });
}

/// T40: calls that act on the machine as a whole, or open large parts of the
/// kernel, are refused before their arguments are looked at.
#[test]
fn no_dangerous_call_is_there() {
    everywhere(|cage| {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        // Arguments with which what got through would fail or do nothing: a
        // name of no length, for one, would be a new name.
        let calls = [
            (libc::SYS_bpf, 0, 0),
            (libc::SYS_perf_event_open, 0, 0),
            (libc::SYS_userfaultfd, 0, 0),
            (libc::SYS_keyctl, 0, 0),
            (libc::SYS_add_key, 0, 0),
            (libc::SYS_request_key, 0, 0),
            (libc::SYS_kexec_load, 0, 1 << 30),
            (libc::SYS_kexec_file_load, -1, -1),
            (libc::SYS_init_module, 0, 0),
            (libc::SYS_finit_module, -1, 0),
            (libc::SYS_delete_module, 0, 0),
            (libc::SYS_swapon, 0, 0),
            (libc::SYS_swapoff, 0, 0),
            (libc::SYS_reboot, 0, 0),
            (libc::SYS_settimeofday, 0, 0),
            (libc::SYS_clock_settime, 0, 0),
            (libc::SYS_sethostname, 0, 4096),
            (libc::SYS_setdomainname, 0, 4096),
            (libc::SYS_acct, 1, 0),
            (libc::SYS_quotactl, 0, 0),
            (libc::SYS_fanotify_init, 0, 0),
            (libc::SYS_syslog, 0, 0),
        ];
        let mut attempts: Vec<_> = calls
            .iter()
            .map(|(call, first, second)| format!("call={call},{first},{second}"))
            .collect();
        #[cfg(target_arch = "x86_64")]
        attempts.extend([libc::SYS_iopl, libc::SYS_ioperm].map(|call| format!("call={call},3,1")));
        attempts.push(format!("call={},{}", libc::SYS_personality, 0x004_0000));
        cage.assert_denied(&attempts);
        assert_eq!(
            fs::read_to_string("/proc/sys/kernel/hostname").unwrap(),
            name
        );
    });
}

/// T40: the call tables of other machines are not answered.
#[test]
fn no_other_call_table_is_there() {
    everywhere(|cage| {
        cage.assert_denied(&["old-table".to_owned()]);
    });
}

/// T41: a program that would run as its owner runs as whoever starts it.
#[test]
fn no_program_gives_another_user() {
    if !rustix::process::geteuid().is_root() {
        // Only the superuser can make one that would make a difference.
        return;
    }
    everywhere(|cage| {
        if cage.setting.who == Who::Myself {
            return;
        }
        let program = cage.setting.work().join("program");
        fs::copy(FIXTURE, &program).unwrap();
        // Root's own, after everything else was given away.
        std::os::unix::fs::chown(&program, Some(0), Some(0)).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
        let attempts = [
            "status=Uid",
            "status=Gid",
            "status=CapEff",
            "status=NoNewPrivs",
        ];
        let mut argv = vec![program.to_str().unwrap(), "try"];
        argv.extend(attempts);
        let outcomes = cage.outcomes_of(&cage.policy(&argv));
        let user = "1000\t1000\t1000\t1000";
        assert_eq!(
            outcomes,
            [user, user, "0000000000000000", "1"],
            "{:?}",
            cage.kind
        );
    });
}

/// T42: no capability, now or ever: five empty sets, and locks on the rules by
/// which a superuser gets them back. Where the launcher may not empty the
/// bounding set (an ordinary user without namespaces), the report says so.
#[test]
fn no_capability_is_left() {
    everywhere(|cage| {
        let attempts =
            ["CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd"].map(|set| format!("status={set}"));
        let mut all = attempts.to_vec();
        all.push("securebits".to_owned());
        let policy = cage.attempts(&all);
        let outcomes = cage.outcomes_of(&policy);
        assert_eq!(outcomes[..4], ["0000000000000000"; 4], "{:?}", cage.kind);
        let result = cage.launch(&policy);
        let status = &result["enforcement"]["layers"]["capabilities"];
        let locked = outcomes[4] == "0000000000000000" && outcomes[5] == "239";
        assert_eq!(
            status["status"],
            if locked {
                json!("full")
            } else {
                json!("partial")
            },
            "{:?} {:?}: {outcomes:?}",
            cage.kind,
            cage.setting.who
        );
    });
}

/// T42: no call gives another user, a capability, or a lock back.
#[test]
fn no_privilege_is_taken_back() {
    everywhere(|cage| {
        let prctl = |words: &str| format!("call={},{words}", libc::SYS_prctl);
        let attempts = [
            format!("call={},1", libc::SYS_setuid),
            format!("call={},1", libc::SYS_setgid),
            format!("call={},1,1,1", libc::SYS_setresuid),
            format!("call={},0,0", libc::SYS_setgroups),
            "regain".to_owned(),
            prctl("28,0"),      // secure bits
            prctl("47,2,21"),   // an ambient capability
            prctl("38,0"),      // no new privileges, taken away
            prctl("35,1,4096"), // another layout of the memory
        ];
        cage.assert_denied(&attempts);
        // Where it is whom it is already, it stays so.
        cage.assert_works(&["become-itself".to_owned()]);
    });
}

/// T43: a filter that listens, inside, either works or fails cleanly, and the
/// cage holds as before.
#[test]
fn a_listener_of_calls_inside_changes_nothing() {
    everywhere(|cage| {
        let attempts = [
            "listen-to-calls".to_owned(),
            on("write", &cage.setting.precious()),
            format!("call={},{}", libc::SYS_unshare, libc::CLONE_NEWUSER),
        ];
        let outcomes = cage.outcomes(&attempts);
        assert!(
            ["ok", "1", "16", "22", "38"].contains(&outcomes[0].as_str()),
            "{outcomes:?}"
        );
        assert!(outcomes[1] != "ok" && outcomes[2] != "ok", "{outcomes:?}");
        assert!(cage.setting.unharmed());
    });
}

/// T44: more rules can be put on top until the kernel has enough, and what was
/// denied before is denied then.
#[test]
fn rules_can_be_stacked_inside() {
    everywhere(|cage| {
        let stack = [
            "stack-rules".to_owned(),
            on("write", &cage.setting.precious()),
        ];
        let outcomes = cage.outcomes(&stack);
        assert!(outcomes[0] == "ok" && outcomes[1] != "ok", "{outcomes:?}");
        assert!(cage.setting.unharmed());
    });
}

/// T44: a cage inside a cage is refused with words, where it cannot be had.
#[test]
fn a_cage_inside_a_cage_is_refused_with_words() {
    everywhere(|cage| {
        let inner = cage.setting.policy(&["true"]);
        let file = cage.setting.work().join("inner.json");
        fs::write(&file, serde_json::to_vec(&inner).unwrap()).unwrap();
        cage.setting.own();
        let script = format!("exec {FIXTURE} launch < inner.json");
        let result = cage.launch(&cage.policy(&["sh", "-c", &script]));
        let inner = result["stdout"]
            .as_str()
            .unwrap_or_else(|| panic!("{result}"));
        let inner: serde_json::Value = serde_json::from_str(inner).unwrap();
        assert_eq!(inner["error"], "unavailable", "{inner}");
        assert!(inner["text"].as_str().unwrap().contains("layer"), "{inner}");
    });
}

/// T49: secrets of the system that only the superuser may read are not read
/// where no rule shows them.
#[test]
fn no_secret_of_the_system_is_read() {
    everywhere(|cage| {
        let attempts = [
            "/root/.ssh",
            "/root",
            "/home",
            "/var/log",
            "/var/spool/cron",
        ]
        .iter()
        .filter(|path| Path::new(path).exists())
        .flat_map(|path| [format!("list={path}"), format!("mkdir={path}/cage-made")])
        .collect::<Vec<_>>();
        cage.assert_denied(&attempts);
    });
}
