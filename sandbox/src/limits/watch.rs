//! Owns the watchdog: what no control group bounds is measured here.
//!
//! Runs in the first process of the cage, between its other duties: each look
//! is short, a long walk goes on in slices, and a pause is a multiple of what
//! a walk took. So it costs little, and between two looks a tree can use more
//! than it may; a limit that the kernel holds is always preferred. It decides
//! that a limit was crossed and ends nothing itself.

use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, fstat, memfd_create, statvfs};

use super::group::Joining;
use super::join::Joined;
use super::space::Space;
use super::tree::{self, Tree};
use super::{Limit, LimitHit, Mechanism};
use crate::policy::{Access, Layer, Limits, Mount, Policy, PolicyError};

/// Between two looks while everything is far from its limit.
pub(super) const CALM: Duration = Duration::from_millis(100);
/// Between two looks where memory is measured, which is used up faster than
/// anything else.
pub(super) const ALERT: Duration = Duration::from_millis(50);
/// Between two looks when something is past half of its limit.
const NEAR: Duration = Duration::from_millis(20);
/// A pause is at least so many times as long as the look before it.
pub(super) const REST: u32 = 10;

/// The monotonic time.
#[expect(
    clippy::disallowed_methods,
    reason = "the watch measures intervals inside the cage, where the launcher's clock is not"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// What a look found.
pub(crate) enum Look {
    /// Nothing; look again after this.
    Again(Duration),
    /// The tree must end.
    Crossed(LimitHit),
}

/// What holds the number of processes besides a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByUser {
    /// The kernel counts those of a user namespace that only this cage is in.
    Counted,
    /// It does not: the superuser is exempt, or others are counted too.
    NotCounted,
}

/// Watches one tree.
pub(crate) struct Watch {
    joined: Joined,
    memory: Option<Memory>,
    /// The limit on memory, where the group holds it.
    held_memory: Option<u64>,
    processes: Option<u64>,
    cpu_ms: Option<u64>,
    disk: Option<Space>,
    stood_at_limit: bool,
    /// No look is worth its while before this.
    due: Instant,
    tree_due: Instant,
}

/// Memory that is measured.
struct Memory {
    limit: u64,
    /// Private directories in memory.
    private: Vec<std::path::PathBuf>,
    /// The device of files in memory that have no name.
    nameless: Option<u64>,
    /// Whether the machine has swap, in which memory could hide.
    swaps: bool,
}

impl Watch {
    /// Opens what will be measured; none where there is nothing to measure.
    ///
    /// To be called while the host's names lead to the host's files.
    pub(crate) fn prepare(
        policy: &Policy,
        joining: &Joining,
        joined: Joined,
    ) -> Result<Self, PolicyError> {
        let none = Limits::default();
        let limits = match policy.waives(Layer::Limits) {
            true => &none,
            false => &policy.limits,
        };
        let free =
            |limit: Limit, value: Option<u64>| value.filter(|_| joining.holder(limit).is_none());
        let disk = match &limits.disk {
            Some(disk) if disk.bytes.is_some() || disk.files.is_some() => {
                Some(Space::open(disk.clone())?)
            }
            Some(_) | None => None,
        };
        Ok(Self {
            joined,
            memory: free(Limit::Memory, limits.memory_bytes).map(|limit| Memory::of(limit, policy)),
            held_memory: limits
                .memory_bytes
                .filter(|_| joining.holder(Limit::Memory).is_some()),
            processes: free(Limit::Processes, limits.processes),
            cpu_ms: limits
                .cpu_seconds
                .map(|seconds| seconds.saturating_mul(1000)),
            disk,
            stood_at_limit: false,
            due: now(),
            tree_due: now(),
        })
    }

    /// Forks; the first child is born in the group.
    pub(crate) fn fork(&mut self) -> std::io::Result<crate::sys::process::Fork> {
        self.joined.fork()
    }

    /// Looks once; none where there is nothing to look at.
    pub(crate) fn look(&mut self, by_user: ByUser) -> Option<Look> {
        let start = now();
        if start < self.due {
            // Signals wake the caller as often as children end.
            return Some(Look::Again(self.due - start));
        }
        let looks = [
            self.look_at_kills(),
            self.look_at_tree(by_user, start),
            self.look_at_disk(),
        ];
        let mut pause: Option<Duration> = None;
        for look in looks.into_iter().flatten() {
            match look {
                Look::Crossed(_) => return Some(look),
                Look::Again(after) => {
                    pause = Some(pause.map_or(after, |before| before.min(after)));
                }
            }
        }
        self.due = start + pause?;
        pause.map(Look::Again)
    }

    /// What was noticed and did not end the tree.
    pub(crate) fn noticed(&self) -> Option<LimitHit> {
        let value = self.processes.filter(|_| self.stood_at_limit)?;
        Some(LimitHit {
            limit: Limit::Processes,
            value,
            by: Mechanism::Rlimit,
            count: 1,
        })
    }

    /// In an old hierarchy the kernel ends one process for want of memory, and
    /// what is left of the tree would go on without it.
    fn look_at_kills(&self) -> Option<Look> {
        let value = self.held_memory?;
        if !self.joined.tells_kills() {
            return None;
        }
        Some(match self.joined.killed() {
            0 => Look::Again(CALM),
            count => Look::Crossed(LimitHit {
                limit: Limit::Memory,
                value,
                by: Mechanism::CgroupV1,
                count,
            }),
        })
    }

    fn look_at_tree(&mut self, by_user: ByUser, start: Instant) -> Option<Look> {
        if start < self.tree_due {
            return Some(Look::Again(self.tree_due - start));
        }
        let counted = self.joined.cpu_ms();
        let blind = self.cpu_ms.is_some() && counted.is_none();
        let wanted = self.memory.is_some() || self.processes.is_some() || blind;
        // A look that fails, for want of descriptors or of a procfs, is made
        // again: what cannot be seen now may be seen the next time.
        let tree = wanted.then(tree::look).and_then(Result::ok);
        let mut measured = Vec::new();
        if let (Some(limit), Some(used)) = (
            self.cpu_ms,
            counted.or(tree.as_ref().map(|tree| tree.cpu_ms)),
        ) {
            measured.push((Limit::Cpu, used, limit, 1000));
        }
        if let Some(tree) = &tree {
            if let Some(limit) = self.processes {
                match by_user {
                    ByUser::NotCounted => {
                        measured.push((Limit::Processes, tree.threads, limit, 1));
                    }
                    ByUser::Counted => self.stood_at_limit |= tree.threads >= limit,
                }
            }
            if let Some(memory) = &self.memory {
                measured.push((Limit::Memory, memory.used(tree), memory.limit, 1));
            }
        }
        let watched = wanted || !measured.is_empty();
        let mut pause = match (&self.memory, &tree) {
            (Some(_), _) => ALERT,
            (None, None) if wanted => ALERT,
            (None, _) => CALM,
        };
        for (limit, used, most, unit) in measured {
            if used > most {
                return Some(crossed(limit, most / unit));
            }
            if used > most / 2 {
                pause = NEAR;
            }
        }
        // A tree of thousands takes long to look at.
        let pause = pause.max(start.elapsed() * REST);
        self.tree_due = start + pause;
        watched.then_some(Look::Again(pause))
    }

    fn look_at_disk(&mut self) -> Option<Look> {
        let space = self.disk.as_mut()?;
        Some(match space.look() {
            Look::Again(after) if space.is_near() => Look::Again(after.min(NEAR)),
            look => look,
        })
    }
}

pub(super) fn crossed(limit: Limit, value: u64) -> Look {
    Look::Crossed(LimitHit {
        limit,
        value,
        by: Mechanism::Watchdog,
        count: 1,
    })
}

impl Memory {
    fn of(limit: u64, policy: &Policy) -> Self {
        let mounts = policy.view.mounts.iter().filter_map(|mount| match mount {
            Mount::Tmpfs {
                target,
                access: Access::ReadWrite,
                ..
            } => Some(target.0.clone()),
            Mount::Tmpfs { .. } | Mount::Bind { .. } | Mount::Overlay { .. } => None,
        });
        let mut private: Vec<_> = mounts.collect();
        let shared = std::path::PathBuf::from("/dev/shm");
        if policy.mounts_wanted() && !private.contains(&shared) {
            private.push(shared);
        }
        Self {
            limit,
            private,
            nameless: memfd_create("size", MemfdFlags::CLOEXEC)
                .and_then(|file| fstat(&file))
                .map(|data| data.st_dev)
                .ok(),
            // The first line is a heading.
            swaps: std::fs::read_to_string("/proc/swaps")
                .is_ok_and(|text| text.lines().count() > 1),
        }
    }

    /// What the tree uses; exact only where a rough look finds too much.
    fn used(&self, tree: &Tree) -> u64 {
        let mut files = tree.nameless(self.nameless, &[].into()).memory;
        for directory in &self.private {
            if let Ok(data) = statvfs(directory) {
                files += (data.f_blocks - data.f_bfree) * data.f_frsize;
            }
        }
        let swapped = if self.swaps { tree.swapped() } else { 0 };
        let roughly = tree.resident + swapped + files;
        if roughly <= self.limit {
            return roughly;
        }
        let (private, shared) = tree.memory();
        // Files in memory that are mapped show in both.
        private + shared.max(files)
    }
}

/// The number of processes that a user namespace of the cage's own may hold:
/// the stage is counted there as well, and others of it than are always there.
pub(crate) fn with_stage(processes: u64, others: u64) -> u64 {
    const HELPER_AND_INIT: u64 = 2;
    processes.saturating_add(HELPER_AND_INIT + others)
}
