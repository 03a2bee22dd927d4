//! Owns which system calls there are.
//!
//! A list of what is denied, not of what is allowed: programs of all kinds
//! must run. Denied calls fail with `EPERM`; `clone3`, whose flags no filter
//! can see, and foreign call tables fail with `ENOSYS`, so that libraries fall
//! back to what the filter can see. Must be the last layer.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::LayerError;
use super::namespaces::Spaces;
use crate::enforcement::Status;
use crate::guarantees::Feature;
use crate::policy::{Layer, Network, Policy};

/// Calls that are denied whatever their arguments.
const DENIED: &[c_long] = &[
    // Mounts.
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
    OPEN_TREE_ATTR,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Large parts of the kernel that agents have no use for.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The machine as a whole.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_syslog,
    libc::SYS_open_by_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
];

/// Newer than the table of the `libc` crate; the same number everywhere.
const OPEN_TREE_ATTR: c_long = 467;

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_uselib,
    libc::SYS__sysctl,
];
#[cfg(target_arch = "aarch64")]
const DENIED_HERE: &[c_long] = &[];

#[cfg(target_arch = "x86_64")]
const ARCH: (TargetArch, u32) = (TargetArch::x86_64, 0xC000_003E);
#[cfg(target_arch = "aarch64")]
const ARCH: (TargetArch, u32) = (TargetArch::aarch64, 0xC000_00B7);

/// The requests by which a terminal's other readers are sent input: `TIOCSTI`
/// and `TIOCLINUX`, whose types differ between C libraries.
const TYPE_FOR_OTHERS: [u64; 2] = [0x5412, 0x541C];

/// Every flag by which `clone` makes a namespace. `CLONE_NEWTIME` shares its
/// bit with the exit signal and is valid in `clone3` and `unshare` only.
const NEW_NAMESPACE: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Whether sockets of the internet families are left to a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Internet {
    Allowed,
    Denied,
}

/// Whether other processes' priorities are left to a PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priorities {
    /// Those of every process that is seen may change.
    Seen,
    /// Only those of the caller itself.
    Own,
}

/// What the filter has to see to because no namespace does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) internet: Internet,
    pub(crate) priorities: Priorities,
}

impl Reach {
    /// Denied is what the policy wants denied and no namespace takes away.
    pub(crate) fn of(policy: &Policy, spaces: &Spaces) -> Self {
        let internet = match policy.network {
            Network::None | Network::Gateway { .. }
                if !spaces.net() && !policy.waives(Layer::Network) =>
            {
                Internet::Denied
            }
            Network::None | Network::Gateway { .. } | Network::Open => Internet::Allowed,
        };
        let priorities = if spaces.pid() {
            Priorities::Seen
        } else {
            Priorities::Own
        };
        Self {
            internet,
            priorities,
        }
    }

    /// What a filter made for it holds.
    pub(crate) fn features(self) -> impl Iterator<Item = Feature> {
        [
            (true, Feature::CallFilter),
            (self.internet == Internet::Denied, Feature::InternetRefused),
            (self.priorities == Priorities::Own, Feature::PriorityFilter),
        ]
        .into_iter()
        .filter_map(|(holds, feature)| holds.then_some(feature))
    }
}

/// Filters the system calls of this thread and all it starts, for good.
pub(crate) fn apply(policy: &Policy, reach: Reach) -> Result<Status, LayerError> {
    if policy.waives(Layer::Seccomp) {
        return Ok(Status::Waived);
    }
    let program = program(reach).map_err(LayerError::step("compile the system call filter"))?;
    match apply_filter(&program) {
        Ok(()) => Ok(Status::Full),
        Err(source) => Ok(Status::Absent {
            reason: format!("the kernel refused the filter: {source}"),
        }),
    }
}

fn program(reach: Reach) -> Result<BpfProgram, seccompiler::BackendError> {
    let errno = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules(reach)?, SeccompAction::Allow, errno, ARCH.0)?;
    let mut program = prologue();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Answers what the compiler cannot express (a second error, ranges of
/// numbers), and the plain denials: by hand they take one instruction each and
/// not five, which the kernel has to check and translate at every start.
fn prologue() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP: u16 = 0x05;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let say = |code, k| sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    };
    let when = |code, k, jt| sock_filter { code, jt, jf: 0, k };
    let number = |call: c_long| u32::try_from(call).expect("because system call numbers are small");
    let denied: Vec<c_long> = DENIED.iter().chain(DENIED_HERE).copied().collect();
    let count = u8::try_from(denied.len()).expect("because the list is short enough for one jump");
    let mut program = vec![
        say(LOAD, 4), // the call table in use
        when(JUMP_IF_EQUAL, ARCH.1, 1),
        say(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        say(LOAD, 0), // the number of the call
        when(JUMP_IF_AT_LEAST, X32, count + 2),
        when(JUMP_IF_EQUAL, number(libc::SYS_clone3), count + 1),
    ];
    for (call, left) in denied.into_iter().zip((0..count).rev()) {
        program.push(when(JUMP_IF_EQUAL, number(call), left + 2));
    }
    program.extend([
        say(JUMP, 2),
        say(
            RETURN,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
        ),
        say(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
    ]);
    program
}

/// The calls that are denied with some arguments only.
fn rules(reach: Reach) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let clone =
        NEW_NAMESPACE.map(|flag| all(&[(0, SeccompCmpOp::MaskedEq(word(flag)), word(flag))]));
    rules.insert(
        libc::SYS_clone,
        clone.into_iter().collect::<Result<_, _>>()?,
    );
    rules.insert(libc::SYS_socket, sockets(reach.internet)?);
    // Pairs are for talking to oneself; other families than UNIX reach into
    // rarely used parts of the kernel.
    rules.insert(
        libc::SYS_socketpair,
        vec![all(&[(0, SeccompCmpOp::Ne, word(libc::AF_UNIX))])?],
    );
    // Requests are compared in 32 bits, as the kernel does: upper bits would
    // otherwise slip past.
    let terminal = TYPE_FOR_OTHERS.map(|request| all(&[(1, SeccompCmpOp::Eq, request)]));
    rules.insert(
        libc::SYS_ioctl,
        terminal.into_iter().collect::<Result<_, _>>()?,
    );
    let query = 0xFFFF_FFFF;
    rules.insert(
        libc::SYS_personality,
        vec![all(&[
            (0, SeccompCmpOp::Ne, 0),
            (0, SeccompCmpOp::Ne, query),
        ])?],
    );
    match reach.priorities {
        Priorities::Seen => {}
        Priorities::Own => priorities(&mut rules)?,
    }
    Ok(rules)
}

/// Denies to set what belongs to another process than the caller, which zero means.
fn priorities(
    rules: &mut BTreeMap<i64, Vec<SeccompRule>>,
) -> Result<(), seccompiler::BackendError> {
    let other = |argument| all(&[(argument, SeccompCmpOp::Ne, 0)]);
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
    ] {
        rules.insert(call, vec![other(0)?]);
    }
    // The first argument says what the second is a number of: a process, a
    // group, a user.
    rules.insert(libc::SYS_setpriority, vec![other(1)?, other(0)?]);
    let process = 1;
    rules.insert(
        libc::SYS_ioprio_set,
        vec![other(1)?, all(&[(0, SeccompCmpOp::Ne, process)])?],
    );
    // A limit of another process may be read, not set.
    let other_and_new = SeccompRule::new(vec![
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?,
        SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?,
    ])?;
    rules.insert(libc::SYS_prlimit64, vec![other_and_new]);
    Ok(())
}

fn sockets(internet: Internet) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let families: &[libc::c_int] = match internet {
        Internet::Allowed => &[
            libc::AF_UNIX,
            libc::AF_NETLINK,
            libc::AF_INET,
            libc::AF_INET6,
        ],
        Internet::Denied => &[libc::AF_UNIX, libc::AF_NETLINK],
    };
    let others: Vec<_> = families
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, word(*family)))
        .collect();
    let netlink = [
        (0, SeccompCmpOp::Eq, word(libc::AF_NETLINK)),
        (2, SeccompCmpOp::Ne, word(libc::NETLINK_ROUTE)),
    ];
    Ok(vec![all(&others)?, all(&netlink)?])
}

/// A rule that holds if all comparisons (argument, operator, value) hold in 32 bits.
fn all(comparisons: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = comparisons
        .iter()
        .map(|(argument, operator, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
        })
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}

fn word(number: libc::c_int) -> u64 {
    u64::from(number.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn denies_internet_sockets_where_no_namespace_takes_them_away() {
        // A filter binds the thread that applies it.
        let outcome = std::thread::spawn(|| {
            let reach = Reach {
                internet: Internet::Denied,
                priorities: Priorities::Own,
            };
            apply_filter(&program(reach).expect("because the rules are constant")).map(|()| {
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

    #[test]
    fn compiles_within_the_kernels_bound() {
        let reach = Reach {
            internet: Internet::Allowed,
            priorities: Priorities::Own,
        };
        let program = program(reach).expect("because the rules are constant");
        assert!(program.len() < 4096, "{}", program.len());
    }
}
