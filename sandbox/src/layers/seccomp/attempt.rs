//! Owns a refused call in words: what it is called, and what was asked.
//!
//! Made from the number and the arguments that the kernel hands over, and from
//! nothing else. What an argument points to is for the caller to look up.

use super::table::TABLE;
use super::verdict::{KIND, PACKET, RAW, TIOCLINUX, TIOCSTI};
use crate::policy::Layer;
use crate::sys::seccomp::Refused;

/// A refused call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The layer that it would have got past.
    pub(crate) layer: Layer,
    /// The call's name.
    pub(crate) operation: &'static str,
    /// What was asked of it, as far as its arguments say.
    pub(crate) detail: Option<String>,
    /// Where the path is that it names.
    pub(crate) path: Place,
}

/// Where a path is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// There is none.
    Nowhere,
    /// At this address of the calling process.
    Memory(u64),
    /// It is what this descriptor of the calling process is open on.
    Descriptor(i32),
}

impl Attempt {
    /// What the kernel says about a call that waits for its answer.
    pub(crate) fn of(call: &Refused) -> Self {
        let known = usize::try_from(call.number)
            .ok()
            .and_then(|number| TABLE.get(number));
        let operation = known.map_or("unknown", |call| call.name());
        let detail = detail(operation, call);
        Self {
            layer: layer(operation, call),
            operation,
            detail,
            path: place(operation, call),
        }
    }
}

/// Sockets that a network namespace would have made harmless stand for it.
fn layer(operation: &str, call: &Refused) -> Layer {
    let family = call.word(0).cast_signed();
    let kind = call.word(1) & KIND;
    let internet = matches!(family, libc::AF_INET | libc::AF_INET6);
    if operation == "socket" && internet && kind != RAW && kind != PACKET {
        Layer::Network
    } else {
        Layer::Seccomp
    }
}

fn detail(operation: &str, call: &Refused) -> Option<String> {
    match operation {
        "socket" | "socketpair" => Some(socket(call)),
        "clone" | "unshare" => named(call.word(0), &NAMESPACES),
        "setns" => named(call.word(1), &NAMESPACES),
        "ioctl" => match call.word(1) {
            TIOCSTI => Some("TIOCSTI".into()),
            TIOCLINUX => Some("TIOCLINUX".into()),
            other => Some(format!("{other:#x}")),
        },
        "chmod" | "fchmod" | "creat" | "mknod" => Some(mode(call.word(1))),
        "fchmodat" | "fchmodat2" | "open" | "mknodat" => Some(mode(call.word(2))),
        "openat" => Some(mode(call.word(3))),
        "ptrace" => Some(match call.word(0) {
            libc::PTRACE_TRACEME => "PTRACE_TRACEME".into(),
            libc::PTRACE_ATTACH => "PTRACE_ATTACH".into(),
            libc::PTRACE_SEIZE => "PTRACE_SEIZE".into(),
            other => format!("{other:#x}"),
        }),
        "process_vm_readv" | "process_vm_writev" => Some(format!("process {}", call.word(0))),
        _ => None,
    }
}

fn mode(mode: u32) -> String {
    format!("mode {:o}", mode & 0o177_777)
}

const NAMESPACES: [(u32, &str); 8] = [
    (libc::CLONE_NEWNS.cast_unsigned(), "CLONE_NEWNS"),
    (libc::CLONE_NEWCGROUP.cast_unsigned(), "CLONE_NEWCGROUP"),
    (libc::CLONE_NEWUTS.cast_unsigned(), "CLONE_NEWUTS"),
    (libc::CLONE_NEWIPC.cast_unsigned(), "CLONE_NEWIPC"),
    (libc::CLONE_NEWUSER.cast_unsigned(), "CLONE_NEWUSER"),
    (libc::CLONE_NEWPID.cast_unsigned(), "CLONE_NEWPID"),
    (libc::CLONE_NEWNET.cast_unsigned(), "CLONE_NEWNET"),
    (libc::CLONE_NEWTIME.cast_unsigned(), "CLONE_NEWTIME"),
];

/// The names of the bits that are set; none if no bit has a name.
fn named(bits: u32, names: &[(u32, &str)]) -> Option<String> {
    let set: Vec<&str> = names
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    (!set.is_empty()).then(|| set.join("|"))
}

fn socket(call: &Refused) -> String {
    let family = match call.word(0).cast_signed() {
        libc::AF_UNIX => "AF_UNIX".into(),
        libc::AF_INET => "AF_INET".into(),
        libc::AF_INET6 => "AF_INET6".into(),
        libc::AF_NETLINK => return format!("AF_NETLINK protocol {}", call.word(2)),
        libc::AF_PACKET => "AF_PACKET".into(),
        libc::AF_VSOCK => "AF_VSOCK".into(),
        libc::AF_ALG => "AF_ALG".into(),
        libc::AF_KEY => "AF_KEY".into(),
        libc::AF_BLUETOOTH => "AF_BLUETOOTH".into(),
        libc::AF_CAN => "AF_CAN".into(),
        libc::AF_TIPC => "AF_TIPC".into(),
        other => format!("family {other}"),
    };
    match call.word(1) & KIND {
        RAW => format!("{family} SOCK_RAW"),
        PACKET => format!("{family} SOCK_PACKET"),
        _ => family,
    }
}

/// Which argument names a path; a call that names two is told by where it leads.
fn place(operation: &str, call: &Refused) -> Place {
    let argument = match operation {
        "chmod" | "creat" | "open" | "mknod" | "umount2" | "pivot_root" | "chroot" | "swapon"
        | "swapoff" | "acct" => 0,
        "mount" | "openat" | "mknodat" | "fchmodat" | "fchmodat2" | "open_tree"
        | "open_tree_attr" | "mount_setattr" | "fspick" | "quotactl" => 1,
        "move_mount" => 3,
        "fchmod" => return Place::Descriptor(call.word(0).cast_signed()),
        _ => return Place::Nowhere,
    };
    match call.arguments[argument] {
        0 => Place::Nowhere,
        address => Place::Memory(address),
    }
}
