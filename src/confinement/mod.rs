//! From a contract and a view to the kernel policy of one agent.
//!
//! Owns what an agent may reach, in one reviewable place: the paths in
//! `readable`, the variables in `environment`, the mounts in `mounts`, and what
//! was given up by name in `guarantees`; the default limits are in `limits`. It decides on data and
//! touches nothing: what the machine has is handed in, and the policy is
//! enforced by `cofferdam-sandbox`. Toolchains and their caches have a table
//! of their own in `toolchains`.
//!
//! To let agents reach something more: one line in a table of `readable`,
//! `toolchains` or `environment`. What is promised is the table of
//! `cofferdam-sandbox`.

mod denials;
mod environment;
mod explain;
mod guarantees;
mod input;
mod limits;
mod mounts;
mod policy;
mod readable;
mod toolchains;

#[cfg(test)]
mod tests;

pub use denials::{denial, limit_denial, unrecorded};
pub use environment::{INHERITED, is_never_inherited};
pub use explain::explain_contract;
pub use guarantees::{Shortfall, Waivers, held, shortfall, shortfalls};
pub use input::{AgentFacts, CacheMount, Error, Found, Host, Input};
pub use limits::{OUTPUT_BYTES, Room};
pub use policy::policy;
pub use readable::{SECRETS, may_hold_packages};
pub use toolchains::{
    CACHES, Cache, MASKS, NEVER, PLAIN_FILES, SETTINGS, Settings, TOOLCHAINS, Toolchain, masks,
    may_be_read,
};
