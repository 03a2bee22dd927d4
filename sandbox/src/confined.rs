//! Owns a running command as the launcher sees it: its pipes, its end, its killer.
//!
//! Made by [`crate::spawn`] only. Never signals by number: orders go over the
//! life line, and the init's handle means that very process for ever.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, Shutdown, shutdown};
use rustix::process::{Signal, pidfd_send_signal};

use crate::denial::Denial;
use crate::enforcement::{Enforcement, Proof};
use crate::identity::Identity;
use crate::limits::{Group, Limit, LimitHit, Mechanism};
use crate::policy::Limits;
use crate::protocol::{KILL, Reader, Report, TERMINATE};

/// Why the end of a command could not be established.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The helper could not be waited for.
    #[error("wait for the helper")]
    Helper(#[source] io::Error),
    /// The helper ended without proof that the tree is empty.
    #[error("prove that every process of the command has ended")]
    NotProven,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Ended {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Processor time of the whole tree.
    pub cpu_ms: u64,
    /// What proves that nothing of the tree is left.
    pub emptied: Proof,
    /// What was refused and recorded; see [`SOURCES`](crate::SOURCES). Of a
    /// command that was killed the last moments may be missing.
    pub denials: Vec<Denial>,
    /// The limit that cut the tree short, if one did.
    pub limit: Option<LimitHit>,
    /// Every limit that was reached as far as the kernel or the watchdog
    /// counts it, also those that only made calls fail.
    pub hits: Vec<LimitHit>,
}

/// A confined command, from its start to the proven end of all it started.
///
/// Dropping it kills everything inside and waits for that.
#[derive(Debug)]
#[must_use]
pub struct Confined {
    helper: Child,
    line: Arc<Line>,
    reader: Reader,
    enforcement: Enforcement,
    ends: Ends,
    limits: Limits,
    /// Goes last: it can be removed only when nothing is in it.
    group: Option<Group>,
}

/// What the launcher can take of a running command.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) gateway: Option<TcpListener>,
}

/// The launcher's end of the life line.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) socket: OwnedFd,
    /// The handle of the PID namespace's init, if there is one.
    pub(crate) init: Option<OwnedFd>,
}

/// Ends a confined command from any thread.
#[derive(Debug, Clone)]
pub struct Killer {
    line: Arc<Line>,
}

impl Killer {
    /// Sends `SIGTERM` to everything inside. Does nothing after the end.
    pub fn terminate(&self) {
        self.line.order(TERMINATE);
    }

    /// Ends everything inside at once. Does nothing after the end.
    ///
    /// The handle means that very process for ever, never one with a reused
    /// number.
    pub fn kill(&self) {
        self.line.order(KILL);
        if let Some(init) = &self.line.init {
            // It fails only if the process has ended, which is what is wanted.
            let _ = pidfd_send_signal(init, Signal::KILL);
        }
    }
}

impl Line {
    fn order(&self, byte: u8) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = rustix::net::send(&self.socket, &[byte], flags);
        // A thousand orders may be waiting already. The end of the line is
        // heard behind them, and is an order too.
        if sent == Err(rustix::io::Errno::AGAIN) && byte == KILL {
            let _ = shutdown(&self.socket, Shutdown::Write);
        }
    }
}

impl Confined {
    pub(crate) fn new(
        helper: Child,
        ends: Ends,
        line: Line,
        reader: Reader,
        enforcement: Enforcement,
    ) -> Self {
        Self {
            helper,
            line: Arc::new(line),
            reader,
            enforcement,
            ends,
            limits: Limits::default(),
            group: None,
        }
    }

    /// Adds what bounds the command, and the group that holds it.
    pub(crate) fn bound(mut self, limits: Limits, group: Option<Group>) -> Self {
        self.limits = limits;
        self.group = group;
        self
    }

    /// What each layer achieved for this command.
    #[must_use]
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// The read end of the command's standard output; none the second time.
    pub fn take_stdout(&mut self) -> Option<OwnedFd> {
        self.ends.stdout.take()
    }

    /// The read end of the command's standard error; none the second time.
    pub fn take_stderr(&mut self) -> Option<OwnedFd> {
        self.ends.stderr.take()
    }

    /// The listener of the gateway, where the policy has one; none the second
    /// time. It accepts here what connects to the gateway's port inside.
    pub fn take_gateway(&mut self) -> Option<TcpListener> {
        self.ends.gateway.take()
    }

    /// Names the first process of the cage for whoever finds this cage after
    /// the launcher died; `None` when it has ended already.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        match &self.line.init {
            Some(init) => Identity::of_handle(init),
            // Without a PID namespace the helper sweeps what is inside.
            None => i32::try_from(self.helper.id())
                .ok()
                .and_then(|pid| Identity::of_sweeper(pid).ok()),
        }
    }

    /// A handle that ends the command from another thread.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer {
            line: Arc::clone(&self.line),
        }
    }

    /// Waits until the command and everything it started have ended.
    ///
    /// A daemon does not delay this: it is killed when the command ends. A
    /// command that fills a pipe which nobody reads does: take the output
    /// first and read it elsewhere.
    ///
    /// # Errors
    /// Fails if it cannot be proven that nothing is left.
    pub fn wait(mut self) -> Result<Ended, WaitError> {
        self.finish(&mut |_| {})
    }

    /// As [`Confined::wait`], and tells what is refused while the command runs.
    ///
    /// A first refusal is told at once, a higher count of a known one within a
    /// moment. The function is called by this thread and should be quick.
    ///
    /// # Errors
    /// As [`Confined::wait`].
    pub fn wait_telling(mut self, mut tell: impl FnMut(&Denial)) -> Result<Ended, WaitError> {
        self.finish(&mut tell)
    }

    fn finish(&mut self, tell: &mut dyn FnMut(&Denial)) -> Result<Ended, WaitError> {
        let (mut status, mut emptied) = (None, None);
        let mut denials = BTreeMap::new();
        let (mut limit, mut hits) = (None, Vec::new());
        loop {
            let report = match self.reader.next(self.line.socket.as_fd()) {
                Ok(Some(report)) => report,
                Ok(None) => break,
                Err(_) => {
                    // Whoever speaks out of turn is ended, and must not wait
                    // for a reader meanwhile.
                    self.killer().kill();
                    let _ = shutdown(&self.line.socket, Shutdown::Both);
                    break;
                }
            };
            match report {
                Report::Denied(batch) => {
                    for denial in batch {
                        tell(&denial);
                        denials.insert(denial.number, denial);
                    }
                }
                Report::Exited { status: raw } => status = Some(ExitStatus::from_raw(raw)),
                Report::Emptied { cpu_ms, proof } => emptied = Some((cpu_ms, proof)),
                Report::Crossed(hit) => limit = Some(hit),
                Report::Noticed(hit) => hits.push(hit),
                Report::Merged(_)
                | Report::Ready(_)
                | Report::Started { .. }
                | Report::Failed(_) => {}
            }
        }
        self.helper.wait().map_err(WaitError::Helper)?;
        if emptied.is_none() && self.init_ended() {
            // The helper was killed; its init dies of that, and the kernel
            // reports an init's end only when its namespace is empty.
            emptied = Some((0, Proof::PidNamespace));
        }
        let (cpu_ms, emptied) = emptied.ok_or(WaitError::NotProven)?;
        let (code, signal) = match status {
            Some(status) => (status.code(), status.signal()),
            None => (None, Some(Signal::KILL.as_raw())),
        };
        // The group is read when nothing in it counts any more, and goes.
        hits.extend(self.group.take().iter().flat_map(Group::hits));
        let limit = limit
            .or_else(|| out_of_memory(&hits))
            .or_else(|| by_signal(&self.limits, signal));
        if let Some(limit) = &limit
            && !hits.iter().any(|hit| hit.limit == limit.limit)
        {
            hits.push(limit.clone());
        }
        Ok(Ended {
            code,
            signal,
            cpu_ms,
            emptied,
            denials: denials.into_values().collect(),
            limit,
            hits,
        })
    }

    /// Waits for the init by its handle; false if there is none.
    fn init_ended(&self) -> bool {
        let Some(init) = &self.line.init else {
            return false;
        };
        loop {
            let mut entry = [PollFd::new(init, PollFlags::IN)];
            match poll(&mut entry, None) {
                Ok(_) if entry[0].revents().contains(PollFlags::IN) => return true,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Whether the kernel ended processes for want of memory. Then the tree's work
/// is cut short, also where what was left of it ended by itself.
fn out_of_memory(hits: &[LimitHit]) -> Option<LimitHit> {
    hits.iter().find(|hit| hit.limit == Limit::Memory).cloned()
}

/// The limit that the kernel ended the command itself for, by its signal.
fn by_signal(limits: &Limits, signal: Option<i32>) -> Option<LimitHit> {
    let (limit, value) = match Signal::from_named_raw(signal?)? {
        Signal::XCPU => (Limit::Cpu, limits.cpu_seconds?),
        Signal::XFSZ => (Limit::FileSize, limits.file_bytes?),
        _ => return None,
    };
    Some(LimitHit {
        limit,
        value,
        by: Mechanism::Rlimit,
        count: 1,
    })
}

impl Drop for Confined {
    fn drop(&mut self) {
        // After `wait` the helper has been reaped, and this does nothing.
        if let Ok(None) = self.helper.try_wait() {
            self.killer().kill();
            drop(self.finish(&mut |_| {}));
        }
    }
}
