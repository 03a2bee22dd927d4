//! Owns the tests of what a confined command is: no privilege, no dangerous call, no process but its own, nothing inherited.

use std::collections::BTreeMap;
use std::path::Path;

use cofferdam_sandbox::Rights;
use serde_json::{Value, json};

use crate::setting::{FIXTURE, as_everyone, assert_all_denied, assert_all_work, rule};

#[test]
fn reaches_no_process_outside() {
    as_everyone(|setting| {
        let pid = std::process::id();
        let attempts = [
            format!("kill={pid}"),
            format!("call={},{pid},0", libc::SYS_pidfd_open),
            format!("call={},16,{pid}", libc::SYS_ptrace),
            format!("call={},{pid}", libc::SYS_getpgid),
            format!("call={},0,{pid}", libc::SYS_getpriority),
            format!("read=/proc/{pid}/environ"),
            format!("list=/proc/{pid}/root"),
            // Its own init: a process outside its rules.
            "kill=1".to_owned(),
            "read=/proc/1/environ".to_owned(),
            "list=/proc/1/root".to_owned(),
            "open-write=/proc/1/mem".to_owned(),
        ];
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
    });
}

#[test]
fn has_no_privilege() {
    as_everyone(|setting| {
        let result = setting.launch("launch", &setting.policy(&["cat", "/proc/self/status"]));
        let status: BTreeMap<_, _> = result["stdout"]
            .as_str()
            .unwrap()
            .lines()
            .filter_map(|line| line.split_once(":\t"))
            .collect();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status[set], "0000000000000000", "{set}");
        }
        assert_eq!((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"));
    });
}

#[test]
fn writes_no_switch_of_the_kernel() {
    as_everyone(|setting| {
        let attempts = [
            "open-write=/proc/sys/kernel/core_pattern",
            "open-write=/proc/sys/fs/protected_hardlinks",
            "open-write=/proc/sys/vm/drop_caches",
            "open-write=/proc/self/uid_map",
            "open-write=/sys/kernel/mm/ksm/run",
        ]
        .map(str::to_owned);
        // A rule for all of it, so that what denies is the mount.
        let mut policy = setting.attempts(&attempts[..3]);
        policy
            .files
            .push(rule(Path::new("/proc/sys"), Rights::ReadWrite));
        assert_all_denied(&attempts[..3], &setting.outcomes(&policy));
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
    });
}

#[test]
fn denies_dangerous_calls() {
    as_everyone(|setting| {
        let namespaces = [
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWNS,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWNET,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWUTS,
            libc::CLONE_NEWCGROUP,
        ];
        let mut attempts: Vec<_> = namespaces
            .iter()
            .map(|flag| format!("call={},{flag}", libc::SYS_clone))
            .collect();
        attempts.extend(
            namespaces
                .iter()
                .map(|flag| format!("call={},{flag}", libc::SYS_unshare)),
        );
        for number in [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_mount_setattr,
            libc::SYS_setns,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_kcmp,
            libc::SYS_pidfd_getfd,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_swapon,
            libc::SYS_reboot,
            libc::SYS_settimeofday,
            libc::SYS_sethostname,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_fanotify_init,
            libc::SYS_syslog,
            libc::SYS_open_by_handle_at,
        ] {
            attempts.push(format!("call={number}"));
        }
        attempts.push(format!("call={},{}", libc::SYS_personality, 0x004_0000));
        // With upper bits that a careless comparison overlooks.
        let input = i64::try_from(libc::TIOCSTI).unwrap();
        attempts.push(format!("call={},0,{input}", libc::SYS_ioctl));
        attempts.push(format!("call={},0,{}", libc::SYS_ioctl, input | 1 << 40));
        let outcomes = setting.outcomes(&setting.attempts(&attempts));
        let wrong: Vec<_> = attempts
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| *outcome != "1")
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

#[test]
fn hides_calls_that_no_filter_can_see() {
    as_everyone(|setting| {
        let mut attempts = vec![format!("call={}", libc::SYS_clone3)];
        if cfg!(target_arch = "x86_64") {
            attempts.push(format!("call={}", 0x4000_0000 | 39)); // getpid of the x32 table
        }
        let outcomes = setting.outcomes(&setting.attempts(&attempts));
        assert_eq!(outcomes, vec![libc::ENOSYS.to_string(); attempts.len()]);
        let fine = [format!(
            "call={},{}",
            libc::SYS_personality,
            0xFFFF_FFFF_i64
        )];
        assert_all_work(&fine, &setting.outcomes(&setting.attempts(&fine)));
    });
}

#[test]
fn inherits_no_descriptor() {
    // The launcher leaks one on purpose.
    as_everyone(|setting| {
        let attempts = ["descriptors".to_owned()];
        assert_all_work(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
    });
}

#[test]
fn has_exactly_the_environment_given() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&[FIXTURE, "environ"]);
        policy.command.env = vec![("ONE".into(), "1".into()), ("TWO".into(), "a=b c\n".into())];
        let result = setting.launch("launch", &policy);
        let environ: Value = serde_json::from_str(result["stdout"].as_str().unwrap()).unwrap();
        assert_eq!(environ, json!({ "ONE": "1", "TWO": "a=b c\n" }));
    });
}
