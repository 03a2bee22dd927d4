//! Lets many write-capable coding agents work on one repository at once.
//!
//! ```text
//! request ─▶ admission ─▶ workspace ─▶ confinement ─▶ process ─▶ capture ─▶ integration ─▶ clean-up ─▶ record
//! ```
//!
//! Each arrow consumes the value on its left. A room may use rooms of lower
//! floors, and on its own floor only those that its line names. The tidy test
//! reads this table and fails on any other import.
//!
//! | floor | room | may use on its own floor |
//! | --- | --- | --- |
//! | 0 words | `model` | |
//! | 1 policy | `config` | |
//! | 1 policy | `budget` | |
//! | 1 policy | `admission` | `config`, `budget` |
//! | 1 policy | `confinement` | `config` |
//! | 2 doors | `git` | |
//! | 2 doors | `process` | |
//! | 2 doors | `store` | |
//! | 2 doors | `workspace` | `git`, `store` |
//! | 3 use cases | `tools` | |
//! | 3 use cases | `cleanup` | |
//! | 3 use cases | `integration` | `cleanup` |
//! | 3 use cases | `agent` | |
//! | 3 use cases | `gateway` | |
//! | 3 use cases | `board` | |
//! | 3 use cases | `audit` | |
//! | 4 the flow | `executor` | |
//! | 5 faces | `report` | |
//! | 5 faces | `mcp` | |
//! | 5 faces | `cli` | `mcp`, `report` |
#![forbid(unsafe_code)]

pub mod admission;
pub mod audit;
pub mod budget;
pub mod cleanup;
pub mod cli;
pub mod config;
pub mod confinement;
pub mod executor;
pub mod git;
pub mod integration;
pub mod model;
pub mod process;
pub mod report;
pub mod store;
pub mod workspace;
