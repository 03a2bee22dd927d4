//! The flow, and the library's entry point.
//!
//! Owns the pipeline that joins the rooms, the state of a run and what later
//! commands decide about its results. It holds no mechanism of its own: each
//! step is a call into one room. It never prints.
//!
//! ```text
//! request ─▶ admission ─▶ workspace ─▶ confinement ─▶ process ─▶ capture ─▶ integration ─▶ clean-up ─▶ record
//! ```
//!
//! - `pipeline`: that line, for one agent
//! - `run`: what the agents of one run share · `steps`: the steps they take ·
//!   `close`: how their records are closed
//! - `errand`: a run's place in the state directory, with its lease
//! - `preflight`: what can be known to fail before anything is started
//! - `schedule`: who waits for whom
//! - `land`: the way of one result into the parent's tree; `place` puts it there
//! - `setup`: the command that makes a workspace ready, and its approval
//! - `verify`: the check of a merged tree, in a cage of its own
//! - `denials`: what agents are denied, told while they run
//! - `site`: the machine and its repository, opened once · `host`: what of the
//!   machine a cage has to know
//! - `recover`: what dead runs left · `unnoted`: what their notes passed over
//! - `decide`: `apply`, `discard` and `gc`
//! - `book`: the records on disk · `live`: that of a run that is on
//!
//! To add a step to the flow: a method in `run`, one line in `pipeline`, and,
//! if it acquires something, a step in `cleanup`.

mod book;
mod caches;
mod cage;
mod close;
mod decide;
mod denials;
mod errand;
mod error;
mod events;
mod explain;
mod host;
mod land;
mod live;
mod notes;
mod pipeline;
mod place;
mod preflight;
mod private_files;
mod recover;
mod run;
mod schedule;
mod setup;
mod site;
mod steps;
mod tool_settings;
mod unnoted;
mod verify;

pub use book::{Book, FoundAgent};
pub use decide::{ApplyOrder, Decided, Reclaimed};
pub use error::{Error, Stage};
pub use events::{Listener, Silent};
pub use recover::Recovered;
pub use run::Control;
pub use site::{Executor, KEEP, Options};
