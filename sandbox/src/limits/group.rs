//! Owns one control group: the launcher makes it, reads it at the end, removes it.
//!
//! Its name tells whose it is, so that a later start can take away what a
//! killed launcher left. Nobody is put into it here: the stage does
//! that, before it starts anything ([`super::join`]). A machine that gives
//! no group is no error; the reason goes into the report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::places::{Place, Places, Version};
use super::{Limit, LimitHit, Mechanism};
use crate::policy::{HostPath, Limits};

/// What the names of all groups begin with.
pub(super) const PREFIX: &str = "cofferdam-";

/// The init is in the group too and is none of the command's processes.
const INIT: u64 = 1;

/// A group, in one hierarchy or in several.
#[derive(Debug)]
pub(crate) struct Group {
    parts: Vec<Part>,
}

/// The group's directory in one hierarchy.
#[derive(Debug)]
struct Part {
    directory: PathBuf,
    version: Version,
    /// The limits that it holds, with their values.
    holds: Vec<(Limit, u64)>,
}

/// What the stage has to know of the group.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Joining {
    /// Each directory to join.
    pub(crate) parts: Vec<(Version, HostPath)>,
    /// The limits that the group holds.
    pub(crate) held: Vec<(Limit, Mechanism)>,
    /// Whether it counts processor time.
    pub(crate) counts_cpu: bool,
    /// Why it does not hold all that it could.
    pub(crate) missing: Option<String>,
}

impl Joining {
    /// By what the group holds a limit.
    pub(crate) fn holder(&self, limit: Limit) -> Option<Mechanism> {
        let held = self.held.iter().find(|(held, _)| *held == limit);
        held.map(|(_, by)| *by)
    }
}

impl Version {
    pub(crate) fn mechanism(self) -> Mechanism {
        match self {
            Self::One => Mechanism::CgroupV1,
            Self::Two => Mechanism::CgroupV2,
        }
    }
}

impl Group {
    /// Makes the group that these limits call for; none where there is nothing
    /// to hold or this user may make none.
    pub(crate) fn make(limits: &Limits) -> (Option<Self>, Joining) {
        let memory = limits.memory_bytes.map(|bytes| (Limit::Memory, bytes));
        let processes = limits.processes.map(|count| (Limit::Processes, count));
        if memory.is_none() && processes.is_none() && limits.cpu_seconds.is_none() {
            return (None, Joining::default());
        }
        let places = Places::here();
        let mut missing = Vec::new();
        let mut group = Self { parts: Vec::new() };
        let name = own_name();
        if let Some(place) = places.unified(&["memory", "pids"]) {
            let holds = memory.into_iter().chain(processes).collect();
            group.add(place, &name, holds, &mut missing);
        }
        if group.parts.is_empty() {
            let mut none = Vec::new();
            for (controller, held) in [("memory", memory), ("pids", processes)] {
                let Some(held) = held else { continue };
                match places.old(controller) {
                    Some(place) => group.add(place, &name, vec![held], &mut missing),
                    None => none.push(controller),
                }
            }
            if !none.is_empty() {
                missing.push(format!(
                    "this user can make no control group with {} \
                     (`systemd-run --user --scope` starts a command where that is possible)",
                    none.join(" and ")
                ));
            }
        }
        let counts = group.parts.iter().any(|part| part.version == Version::Two);
        if limits.cpu_seconds.is_some()
            && !counts
            && let Some(place) = places.unified(&[]).or_else(|| places.old("cpuacct"))
        {
            // Counts better than a look at every process does; nothing is
            // missing without it.
            group.add(place, &name, Vec::new(), &mut Vec::new());
        }
        let joining = group.joining(missing);
        let group = (!group.parts.is_empty()).then_some(group);
        (group, joining)
    }

    /// What the stage has to know.
    fn joining(&self, missing: Vec<String>) -> Joining {
        Joining {
            parts: self
                .parts
                .iter()
                .map(|part| (part.version, part.directory.as_path().into()))
                .collect(),
            held: self
                .parts
                .iter()
                .flat_map(|part| {
                    part.holds
                        .iter()
                        .map(|(limit, _)| (*limit, part.version.mechanism()))
                })
                .collect(),
            counts_cpu: self.parts.iter().any(Part::counts_cpu),
            missing: (!missing.is_empty()).then(|| missing.join("; ")),
        }
    }

    fn add(
        &mut self,
        place: Place,
        name: &str,
        holds: Vec<(Limit, u64)>,
        missing: &mut Vec<String>,
    ) {
        let part = Part {
            directory: place.directory.join(name),
            version: place.version,
            holds,
        };
        let made = fs::create_dir(&part.directory)
            .and_then(|()| part.set().inspect_err(|_| part.remove()));
        match made {
            Ok(()) => self.parts.push(part),
            Err(error) => missing.push(format!(
                "the control group `{}` cannot be made: {error}",
                part.directory.display()
            )),
        }
    }

    /// The limits that were reached, as the kernel counted them.
    pub(crate) fn hits(&self) -> Vec<LimitHit> {
        let mut hits = Vec::new();
        for part in &self.parts {
            for (limit, value) in &part.holds {
                let count = part.count(*limit);
                if count > 0 {
                    hits.push(LimitHit {
                        limit: *limit,
                        value: *value,
                        by: part.version.mechanism(),
                        count,
                    });
                }
            }
        }
        hits
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for part in &self.parts {
            part.remove();
        }
    }
}

impl Part {
    /// Every group of the unified hierarchy does, and in an old one those of a
    /// hierarchy of its own.
    fn counts_cpu(&self) -> bool {
        self.version == Version::Two || self.directory.join("cpuacct.usage").exists()
    }

    fn set(&self) -> io::Result<()> {
        let set = |file: &str, value: u64| write(&self.directory.join(file), value);
        for (limit, value) in &self.holds {
            match (limit, self.version) {
                (Limit::Memory, Version::One) => {
                    set("memory.limit_in_bytes", *value)?;
                    // Memory and swap together, where swap is counted at all.
                    if_there(set("memory.memsw.limit_in_bytes", *value))?;
                }
                (Limit::Memory, Version::Two) => {
                    set("memory.max", *value)?;
                    if_there(set("memory.swap.max", 0))?;
                    set("memory.oom.group", 1)?;
                }
                (Limit::Processes, _) => set("pids.max", value.saturating_add(INIT))?,
                (
                    Limit::Cpu
                    | Limit::OpenFiles
                    | Limit::FileSize
                    | Limit::Disk
                    | Limit::DiskFiles
                    | Limit::DiskDepth
                    | Limit::Output,
                    _,
                ) => {}
            }
        }
        Ok(())
    }

    /// How often a limit was reached.
    fn count(&self, limit: Limit) -> u64 {
        let read = |file: &str, key: &str| counter(&self.directory.join(file), key);
        match (limit, self.version) {
            (Limit::Memory, Version::One) => read("memory.oom_control", "oom_kill"),
            (Limit::Memory, Version::Two) => read("memory.events", "oom_kill"),
            (Limit::Processes, _) => read("pids.events", "max"),
            (
                Limit::Cpu
                | Limit::OpenFiles
                | Limit::FileSize
                | Limit::Disk
                | Limit::DiskFiles
                | Limit::DiskDepth
                | Limit::Output,
                _,
            ) => 0,
        }
    }

    /// Removes the directory, which works once the last process is gone.
    ///
    /// After a failed start that takes a moment; whoever is still there is
    /// killed. What stays after it is named so that a later start takes it away.
    fn remove(&self) {
        const TRIES: u32 = 2000;
        for _ in 0..TRIES {
            match fs::remove_dir(&self.directory) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    self.kill();
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(()) | Err(_) => return,
            }
        }
    }

    /// Kills every process in the group, which is this launcher's own.
    fn kill(&self) {
        match self.version {
            // Before Linux 5.14 there is no such file; then waiting must do.
            Version::Two => drop(write(&self.directory.join("cgroup.kill"), 1)),
            Version::One => {
                for pid in self.members() {
                    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
                        continue;
                    };
                    // Only now that the handle means one process for ever.
                    if self.members().contains(&pid) {
                        let _ = pidfd_send_signal(&handle, Signal::KILL);
                    }
                }
            }
        }
    }

    fn members(&self) -> Vec<Pid> {
        let text = fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.parse().ok().and_then(Pid::from_raw))
            .collect()
    }
}

/// The number behind a key, as in `oom_kill 3`; nothing is zero.
pub(super) fn number_of(text: &str, key: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == key)
        .and_then(|(_, number)| number.trim().parse().ok())
        .unwrap_or(0)
}

fn counter(file: &Path, key: &str) -> u64 {
    number_of(&fs::read_to_string(file).unwrap_or_default(), key)
}

fn write(file: &Path, value: u64) -> io::Result<()> {
    // A group's files take a value in one write, and none may be created.
    let file = fs::OpenOptions::new().write(true).open(file)?;
    rustix::io::write(&file, value.to_string().as_bytes())?;
    Ok(())
}

fn if_there(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// `cofferdam-NAMESPACE-PID-START-N`: of which process, as its PID namespace
/// counts, and which of its groups.
fn own_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let start = crate::identity::start_time(pid).unwrap_or(0);
    let namespace = own_namespace().unwrap_or(0);
    format!("{PREFIX}{namespace}-{pid}-{start}-{number}")
}

/// Which PID namespace this process is in: elsewhere its number means another.
pub(super) fn own_namespace() -> Option<u64> {
    let data = rustix::fs::stat("/proc/self/ns/pid").ok()?;
    Some(data.st_ino)
}
