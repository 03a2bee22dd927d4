//! Owns the watch over a running command: reaps, forwards, ends.
//!
//! Runs as pid 1 of the PID namespace, whose end ends everything inside, or as
//! a sub-reaper that sweeps. It never decides how long a command may run: the
//! launcher does, over the life line.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, wait, waitpid};

use super::sweep;
use crate::enforcement::Proof;
use crate::limits::{ByUser, LimitHit, Look, Watch};
use crate::protocol::{self, KILL, ProtocolError, Report, TERMINATE};
use crate::sys::process::{children_cpu_ms, next_signal, signal_all};

/// What is kept, which decides how all of it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// A PID namespace, as its init.
    Namespace,
    /// The descendants of this process.
    Descendants,
}

/// Why the watch ended.
enum End {
    /// The command ended with this status.
    Command(i32),
    /// The launcher asked for it, or is gone.
    Ordered,
    /// A limit was crossed.
    Crossed(LimitHit),
}

/// The command and what it may use up.
pub(super) struct Watched {
    pub(super) command: Pid,
    pub(super) watch: Watch,
    pub(super) by_user: ByUser,
}

/// Waits for a child, whatever interrupts.
pub(super) fn wait_for(child: Pid) {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

/// Watches until the command ends or the launcher wants its end, then ends all.
pub(super) fn keep(
    kept: Kept,
    line: &OwnedFd,
    signals: &OwnedFd,
    mut watched: Watched,
) -> Result<(), ProtocolError> {
    let command = watched.command;
    let end = watch(kept, line, signals, &mut watched);
    let mut status = match end {
        End::Command(status) => Some(status),
        End::Ordered => None,
        End::Crossed(hit) => {
            protocol::send(line.as_fd(), &Report::Crossed(hit), &[])?;
            None
        }
    };
    if let Some(hit) = watched.watch.noticed() {
        protocol::send(line.as_fd(), &Report::Noticed(hit), &[])?;
    }
    if kept == Kept::Descendants {
        status = status.or(sweep::all(command));
    }
    if let Some(status) = status {
        protocol::send(line.as_fd(), &Report::Exited { status }, &[])?;
    }
    match kept {
        // The caller exits next; the kernel kills the rest, and the helper
        // reports when it has seen it.
        Kept::Namespace => Ok(()),
        Kept::Descendants => {
            let emptied = Report::Emptied {
                cpu_ms: children_cpu_ms(),
                proof: Proof::SubreaperSwept,
            };
            protocol::send(line.as_fd(), &emptied, &[])
        }
    }
}

fn watch(kept: Kept, line: &OwnedFd, signals: &OwnedFd, watched: &mut Watched) -> End {
    loop {
        // Before the first poll too: the command may have ended by now.
        if let Some(status) = reap(watched.command) {
            return End::Command(status);
        }
        let pause = match watched.watch.look(watched.by_user) {
            Some(Look::Crossed(hit)) => return End::Crossed(hit),
            Some(Look::Again(after)) => Timespec::try_from(after).ok(),
            None => None,
        };
        let mut entries = [
            PollFd::new(line, PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
        ];
        match poll(&mut entries, pause.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return End::Ordered,
        }
        if !entries[0].revents().is_empty() {
            match order(line) {
                Some(KILL) | None => return End::Ordered,
                Some(TERMINATE) => terminate(kept),
                Some(_) => {}
            }
        }
        while let Some(signal) = next_signal(signals) {
            if signal != libc::SIGCHLD {
                terminate(kept);
            }
        }
    }
}

/// One byte from the launcher; none if it is gone.
fn order(line: &OwnedFd) -> Option<u8> {
    let mut byte = [0];
    match rustix::io::read(line, &mut byte) {
        Ok(1) => Some(byte[0]),
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Some(0),
        Ok(_) | Err(_) => None,
    }
}

/// Asks everything inside to end; stopped processes are woken to hear it.
fn terminate(kept: Kept) {
    for signal in [libc::SIGTERM, libc::SIGCONT] {
        match kept {
            Kept::Namespace => signal_all(signal),
            Kept::Descendants => sweep::signal(signal),
        }
    }
}

/// Reaps all that have ended; the command's status if it is among them.
fn reap(command: Pid) -> Option<i32> {
    let mut found = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == command => found = Some(status.as_raw()),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) | Err(_) => return found,
        }
    }
}
