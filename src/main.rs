//! The program `cofferdam`.
//!
//! Owns nothing but the order of the first two calls: the helper of a cage is
//! this same program, and must become it before anything else runs.
#![forbid(unsafe_code)]

use std::process;

fn main() -> process::ExitCode {
    cofferdam_sandbox::enter_stage_if_asked();
    process::ExitCode::from(cofferdam::cli::main().number())
}
