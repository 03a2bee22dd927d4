//! Owns a name for the first process of a cage that outlives the launcher.
//!
//! A launcher writes it down; whoever finds it after the launcher died can end
//! that very process and wait for it, and with it for everything inside. A
//! number alone names nobody for long: the start time and the boot stand
//! beside it, and both are compared after a handle on the process is held.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::procfs::Stat;

/// How long an ended process may take to be gone: the kernel ends a whole
/// namespace in it, however large.
const GONE_WITHIN: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// Names one process of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pid: i32,
    start: u64,
    boot: String,
    /// Whether it sweeps what is inside when its launcher is dead, and must
    /// have the time for it: killing it would not end the rest.
    #[serde(default)]
    sweeps: bool,
}

impl Identity {
    /// Names a process that is alive or not yet waited for.
    ///
    /// # Errors
    /// There is no such process, or procfs cannot be read.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        Ok(Self {
            pid,
            start: start_time(pid)?,
            boot: boot()?,
            sweeps: false,
        })
    }

    /// Names a process that sweeps what is inside before it ends.
    ///
    /// # Errors
    /// There is no such process, or procfs cannot be read.
    pub(crate) fn of_sweeper(pid: i32) -> io::Result<Self> {
        Ok(Self {
            sweeps: true,
            ..Self::of(pid)?
        })
    }

    /// Names the process that a handle means; `None` when it is gone.
    ///
    /// The number is read from the handle itself (`pidfd` fdinfo, Linux 5.10).
    pub(crate) fn of_handle(handle: &OwnedFd) -> Option<Self> {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
        let pid = info
            .lines()
            .find_map(|line| line.strip_prefix("Pid:"))?
            .trim()
            .parse()
            .ok()?;
        Self::of(pid).ok()
    }

    /// Kills the process, if it is still this one, and waits until it is gone.
    ///
    /// A process that has ended already is fine. For the first process of a
    /// PID namespace its end means the end of everything inside. One that
    /// sweeps is not killed but waited for: it does so since its launcher died.
    ///
    /// # Errors
    /// It is still there after half a minute, or cannot be looked at.
    pub fn end_and_wait(&self) -> io::Result<()> {
        if boot()? != self.boot {
            return Ok(());
        }
        let Some(pid) = Pid::from_raw(self.pid) else {
            return Ok(());
        };
        let handle: OwnedFd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        // Compared only now that the number cannot be given to another
        // process without this handle noticing.
        match start_time(self.pid) {
            Ok(start) if start == self.start => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        if !self.sweeps {
            match pidfd_send_signal(&handle, Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let mut entry = [PollFd::new(&handle, PollFlags::IN)];
        match poll(&mut entry, Some(&GONE_WITHIN))? {
            0 => Err(io::Error::from(io::ErrorKind::TimedOut)),
            _ => Ok(()),
        }
    }
}

/// When a process started, in ticks since the boot.
pub(crate) fn start_time(pid: i32) -> io::Result<u64> {
    Stat::of(pid)?.field(22).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{pid}/stat has no start time"),
        )
    })
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_very_process_and_no_other() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .expect("because sleep is everywhere");
        let pid = i32::try_from(child.id()).expect("because a process id fits");
        let identity = Identity::of(pid).expect("because the child is alive");
        let other = Identity {
            start: identity.start + 1,
            ..identity.clone()
        };
        other
            .end_and_wait()
            .expect("because another process is none of its business");
        assert!(child.try_wait().expect("because it is our child").is_none());
        identity.end_and_wait().expect("because it can be killed");
        assert!(
            child
                .wait()
                .expect("because it is our child")
                .code()
                .is_none()
        );
        identity.end_and_wait().expect("because it is gone");
    }
}
