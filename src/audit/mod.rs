//! The append-only record of what happened.
//!
//! Owns one file of events, a JSON line each, shared by every run under a
//! state directory. Lines are only ever added. The live board
//! is made from the same events but is not this.
//!
//! To add a reader: filter what [`load_events`] returns; the file has one
//! writer function.

mod trail;

pub use trail::{Error, Trail, load_events};
