//! The integration tests: the built program on real repositories.
//!
//! One binary, one file a stage. A test states a promise of the contract by
//! its name, judges by the host's state, by plain git and by the JSON, and
//! ends with the leak oracle, which every `TestEnv` asks when it is dropped.
//!
//! To add a stage: a file, a line below.

#[path = "../support/mod.rs"]
mod support;

mod backends;
mod bad_requests;
mod bad_surroundings;
mod caches;
mod carried;
mod container;
mod crash;
mod demo;
mod denials;
mod escape_covered;
mod escape_files;
mod escape_git;
mod escape_leaks;
mod escape_processes;
mod escape_smuggle;
mod fleet;
mod history;
mod inside;
mod interface;
mod kinds;
mod landing;
mod limits;
mod moving_parent;
mod must_work;
mod odd_repositories;
mod plan;
mod plan_errors;
mod results;
mod setup;
mod shims;
mod submodules;
mod told_states;
