//! Tests of the room as a whole, on real repositories, with git as the judge.

mod bases;
mod captures;
mod creates;
mod fixture;
mod layers;
mod lifetime;
mod random;
mod reflinks;
mod snapshots;
