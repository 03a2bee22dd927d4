//! From a contract and a view to the kernel policy of one agent.
//!
//! Owns what an agent may reach, in one reviewable place: the paths in
//! `readable`, the variables in `environment`, the mounts in `mounts`, and
//! which layers hold which promise in `guarantees`, the default limits in
//! `limits`. It decides on data and
//! touches nothing: what the machine has is handed in, and the policy is
//! enforced by `cofferdam-sandbox`.
//!
//! To let agents reach something more: one line in a table of `readable` or
//! `environment`. To promise something more: one line in `guarantees` and its
//! name in `config`.

mod environment;
mod explain;
mod guarantees;
mod input;
mod limits;
mod mounts;
mod policy;
mod readable;

#[cfg(test)]
mod tests;

pub use environment::{INHERITED, is_never_inherited};
pub use explain::{explain_contract, explain_policy};
pub use guarantees::{Shortfall, Waivers, held, shortfalls};
pub use input::{AgentFacts, Error, Found, Host, Input};
pub use limits::{OUTPUT_BYTES, Room};
pub use policy::policy;
pub use readable::{SECRETS, TOOLCHAINS, Toolchain};
