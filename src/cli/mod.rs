//! The command line: arguments → use case → rendering.
//!
//! Owns the words a person types and the text that comes back; with `report/`
//! it is the only place that prints. It decides nothing: limits and roles
//! are read by `config/`, and what happens is the executor's.
//!
//! - `args`: the grammar
//! - `failure`: one error, as text and as JSON, with its exit code
//! - `print`: the doors to standard output and error
//! - `printer`: the thread behind the latter
//! - `signals`: the runtime, and the person's signals while it is on
//! - one file a command
//!
//! To add a command: a variant in `args`, a file named for it, one arm in
//! [`main`].

mod args;
mod decide;
mod demo;
mod doctor;
mod failure;
mod inspect;
mod print;
mod printer;
mod request;
mod roles;
mod run;
mod signals;
mod surroundings;

use clap::Parser as _;

use crate::model::ExitCode;
use args::{Arguments, Command};
use failure::Failure;

/// Parses the arguments, carries the command out and says what to end with.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = failure::of_arguments(&error);
            print::settle();
            return code;
        }
    };
    init_tracing();
    let json = arguments.command.wants_json();
    let code = match dispatch(arguments.command) {
        Ok(code) => code,
        Err(failure) => failure.print(json),
    };
    let code = if print::answer_was_lost() {
        code.worst(ExitCode::Internal)
    } else {
        code
    };
    print::settle();
    code
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Demo(args) => demo::demo(&args),
        Command::Run(args) => run::run(*args),
        Command::Ls(args) => inspect::list(&args),
        Command::Show(args) => inspect::show(&args),
        Command::Diff(args) => inspect::diff(&args),
        Command::Log(args) => inspect::log(&args),
        Command::Apply(args) => decide::apply(&args),
        Command::Discard(args) => decide::discard(&args),
        Command::Gc(args) => decide::reclaim(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Roles(args) => roles::roles(&args),
    }
}

/// Diagnostics go to standard error, and only when asked for by `COFFERDAM_LOG`.
fn init_tracing() {
    use tracing_subscriber::EnvFilter;
    let filter =
        EnvFilter::try_from_env("COFFERDAM_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| print::ErrorDoor)
        .without_time()
        .init();
}
