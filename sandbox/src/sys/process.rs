//! Owns the calls about processes, descriptors and signals that no safe crate offers.
//!
//! They are sound only in the stage: one thread, no locks held by others.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::Pid;

/// Which side of a fork this is.
pub(crate) enum Fork {
    Parent(Pid),
    Child,
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Forks; legal with allocations on both sides because the stage has one thread.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: the stage is single-threaded, so the child's copy of every lock
    // is free and it may go on like any program.
    let pid = check(unsafe { libc::fork() })?;
    Ok(Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent))
}

/// Of the kernel's `sched.h`; too large for the type that `libc` gives it.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// Forks into a control group of the unified hierarchy, given by its directory.
pub(crate) fn fork_into(group: &OwnedFd) -> io::Result<Fork> {
    // SAFETY: an all-zero structure is a valid value: no flags, no stack.
    let mut request: libc::clone_args = unsafe { std::mem::zeroed() };
    request.flags = CLONE_INTO_CGROUP;
    request.exit_signal =
        u64::try_from(libc::SIGCHLD).expect("because signal numbers are positive");
    request.cgroup = u64::try_from(group.as_raw_fd()).expect("because it is open");
    // SAFETY: as for `fork`: the stage is single-threaded and takes no locks
    // that the C library would have to free. The structure outlives the call.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const request,
            size_of::<libc::clone_args>(),
        )
    };
    let pid = check(c_int::try_from(pid).expect("because process ids are small"))?;
    Ok(Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent))
}

/// Ends this process at once, without destructors or buffered output.
pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Takes the descriptor that the launcher put on standard input.
pub(crate) fn take_stdin() -> io::Result<OwnedFd> {
    // SAFETY: duplicates a number and takes ownership of the new one only.
    let copy = check(unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: `copy` was made on the line above and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Moves a descriptor to a number, closing what was there.
pub(crate) fn place(descriptor: &OwnedFd, number: RawFd) -> io::Result<()> {
    // SAFETY: replaces a standard descriptor, which Rust regards as borrowed
    // and never as owned.
    check(unsafe { libc::dup2(descriptor.as_raw_fd(), number) })?;
    Ok(())
}

/// Closes the standard descriptors, so that no reader waits for this process.
pub(crate) fn close_standard() {
    for number in 0..3 {
        // SAFETY: standard descriptors are owned by nobody; failing is fine.
        unsafe { libc::close(number) };
    }
}

/// What to do with a range of descriptors.
#[derive(Clone, Copy)]
pub(crate) enum Range {
    Close,
    CloseOnExec,
}

/// Closes, or marks, every descriptor from `first` to `last`.
///
/// Closing is for the very start only, when nothing but `keep` is owned.
pub(crate) fn close_range(first: u32, last: u32, what: Range) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    let flags = match what {
        Range::Close => 0,
        Range::CloseOnExec => libc::CLOSE_RANGE_CLOEXEC,
    };
    // SAFETY: at the start of the stage nobody owns these descriptors; marking
    // them changes nothing before an exec.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Blocks the signals an init reacts to, and gives a descriptor to read them from.
pub(crate) fn signal_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: an all-zero set is a valid value, and the calls only write to it.
    let descriptor = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [
            libc::SIGCHLD,
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            libc::SIGQUIT,
        ] {
            libc::sigaddset(&raw mut set, signal);
        }
        check(libc::sigprocmask(
            libc::SIG_BLOCK,
            &raw const set,
            std::ptr::null_mut(),
        ))?;
        check(libc::signalfd(
            -1,
            &raw const set,
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        ))?
    };
    // SAFETY: `signalfd` has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Reads one signal number, if one is waiting.
pub(crate) fn next_signal(descriptor: &OwnedFd) -> Option<c_int> {
    let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(descriptor, &mut info) {
        Ok(read) if read == info.len() => {
            // The first field of the structure is the number.
            let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
            c_int::try_from(number).ok()
        }
        Ok(_) | Err(_) => None,
    }
}

/// Gives every signal its default action and unblocks all, as a new program expects.
pub(crate) fn reset_signals() {
    // SAFETY: default actions run no code of ours; for numbers that cannot be
    // set the call fails without effect.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Signals every process of this PID namespace but its init, which must be this.
///
/// Anywhere else the same call would reach every process of the machine, so
/// it is not made.
pub(crate) fn signal_all(signal: c_int) {
    // SAFETY: neither call involves memory.
    unsafe {
        if libc::getpid() == 1 {
            libc::kill(-1, signal);
        }
    }
}

/// Bytes of one page of memory.
pub(crate) fn page_size() -> u64 {
    // SAFETY: the call reads a constant of the machine.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// Processor time of all children that have been waited for, their own included.
pub(crate) fn children_cpu_ms() -> u64 {
    // SAFETY: an all-zero structure is a valid value, filled in by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let ms = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1000
            + u64::try_from(time.tv_usec).unwrap_or(0) / 1000
    };
    ms(usage.ru_utime) + ms(usage.ru_stime)
}

/// Replaces this process; returns only if that failed.
pub(crate) fn execute(program: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter()
            .map(|item| item.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end with a null pointer and outlive the call, as do
    // the strings they point to.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}
