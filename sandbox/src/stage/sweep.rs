//! Owns the end of a tree without a PID namespace.
//!
//! Orphans become children of this sub-reaper, so "no children left" means
//! "no descendants left". Until then all descendants found in procfs are
//! killed again and again: one that forks while being looked at is found in
//! the next round. A handle is taken before a process is signalled and its
//! parent is looked at again after, so that a reused number is never hit.

use std::collections::BTreeMap;
use std::fs;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, wait};

use crate::procfs::{self, Stat, descends};
use crate::ready;

/// Refuses a procfs of another PID namespace, whose numbers mean other processes here.
pub(super) fn require_own_procfs() -> std::io::Result<()> {
    let number = fs::read_link("/proc/self")?;
    if number.to_str() == Some(super::this().as_raw_nonzero().to_string().as_str()) {
        return Ok(());
    }
    Err(std::io::Error::other("/proc is of another PID namespace"))
}

/// Waits for the end of a keeper, and ends what it left behind.
///
/// A keeper leaves nothing unless it was killed.
pub(super) fn after(keeper: Pid) {
    super::keeper::wait_for(keeper);
    all(keeper);
}

/// Kills until nothing is left; the command's status if it is among the dead.
pub(super) fn all(command: Pid) -> Option<i32> {
    let mut found = None;
    loop {
        // First, because mostly nothing is left and no procfs need be read.
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == command => found = Some(status.as_raw()),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return found,
            }
        }
        signal(libc::SIGSTOP);
        signal(libc::SIGKILL);
        // The dead need a moment to get here; there is no event that covers
        // grandchildren.
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        let mut none: [PollFd<'_>; 0] = [];
        let _ = poll(&mut none, Some(&moment));
    }
}

/// Signals every descendant there is now.
pub(super) fn signal(number: i32) {
    let Some(signal) = Signal::from_named_raw(number) else {
        return;
    };
    let this = super::this().as_raw_nonzero().get();
    for pid in descendants(this) {
        let Some(handle) =
            Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            continue;
        };
        let ended = ready::now(&handle, PollFlags::IN).map_or(true, |seen| !seen.is_empty());
        if !ended && descends(pid, this, parent) {
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

fn descendants(this: i32) -> Vec<i32> {
    let parents: BTreeMap<i32, i32> = procfs::processes()
        .into_iter()
        .flatten()
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let known = |pid| parents.get(&pid).copied();
    parents
        .keys()
        .copied()
        .filter(|pid| descends(*pid, this, known))
        .collect()
}

fn parent(pid: i32) -> Option<i32> {
    Stat::of(pid).ok()?.field(4)
}
