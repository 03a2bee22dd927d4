//! Owns the watchdog: what no control group bounds is measured here.
//!
//! Runs in the first process of the cage, between its other duties: each look
//! is short, a long walk goes on in slices, and a pause is a multiple of what
//! a walk took. So it costs little, and between two looks a tree can use more
//! than it may; a limit that the kernel holds is always preferred. It decides
//! that a limit was crossed and ends nothing itself.

use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, fstat, memfd_create, statvfs};

use super::disk::{Progress, Roots, Used, Walk};
use super::group::{Joining, STAGE};
use super::join::{Joined, needs_watch};
use super::tree::{self, Tree};
use super::{Limit, LimitHit, Mechanism};
use crate::policy::{Access, Counted, Disk, Layer, Limits, Mount, Policy, PolicyError};

/// Between two looks while everything is far from its limit.
const CALM: Duration = Duration::from_millis(100);
/// Between two looks where memory is measured, which is used up faster than
/// anything else.
const ALERT: Duration = Duration::from_millis(50);
/// Between two looks when something is past half of its limit.
const NEAR: Duration = Duration::from_millis(20);
/// How long one look may keep the caller from its other duties.
const SLICE: Duration = Duration::from_millis(5);
/// A walk is repeated at the latest after this, and never before its own
/// duration has passed several times.
const WALK_AFTER: Duration = Duration::from_secs(2);
const REST: u32 = 10;

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
}

/// Room on disk that is measured.
struct Space {
    limits: Disk,
    roots: Roots,
    /// What does not count.
    base: Option<Used>,
    last: Used,
    /// Room that was left when the last walk began.
    free: Used,
    walk: Option<(Walk, Duration)>,
    due: Instant,
    latest: Instant,
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
        let free = |limit: Limit, value: Option<u64>| value.filter(|_| needs_watch(limit, joining));
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
                .filter(|_| !needs_watch(Limit::Memory, joining)),
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
        let tree = if self.memory.is_some() || self.processes.is_some() || blind {
            // Without a procfs there is nothing to see; the report says so.
            tree::look().ok()
        } else {
            None
        };
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
        let watched = tree.is_some() || !measured.is_empty();
        let mut pause = match self.memory {
            Some(_) => ALERT,
            None => CALM,
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

fn crossed(limit: Limit, value: u64) -> Look {
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
            Mount::Tmpfs { .. } | Mount::Bind { .. } => None,
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
        if tree.resident + files <= self.limit {
            return tree.resident + files;
        }
        let (private, shared) = tree.memory();
        // Files in memory that are mapped show in both.
        private + shared.max(files)
    }
}

impl Space {
    fn open(limits: Disk) -> Result<Self, PolicyError> {
        let roots = Roots::open(&limits.directories)?;
        let base = match limits.counted {
            Counted::All => Some(Used::default()),
            Counted::Added => None,
        };
        let start = now();
        Ok(Self {
            limits,
            roots,
            base,
            last: Used::default(),
            free: Used::default(),
            walk: None,
            due: start,
            latest: start,
        })
    }

    fn look(&mut self) -> Look {
        let start = now();
        if self.walk.is_none() {
            if !self.is_due(start) {
                return Look::Again(CALM);
            }
            self.free = self.roots.free();
            self.walk = Some((Walk::default(), Duration::ZERO));
        }
        let Some((walk, took)) = &mut self.walk else {
            return Look::Again(CALM);
        };
        let progress = walk.step(&self.roots, start + SLICE);
        *took += start.elapsed();
        let took = *took;
        match progress {
            // As long as the slice was, so that half a processor stays free.
            Progress::More => Look::Again(SLICE),
            Progress::TooDeep => {
                self.walk = None;
                self.verdict(Used {
                    bytes: u64::MAX,
                    files: u64::MAX,
                })
            }
            Progress::Done(mut used) => {
                self.walk = None;
                let end = now();
                self.due = end + took * REST;
                self.latest = end + WALK_AFTER.max(took * REST * 5);
                if let Ok(tree) = tree::look() {
                    used.bytes += tree.nameless(None, &self.roots.devices).disk;
                }
                self.last = used.less(*self.base.get_or_insert(used));
                self.verdict(self.last)
            }
        }
    }

    /// Whether a walk could find enough to matter.
    fn is_due(&self, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        let gone = self.free.less(self.roots.free());
        let half = |limit: Option<u64>, last: u64, gone: u64| {
            limit.is_some_and(|limit| gone > 0 && gone >= limit.saturating_sub(last) / 2)
        };
        now >= self.latest
            || half(self.limits.bytes, self.last.bytes, gone.bytes)
            || half(self.limits.files, self.last.files, gone.files)
    }

    fn is_near(&self) -> bool {
        let near = |limit: Option<u64>, last: u64| limit.is_some_and(|limit| last > limit / 2);
        near(self.limits.bytes, self.last.bytes) || near(self.limits.files, self.last.files)
    }

    fn verdict(&self, used: Used) -> Look {
        match (self.limits.bytes, self.limits.files) {
            (Some(limit), _) if used.bytes > limit => crossed(Limit::Disk, limit),
            (_, Some(limit)) if used.files > limit => crossed(Limit::DiskFiles, limit),
            _ => Look::Again(CALM),
        }
    }
}

/// The number of processes that a user namespace of the cage's own may hold:
/// the stage is counted there as well.
pub(crate) fn with_stage(processes: u64) -> u64 {
    processes.saturating_add(STAGE)
}
