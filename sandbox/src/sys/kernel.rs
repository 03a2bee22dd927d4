//! Owns the calls about namespaces, mounts, capabilities and rules that no safe crate offers.
//!
//! They change the calling thread or its namespaces and share no memory.

use std::ffi::{CStr, c_int, c_long, c_uint, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::mount::MountAttrFlags;
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
        // SAFETY: the call reads two numbers.
        let held = unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) };
        match held {
            // The first number that the kernel does not know ends the list.
            c_int::MIN..0 => break,
            0 => {}
            1.. => {
                // SAFETY: as above.
                check(c_long::from(unsafe {
                    libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0)
                }))?;
            }
        }
    }
    Ok(())
}
