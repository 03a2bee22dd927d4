//! Lets many write-capable coding agents work on one repository at once.
#![forbid(unsafe_code)]

pub mod git;
pub mod integration;
pub mod model;
pub mod store;
