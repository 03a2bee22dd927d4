//! Tests of the room as a whole, on real repositories, with git as the judge.

mod bases;
mod captures;
mod creates;
mod edits;
mod equality;
mod fixture;
mod layers;
mod lifetime;
mod looks;
mod marks;
mod random;
mod reflinks;
mod snapshots;
