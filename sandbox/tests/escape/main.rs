//! Owns the escape suite: every attempt of the list T01 to T78, from inside.
//!
//! Each case runs as this user and, where this is the superuser, as an ordinary
//! user too; in a view, in place, and on a machine without namespaces. What
//! counts is the host: files, sockets, processes and switches are as they were.
//! `table` says for each number where it is held.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../cage/setting.rs"]
#[expect(dead_code, reason = "the tests of the cage use more of it")]
mod setting;

mod cage;
mod canary;
mod controls;
mod descriptors;
mod files;
mod kernel;
mod killed;
mod network;
mod places;
mod processes;
mod renames;
mod shims;
mod table;
