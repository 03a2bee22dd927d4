//! Owns what can be said about a system call, and about its arguments.
//!
//! Plain data: `table` says which call gets which verdict, `filter` makes a
//! program of them. Arguments are compared in the lower 32 bits, because the
//! kernel takes no more of any that is compared here: flags, requests, families
//! and modes are `int` or narrower, and what stands above is cut off.

use libc::c_int;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the kernel's business.
    Allow,
    /// The same, but the keeper is asked first where it renames directories
    /// for the command.
    Asked,
    /// `EPERM`, and a fact for the record: no ordinary program makes it.
    Refuse,
    /// `EPERM` without a record: ordinary programs try it and go on without.
    Quiet,
    /// `ENOSYS`, as from a kernel that does not have it: no refusal, and no record.
    Missing,
    /// Refused if any of these holds, else allowed.
    RefuseIf(&'static [Case]),
    /// The same, and only where no namespace hides what belongs to others.
    OfOthers(&'static [Case]),
    /// As the one before the last, without a record.
    QuietIf(&'static [Case]),
    /// As the first of these, or the second where the filter has to stand in
    /// for a network namespace.
    Socket(&'static [Case], &'static [Case]),
}

/// Holds if every test of it holds.
pub(super) type Case = &'static [Test];

/// A test of one argument, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    /// It has one of these bits.
    Any(u8, u32),
    /// It is this.
    Is(u8, u32),
    /// It is not this.
    Not(u8, u32),
    /// Its bits beneath a mask are these.
    Part(u8, u32, u32),
}

use Test::{Any, Is, Not, Part};
use Verdict::{QuietIf, RefuseIf};

const fn word(number: c_int) -> u32 {
    number.cast_unsigned()
}

pub(super) const ALLOW: Verdict = Verdict::Allow;
pub(super) const ASKED: Verdict = Verdict::Asked;
pub(super) const REFUSE: Verdict = Verdict::Refuse;
pub(super) const QUIET: Verdict = Verdict::Quiet;
pub(super) const MISSING: Verdict = Verdict::Missing;

/// Every flag by which `clone` makes a namespace. `CLONE_NEWTIME` shares its
/// bit with the exit signal and is valid in `clone3` and `unshare` only.
const NEW_NAMESPACE: u32 = word(
    libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET,
);
pub(super) const CLONE: Verdict = RefuseIf(&[&[Any(0, NEW_NAMESPACE)]]);

/// The requests by which a terminal's other readers are sent input: `TIOCSTI`
/// and `TIOCLINUX`, whose types differ between C libraries.
pub(super) const TIOCSTI: u32 = 0x5412;
pub(super) const TIOCLINUX: u32 = 0x541C;
pub(super) const IOCTL: Verdict = RefuseIf(&[&[Is(1, TIOCSTI)], &[Is(1, TIOCLINUX)]]);

/// The query is harmless, and so is asking for what there is. Debuggers and
/// sanitizers ask for a fixed layout of memory and go on without it.
pub(super) const PERSONALITY: Verdict = QuietIf(&[&[Not(0, 0), Not(0, u32::MAX)]]);

const UNIX: u32 = word(libc::AF_UNIX);
const NETLINK: u32 = word(libc::AF_NETLINK);
const INET: u32 = word(libc::AF_INET);
const INET6: u32 = word(libc::AF_INET6);
/// What of a socket's type is not flags.
pub(super) const KIND: u32 = 0xF;
pub(super) const RAW: u32 = word(libc::SOCK_RAW);
pub(super) const PACKET: u32 = 10;

/// Netlink other than the routing tables reaches audit, devices and firewalls.
const OTHER_NETLINK: Case = &[Is(0, NETLINK), Not(2, word(libc::NETLINK_ROUTE))];
/// A raw netlink socket is the usual one, and as harmless as any other.
const RAW_SOCKET: Case = &[Not(0, NETLINK), Part(1, KIND, RAW)];
const PACKET_SOCKET: Case = &[Part(1, KIND, PACKET)];

/// What belongs to a process whose number comes first; zero is the caller.
pub(super) const OTHER: Verdict = Verdict::OfOthers(&[&[Not(0, 0)]]);
/// Whatever its arguments: memory, semaphores and queues under a key or a name
/// that any process of this user may have made, and which nobody can tell apart.
pub(super) const KEYED: Verdict = Verdict::OfOthers(&[&[]]);
/// The same wherever it runs.
pub(super) const ONLY_OWN: Verdict = RefuseIf(&[&[Not(0, 0)]]);
/// `F_SETLEASE`, which programs other than file servers have no use for.
const SET_LEASE: u32 = 1024;
pub(super) const FCNTL: Verdict = RefuseIf(&[&[Is(1, SET_LEASE)]]);
/// The first argument says what the second is a number of: a process, a group,
/// a user. Numbered from 0 for priorities, and from 1 for those of devices.
pub(super) const OTHER_PRIORITY: Verdict = Verdict::OfOthers(&[&[Not(0, 0)], &[Not(1, 0)]]);
pub(super) const OTHER_IO: Verdict = Verdict::OfOthers(&[&[Not(0, 1)], &[Not(1, 0)]]);

/// Families, kinds and protocols of sockets. Without the internet's families
/// there is no MPTCP, SCTP or fast open either: they are protocols of those.
pub(super) const SOCKET: Verdict = Verdict::Socket(
    &[
        &[Not(0, UNIX), Not(0, INET), Not(0, INET6), Not(0, NETLINK)],
        OTHER_NETLINK,
        RAW_SOCKET,
        PACKET_SOCKET,
    ],
    &[
        &[Not(0, UNIX), Not(0, NETLINK)],
        OTHER_NETLINK,
        RAW_SOCKET,
        PACKET_SOCKET,
    ],
);

/// Pairs are for talking to oneself; other families than UNIX reach into
/// rarely used parts of the kernel.
pub(super) const PAIR: Verdict = RefuseIf(&[&[Not(0, UNIX)]]);

/// Set-user-id, and the same with set-group-id.
const SET_USER: u32 = libc::S_ISUID;
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
/// Flags with which `open` looks at its mode.
const CREATES: u32 = word(libc::O_CREAT) | 0o20_000_000;

/// Set-user-id by a change of mode. Set-group-id stays possible, because on
/// a directory it is ordinary (`git init --shared`, `cp -a`, trees below a
/// directory of a group) and the filter cannot see what a path leads to.
pub(super) const MODE_1: Verdict = RefuseIf(&[&[Any(1, SET_USER)]]);
pub(super) const MODE_2: Verdict = RefuseIf(&[&[Any(2, SET_USER)]]);

/// A new regular file with either bit. `openat2` has its mode in memory, where
/// no filter sees it.
#[cfg(target_arch = "x86_64")]
pub(super) const CREAT: Verdict = RefuseIf(&[&[Any(1, SET_ID)]]);
#[cfg(target_arch = "x86_64")]
pub(super) const OPEN: Verdict = RefuseIf(&[&[Any(1, CREATES), Any(2, SET_ID)]]);
pub(super) const OPENAT: Verdict = RefuseIf(&[&[Any(2, CREATES), Any(3, SET_ID)]]);

const TYPE: u32 = libc::S_IFMT;
/// A device, or a regular file with either bit.
#[cfg(target_arch = "x86_64")]
pub(super) const MKNOD: Verdict = RefuseIf(&[
    &[Part(1, TYPE, libc::S_IFCHR)],
    &[Part(1, TYPE, libc::S_IFBLK)],
    &[Any(1, SET_ID)],
]);
pub(super) const MKNODAT: Verdict = RefuseIf(&[
    &[Part(2, TYPE, libc::S_IFCHR)],
    &[Part(2, TYPE, libc::S_IFBLK)],
    &[Any(2, SET_ID)],
]);
