//! Owns H0, the guard of a cage, and how the keeper is tied to it.
//!
//! The guard leaves the namespaces, starts the keeper, and tells the launcher
//! when nothing is left. It outlives the keeper, never the launcher for long:
//! when that is gone it ends the keeper, which may have been stopped.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal, set_child_subreaper,
    set_parent_process_death_signal, setsid,
};

use super::hidden::Hidden;
use super::{Cage, Stop, failed, finish, hold, keeper, prepare, sweep};
use crate::enforcement::{Enforcement, Proof};
use crate::guarantees::Feature;
use crate::layers::{descriptors, namespaces};
use crate::limits::{self, Joining, Watch};
use crate::policy::{Layer, Policy};
use crate::protocol::{self, Failure, Reader, Request};
use crate::ready;
use crate::sys::process::{Fork, close_standard, exit_now};

/// H0: the helper that the launcher started.
pub(super) fn enter(line: &OwnedFd) -> Result<(), Stop> {
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
        unrenamed: Vec::new(),
        mover: None,
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
            end_with_launcher(keeper, line);
            match proof {
                Proof::PidNamespace => keeper::wait_for(keeper),
                // Also what a keeper that was killed left behind.
                Proof::SubreaperSwept => sweep::after(keeper),
            }
            Ok(protocol::send(line.as_fd(), &keeper::emptied(proof), &[])?)
        }
        Fork::Child => {
            cage.guard = Some(this);
            let result = guarded(&mut cage).and_then(|()| hold::hold(cage));
            exit_now(finish(line, result))
        }
    }
}

/// Waits for the keeper's end, and brings it about when the launcher is gone: a
/// keeper that was stopped hears nothing of that itself.
fn end_with_launcher(keeper: Pid, line: &OwnedFd) {
    // Without a handle only its own end is waited for, by the caller.
    let Ok(handle) = pidfd_open(keeper, PidfdFlags::empty()) else {
        return;
    };
    let mut entries = [
        PollFd::new(&handle, PollFlags::IN),
        // Nothing but its end: what comes over the line is for the keeper.
        PollFd::new(line, PollFlags::empty()),
    ];
    loop {
        match poll(&mut entries, None) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) if entries[0].revents().is_empty() => {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
                return;
            }
            Ok(_) | Err(_) => return,
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
    prepare::prepare(cage)
}

/// Dies with the guard from here on, where that ends all; at once if it is dead.
pub(super) fn tie_to_guard(cage: &Cage<'_>) -> Result<(), Stop> {
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

fn die_with_parent() -> Result<(), Stop> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("ask for a death signal"))
}

/// Whether the other end of a socket is closed.
pub(super) fn hung_up(line: &OwnedFd) -> bool {
    ready::now(line, PollFlags::empty()).map_or(true, |seen| seen.contains(PollFlags::HUP))
}

fn readable(descriptor: &OwnedFd) -> bool {
    ready::now(descriptor, PollFlags::IN).map_or(true, |seen| seen.contains(PollFlags::IN))
}
