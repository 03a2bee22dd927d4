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

/// Deeper than any tree: what lies deeper is found once those above are dead.
const DEEPEST: usize = 4096;

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
        if !ended && is_descendant(pid, parent) {
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

fn descendants() -> Vec<i32> {
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
    let known = |pid| parents.get(&pid).copied();
    parents
        .keys()
        .copied()
        .filter(|pid| is_descendant(*pid, known))
        .collect()
}

/// Whether this process is among the parents of a process.
fn is_descendant(pid: i32, parent: impl Fn(i32) -> Option<i32>) -> bool {
    let this = super::this().as_raw_nonzero().get();
    let mut above = pid;
    // Numbers change while they are read, so that a loop could appear.
    for _ in 0..DEEPEST {
        match parent(above) {
            Some(parent) if parent == this => return true,
            Some(parent) => above = parent,
            None => return false,
        }
    }
    false
}

/// The parent of a process; the name before it may hold any character.
fn parent(pid: i32) -> Option<i32> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = String::from_utf8_lossy(&text[end + 1..]).into_owned();
    rest.split_whitespace().nth(1)?.parse().ok()
}
