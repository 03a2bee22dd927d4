//! Tests of the room as a whole, on real repositories, with git as the judge.

mod captures;
mod creates;
mod fixture;
mod lifetime;
mod random;
mod snapshots;
