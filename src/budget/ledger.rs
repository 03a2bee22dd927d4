//! The ledger of a run: one for the whole tree of agents.
//!
//! Owns the rule that nothing is spent that was not reserved: reserve, then
//! settle what it really cost or release it. A reservation must leave what is
//! held back for each ancestor of the one who asks, so that a child cannot
//! take the last call of its parent. Entries are only appended, and every sum
//! can be recomputed from them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::meter::{Amounts, Meter};
use crate::model::{AgentId, Gate, Refusal};

/// What an entry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Promises an amount.
    Reserve,
    /// Ends a promise with what it really cost.
    Settle,
    /// Ends a promise that cost nothing.
    Release,
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place, counted from 0.
    pub at: usize,
    /// For whom.
    pub agent: AgentId,
    /// What it does.
    pub kind: EntryKind,
    /// How much.
    pub amounts: Amounts,
    /// The promise that it ends.
    pub ends: Option<usize>,
}

#[derive(Debug, Default)]
struct Books {
    settled: Amounts,
    reserved: Amounts,
    entries: Vec<Entry>,
}

/// The ledger; clones share the books.
#[derive(Debug, Clone)]
pub struct Ledger {
    limits: Arc<[(Meter, u64)]>,
    held_back: Arc<Amounts>,
    books: Arc<Mutex<Books>>,
}

/// A promise: settled with what it cost, or released when dropped.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is released"]
pub struct Reservation {
    ledger: Ledger,
    agent: AgentId,
    entry: usize,
    amounts: Amounts,
    open: bool,
}

impl Ledger {
    /// Limits on some meters, and what is held back on each for every
    /// ancestor; a meter without a limit is only counted.
    #[must_use]
    pub fn new(limits: &[(Meter, u64)], held_back: Amounts) -> Self {
        Self {
            limits: limits.into(),
            held_back: Arc::new(held_back),
            books: Arc::default(),
        }
    }

    /// Promises an amount to an agent with that many ancestors.
    ///
    /// # Errors
    /// Refuses what the limits do not cover once the ancestors' share is left.
    pub fn reserve(
        &self,
        agent: &AgentId,
        ancestors: u32,
        amounts: Amounts,
    ) -> Result<Reservation, Refusal> {
        let mut books = self.lock();
        let kept = self.held_back.times(ancestors);
        let after = books
            .settled
            .plus(&books.reserved)
            .plus(&amounts)
            .plus(&kept);
        if let Some((meter, limit)) = self
            .limits
            .iter()
            .find(|(meter, limit)| after.on(*meter) > *limit)
        {
            let taken = books.settled.plus(&books.reserved);
            return Err(Refusal {
                gate: Gate::Budget,
                have: format!(
                    "{} {} are spent or promised, {} more are asked for and {} are kept for ancestors",
                    taken.on(*meter),
                    meter.word(),
                    amounts.on(*meter),
                    kept.on(*meter)
                ),
                limit: limit.to_string(),
                setting: meter.setting().to_owned(),
                advice: "complete the task with what is left".to_owned(),
            });
        }
        books.reserved = books.reserved.plus(&amounts);
        let entry = books.append(agent, EntryKind::Reserve, amounts.clone(), None);
        Ok(Reservation {
            ledger: self.clone(),
            agent: agent.clone(),
            entry,
            amounts,
            open: true,
        })
    }

    /// What is spent.
    #[must_use]
    pub fn settled(&self) -> Amounts {
        self.lock().settled.clone()
    }

    /// What is promised and not yet spent.
    #[must_use]
    pub fn reserved(&self) -> Amounts {
        self.lock().reserved.clone()
    }

    /// All entries so far.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    fn end(&self, reservation: &Reservation, kind: EntryKind, amounts: Amounts) {
        let mut books = self.lock();
        books.reserved = books.reserved.minus(&reservation.amounts);
        books.settled = books.settled.plus(&amounts);
        books.append(&reservation.agent, kind, amounts, Some(reservation.entry));
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn append(
        &mut self,
        agent: &AgentId,
        kind: EntryKind,
        amounts: Amounts,
        ends: Option<usize>,
    ) -> usize {
        let at = self.entries.len();
        self.entries.push(Entry {
            at,
            agent: agent.clone(),
            kind,
            amounts,
            ends,
        });
        at
    }
}

impl Reservation {
    /// Ends the promise with what it really cost, more than promised included.
    pub fn settle(mut self, actual: Amounts) {
        self.open = false;
        self.ledger.end(&self, EntryKind::Settle, actual);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.open {
            self.ledger.end(self, EntryKind::Release, Amounts::none());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(amount: u64) -> Amounts {
        Amounts::none().with(Meter::Tokens, amount)
    }

    fn agent(bits: u64) -> AgentId {
        AgentId::from_bits(bits)
    }

    fn recomputed(ledger: &Ledger) -> (Amounts, Amounts) {
        let entries = ledger.entries();
        let mut settled = Amounts::none();
        let mut reserved = Amounts::none();
        for entry in &entries {
            match entry.kind {
                EntryKind::Reserve => reserved = reserved.plus(&entry.amounts),
                EntryKind::Settle | EntryKind::Release => {
                    let promise = &entries[entry.ends.expect("because it ends a promise")];
                    reserved = reserved.minus(&promise.amounts);
                    settled = settled.plus(&entry.amounts);
                }
            }
        }
        (settled, reserved)
    }

    #[test]
    fn reserve_settle_and_release_follow_the_table() {
        let ledger = Ledger::new(&[(Meter::Tokens, 100)], Amounts::none());
        let first = ledger
            .reserve(&agent(1), 0, tokens(60))
            .expect("because 60 of 100 are free");
        let refused = ledger
            .reserve(&agent(2), 0, tokens(41))
            .expect_err("because only 40 are free");
        assert_eq!(
            (
                refused.gate,
                refused.setting.as_str(),
                refused.limit.as_str()
            ),
            (Gate::Budget, "--tokens", "100")
        );
        let second = ledger
            .reserve(&agent(2), 0, tokens(40))
            .expect("because 40 are free");
        assert_eq!(ledger.reserved(), tokens(100));
        first.settle(tokens(70));
        drop(second);
        assert_eq!(
            (ledger.settled(), ledger.reserved()),
            (tokens(70), Amounts::none())
        );
        assert!(ledger.reserve(&agent(1), 0, tokens(31)).is_err());
        assert_eq!(recomputed(&ledger), (ledger.settled(), ledger.reserved()));
        // A refusal leaves no entry: two promises and their two ends.
        assert_eq!(ledger.entries().len(), 4);
    }

    #[test]
    fn what_is_held_back_lets_every_ancestor_finish() {
        let ledger = Ledger::new(&[(Meter::Tokens, 50)], tokens(10));
        let child = ledger
            .reserve(&agent(3), 2, tokens(30))
            .expect("because 20 stay for two ancestors");
        assert!(ledger.reserve(&agent(3), 2, tokens(1)).is_err());
        let parent = ledger
            .reserve(&agent(2), 1, tokens(10))
            .expect("because its share was kept");
        assert!(ledger.reserve(&agent(2), 1, tokens(1)).is_err());
        let root = ledger
            .reserve(&agent(1), 0, tokens(10))
            .expect("because its share was kept");
        for reservation in [child, parent, root] {
            let amounts = reservation.amounts.clone();
            reservation.settle(amounts);
        }
        assert_eq!(ledger.settled(), tokens(50));
    }

    #[test]
    fn a_meter_without_a_limit_is_only_counted_and_sums_do_not_wrap() {
        let ledger = Ledger::new(&[(Meter::Requests, 1)], Amounts::none());
        let large = ledger
            .reserve(&agent(1), 0, tokens(u64::MAX))
            .expect("because tokens have no limit");
        large.settle(tokens(u64::MAX));
        assert!(
            ledger
                .reserve(
                    &agent(1),
                    0,
                    Amounts::none().with(Meter::Requests, u64::MAX)
                )
                .is_err()
        );
    }

    #[test]
    fn many_threads_never_pass_the_limit() {
        let ledger = Ledger::new(&[(Meter::Tokens, 1_000)], Amounts::none());
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let ledger = ledger.clone();
                scope.spawn(move || {
                    for round in 0..50_u64 {
                        let Ok(promise) = ledger.reserve(&agent(thread), 0, tokens(7)) else {
                            continue;
                        };
                        if round % 3 > 0 {
                            promise.settle(tokens(7));
                        }
                    }
                });
            }
        });
        assert!(ledger.settled().on(Meter::Tokens) <= 1_000);
        assert_eq!(recomputed(&ledger), (ledger.settled(), ledger.reserved()));
        assert_eq!(ledger.reserved(), Amounts::none());
    }
}
