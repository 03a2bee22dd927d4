//! Owns what is promised and who holds it: guarantee × layer × kernel feature.
//!
//! `name` lists the guarantees, `feature` what a kernel can give, `table` which
//! of it holds what, and `machines` what that means on ordinary machines. The
//! same table decides whether a command may start, what the report says, and
//! what stands in `GUARANTEES.md`, which a test compares with it.
//!
//! To promise something more: its line in `name` and its row in `table`. To
//! use something more of the kernel: its line in `feature`, a place in `stage`
//! that finds out whether it is in force, and the rows that it helps to hold.
//!
#![doc = include_str!("../../GUARANTEES.md")]

mod feature;
mod machines;
mod name;
mod table;

pub use feature::{Feature, Holder};
pub use machines::{MACHINES, Machine, Verified, document};
pub use name::{Guarantee, UnknownGuarantee};
pub use table::{held, is_given_up_with, missing, needs};
