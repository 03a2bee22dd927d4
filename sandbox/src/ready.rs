//! Owns looking at a descriptor without waiting for it.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What holds of a descriptor now, of what is wanted and of what is always told.
pub(crate) fn now<Fd: AsFd>(descriptor: &Fd, wanted: PollFlags) -> rustix::io::Result<PollFlags> {
    const AT_ONCE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut entry = [PollFd::new(descriptor, wanted)];
    poll(&mut entry, Some(&AT_ONCE))?;
    Ok(entry[0].revents())
}
