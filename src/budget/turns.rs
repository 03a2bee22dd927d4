//! An agent's own turns.
//!
//! Owns the rule: a turn is taken before a model is called and refused once
//! as many were taken as are allowed; a refund gives one back and never goes
//! below none. Each agent has its own; what bounds the tree is the ledger.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Turns that an agent below the first level has unless its role says more.
const BELOW_THE_ROOT: u64 = 30;

/// No turn is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("take a turn: {used} of {max} are used up")]
pub struct TurnsExhausted {
    /// Turns taken.
    pub used: u64,
    /// Turns allowed.
    pub max: u64,
}

/// The turns of one agent.
#[derive(Debug)]
pub struct Turns {
    max: Option<u64>,
    used: Mutex<u64>,
}

impl Turns {
    /// That many turns; `None` is no limit.
    #[must_use]
    pub fn new(max: Option<u64>) -> Self {
        Self {
            max,
            used: Mutex::new(0),
        }
    }

    /// The turns of an agent at `depth` whose role names a cap or none:
    /// without one, the first level is unlimited and the others have 30.
    #[must_use]
    pub fn for_depth(cap: Option<u64>, depth: u32) -> Self {
        let unset = (depth > 0).then_some(BELOW_THE_ROOT);
        Self::new(cap.or(unset))
    }

    /// Takes one turn and says how many are taken now.
    ///
    /// # Errors
    /// Refuses when as many are taken as are allowed.
    pub fn consume(&self) -> Result<u64, TurnsExhausted> {
        let mut used = self.lock();
        match self.max {
            Some(max) if *used >= max => Err(TurnsExhausted { used: *used, max }),
            Some(_) | None => {
                *used = used.saturating_add(1);
                Ok(*used)
            }
        }
    }

    /// Gives one turn back; none were taken: nothing happens.
    pub fn refund(&self) {
        let mut used = self.lock();
        *used = used.saturating_sub(1);
    }

    /// Turns taken.
    #[must_use]
    pub fn used(&self) -> u64 {
        *self.lock()
    }

    /// Turns left; `None` is no limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        let used = self.used();
        self.max.map(|max| max.saturating_sub(used))
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a step does and what it leaves: used, remaining.
    enum Step {
        Take(Result<u64, TurnsExhausted>),
        Refund(u64),
    }

    #[test]
    fn consume_refuses_at_the_cap_and_refund_never_goes_below_none() {
        let turns = Turns::new(Some(2));
        let exhausted = Err(TurnsExhausted { used: 2, max: 2 });
        let steps = [
            (Step::Refund(0), Some(2)),
            (Step::Take(Ok(1)), Some(1)),
            (Step::Take(Ok(2)), Some(0)),
            (Step::Take(exhausted), Some(0)),
            (Step::Refund(1), Some(1)),
            (Step::Take(Ok(2)), Some(0)),
            (Step::Take(exhausted), Some(0)),
        ];
        for (at, (step, remaining)) in steps.into_iter().enumerate() {
            match step {
                Step::Take(expected) => assert_eq!(turns.consume(), expected, "step {at}"),
                Step::Refund(used) => {
                    turns.refund();
                    assert_eq!(turns.used(), used, "step {at}");
                }
            }
            assert_eq!(turns.remaining(), remaining, "step {at}");
        }
    }

    #[test]
    fn a_cap_of_none_is_no_limit_at_the_root_and_thirty_below() {
        assert_eq!(Turns::for_depth(None, 0).remaining(), None);
        assert_eq!(Turns::for_depth(None, 1).remaining(), Some(30));
        assert_eq!(Turns::for_depth(Some(50), 2).remaining(), Some(50));
        assert!(Turns::new(Some(0)).consume().is_err());
    }

    #[test]
    fn many_threads_take_exactly_the_cap() {
        let turns = Turns::new(Some(100));
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| (0..50).filter(|_| turns.consume().is_ok()).count()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("because it does not panic"))
                .sum()
        });
        assert_eq!((taken, turns.used()), (100, 100));
    }
}
