//! Owns the calls that install a filter and answer what it refuses.
//!
//! The kernel hands over numbers; what they mean is for others. Sound in the
//! stage only, which has one thread and no child but its own.

use std::ffi::{c_int, c_ulong};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog};

/// Lets an answer wake the caller on this processor; older kernels have it not.
const SYNC_WAKE_UP: u64 = 1;

/// Installs a filter on this thread.
pub(crate) fn install(program: &[sock_filter]) -> io::Result<()> {
    set_filter(program, 0).map(drop)
}

/// Installs a filter, and gives the one listener for the calls that it leaves open.
///
/// # Errors
/// Nothing is installed: the kernel is older than 5.19, or a filter that holds
/// already has a listener.
pub(crate) fn install_listening(program: &[sock_filter]) -> io::Result<Listener> {
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let descriptor = set_filter(program, flags)?;
    // SAFETY: the call above has just made it, closed on exec.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

fn set_filter(program: &[sock_filter], flags: c_ulong) -> io::Result<c_int> {
    let program = sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, which outlives the call and which
    // it does not write to.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    c_int::try_from(result).map_err(io::Error::other)
}

/// A call that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    id: u64,
    /// The calling thread, as this PID namespace numbers it; 0 if it does not.
    pub(crate) thread: u32,
    pub(crate) number: c_int,
    pub(crate) arguments: [u64; 6],
}

impl Refused {
    /// The lower half of an argument.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel takes no more of an argument that is an `int`"
    )]
    pub(crate) fn word(&self, argument: usize) -> u32 {
        self.arguments[argument] as u32
    }

    #[cfg(test)]
    pub(crate) fn made_up(number: c_int, arguments: [u64; 6]) -> Self {
        Self {
            id: 0,
            thread: 1,
            number,
            arguments,
        }
    }
}

/// Where refused calls wait.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Listener {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl Listener {
    /// Prepares for answering.
    pub(crate) fn start(&self) {
        // SAFETY: the argument is a number. Failing costs time only.
        unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as _,
                SYNC_WAKE_UP,
            )
        };
    }

    /// Takes one call; none if it has gone meanwhile. Waits if none was announced.
    pub(crate) fn take(&self) -> Option<Refused> {
        // A kernel with a longer structure writes into the room behind it.
        #[repr(C)]
        struct Room {
            call: seccomp_notif,
            more: [u64; 16],
        }
        // SAFETY: both are plain data, for which zeros are a valid value.
        let mut room: Room = unsafe { std::mem::zeroed() };
        // SAFETY: the structure lives across the call, which fills it in; the
        // kernel demands that it be zero before.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV as _,
                &raw mut room,
            )
        };
        (result == 0).then_some(Refused {
            id: room.call.id,
            thread: room.call.pid,
            number: room.call.data.nr,
            arguments: room.call.data.args,
        })
    }

    /// Answers a call with an error; false if its caller has gone meanwhile.
    pub(crate) fn refuse(&self, call: &Refused, errno: c_int) -> bool {
        self.answer(call, -errno, 0)
    }

    /// Answers that the call was made for its caller, and that it succeeded.
    pub(crate) fn done(&self, call: &Refused) {
        self.answer(call, 0, 0);
    }

    /// Lets the kernel make the call for its caller as if there were no filter.
    ///
    /// What its arguments point to may be another thing by now than what was
    /// looked at. So this is for calls alone that the caller might make anyway.
    pub(crate) fn proceed(&self, call: &Refused) {
        self.answer(call, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE);
    }

    /// Whether the caller still waits: then its number has meant it until now.
    pub(crate) fn waits_for(&self, call: &Refused) -> bool {
        // SAFETY: the kernel reads the number, which outlives the call.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _,
                &raw const call.id,
            )
        };
        result == 0
    }

    fn answer(&self, call: &Refused, error: c_int, flags: c_ulong) -> bool {
        let answer = seccomp_notif_resp {
            id: call.id,
            val: 0,
            error,
            flags: u32::try_from(flags).expect("because there is one flag, the lowest"),
        };
        // SAFETY: the kernel reads the structure, which outlives the call.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND as _,
                &raw const answer,
            )
        };
        result == 0
    }
}

/// Reads memory of another process up to the end of its page, so that what
/// lies beyond it cannot fail the whole.
pub(crate) fn read_memory(process: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    const SMALLEST_PAGE: usize = 4096;
    let start = usize::try_from(address).map_err(io::Error::other)?;
    let length = buffer.len().min(SMALLEST_PAGE - start % SMALLEST_PAGE);
    let mut local = [IoSliceMut::new(&mut buffer[..length])];
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(start),
        iov_len: length,
    };
    let pid = libc::pid_t::try_from(process).map_err(io::Error::other)?;
    // SAFETY: an `IoSliceMut` has the layout of an `iovec`; the kernel writes
    // into the local one only, and no further than it is long.
    let read = unsafe {
        libc::process_vm_readv(pid, local.as_mut_ptr().cast(), 1, &raw const remote, 1, 0)
    };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}
