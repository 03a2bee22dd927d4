//! Owns the calls about namespaces, mounts, capabilities and rules that no safe crate offers.
//!
//! They change the calling thread or its namespaces and share no memory.

use std::ffi::{CStr, c_char, c_long, c_short, c_uint, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::mount::MountAttrFlags;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Leaves the namespaces named.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the danger of the call is in `FILES`, which no caller passes.
    unsafe { rustix::thread::unshare_unsafe(flags.difference(UnshareFlags::FILES)) }?;
    Ok(())
}

/// Brings up the loopback interface of this network namespace.
///
/// A new namespace has one, with its addresses, that is down.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // SAFETY: an `ifreq` is plain data, for which zeros are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = c_char::from_ne_bytes([*byte]);
    }
    let up = libc::IFF_UP | libc::IFF_RUNNING;
    request.ifr_ifru.ifru_flags =
        c_short::try_from(up).expect("because both flags are among the lowest bits");
    // SAFETY: the request is an `ifreq` that lives across the call, which
    // reads it; the descriptor is open.
    check(c_long::from(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw mut request,
        )
    }))?;
    Ok(())
}

/// How far a change of mount attributes goes.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    One,
    Recursive,
}

/// Adds attributes to a mount.
///
/// The path is relative to the descriptor; empty means the descriptor's own mount.
pub(crate) fn set_mount_attributes<Fd: AsFd>(
    directory: Fd,
    path: &CStr,
    reach: Reach,
    attributes: MountAttrFlags,
) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let request = Attributes {
        set: u64::from(attributes.bits()),
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    let recursive = match reach {
        Reach::One => 0,
        Reach::Recursive => libc::AT_RECURSIVE,
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | recursive;
    // SAFETY: the path ends with NUL and the structure has the layout and the
    // size of the kernel's first version; both outlive the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_fd().as_raw_fd(),
            path.as_ptr(),
            flags as c_uint,
            &raw const request,
            size_of::<Attributes>(),
        )
    })?;
    Ok(())
}

/// Tries to mount an empty directory in memory on the root of this namespace.
///
/// For canaries only: it must fail. What is mounted if it does not goes away
/// with the namespace.
pub(crate) fn mount_nothing() -> io::Result<()> {
    // SAFETY: all pointers are constants that end with NUL.
    check(c_long::from(unsafe {
        libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            std::ptr::null(),
        )
    }))?;
    Ok(())
}

/// Tries to trace a process, and lets it go again; whether it could be.
///
/// For canaries only: it must fail.
pub(crate) fn trace(process: Pid) -> bool {
    let number = process.as_raw_nonzero().get();
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: seizing stops nothing and reads no memory of ours.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, number, none, none) } == 0;
    if seized {
        // SAFETY: as above; it undoes the call before.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, number, none, none) };
    }
    seized
}

/// The version of Landlock the kernel has and has switched on.
pub(crate) fn landlock_abi() -> io::Result<u32> {
    const VERSION: c_uint = 1;
    // SAFETY: with this flag the pointer must be null and the size zero.
    let version = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    })?;
    u32::try_from(version).map_err(io::Error::other)
}

/// Drops every capability from the bounding set, also those newer than this program.
pub(crate) fn drop_bounding_set() -> io::Result<()> {
    for capability in 0..64 as c_ulong {
        // SAFETY: the call reads two numbers. One that is not held is fine.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        match check(c_long::from(result)) {
            Ok(_) => {}
            // The first number that the kernel does not know ends the list.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            // Who may not drop may have nothing to drop.
            Err(_) if bounding_set_is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn bounding_set_is_empty() -> bool {
    (0..64 as c_ulong).all(|capability| {
        // SAFETY: the call reads two numbers. What the kernel does not know is
        // an error, and so not held.
        unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) != 1 }
    })
}
