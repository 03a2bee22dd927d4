//! Owns the process that renames directories for the command.
//!
//! It is confined exactly as the command is, by rules of its own that are the
//! same: so whatever it is made to do by whoever swaps a path meanwhile, it
//! can do no more than the command itself. It is not of the command's Landlock
//! domain and is opaque, so that the command can neither trace nor, since
//! Landlock 6, signal it. It does one errand at a time, and ends with the
//! keeper, or when that closes the socket. Its end leaves the command with the
//! kernel's own `EXDEV`.

use std::ffi::{CStr, CString};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Signal, chdir, set_dumpable_behavior, set_parent_process_death_signal, setsid,
};

use super::moving::{self, Place};
use super::{Cage, Stop, failed, sweep};
use crate::layers::seccomp::{Reach, Renames};
use crate::layers::{capabilities, landlock, seccomp};
use crate::protocol::Failure;
use crate::sys::process::{Fork, Range, close_range, exit_now, fork, place};

/// The longest path that the kernel takes, its end counted.
pub(super) const LONGEST: usize = 4096;
/// An errand: how long the old path is, the flags, and both paths.
const HEAD: usize = 8;
/// What the mover says when it is confined and listens.
const READY: &[u8] = b"\0";
/// Says that the kernel should make the call for its caller, as it would have.
const LEAVE: i32 = -1;

/// One rename.
pub(super) struct Errand {
    pub(super) old: Vec<u8>,
    pub(super) new: Vec<u8>,
    pub(super) flags: u32,
}

/// What came of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Failed(i32),
    /// It is nothing that the mover could do better than the kernel.
    Left,
}

/// The ends that the keeper and the command's process have of a mover.
pub(super) struct Started {
    pub(super) socket: OwnedFd,
    /// Where it tells that it is ready, or why it is not.
    pub(super) told: OwnedFd,
}

/// Starts the mover of a cage.
///
/// # Errors
/// Says why there can be none.
pub(super) fn start(cage: &Cage<'_>) -> Result<Started, String> {
    sweep::require_own_procfs()
        .map_err(|error| format!("callers are not known where they are seen: {error}"))?;
    let (socket, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| format!("there is no socket: {errno}"))?;
    let (told, tell) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|errno| format!("there is no pipe: {errno}"))?;
    match fork().map_err(|error| format!("there is no process: {error}"))? {
        Fork::Parent(_) => Ok(Started { socket, told }),
        Fork::Child => exit_now(run(cage, &theirs, &tell)),
    }
}

/// What a mover told: nothing if it is ready, else why it is not. Waits for it.
pub(super) fn hear(told: &OwnedFd) -> Result<(), String> {
    let mut words = [0; 512];
    let read = loop {
        match rustix::io::read(told, &mut words) {
            Ok(read) => break read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.to_string()),
        }
    };
    match &words[..read] {
        READY => Ok(()),
        [] => Err("the process that would do it has ended".into()),
        reason => Err(String::from_utf8_lossy(reason).into_owned()),
    }
}

fn run(cage: &Cage<'_>, socket: &OwnedFd, tell: &OwnedFd) -> i32 {
    // Nothing of the keeper's is left open here, and no pipe of the command's.
    if place(socket, 0).and_then(|()| place(tell, 1)).is_err()
        || close_range(2, u32::MAX, Range::Close).is_err()
    {
        return 1;
    }
    let (socket, tell) = (std::io::stdin(), std::io::stdout());
    let socket = socket.as_fd();
    let said = match confine(cage) {
        Ok(()) => READY.to_vec(),
        Err(Stop::Gone) => return 1,
        Err(Stop::Failed(Failure::Step { step, reason })) => format!("{step}: {reason}").into(),
        Err(Stop::Failed(_)) => b"it cannot be confined as the command is".to_vec(),
    };
    let ready = said == READY;
    if rustix::io::write(&tell, &said).is_err()
        || close_range(1, 1, Range::Close).is_err()
        || !ready
    {
        return 1;
    }
    while let Some(outcome) = next(socket) {
        if send(socket, &outcome.to_ne_bytes(), SendFlags::NOSIGNAL).is_err() {
            break;
        }
    }
    0
}

/// Every layer that binds the command, in the same order.
fn confine(cage: &Cage<'_>) -> Result<(), Stop> {
    setsid().map_err(failed("start a session"))?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(failed("ask for a death signal"))?;
    chdir("/").map_err(failed("enter the root"))?;
    let policy = &cage.request.policy;
    capabilities::apply(policy)?;
    landlock::apply(policy, &cage.rules, &cage.spaces)?;
    let reach = Reach::of(policy, &cage.spaces, Renames::Kernel);
    seccomp::apply_unheard(policy, reach).map_err(failed("filter its calls"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("become opaque"))
}

/// Does the next errand; what came of it, or nothing at the end.
fn next(socket: BorrowedFd<'_>) -> Option<i32> {
    let mut bytes = [0; HEAD + 2 * LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        let mut room = [IoSliceMut::new(&mut bytes)];
        match recvmsg(socket, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) if received.bytes == 0 => return None,
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    };
    let mut directories = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            directories.extend(sent);
        }
    }
    let outcome = match (Errand::parse(&bytes[..length]), &directories[..]) {
        (Some(errand), [old, new]) => errand.perform(old, new),
        (None, _) | (Some(_), _) => Outcome::Left,
    };
    Some(match outcome {
        Outcome::Done => 0,
        Outcome::Failed(errno) => errno,
        Outcome::Left => LEAVE,
    })
}

impl Outcome {
    /// Reads what a mover sent; none if it sent nothing, which is its end.
    pub(super) fn receive(socket: &OwnedFd) -> Option<Self> {
        let mut bytes = [0; 4];
        match rustix::io::read(socket, &mut bytes) {
            Ok(4) => Some(match i32::from_ne_bytes(bytes) {
                0 => Self::Done,
                LEAVE => Self::Left,
                errno => Self::Failed(errno),
            }),
            Ok(_) | Err(_) => None,
        }
    }
}

impl Errand {
    /// Sends it to a mover, with the directories that relative paths start in;
    /// false if it could not be.
    pub(super) fn send(&self, socket: &OwnedFd, old: &OwnedFd, new: &OwnedFd) -> bool {
        let Ok(length) = u32::try_from(self.old.len()) else {
            return false;
        };
        let head = [length.to_ne_bytes(), self.flags.to_ne_bytes()].concat();
        let parts = [&head, &self.old, &self.new].map(|part| IoSlice::new(part));
        let directories = [old.as_fd(), new.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&directories));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(socket, &parts, &mut control, flags).is_ok()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (flags, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_ne_bytes(*length)).ok()?;
        let (old, new) = rest.split_at_checked(length)?;
        Some(Self {
            old: old.to_vec(),
            new: new.to_vec(),
            flags: u32::from_ne_bytes(*flags),
        })
    }

    fn perform(&self, old: &OwnedFd, new: &OwnedFd) -> Outcome {
        let flags = RenameFlags::from_bits_retain(self.flags);
        let (Some(old), Some(new)) = (Found::find(old, &self.old), Found::find(new, &self.new))
        else {
            return Outcome::Left;
        };
        match moving::rename(old.place(), new.place(), flags) {
            Ok(()) => Outcome::Done,
            Err(errno) => Outcome::Failed(errno.raw_os_error()),
        }
    }
}

/// A path whose last name is not looked at yet.
struct Found {
    parent: OwnedFd,
    name: CString,
}

impl Found {
    /// Opens what is above the last name of a path; none if that cannot be, of
    /// which the caller will hear from the kernel, or if it leads through a
    /// link of procfs: that would mean this process and not the caller.
    fn find(start: &OwnedFd, path: &[u8]) -> Option<Self> {
        let (above, name) = split(path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let start = match above.first() {
            Some(b'/') => CWD,
            Some(_) | None => start.as_fd(),
        };
        let above = if above.is_empty() { b"." } else { above };
        let parent = openat2(
            start,
            above,
            flags,
            Mode::empty(),
            ResolveFlags::NO_MAGICLINKS,
        );
        Some(Self {
            parent: parent.ok()?,
            name: CString::new(name).ok()?,
        })
    }

    fn place(&self) -> Place<'_> {
        let name: &CStr = &self.name;
        Place {
            parent: self.parent.as_fd(),
            name,
        }
    }
}

/// What is above the last name of a path, and that name with the slashes behind
/// it; none for the root and for an empty path.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = path.iter().rposition(|byte| *byte != b'/')?;
    let begin = path[..end].iter().rposition(|byte| *byte == b'/');
    Some(path.split_at(begin.map_or(0, |at| at + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_paths_as_the_kernel_does() {
        type Halves = (&'static [u8], &'static [u8]);
        let cases: [(&[u8], Option<Halves>); 9] = [
            (b"a", Some((b"", b"a"))),
            (b"a/", Some((b"", b"a/"))),
            (b"/a", Some((b"/", b"a"))),
            (b"a/b//", Some((b"a/", b"b//"))),
            (b"/a//b/c", Some((b"/a//b/", b"c"))),
            (b"a/..", Some((b"a/", b".."))),
            (b".", Some((b"", b"."))),
            (b"//", None),
            (b"", None),
        ];
        for (path, expected) in cases {
            assert_eq!(split(path), expected, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn understands_what_it_sends() {
        let bytes = [
            &3_u32.to_ne_bytes()[..],
            &1_u32.to_ne_bytes(),
            b"old",
            b"new/",
        ]
        .concat();
        let errand = Errand::parse(&bytes).expect("because it is whole");
        assert_eq!(
            (errand.old, errand.new, errand.flags),
            (b"old".to_vec(), b"new/".to_vec(), 1)
        );
        assert!(Errand::parse(&bytes[..9]).is_none());
    }
}
