//! Owns the tests of the table and of the program that is made of it.
//!
//! The program is run here as the kernel runs it, for every number; that the
//! kernel agrees is for `tests/cage/calls.rs`.

use std::collections::BTreeSet;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;

use libc::sock_filter;

use super::attempt::{Attempt, Place};
use super::filter::program;
use super::table::{NEWEST, TABLE};
use super::verdict::Verdict;
use super::{Internet, Neighbours, Reach, Recording, Renames};
use crate::policy::Layer;
use crate::sys::seccomp::{Refused, install};

#[cfg(target_arch = "x86_64")]
const HERE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const HERE: u32 = 0xC000_00B7;
/// The call table of 32-bit programs on x86.
const FOREIGN: u32 = 0x4000_0003;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | 1;
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | 38;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;

const WITH_NAMESPACES: Reach = Reach {
    internet: Internet::Allowed,
    neighbours: Neighbours::Apart,
    renames: Renames::Kernel,
};
const WITHOUT: Reach = Reach {
    internet: Internet::Denied,
    neighbours: Neighbours::Near,
    renames: Renames::Keeper,
};

/// Runs a program on a call as the kernel would; its answer, and the steps it took.
fn run(program: &[sock_filter], table: u32, number: u32, arguments: [u64; 6]) -> (u32, usize) {
    let mut words = vec![number, table, 0, 0];
    for argument in arguments {
        let (lower, upper) = (argument & 0xFFFF_FFFF, argument >> 32);
        words.extend([lower, upper].map(|half| u32::try_from(half).expect("because it is half")));
    }
    let (mut at, mut loaded) = (0, 0);
    for steps in 1.. {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            0x20 => loaded = words[k as usize / 4],
            0x54 => loaded &= k,
            0x05 => at += k as usize,
            0x15 => at += jump(loaded == k),
            0x35 => at += jump(loaded >= k),
            0x45 => at += jump(loaded & k != 0),
            0x06 => return (k, steps),
            other => panic!("no such instruction: {other:#x}"),
        }
    }
    unreachable!("because a program has an end")
}

fn answer(number: i64, arguments: &[u64]) -> u32 {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let number = u32::try_from(number).expect("because numbers are not negative");
    let program = program(WITH_NAMESPACES, Recording::Listener);
    run(&program, HERE, number, all).0
}

#[test]
fn judges_every_number_once() {
    // Twice and not at all do not compile; this is about the names.
    let mut names = BTreeSet::new();
    for (number, call) in TABLE.iter().enumerate() {
        if call.name().is_empty() {
            assert_eq!(call.verdict, Verdict::Missing, "{number}");
        } else {
            assert!(names.insert(call.name()), "{} has two numbers", call.name());
        }
    }
    let (calls, numbers) = if cfg!(target_arch = "x86_64") {
        (385, 472)
    } else {
        (327, 472)
    };
    assert_eq!((names.len(), TABLE.len()), (calls, numbers));
}

#[test]
fn asks_about_renames_only_where_somebody_answers() {
    let number = u32::try_from(libc::SYS_renameat2).expect("because numbers are small");
    let answer = |reach, recording| run(&program(reach, recording), HERE, number, [0; 6]).0;
    assert_eq!(answer(WITHOUT, Recording::Listener), NOTIFY);
    assert_eq!(answer(WITHOUT, Recording::Nobody), ALLOW);
    assert_eq!(answer(WITH_NAMESPACES, Recording::Listener), ALLOW);
}

#[test]
fn answers_every_number_as_the_table_says() {
    for recording in [Recording::Listener, Recording::Nobody] {
        let program = program(WITH_NAMESPACES, recording);
        let refused = match recording {
            Recording::Listener => NOTIFY,
            Recording::Nobody => EPERM,
        };
        for (number, call) in (0..).zip(&TABLE) {
            let expected = match call.verdict {
                Verdict::Allow | Verdict::Asked => ALLOW,
                Verdict::Refuse => refused,
                Verdict::Quiet => EPERM,
                Verdict::Missing => ENOSYS,
                Verdict::OfOthers(_) => ALLOW,
                Verdict::RefuseIf(_) | Verdict::QuietIf(_) | Verdict::Socket(..) => continue,
            };
            let (answer, _) = run(&program, HERE, number, [u64::MAX; 6]);
            assert_eq!(answer, expected, "{}", call.name());
        }
        let newest = u32::try_from(NEWEST).expect("because numbers are small");
        for number in [newest + 1, 9999, 0x4000_0000 | 39, u32::MAX] {
            assert_eq!(run(&program, HERE, number, [0; 6]).0, ENOSYS, "{number}");
        }
        let (answer, _) = run(&program, FOREIGN, 39, [0; 6]);
        assert_eq!(answer, libc::SECCOMP_RET_KILL_PROCESS);
    }
}

#[test]
fn decides_by_arguments_in_the_width_that_the_kernel_reads() {
    const HIGH: u64 = 0xABCD << 32;
    let new_user = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
    let create = u64::from(libc::O_CREAT.cast_unsigned());
    let temporary = u64::from(libc::O_TMPFILE.cast_unsigned());
    for (number, arguments, expected) in [
        (libc::SYS_clone, vec![17], ALLOW),
        (libc::SYS_clone, vec![17 | new_user], NOTIFY),
        (libc::SYS_clone, vec![HIGH | new_user], NOTIFY),
        (libc::SYS_ioctl, vec![0, 0x5413], ALLOW),
        (libc::SYS_ioctl, vec![0, 0x5412], NOTIFY),
        (libc::SYS_ioctl, vec![0, HIGH | 0x541C], NOTIFY),
        (libc::SYS_personality, vec![0], ALLOW),
        (libc::SYS_personality, vec![0xFFFF_FFFF], ALLOW),
        (libc::SYS_personality, vec![0x4_0000], EPERM),
        (libc::SYS_fchmod, vec![3, 0o755], ALLOW),
        (libc::SYS_fchmod, vec![3, 0o2755], ALLOW),
        (libc::SYS_fchmod, vec![3, 0o4755], NOTIFY),
        (
            libc::SYS_fchmod,
            vec![3, HIGH | 0xFFFF_0000 | 0o4000],
            NOTIFY,
        ),
        (libc::SYS_fchmodat, vec![0, 0, 0o6755], NOTIFY),
        (libc::SYS_openat, vec![0, 0, 0, 0o6777], ALLOW),
        (libc::SYS_openat, vec![0, 0, create, 0o644], ALLOW),
        (libc::SYS_openat, vec![0, 0, create, 0o4755], NOTIFY),
        (libc::SYS_openat, vec![0, 0, HIGH | create, 0o2755], NOTIFY),
        (libc::SYS_openat, vec![0, 0, temporary, 0o4755], NOTIFY),
        (libc::SYS_mknodat, vec![0, 0, 0o10_644], ALLOW),
        (libc::SYS_mknodat, vec![0, 0, 0o20_644], NOTIFY),
        (libc::SYS_mknodat, vec![0, 0, 0o60_644], NOTIFY),
        (libc::SYS_mknodat, vec![0, 0, 0o104_755], NOTIFY),
    ] {
        assert_eq!(
            answer(number, &arguments),
            expected,
            "{number} {arguments:x?}"
        );
    }
}

#[test]
fn decides_by_family_kind_and_protocol_of_a_socket() {
    for (family, kind, protocol, expected) in [
        (libc::AF_UNIX, libc::SOCK_STREAM, 0, ALLOW),
        (
            libc::AF_UNIX,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
            ALLOW,
        ),
        (
            libc::AF_INET,
            libc::SOCK_STREAM | libc::SOCK_NONBLOCK,
            0,
            ALLOW,
        ),
        (
            libc::AF_INET6,
            libc::SOCK_DGRAM,
            libc::IPPROTO_ICMPV6,
            ALLOW,
        ),
        (
            libc::AF_INET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::IPPROTO_ICMP,
            NOTIFY,
        ),
        (libc::AF_INET6, libc::SOCK_RAW, 0, NOTIFY),
        (libc::AF_INET, 10, 0, NOTIFY),
        (libc::AF_UNIX, libc::SOCK_RAW, 0, NOTIFY),
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE, ALLOW),
        (
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_AUDIT,
            NOTIFY,
        ),
        (libc::AF_VSOCK, libc::SOCK_STREAM, 0, NOTIFY),
        (libc::AF_PACKET, libc::SOCK_RAW, 0, NOTIFY),
        (libc::AF_ALG, libc::SOCK_SEQPACKET, 0, NOTIFY),
    ] {
        let arguments = [family, kind, protocol].map(|number| u64::from(number.cast_unsigned()));
        assert_eq!(
            answer(libc::SYS_socket, &arguments),
            expected,
            "{arguments:?}"
        );
    }
}

#[test]
fn leaves_others_alone_where_they_are_seen() {
    let program = program(WITHOUT, Recording::Nobody);
    let process = u64::from(libc::PRIO_PROCESS);
    let group = u64::from(libc::PRIO_PGRP);
    for (number, arguments, expected) in [
        (libc::SYS_setpriority, [process, 0], ALLOW),
        (libc::SYS_setpriority, [process, 7], EPERM),
        (libc::SYS_setpriority, [group, 0], EPERM),
        (libc::SYS_ioprio_set, [1, 0], ALLOW),
        (libc::SYS_ioprio_set, [1, 7], EPERM),
        (libc::SYS_ioprio_set, [3, 0], EPERM),
        (libc::SYS_sched_setaffinity, [0, 8], ALLOW),
        (libc::SYS_sched_setaffinity, [7, 8], EPERM),
        (libc::SYS_prlimit64, [0, 7], ALLOW),
        (libc::SYS_prlimit64, [7, 7], EPERM),
        (libc::SYS_shmget, [0, 1], EPERM),
        (libc::SYS_mq_open, [0, 0], EPERM),
    ] {
        let number = u32::try_from(number).expect("because numbers are small");
        let [first, second] = arguments;
        let (answer, _) = run(&program, HERE, number, [first, second, 0, 0, 0, 0]);
        assert_eq!(answer, expected, "{number} {arguments:?}");
    }
}

#[test]
fn is_short_and_finds_every_number_soon() {
    for reach in [WITH_NAMESPACES, WITHOUT] {
        let program = program(reach, Recording::Listener);
        assert!(program.len() < 512, "{}", program.len());
        let steps = (0..=u32::try_from(NEWEST).expect("because numbers are small"))
            .map(|number| run(&program, HERE, number, [0; 6]).1)
            .max();
        assert!(steps.is_some_and(|steps| steps < 32), "{steps:?}");
    }
}

#[test]
fn says_what_was_asked() {
    let of = |number: i64, arguments: [u64; 6]| {
        let number = i32::try_from(number).expect("because numbers are small");
        Attempt::of(&Refused::made_up(number, arguments))
    };
    let vsock = of(libc::SYS_socket, [40, 1, 0, 0, 0, 0]);
    assert_eq!(
        (vsock.layer, vsock.operation, vsock.detail.as_deref()),
        (Layer::Seccomp, "socket", Some("AF_VSOCK"))
    );
    let tcp = of(libc::SYS_socket, [2, 1 | 0o2_000_000, 6, 0, 0, 0]);
    assert_eq!(
        (tcp.layer, tcp.detail.as_deref()),
        (Layer::Network, Some("AF_INET"))
    );
    let unshare = of(libc::SYS_unshare, [0x1002_0000, 0, 0, 0, 0, 0]);
    assert_eq!(unshare.detail.as_deref(), Some("CLONE_NEWNS|CLONE_NEWUSER"));
    let mode = of(libc::SYS_fchmodat, [0, 99, 0o104_755, 0, 0, 0]);
    assert_eq!(
        (mode.detail.as_deref(), mode.path),
        (Some("mode 104755"), Place::Memory(99))
    );
    let mount = of(libc::SYS_mount, [0; 6]);
    assert_eq!((mount.operation, mount.path), ("mount", Place::Nowhere));
}

#[test]
fn denies_internet_sockets_where_no_namespace_takes_them_away() {
    // A filter binds the thread that applies it.
    let outcome = std::thread::spawn(|| {
        rustix::thread::set_no_new_privs(true).expect("because it is always granted");
        install(&program(WITHOUT, Recording::Nobody)).map(|()| {
            let errno = |result: Result<(), std::io::Error>| {
                result.err().and_then(|error| error.raw_os_error())
            };
            [
                errno(TcpListener::bind("127.0.0.1:0").map(drop)),
                errno(TcpListener::bind("[::1]:0").map(drop)),
                errno(UdpSocket::bind("127.0.0.1:0").map(drop)),
                errno(UnixStream::pair().map(drop)),
            ]
        })
    });
    let outcome = outcome
        .join()
        .expect("because it does not panic")
        .expect("because filters work");
    assert_eq!(
        outcome,
        [
            Some(libc::EPERM),
            Some(libc::EPERM),
            Some(libc::EPERM),
            None
        ]
    );
}
