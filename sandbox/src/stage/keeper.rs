//! Owns the watch over a running command: reaps, forwards, ends.
//!
//! Runs as pid 1 of the PID namespace, whose end ends everything inside, or as
//! a sub-reaper that sweeps, also when its guard was killed. It never decides how long a command may run: the
//! launcher does, over the life line.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, wait, waitpid};

use super::denials::{Denials, Pace};
use super::sweep;
use crate::enforcement::Proof;
use crate::limits::{ByUser, LimitHit, Look, Watch};
use crate::protocol::{self, KILL, ProtocolError, Report, TERMINATE};
use crate::sys::process::{children_cpu_ms, next_signal, signal_all};

/// What the keeper watches.
pub(super) struct Watched<'a> {
    /// How all of what is kept is reached, and its end proven.
    pub(super) proof: Proof,
    /// Orders of the launcher; its end is one too.
    pub(super) line: &'a OwnedFd,
    /// The handle of the guard.
    pub(super) guard: &'a OwnedFd,
    /// The signals that this process was sent.
    pub(super) signals: &'a OwnedFd,
    /// The process to wait for.
    pub(super) command: Pid,
    /// What it may use up, and how that is measured.
    pub(super) limits: Watch,
    pub(super) by_user: ByUser,
    /// The calls that are refused to it.
    pub(super) denials: Denials,
}

/// Why the watch ended.
enum End {
    /// The command ended with this status.
    Command(i32),
    /// The launcher asked for it, or is gone.
    Ordered,
    /// The guard is gone, and with it who would tell that nothing is left.
    Unguarded,
    /// A limit was crossed.
    Crossed(LimitHit),
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

/// The report that nothing is left.
pub(super) fn emptied(proof: Proof) -> Report {
    Report::Emptied {
        cpu_ms: children_cpu_ms(),
        proof,
    }
}

impl Watched<'_> {
    /// Watches until the command ends or the launcher wants its end, then ends all.
    ///
    /// In a namespace the caller exits next; the kernel kills the rest, and the
    /// guard reports when it has seen it.
    pub(super) fn keep(mut self) -> Result<(), ProtocolError> {
        let end = self.watch();
        // First of all: nothing that is left may run on while the launcher is
        // slow to hear, or is gone.
        let swept = self.end_all();
        let unguarded = matches!(end, End::Unguarded);
        let status = match end {
            End::Command(status) => Some(status),
            End::Ordered | End::Unguarded => swept,
            End::Crossed(hit) => {
                protocol::send(self.line.as_fd(), &Report::Crossed(hit), &[])?;
                swept
            }
        };
        if let Some(hit) = self.limits.noticed() {
            protocol::send(self.line.as_fd(), &Report::Noticed(hit), &[])?;
        }
        self.denials.tell_all(self.line)?;
        if let Some(status) = status {
            protocol::send(self.line.as_fd(), &Report::Exited { status }, &[])?;
        }
        match self.proof {
            Proof::SubreaperSwept if unguarded => {
                protocol::send(self.line.as_fd(), &emptied(self.proof), &[])
            }
            Proof::SubreaperSwept | Proof::PidNamespace => Ok(()),
        }
    }

    fn watch(&mut self) -> End {
        loop {
            // Before the first poll too: the command may have ended by now.
            if let Some(status) = reap(self.command) {
                return End::Command(status);
            }
            let look = match self.limits.look(self.by_user) {
                Some(Look::Crossed(hit)) => return End::Crossed(hit),
                Some(Look::Again(after)) => Timespec::try_from(after).ok(),
                None => None,
            };
            let patience = self.denials.patience();
            // Whichever is due first; the other is asked again then.
            let pause = [look, patience]
                .into_iter()
                .flatten()
                .min_by_key(|time| (time.tv_sec, time.tv_nsec));
            let mut entries = vec![
                PollFd::new(self.line, self.denials.line_flags()),
                PollFd::new(self.signals, PollFlags::IN),
                PollFd::new(self.guard, PollFlags::IN),
            ];
            entries.extend(self.denials.entries());
            let pace = match poll(&mut entries, pause.as_ref()) {
                Ok(0) => Pace::Quiet,
                Ok(_) | Err(rustix::io::Errno::INTR) => Pace::Busy,
                Err(_) => return End::Ordered,
            };
            let [line, _, guard, refused, moved] = [0, 1, 2, 3, 4]
                .map(|at| entries.get(at).map_or(PollFlags::empty(), PollFd::revents));
            if !guard.is_empty() {
                return End::Unguarded;
            }
            if line.intersects(!PollFlags::OUT) {
                match order(self.line) {
                    Some(KILL) | None => return End::Ordered,
                    Some(TERMINATE) => self.terminate(),
                    Some(_) => {}
                }
            }
            while let Some(signal) = next_signal(self.signals) {
                if signal != libc::SIGCHLD {
                    self.terminate();
                }
            }
            // After all else, and bounded, so that nothing else waits for it.
            self.denials.answer(refused, moved);
            if self.denials.tell(self.line, pace).is_err() {
                return End::Ordered;
            }
        }
    }

    /// Ends everything that is left; the command's status if it was among that.
    fn end_all(&self) -> Option<i32> {
        match self.proof {
            // The kernel does it once more, with proof, when this init exits.
            Proof::PidNamespace => {
                signal_all(libc::SIGKILL);
                None
            }
            Proof::SubreaperSwept => sweep::all(self.command),
        }
    }

    /// Asks everything inside to end; stopped processes are woken to hear it.
    fn terminate(&self) {
        for signal in [libc::SIGTERM, libc::SIGCONT] {
            match self.proof {
                Proof::PidNamespace => signal_all(signal),
                Proof::SubreaperSwept => sweep::signal(signal),
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
