//! Owns when directories are measured, and what that means for their limits.
//!
//! A walk of a large tree costs, so it is made when the file system has lost
//! room that could matter, now and then anyway, and never without a pause many
//! times as long. It goes on in slices with the watch's other looks between, and
//! what it has found is judged after each of them. Where only what was added
//! counts, the first walk finds what was there; until it is done the room that
//! the file system has lost stands for what was added.

use std::time::{Duration, Instant};

use super::Limit;
use super::disk::{DEEPEST, Progress, Roots, Used, Walk};
use super::tree;
use super::watch::{ALERT, CALM, Look, REST, crossed, now};
use crate::policy::{Counted, Disk, PolicyError};

/// How long one look may keep the caller from its other duties.
const SLICE: Duration = Duration::from_millis(5);
/// A walk is repeated at the latest after this.
const WALK_AFTER: Duration = Duration::from_secs(2);

/// Room on disk that is measured.
pub(super) struct Space {
    limits: Disk,
    roots: Roots,
    /// What does not count.
    base: Option<Used>,
    last: Used,
    /// Room that was left before the command started.
    before: Used,
    /// Room that was left when the last walk began.
    free: Used,
    walk: Option<(Walk, Duration)>,
    due: Instant,
    latest: Instant,
}

impl Space {
    pub(super) fn open(limits: Disk) -> Result<Self, PolicyError> {
        let roots = Roots::open(&limits.directories)?;
        let base = match limits.counted {
            Counted::All => Some(Used::default()),
            Counted::Added => None,
        };
        let start = now();
        let before = roots.free();
        Ok(Self {
            limits,
            roots,
            base,
            before,
            last: Used::default(),
            free: Used::default(),
            walk: None,
            due: start,
            latest: start,
        })
    }

    /// Looks once, for as long as a slice lasts.
    pub(super) fn look(&mut self) -> Look {
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
        let (took, found) = (*took, walk.used);
        match progress {
            // As long as the slice was, so that half a processor stays free.
            Progress::More => self.verdict(self.so_far(found), SLICE),
            Progress::Starved => {
                self.walk = None;
                self.verdict(self.so_far(found), ALERT)
            }
            Progress::TooDeep => {
                self.walk = None;
                crossed(Limit::DiskDepth, DEEPEST as u64)
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
                self.verdict(self.last, CALM)
            }
        }
    }

    /// The least that is used while a walk is under way.
    fn so_far(&self, found: Used) -> Used {
        match self.base {
            Some(base) => found.less(base),
            None => self.before.less(self.roots.free()),
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

    /// Whether more than half of a limit is used.
    pub(super) fn is_near(&self) -> bool {
        let near = |limit: Option<u64>, last: u64| limit.is_some_and(|limit| last > limit / 2);
        near(self.limits.bytes, self.last.bytes) || near(self.limits.files, self.last.files)
    }

    fn verdict(&self, used: Used, pause: Duration) -> Look {
        match (self.limits.bytes, self.limits.files) {
            (Some(limit), _) if used.bytes > limit => crossed(Limit::Disk, limit),
            (_, Some(limit)) if used.files > limit => crossed(Limit::DiskFiles, limit),
            _ => Look::Again(pause),
        }
    }
}
