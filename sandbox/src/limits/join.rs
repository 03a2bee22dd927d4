//! Owns how the stage gets into its group.
//!
//! The helper stays out, so that it can tell of a group whose processes the
//! kernel ended all at once; its first child is in. In the unified hierarchy
//! that child is born inside, in an old one it moves itself before it does
//! anything else. The group is opened before all that: later, neither the path
//! nor the right to it is there.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::group::{Joining, number_of};
use super::places::Version;
use crate::layers::LayerError;
use crate::sys::process::{Fork, fork, fork_into};

/// What the stage holds of its group.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// The group that the next child is to be born in.
    into: Option<OwnedFd>,
    /// Where the next child moves itself.
    tasks: Vec<OwnedFd>,
    /// Where an old hierarchy counts processes ended for want of memory.
    oom: Option<OwnedFd>,
    /// Where processor time is counted.
    cpu: Option<(Version, OwnedFd)>,
}

/// Opens all parts of the group.
pub(crate) fn join(joining: &Joining) -> Result<Joined, LayerError> {
    let mut joined = Joined::default();
    for (version, directory) in &joining.parts {
        let what = || format!("join the control group `{directory}`");
        let open = |file: &str, flags: OFlags| {
            let path = (directory.as_ref() as &Path).join(file);
            openat(CWD, &path, flags | OFlags::CLOEXEC, Mode::empty())
        };
        match version {
            Version::One => {
                // Not `cgroup.procs`: a thread that moves itself needs no
                // grace period of the whole machine.
                let tasks = open("tasks", OFlags::WRONLY).map_err(LayerError::step(what()))?;
                joined.tasks.push(tasks);
                // Each is there in the hierarchy of its controller only.
                joined.oom = joined
                    .oom
                    .or_else(|| open("memory.oom_control", OFlags::RDONLY).ok());
                joined.cpu = joined.cpu.or_else(|| {
                    let counter = open("cpuacct.usage", OFlags::RDONLY).ok()?;
                    Some((Version::One, counter))
                });
            }
            Version::Two => {
                let group = open("", OFlags::RDONLY | OFlags::DIRECTORY)
                    .map_err(LayerError::step(what()))?;
                joined.into = Some(group);
                joined.cpu = open("cpu.stat", OFlags::RDONLY)
                    .ok()
                    .map(|counter| (Version::Two, counter));
            }
        }
    }
    Ok(joined)
}

impl Joined {
    /// Forks; the first child that is made this way is in the group.
    ///
    /// An error can be the child's, which then must not go on.
    pub(crate) fn fork(&mut self) -> io::Result<Fork> {
        let tasks = std::mem::take(&mut self.tasks);
        let forked = match self.into.take() {
            Some(group) => born_in(&group)?,
            None => fork()?,
        };
        if matches!(forked, Fork::Child) {
            for tasks in &tasks {
                rustix::io::write(tasks, b"0")?;
            }
        }
        Ok(forked)
    }

    /// How many processes an old hierarchy ended for want of memory.
    pub(super) fn killed(&self) -> u64 {
        let text = self.oom.as_ref().and_then(|file| text(file).ok());
        text.map_or(0, |text| number_of(&text, "oom_kill"))
    }

    /// Whether the group counts processes ended for want of memory itself.
    pub(super) fn tells_kills(&self) -> bool {
        self.oom.is_some()
    }

    /// Processor time of the tree in milliseconds, where the group counts it.
    pub(super) fn cpu_ms(&self) -> Option<u64> {
        let (version, file) = self.cpu.as_ref()?;
        let text = text(file).ok()?;
        Some(match version {
            Version::One => text.trim().parse::<u64>().ok()? / 1_000_000,
            Version::Two => number_of(&text, "usage_usec") / 1000,
        })
    }
}

/// Forks into a group of the unified hierarchy.
fn born_in(group: &OwnedFd) -> io::Result<Fork> {
    match fork_into(group) {
        // Before Linux 5.7, and where a filter forbids the call, this
        // process moves itself instead, which takes longer.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOSYS | libc::E2BIG | libc::EPERM)
            ) =>
        {
            let procs = openat(
                group,
                "cgroup.procs",
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            rustix::io::write(&procs, b"0")?;
            fork()
        }
        other => other,
    }
}

/// Reads a counter from its beginning.
fn text(file: &OwnedFd) -> io::Result<String> {
    let mut buffer = [0; 1024];
    let read = rustix::io::pread(file, &mut buffer, 0)?;
    Ok(String::from_utf8_lossy(&buffer[..read]).into_owned())
}
