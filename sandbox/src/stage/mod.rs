//! Owns the child's side: the ordered steps from a fresh process to the command.
//!
//! ```text
//! launcher --life line--> H0 guard: session, namespaces; outlives H1 and says so
//!                          └─ H1 keeper (pid 1): mounts, late user namespace,
//!                              │   then: reaps, forwards, watches the line, answers refused calls
//!                              └─ H2: capabilities, Landlock, seccomp,
//!                                     canaries, limits, exec
//! ```
//!
//! With a PID namespace H1 is its init: it dies with H0, H0 with the launcher,
//! and everything inside with H1. Without one H0 and H1 are sub-reapers that
//! watch each other: whichever is left sweeps what is left. Every step
//! that fails is reported over the life line and nothing is started. Entered
//! from `main` through [`enter_stage_if_asked`] and from nowhere else.

mod canary;
mod command;
mod denials;
mod hidden;
mod keeper;
mod sweep;

use std::os::fd::{AsFd, OwnedFd};

use denials::Denials;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, getpid, pidfd_open, set_child_subreaper,
    set_dumpable_behavior, set_parent_process_death_signal, setsid,
};

use self::hidden::Hidden;
use crate::enforcement::{Enforcement, Proof, Status};
use crate::guarantees::Feature;
use crate::layers::mounts::{Processes, Viewed};
use crate::layers::namespaces::{self, Spaces};
use crate::layers::{LayerError, descriptors, mounts, plan};
use crate::limits::{self, Joining, Watch};
use crate::policy::{FileRule, Layer, Policy};
use crate::protocol::{self, Failure, Handed, ProtocolError, Purpose, Reader, Report, Request};
use crate::sys::process::{Fork, close_standard, exit_now, signal_descriptor};
use crate::sys::seccomp::Listener;

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
    /// The rules, where they point in the view.
    rules: Vec<FileRule>,
    /// What the paths out of reach were at first.
    hidden: Hidden,
    /// The listener for the launcher, where the policy has a gateway.
    gateway: Option<OwnedFd>,
    /// The handle of H0, in H1.
    guard: Option<OwnedFd>,
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
    let hidden = Hidden::of(&request.policy.out_of_reach);
    let watch = watch(&request.policy, &request.group)?;
    let spaces = namespaces::apply(&request.policy)?;
    let gateway = namespaces::gateway(&request.policy, &spaces)?;
    if hung_up(line) {
        return Err(Stop::Gone);
    }
    let mut cage = Cage {
        line,
        request,
        spaces,
        report: Enforcement::default(),
        rules: Vec::new(),
        hidden,
        gateway,
        guard: None,
        watch,
    };
    cage.report.proof = if cage.spaces.pid() {
        Proof::PidNamespace
    } else {
        // Both must outlive the launcher to sweep what is left; the keeper
        // watches the line instead.
        set_parent_process_death_signal(None).map_err(failed("outlive the launcher"))?;
        sweep::require_own_procfs().map_err(failed("find descendants"))?;
        set_child_subreaper(Some(getpid())).map_err(failed("become a sub-reaper"))?;
        cage.report.features.insert(Feature::SubReaper);
        Proof::SubreaperSwept
    };
    cage.report.features.insert(Feature::Launcher);
    guard(cage)
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

/// H0: makes the keeper, waits for its end, and tells when nothing is left.
fn guard(mut cage: Cage<'_>) -> Result<(), Stop> {
    let this = pidfd_open(getpid(), PidfdFlags::empty()).map_err(failed("watch the guard"))?;
    let (line, proof) = (cage.line, cage.report.proof);
    match cage.watch.fork().map_err(failed("start the keeper"))? {
        Fork::Parent(keeper) => {
            drop((this, cage.gateway.take()));
            close_standard();
            match proof {
                Proof::PidNamespace => keeper::wait_for(keeper),
                // Also what a keeper that was killed left behind.
                Proof::SubreaperSwept => sweep::after(keeper),
            }
            Ok(protocol::send(line.as_fd(), &keeper::emptied(proof), &[])?)
        }
        Fork::Child => {
            cage.guard = Some(this);
            let result = guarded(&mut cage).and_then(|()| hold(cage));
            exit_now(finish(line, result))
        }
    }
}

/// H1 until the command: ties itself to the guard, and prepares.
fn guarded(cage: &mut Cage<'_>) -> Result<(), Stop> {
    match cage.report.proof {
        Proof::PidNamespace => {}
        Proof::SubreaperSwept => {
            set_child_subreaper(Some(getpid())).map_err(failed("become a sub-reaper"))?;
        }
    }
    tie_to_guard(cage)?;
    prepare(cage)
}

/// Dies with the guard from here on, where that ends all; at once if it is dead.
fn tie_to_guard(cage: &Cage<'_>) -> Result<(), Stop> {
    match cage.report.proof {
        Proof::PidNamespace => die_with_parent()?,
        Proof::SubreaperSwept => {}
    }
    // The guard may have died before the request above took effect.
    match &cage.guard {
        Some(guard) if readable(guard) => Err(Stop::Gone),
        Some(_) | None => Ok(()),
    }
}

/// What only the namespaces' first process can do: the view, the late user namespace.
fn prepare(cage: &mut Cage<'_>) -> Result<(), Stop> {
    let Viewed {
        status,
        features,
        rules,
        procfs,
    } = view(cage)?;
    cage.rules = rules;
    let seen = features.contains(&Feature::View);
    cage.report.features.extend(features);
    if seen && cage.hidden.complete() {
        cage.report.features.insert(Feature::HiddenPaths);
    }
    if !seen {
        // Landlock covers neither, and no rule could take them away.
        cage.report.holes.extend([
            "mode, owner and times of any file of this user can be changed".to_owned(),
            "the host's procfs is in place: where a rule shows it, so are the host's processes"
                .to_owned(),
        ]);
    }
    cage.report.layers.insert(Layer::Mounts, status);
    let hole = namespaces::descend(&mut cage.spaces, &cage.request.policy, procfs)?;
    cage.report.holes.extend(hole);
    cage.report.uid_map = cage.spaces.uid_map;
    let status = cage.spaces.status(&cage.request.policy);
    cage.report.layers.insert(Layer::Namespaces, status);
    cage.report.features.extend(cage.spaces.features());
    // New credentials took the death signal away.
    tie_to_guard(cage)?;
    // Nothing inside may look into this process or borrow its descriptors.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("become opaque"))
}

fn view(cage: &mut Cage<'_>) -> Result<Viewed, Stop> {
    let policy = &cage.request.policy;
    let without = |status| Viewed {
        status,
        features: Vec::new(),
        rules: plan::rules_in_place(policy),
        procfs: None,
    };
    if let Some(status) = mounts::unmounted(policy) {
        return Ok(without(status));
    }
    let processes = if cage.spaces.pid() {
        Processes::Own
    } else {
        Processes::Hosts
    };
    let reason = match cage.spaces.no_mounts() {
        Some(reason) => reason,
        None => match mounts::apply(policy, processes, &mut cage.report.view_notes) {
            Ok(viewed) => return Ok(viewed),
            Err(LayerError::Policy(error)) => return Err(Stop::Failed(Failure::Policy(error))),
            Err(LayerError::Step { what, reason }) => format!("{what}: {reason}"),
        },
    };
    match cage.request.purpose {
        // The command would see other files than its policy says.
        Purpose::Run => Err(Stop::Failed(Failure::Unavailable {
            layer: Layer::Mounts,
            reason,
        })),
        Purpose::Probe => Ok(without(Status::Absent { reason })),
    }
}

/// Starts the confined process and keeps it until the end.
fn hold(mut cage: Cage<'_>) -> Result<(), Stop> {
    let (line, proof) = (cage.line, cage.report.proof);
    let guard = cage
        .guard
        .take()
        .expect("because the keeper is made with a guard");
    let gateway = cage.gateway.take();
    let signals = signal_descriptor().map_err(failed("receive signals"))?;
    // A socket, because a descriptor comes over it too.
    let (told, tell) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(failed("make a socket"))?;
    let forked = cage.watch.fork().map_err(failed("start the command"))?;
    let command = match forked {
        Fork::Parent(command) => command,
        Fork::Child => {
            drop((told, guard, gateway));
            exit_now(command::confine_and_execute(cage, &tell))
        }
    };
    drop(tell);
    close_standard();
    let heard = hear(&told)?;
    drop(told);
    announce(line, proof, gateway, heard.frames)?;
    let watched = keeper::Watched {
        proof,
        line,
        guard: &guard,
        signals: &signals,
        command,
        limits: cage.watch,
        by_user: crate::layers::limits::by_user(&cage.spaces),
        denials: Denials::new(heard.listener),
    };
    watched.keep().map_err(Stop::from)
}

/// What the confined process told before its exec.
struct Heard {
    frames: Vec<u8>,
    listener: Option<Listener>,
}

/// Listens until the exec, or the process's end, and answers the calls by
/// which the process itself tries to get out: they wait for it.
fn hear(told: &OwnedFd) -> Result<Heard, Stop> {
    let mut heard = Heard {
        frames: Vec::new(),
        listener: None,
    };
    loop {
        let mut entries = vec![PollFd::new(told, PollFlags::IN)];
        entries.extend(
            heard
                .listener
                .iter()
                .map(|listener| PollFd::new(listener, PollFlags::IN)),
        );
        match poll(&mut entries, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(failed("hear from the command")(errno)),
        }
        let spoke = !entries[0].revents().is_empty();
        let waits = entries
            .get(1)
            .is_some_and(|entry| !entry.revents().is_empty());
        // Whoever waits cannot execute anything meanwhile: a call that was
        // seen before an open socket is the stage's own, any other is the
        // command's and stays for the keeper.
        if let Some(listener) = heard.listener.as_ref().filter(|_| waits)
            && !hung_up(told)
        {
            denials::answer_unrecorded(listener);
        }
        if spoke && !heard.take(told)? {
            return Ok(heard);
        }
    }
}

impl Heard {
    /// Takes what was said; false at the end.
    fn take(&mut self, told: &OwnedFd) -> Result<bool, Stop> {
        let (bytes, descriptors) =
            protocol::receive(told.as_fd()).map_err(failed("hear from the command"))?;
        match descriptors.into_iter().next() {
            Some(listener) => {
                let listener = Listener::from(listener);
                listener.start();
                self.listener = Some(listener);
            }
            None => self.frames.extend_from_slice(&bytes),
        }
        Ok(!bytes.is_empty())
    }
}

/// Passes on what the confined process told, and says that it was started.
fn announce(
    line: &OwnedFd,
    proof: Proof,
    gateway: Option<OwnedFd>,
    mut frames: Vec<u8>,
) -> Result<(), Stop> {
    let init = match proof {
        Proof::PidNamespace => Some(
            pidfd_open(getpid(), PidfdFlags::empty())
                .map_err(failed("make a handle of the init"))?,
        ),
        Proof::SubreaperSwept => None,
    };
    let handed = [(Handed::Init, &init), (Handed::Gateway, &gateway)];
    let handed = handed
        .into_iter()
        .filter_map(|(what, descriptor)| Some((what, descriptor.as_ref()?.as_fd())));
    let (words, descriptors): (Vec<_>, Vec<_>) = handed.unzip();
    frames.extend(protocol::encode(&Report::Started { handed: words })?);
    Ok(protocol::send_bytes(line.as_fd(), &frames, &descriptors)?)
}

fn die_with_parent() -> Result<(), Stop> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("ask for a death signal"))
}

/// Whether the other end of a socket is closed.
fn hung_up(line: &OwnedFd) -> bool {
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
