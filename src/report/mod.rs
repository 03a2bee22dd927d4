//! Records as text for people.
//!
//! Owns the wording of summaries, lists and progress lines. Pure: a record or
//! an event goes in, text comes out; the command line prints it. Everything
//! that an agent or a file name contributed is made visible, never obeyed.
//!
//! To add a rendering: a file named for it and one re-export.

mod board;
mod detail;
mod list;
mod words;

pub use board::{event_line, outcome, summary};
pub use detail::{agent_detail, change_line, conflict_line, denial_line};
pub use list::list;
pub use words::{kind_word, plain, status_word};
