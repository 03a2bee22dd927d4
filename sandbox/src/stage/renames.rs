//! Owns the keeper's answers to renames: which are the kernel's, which the mover's.
//!
//! Whatever is not surely a directory's goes on as if there were no filter:
//! the kernel does it with the caller's own rights, so that nobody gains by
//! swapping a path meanwhile. That a source is a directory is looked up in the
//! kernel's memory alone, never on a disk or a file system that might not
//! answer; where that does not tell, the mover is asked. Nothing here changes
//! a file, and nothing waits: while the mover works, others' calls are answered.
//!
//! Once a process inside has taken on file rules of its own, all is left to
//! the kernel: the mover has not those rules, and would serve it beyond them.

use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::mover::{Errand, LONGEST, Outcome};
use crate::sys::seccomp::{Listener, Refused, read_memory};

/// The renames of a cage that has a mover.
#[derive(Debug)]
pub(super) struct Renames {
    /// None when it has ended, or was let go.
    mover: Option<OwnedFd>,
    /// Whether nothing is given to it any more.
    ending: bool,
    /// Whose errand the mover does.
    busy: Option<Refused>,
    /// Who waits for it.
    waiting: VecDeque<Refused>,
}

impl Renames {
    /// Begins with a mover that has nothing to do.
    pub(super) fn new(mover: OwnedFd) -> Self {
        Self {
            mover: Some(mover),
            ending: false,
            busy: None,
            waiting: VecDeque::new(),
        }
    }

    /// What to wait for.
    pub(super) fn entry(&self) -> Option<PollFd<'_>> {
        let mover = self.mover.as_ref()?;
        Some(PollFd::new(mover, PollFlags::IN))
    }

    /// Answers a call that the filter asks about, now or later; false if it is
    /// none of those.
    pub(super) fn take(&mut self, listener: &Listener, call: Refused) -> bool {
        let Some(asked) = Asked::of(&call) else {
            return false;
        };
        match asked {
            Asked::FileRules => self.end(listener),
            Asked::Rename(arguments) if !self.ending => {
                if arguments.look(call.thread) == Seen::Other {
                    listener.proceed(&call);
                } else {
                    self.waiting.push_back(call);
                    self.send_next(listener);
                }
                return true;
            }
            Asked::Rename(_) => {}
        }
        listener.proceed(&call);
        true
    }

    /// Passes on what the mover said, and gives it the next errand.
    pub(super) fn hear(&mut self, listener: &Listener) {
        let Some(mover) = &self.mover else {
            return;
        };
        let outcome = Outcome::receive(mover);
        if let Some(call) = self.busy.take() {
            match outcome {
                Some(Outcome::Done) => listener.done(&call),
                Some(Outcome::Failed(errno)) => {
                    listener.refuse(&call, errno);
                }
                Some(Outcome::Left) | None => listener.proceed(&call),
            }
        }
        match outcome {
            Some(_) if !self.ending => self.send_next(listener),
            Some(_) | None => self.end(listener),
        }
    }

    /// Leaves everything to the kernel from now on. What the mover has begun it
    /// ends, and its caller hears of it; then it finds the socket closed.
    fn end(&mut self, listener: &Listener) {
        self.ending = true;
        if self.busy.is_none() {
            self.mover = None;
        }
        for call in self.waiting.drain(..) {
            listener.proceed(&call);
        }
    }

    fn send_next(&mut self, listener: &Listener) {
        while self.busy.is_none()
            && let Some(call) = self.waiting.pop_front()
        {
            let Some(mover) = &self.mover else {
                return listener.proceed(&call);
            };
            match errand(&call) {
                // Only now is it certain that the process that was looked at
                // was the caller.
                Some((errand, old, new)) if listener.waits_for(&call) => {
                    if errand.send(mover, &old, &new) {
                        self.busy = Some(call);
                    } else {
                        listener.proceed(&call);
                        return self.end(listener);
                    }
                }
                Some(_) | None => listener.proceed(&call),
            }
        }
    }
}

/// What the filter asks about.
enum Asked {
    Rename(Arguments),
    FileRules,
}

/// The arguments of a rename; paths as addresses in its caller.
struct Arguments {
    old: (i32, u64),
    new: (i32, u64),
    flags: u32,
}

/// What a rename's source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Directory,
    /// Anything else, or nothing; or the caller will hear of it from the kernel.
    Other,
    /// It would have to be looked for on a disk.
    Unknown,
}

impl Asked {
    fn of(call: &Refused) -> Option<Self> {
        let at = |argument: usize| call.word(argument).cast_signed();
        let address = |argument: usize| call.arguments[argument];
        let arguments = match i64::from(call.number) {
            libc::SYS_landlock_restrict_self => return Some(Self::FileRules),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => Arguments {
                old: (libc::AT_FDCWD, address(0)),
                new: (libc::AT_FDCWD, address(1)),
                flags: 0,
            },
            number @ (libc::SYS_renameat | libc::SYS_renameat2) => Arguments {
                old: (at(0), address(1)),
                new: (at(2), address(3)),
                flags: if number == libc::SYS_renameat2 {
                    call.word(4)
                } else {
                    0
                },
            },
            _ => return None,
        };
        Some(Self::Rename(arguments))
    }
}

impl Arguments {
    fn look(&self, thread: u32) -> Seen {
        if self.flags & RenameFlags::EXCHANGE.bits() != 0 {
            return Seen::Unknown;
        }
        let Some(path) =
            path_in_memory(thread, self.old.1).and_then(|path| CString::new(path).ok())
        else {
            return Seen::Other;
        };
        let start = match path.to_bytes().first() {
            Some(b'/') => None,
            Some(_) => match directory(thread, self.old.0) {
                Some(start) => Some(start),
                None => return Seen::Other,
            },
            None => return Seen::Other,
        };
        let found = openat2(
            start.as_ref().map_or(CWD, AsFd::as_fd),
            &path,
            DIRECTORY | OFlags::NOFOLLOW,
            Mode::empty(),
            ResolveFlags::CACHED | ResolveFlags::NO_MAGICLINKS,
        );
        match found {
            Ok(_) => Seen::Directory,
            Err(Errno::AGAIN | Errno::INVAL) => Seen::Unknown,
            Err(_) => Seen::Other,
        }
    }
}

/// What a mover needs for a call; none if the caller cannot be looked at.
fn errand(call: &Refused) -> Option<(Errand, OwnedFd, OwnedFd)> {
    let Some(Asked::Rename(Arguments { old, new, flags })) = Asked::of(call) else {
        return None;
    };
    let end = |(number, address): (i32, u64)| {
        let path = path_in_memory(call.thread, address)?;
        let start = match path.first()? {
            b'/' => openat(CWD, "/", DIRECTORY, Mode::empty()).ok()?,
            _ => directory(call.thread, number)?,
        };
        Some((path, start))
    };
    let ((old, old_start), (new, new_start)) = (end(old)?, end(new)?);
    Some((Errand { old, new, flags }, old_start, new_start))
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The directory in which relative paths of a thread start.
fn directory(thread: u32, number: i32) -> Option<OwnedFd> {
    let path = match number {
        libc::AT_FDCWD => format!("/proc/{thread}/cwd"),
        number => format!("/proc/{thread}/fd/{number}"),
    };
    openat(CWD, path, DIRECTORY, Mode::empty()).ok()
}

/// A path at an address of a process; none if the kernel would take none.
fn path_in_memory(thread: u32, address: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; LONGEST];
    let mut read = 0;
    // Each read ends with a page.
    while read < LONGEST {
        let place = address.checked_add(u64::try_from(read).ok()?)?;
        let more = read_memory(thread, place, &mut bytes[read..]).ok()?;
        if let Some(end) = bytes[read..read + more].iter().position(|byte| *byte == 0) {
            bytes.truncate(read + end);
            return Some(bytes);
        }
        read += more;
        if more == 0 {
            return None;
        }
    }
    None
}
