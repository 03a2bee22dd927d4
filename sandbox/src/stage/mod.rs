//! Owns the child's side: the ordered steps from a fresh process to the command.
//!
//! ```text
//! launcher --life line--> H0 helper: session, death signal, namespaces
//!                          └─ H1 init (pid 1): mounts, late user namespace,
//!                              │   then: reaps, forwards, watches the line
//!                              └─ H2: capabilities, Landlock, seccomp,
//!                                     canaries, limits, exec
//! ```
//!
//! Without a PID namespace H0 does the work of H1 as a sub-reaper. Every step
//! that fails is reported over the life line and nothing is started. Entered
//! from `main` through [`enter_stage_if_asked`] and from nowhere else.

mod canary;
mod command;
mod keeper;
mod sweep;

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, getpid, pidfd_open, set_child_subreaper,
    set_dumpable_behavior, set_parent_process_death_signal, setsid,
};

use crate::enforcement::{Enforcement, Proof, Status};
use crate::layers::mounts::Processes;
use crate::layers::namespaces::{self, Spaces};
use crate::layers::{LayerError, descriptors, mounts};
use crate::limits::{self, Joining, Watch};
use crate::policy::{Layer, Policy};
use crate::protocol::{self, Failure, ProtocolError, Purpose, Reader, Report, Request};
use crate::sys::process::{Fork, close_standard, exit_now, signal_descriptor};

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
    exit_now(finish(&line, enter(&line)))
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
    watch: Watch,
}

/// H0: the helper that the launcher started.
fn enter(line: &OwnedFd) -> Result<(), Stop> {
    namespaces::remember_ids();
    let mut reader = Reader::new();
    let request: Request = reader.next(line.as_fd())?.ok_or(Stop::Gone)?;
    descriptors::set_stdin(std::mem::take(&mut reader.descriptors))?;
    setsid().map_err(failed("start a session"))?;
    die_with_parent()?;
    let watch = watch(&request.policy, &request.group)?;
    let spaces = namespaces::apply(&request.policy)?;
    if launcher_gone(line) {
        return Err(Stop::Gone);
    }
    let mut cage = Cage {
        line,
        request,
        spaces,
        report: Enforcement::default(),
        watch,
    };
    if cage.spaces.pid() {
        cage.report.proof = Proof::PidNamespace;
        guard_init(cage)
    } else {
        cage.report.proof = Proof::SubreaperSwept;
        // This process must outlive the launcher to sweep what is left; it
        // watches the line instead.
        set_parent_process_death_signal(None).map_err(failed("outlive the launcher"))?;
        sweep::require_own_procfs().map_err(failed("find descendants"))?;
        set_child_subreaper(Some(getpid())).map_err(failed("become a sub-reaper"))?;
        prepare(&mut cage)?;
        hold(cage)
    }
}

/// Joins the group and opens what is to be measured, as long as the host's
/// names lead there.
fn watch(policy: &Policy, group: &Joining) -> Result<Watch, Stop> {
    if !policy.limits.values().is_empty() && !policy.waives(Layer::Limits) {
        crate::layers::limits::give_way();
    }
    let joined = limits::join(group)?;
    Watch::prepare(policy, group, joined).map_err(|error| Stop::Failed(Failure::Policy(error)))
}

/// H0 with a PID namespace: makes its init and waits until it is empty.
fn guard_init(mut cage: Cage<'_>) -> Result<(), Stop> {
    die_with_parent()?;
    let this = pidfd_open(getpid(), PidfdFlags::empty()).map_err(failed("watch the helper"))?;
    let line = cage.line;
    match cage.watch.fork().map_err(failed("start the init"))? {
        Fork::Parent(init) => {
            close_standard();
            keeper::wait_for(init);
            let emptied = Report::Emptied {
                cpu_ms: crate::sys::process::children_cpu_ms(),
                proof: Proof::PidNamespace,
            };
            Ok(protocol::send(line.as_fd(), &emptied, &[])?)
        }
        Fork::Child => {
            let result = die_with_parent().and_then(|()| {
                // The helper may have died before the request above took effect.
                if readable(&this) {
                    Err(Stop::Gone)
                } else {
                    prepare(&mut cage).and_then(|()| hold(cage))
                }
            });
            drop(this);
            exit_now(finish(line, result))
        }
    }
}

/// What only the namespaces' first process can do: the view, the late user namespace.
fn prepare(cage: &mut Cage<'_>) -> Result<(), Stop> {
    let status = view(cage)?;
    if matches!(status, Status::Absent { .. } | Status::Waived) {
        // Landlock covers neither, and no rule could take them away.
        cage.report.holes.extend([
            "mode, owner and times of any file of this user can be changed".to_owned(),
            "the host's procfs is in place: where a rule shows it, so are the host's processes"
                .to_owned(),
        ]);
    }
    cage.report.layers.insert(Layer::Mounts, status);
    let hole = namespaces::descend(&mut cage.spaces, &cage.request.policy)?;
    cage.report.holes.extend(hole);
    cage.report.uid_map = cage.spaces.uid_map;
    let status = cage.spaces.status(&cage.request.policy);
    cage.report.layers.insert(Layer::Namespaces, status);
    if cage.spaces.pid() {
        die_with_parent()?;
    }
    // Nothing inside may look into this process or borrow its descriptors.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("become opaque"))
}

fn view(cage: &Cage<'_>) -> Result<Status, Stop> {
    let policy = &cage.request.policy;
    if let Some(status) = mounts::unmounted(policy) {
        return Ok(status);
    }
    let processes = if cage.spaces.pid() {
        Processes::Own
    } else {
        Processes::Hosts
    };
    let result = match cage.spaces.no_mounts() {
        Some(reason) => Err(reason),
        None => match mounts::apply(policy, processes) {
            Ok(status) => return Ok(status),
            Err(LayerError::Policy(error)) => return Err(Stop::Failed(Failure::Policy(error))),
            Err(LayerError::Step { what, reason }) => Err(format!("{what}: {reason}")),
        },
    };
    match (result, cage.request.purpose) {
        (Ok(status), _) => Ok(status),
        // The command would see other files than its policy says.
        (Err(reason), Purpose::Run) => Err(Stop::Failed(Failure::Unavailable {
            layer: Layer::Mounts,
            reason,
        })),
        (Err(reason), Purpose::Probe) => Ok(Status::Absent { reason }),
    }
}

/// Starts the confined process and keeps it until the end.
fn hold(mut cage: Cage<'_>) -> Result<(), Stop> {
    let line = cage.line;
    let signals = signal_descriptor().map_err(failed("receive signals"))?;
    let (told, tell) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?;
    let kept = if cage.spaces.pid() {
        keeper::Kept::Namespace
    } else {
        keeper::Kept::Descendants
    };
    let forked = cage.watch.fork().map_err(failed("start the command"))?;
    let command = match forked {
        Fork::Parent(command) => command,
        Fork::Child => {
            drop(told);
            exit_now(command::confine_and_execute(cage, &tell))
        }
    };
    drop(tell);
    close_standard();
    announce(line, kept, &told)?;
    let by_user = crate::layers::limits::by_user(&cage.spaces);
    let watched = keeper::Watched {
        command,
        watch: cage.watch,
        by_user,
    };
    keeper::keep(kept, line, &signals, watched).map_err(Stop::from)
}

/// Passes on what the confined process tells before its exec; the end of the
/// pipe is the exec, or the process's end.
fn announce(line: &OwnedFd, kept: keeper::Kept, told: &OwnedFd) -> Result<(), Stop> {
    let mut frames = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match rustix::io::read(told, &mut chunk) {
            Ok(0) => break,
            Ok(read) => frames.extend_from_slice(&chunk[..read]),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(failed("hear from the command")(errno)),
        }
    }
    frames.extend(protocol::encode(&Report::Started)?);
    match kept {
        keeper::Kept::Namespace => {
            let this = pidfd_open(getpid(), PidfdFlags::empty())
                .map_err(failed("make a handle of the init"))?;
            protocol::send_bytes(line.as_fd(), &frames, &[this.as_fd()])?;
        }
        keeper::Kept::Descendants => protocol::send_bytes(line.as_fd(), &frames, &[])?,
    }
    Ok(())
}

fn die_with_parent() -> Result<(), Stop> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("ask for a death signal"))
}

/// Whether the launcher's end of the line is closed.
fn launcher_gone(line: &OwnedFd) -> bool {
    let mut entry = [PollFd::new(line, PollFlags::empty())];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut entry, Some(&now)).is_err() || entry[0].revents().contains(PollFlags::HUP)
}

fn readable(descriptor: &OwnedFd) -> bool {
    let mut entry = [PollFd::new(descriptor, PollFlags::IN)];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut entry, Some(&now)).is_err() || entry[0].revents().contains(PollFlags::IN)
}

/// This process, for messages to its own tree.
fn this() -> Pid {
    getpid()
}
