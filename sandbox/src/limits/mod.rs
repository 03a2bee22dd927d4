//! Limits for a whole tree of processes: names, and what holds them.
//!
//! - `hit`: which limit was reached, by what it was held
//! - `places`: where this launcher may make control groups
//! - `group`: one control group, made and removed by the launcher
//! - `leftover`: groups of launchers that are dead
//! - `join`: how the stage gets into the group
//! - `watch`: measures what no group counts; `tree` looks at processes, `space`
//!   at directories by way of `disk`
//!
//! Limits of single processes are set in `layers/limits`. To add a limit: a
//! field of [`Limits`](crate::Limits), a variant of [`Limit`], and whatever
//! holds it here or there.

mod disk;
mod group;
mod hit;
mod join;
mod leftover;
mod places;
mod space;
mod tree;
mod watch;

pub use hit::{Limit, LimitHit, Mechanism};
pub use leftover::{Reach, sweep_groups};

pub(crate) use group::{Group, Joining};
pub(crate) use join::join;
pub(crate) use watch::{ByUser, Look, Watch, with_stage};
