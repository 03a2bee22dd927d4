//! What is counted, and amounts of it.
//!
//! Owns the list of meters and the arithmetic on amounts, which never wraps:
//! a sum that would overflow stays at the largest number and so above any
//! limit.

use std::collections::BTreeMap;

/// One thing that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meter {
    /// Requests to a model.
    Requests,
    /// Tokens, in and out.
    Tokens,
    /// Money, in millionths of a dollar.
    MicroUsd,
}

impl Meter {
    /// Every meter.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Tokens, Self::MicroUsd];

    /// Its name in records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::MicroUsd => "micro_usd",
        }
    }

    /// The option that sets its limit.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "--tokens",
            Self::MicroUsd => "--usd",
        }
    }
}

/// An amount on each meter; a meter that is not named stands at zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<Meter, u64>);

impl Amounts {
    /// Nothing on any meter.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The same with this much on one meter.
    #[must_use]
    pub fn with(mut self, meter: Meter, amount: u64) -> Self {
        self.0.insert(meter, amount);
        self
    }

    /// What stands on a meter.
    #[must_use]
    pub fn on(&self, meter: Meter) -> u64 {
        self.0.get(&meter).copied().unwrap_or(0)
    }

    /// The sum, meter by meter.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self::each(|meter| self.on(meter).saturating_add(other.on(meter)))
    }

    /// What is left after taking `other` away, never below zero.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self::each(|meter| self.on(meter).saturating_sub(other.on(meter)))
    }

    /// That many times as much.
    #[must_use]
    pub fn times(&self, factor: u32) -> Self {
        Self::each(|meter| self.on(meter).saturating_mul(u64::from(factor)))
    }

    fn each(amount: impl Fn(Meter) -> u64) -> Self {
        let some = Meter::ALL
            .into_iter()
            .map(|meter| (meter, amount(meter)))
            .filter(|(_, amount)| *amount > 0);
        Self(some.collect())
    }
}
