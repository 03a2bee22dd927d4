//! Time as data.
//!
//! Owns the trait through which every room learns what time it is, so that a
//! test decides it, and the deadline: an absolute instant, never a duration,
//! because a duration starts anew at each level of a tree. `SystemClock` is
//! the one place that asks the machine.

use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Tells the time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The wall-clock time, for records and deadlines.
    fn now(&self) -> Timestamp;
}

/// Whether `now` lies in the time after `since`; a clock that was set back
/// says that it does not.
#[must_use]
pub fn is_within(since: Timestamp, time: Duration, now: Timestamp) -> bool {
    Duration::try_from(now.duration_since(since)).is_ok_and(|passed| passed < time)
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to the machine's clock"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands until it is moved; for tests.
#[derive(Debug)]
pub struct FixedClock(Mutex<Timestamp>);

impl FixedClock {
    /// Starts at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(Mutex::new(start))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        let mut now = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *now = now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        *self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The instant at which an agent must have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Deadline(Timestamp);

impl Deadline {
    /// At this instant.
    #[must_use]
    pub fn at(instant: Timestamp) -> Self {
        Self(instant)
    }

    /// The instant.
    #[must_use]
    pub fn instant(self) -> Timestamp {
        self.0
    }

    /// How long is left; zero when it has passed.
    #[must_use]
    pub fn remaining(self, now: Timestamp) -> Duration {
        Duration::try_from(self.0.duration_since(now)).unwrap_or(Duration::ZERO)
    }

    /// Whether it has passed.
    #[must_use]
    pub fn has_passed(self, now: Timestamp) -> bool {
        now >= self.0
    }

    /// The earlier of two; `None` means no deadline.
    #[must_use]
    pub fn earliest(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_an_instant_and_the_earlier_one_wins() {
        let clock = FixedClock::new(Timestamp::UNIX_EPOCH);
        let soon = Deadline::at(Timestamp::UNIX_EPOCH + Duration::from_secs(10));
        let late = Deadline::at(Timestamp::UNIX_EPOCH + Duration::from_secs(20));
        assert_eq!(Deadline::earliest(Some(late), Some(soon)), Some(soon));
        assert_eq!(Deadline::earliest(None, Some(soon)), Some(soon));
        clock.advance(Duration::from_secs(4));
        assert_eq!(soon.remaining(clock.now()), Duration::from_secs(6));
        clock.advance(Duration::from_secs(6));
        assert!(soon.has_passed(clock.now()));
        assert_eq!(soon.remaining(clock.now()), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_was_set_back_is_within_nothing() {
        let at = |second| Timestamp::from_second(second).expect("because it is in range");
        let ten = Duration::from_secs(10);
        for (now, expected) in [(100, true), (109, true), (110, false), (99, false)] {
            assert_eq!(is_within(at(100), ten, at(now)), expected, "{now}");
        }
    }
}
