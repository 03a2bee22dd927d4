//! Owns the end of a tree without a PID namespace.
//!
//! Orphans become children of this sub-reaper, so "no children left" means
//! "no descendants left". Until then all descendants found in procfs are
//! killed again and again: one that forks while being looked at is found in
//! the next round. A handle is taken before a process is signalled and its
//! parent is looked at again after, so that a reused number is never hit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, wait};

/// Kills until nothing is left; the command's status if it is among the dead.
pub(super) fn all(command: Pid) -> Option<i32> {
    let mut found = None;
    loop {
        signal(libc::SIGSTOP);
        signal(libc::SIGKILL);
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == command => found = Some(status.as_raw()),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return found,
            }
        }
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
    for pid in descendants() {
        let Some(handle) =
            Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            continue;
        };
        let mut entry = [PollFd::new(&handle, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let ended = poll(&mut entry, Some(&now)).is_err() || !entry[0].revents().is_empty();
        if !ended && descendants().contains(&pid) {
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

fn descendants() -> BTreeSet<i32> {
    let mut parents: BTreeMap<i32, i32> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Some(parent) = parent(pid) {
            parents.insert(pid, parent);
        }
    }
    let this = super::this().as_raw_nonzero().get();
    let mut found = BTreeSet::new();
    for pid in parents.keys() {
        let mut above = *pid;
        // A loop cannot occur in one snapshot, but this is not one.
        for _ in 0..parents.len() {
            match parents.get(&above) {
                Some(parent) if *parent == this => {
                    found.insert(*pid);
                    break;
                }
                Some(parent) => above = *parent,
                None => break,
            }
        }
    }
    found
}

/// The parent of a process; the name before it may hold any character.
fn parent(pid: i32) -> Option<i32> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = String::from_utf8_lossy(&text[end + 1..]).into_owned();
    rest.split_whitespace().nth(1)?.parse().ok()
}
