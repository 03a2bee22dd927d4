//! Owns the child's side: the ordered steps from a fresh process to the command.
//!
//! ```text
//! launcher --life line--> H0 guard: session, namespaces; outlives H1 and says so
//!                          └─ H1 keeper (pid 1): mounts, late user namespace,
//!                              │   then: reaps, forwards, watches the line, answers refused calls
//!                              ├─ the mover, where the kernel does not rename directories
//!                              └─ H2: capabilities, Landlock, seccomp,
//!                                     canaries, limits, exec
//! ```
//!
//! With a PID namespace H1 is its init: it dies with H0, H0 with the launcher,
//! and everything inside with H1. Without one H0 and H1 are sub-reapers that
//! watch each other: whichever is left sweeps what is left. Every step
//! that fails is reported over the life line and nothing is started. Entered
//! from `main` through [`enter_stage_if_asked`] and from nowhere else.
//!
//! - `guard`: H0, and how H1 is tied to it
//! - `prepare`: what H1 does first: the view and the late user namespace
//! - `hold`: how H1 starts H2; then `keeper` watches, `denials` answers refused
//!   calls, and `sweep` ends what no namespace ends
//! - `renames`: which renames the keeper has done by the `mover`, and `moving`:
//!   how that one does it
//! - `command`: H2, with `canary` and `hidden` for the last test

mod canary;
mod command;
mod denials;
mod guard;
mod hidden;
mod hold;
mod keeper;
mod mover;
mod moving;
mod prepare;
mod renames;
mod sweep;

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::process::{Pid, getpid};

use self::hidden::Hidden;
use crate::enforcement::Enforcement;
use crate::layers::namespaces::Spaces;
use crate::layers::{LayerError, descriptors};
use crate::limits::Watch;
use crate::policy::FileRule;
use crate::protocol::{self, Failure, ProtocolError, Report, Request};
use crate::sys::process::exit_now;

/// The first argument that makes a program the stage.
pub const STAGE_ARGUMENT: &str = "__cofferdam_stage";

/// Becomes the stage if this process was started as one.
///
/// Must be the first call in `main`, while there is one thread; it then never
/// returns. In any other process it does nothing.
pub fn enter_stage_if_asked() {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == STAGE_ARGUMENT)
    {
        run()
    }
}

/// Why the stage goes no further.
enum Stop {
    /// To be told to the launcher.
    Failed(Failure),
    /// The launcher is gone or cannot be talked to.
    Gone,
}

impl From<ProtocolError> for Stop {
    fn from(_: ProtocolError) -> Self {
        Self::Gone
    }
}

impl From<LayerError> for Stop {
    fn from(error: LayerError) -> Self {
        Self::Failed(match error {
            LayerError::Policy(error) => Failure::Policy(error),
            LayerError::Step { what, reason } => Failure::Step { step: what, reason },
        })
    }
}

fn failed<E: std::fmt::Display>(step: &str) -> impl FnOnce(E) -> Stop {
    move |source| Stop::from(LayerError::step(step)(source))
}

fn run() -> ! {
    let Ok(line) = descriptors::take_line() else {
        exit_now(1)
    };
    let entered = descriptors::close_others(&line)
        .map_err(Stop::from)
        .and_then(|()| guard::enter(&line));
    exit_now(finish(&line, entered))
}

/// Tells the launcher why the stage stopped.
fn finish(line: &OwnedFd, result: Result<(), Stop>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(Stop::Gone) => 1,
        Err(Stop::Failed(failure)) => {
            // If the launcher cannot be told it is gone, and nobody is left to tell.
            drop(protocol::send(line.as_fd(), &Report::Failed(failure), &[]));
            1
        }
    }
}

/// What H0 hands to its child.
struct Cage<'a> {
    line: &'a OwnedFd,
    request: Request,
    spaces: Spaces,
    report: Enforcement,
    /// The rules, where they point in the view.
    rules: Vec<FileRule>,
    /// Merged directories in which the mover is to rename what lies beneath.
    unrenamed: Vec<PathBuf>,
    /// Where the mover tells that it is ready, or why there is none.
    mover: Option<Result<OwnedFd, String>>,
    /// What the paths out of reach were at first.
    hidden: Hidden,
    /// The listener for the launcher, where the policy has a gateway.
    gateway: Option<OwnedFd>,
    /// The handle of H0, in H1.
    guard: Option<OwnedFd>,
    watch: Watch,
}

/// This process, for messages to its own tree.
fn this() -> Pid {
    getpid()
}
