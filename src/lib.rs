//! Lets many write-capable coding agents work on one repository at once.
#![forbid(unsafe_code)]

pub mod admission;
pub mod budget;
pub mod config;
pub mod confinement;
pub mod git;
pub mod model;
