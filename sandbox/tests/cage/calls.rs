//! Owns the tests of which system calls a confined command has, made for real.
//!
//! Arguments are such that a call does no harm where it is not denied.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cofferdam_sandbox::{Layer, Network};

use crate::setting::{as_everyone, assert_all_work};

/// Refused whatever their arguments.
const REFUSED: &[i64] = &[
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    467, // open_tree_attr
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_open_by_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    470, // listns
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Not there: what no filter could judge, and what nobody has judged.
const MISSING: &[i64] = &[libc::SYS_clone3, 472, 473, 500, 1000];

#[test]
fn every_denied_call_is_denied() {
    as_everyone(|setting| {
        let refused = REFUSED.iter().chain(REFUSED_HERE);
        let attempts: Vec<_> = refused.map(|number| format!("call={number}")).collect();
        let outcomes = setting.outcomes(&setting.attempts(&attempts));
        let wrong: Vec<_> = attempts
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| *outcome != "1")
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let attempts: Vec<_> = MISSING
            .iter()
            .map(|number| format!("call={number}"))
            .collect();
        let outcomes = setting.outcomes(&setting.attempts(&attempts));
        assert_eq!(outcomes, vec!["38"; attempts.len()]);
    });
}

#[test]
fn makes_no_file_that_runs_as_somebody_else() {
    as_everyone(|setting| {
        let work = setting.work();
        let at = |name: &str| work.join(name).to_str().unwrap().to_owned();
        fs::write(work.join("file"), "").unwrap();
        fs::create_dir(work.join("directory")).unwrap();
        setting.own();
        let refused = [
            format!("chmod-to=4755,{}", at("file")),
            format!("chmod-to=6755,{}", at("file")),
            format!("create-with=4755,{}", at("new")),
            format!("create-with=2755,{}", at("new")),
        ];
        assert_eq!(
            setting.outcomes(&setting.attempts(&refused)),
            vec!["1"; refused.len()]
        );
        let fine = [
            // Ordinary on a directory, and the filter does not see which it is.
            format!("chmod-to=2775,{}", at("directory")),
            format!("chmod-to=755,{}", at("file")),
            format!("create-with=755,{}", at("new")),
        ];
        assert_all_work(&fine, &setting.outcomes(&setting.attempts(&fine)));
        for entry in fs::read_dir(&work).unwrap() {
            let data = entry.unwrap().metadata().unwrap();
            let bits = if data.is_dir() { 0o4000 } else { 0o6000 };
            assert_eq!(data.permissions().mode() & bits, 0);
        }
        let device = format!("call={},-1,0,{},{}", libc::SYS_mknodat, 0o20_666, 0x103);
        assert_eq!(setting.outcomes(&setting.attempts(&[device])), ["1"]);
    });
}

#[test]
fn changes_nothing_by_netlink() {
    as_everyone(|setting| {
        let attempts = ["netlink-write".to_owned()];
        let mut policy = setting.attempts(&attempts);
        assert_eq!(setting.outcomes(&policy), ["1"]);
        // The host's own interfaces: what denies is the lack of a capability.
        policy.network = Network::Open;
        policy.required.remove(&Layer::Network);
        assert_eq!(setting.outcomes(&policy), ["1"]);
    });
}

#[test]
fn refuses_raw_sockets_of_any_family() {
    as_everyone(|setting| {
        let attempts: Vec<_> = [
            (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
            (libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
            (libc::AF_UNIX, libc::SOCK_RAW, 0),
            (libc::AF_INET, 10, 0x0300),
            (libc::AF_PACKET, 10, 0x0300),
        ]
        .iter()
        .map(|(family, kind, protocol)| format!("socket={family},{kind},{protocol}"))
        .collect();
        let mut policy = setting.attempts(&attempts);
        policy.network = Network::Open;
        policy.required.remove(&Layer::Network);
        assert_eq!(setting.outcomes(&policy), vec!["1"; attempts.len()]);
    });
}
