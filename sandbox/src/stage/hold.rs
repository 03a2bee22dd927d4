//! Owns the start of the command by its keeper, and the end of all of it.
//!
//! Listens to the command's process until it executes, passes on what it told,
//! and hands over to the watch. Whatever goes wrong, nothing is left.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::denials::{self, Denials};
use super::guard::hung_up;
use super::renames::Renames;
use super::{Cage, Stop, command, failed, keeper, mover, sweep};
use crate::enforcement::Proof;
use crate::protocol::{self, Handed, Report};
use crate::sys::process::{Fork, close_standard, exit_now, signal_descriptor};
use crate::sys::seccomp::Listener;

/// Starts the confined process and keeps it until the end.
pub(super) fn hold(mut cage: Cage<'_>) -> Result<(), Stop> {
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
    // Before the command, so that it is confined while that is prepared.
    let renames = start_mover(&mut cage).map(Renames::new);
    let forked = cage.watch.fork().map_err(failed("start the command"))?;
    let command = match forked {
        Fork::Parent(command) => command,
        Fork::Child => {
            drop((told, guard, gateway, renames));
            exit_now(command::confine_and_execute(cage, &tell))
        }
    };
    drop(tell);
    close_standard();
    let by_user = crate::layers::limits::by_user(&cage.spaces);
    let kept = hear(&told)
        .and_then(|heard| {
            drop(told);
            announce(line, proof, gateway, heard.frames)?;
            Ok(heard.listener)
        })
        .and_then(|listener| {
            let watched = keeper::Watched {
                proof,
                line,
                guard: &guard,
                signals: &signals,
                command,
                limits: cage.watch,
                by_user,
                denials: Denials::new(listener, renames),
            };
            watched.keep().map_err(Stop::from)
        });
    match proof {
        Proof::PidNamespace => {}
        Proof::SubreaperSwept => {
            // However the watch ended: launcher and guard may both be gone,
            // and then nobody else would. Mostly nothing is left.
            sweep::all(command);
            // A guard that was stopped tells nothing until it is woken.
            let _ = pidfd_send_signal(&guard, Signal::CONT);
        }
    }
    kept
}

/// Starts the process that renames directories, where the kernel does not and
/// the policy wants it; the socket over which it is told to.
fn start_mover(cage: &mut Cage<'_>) -> Option<OwnedFd> {
    if cage.unrenamed.is_empty() {
        return None;
    }
    match mover::start(cage) {
        Ok(mover::Started { socket, told }) => {
            cage.mover = Some(Ok(told));
            Some(socket)
        }
        Err(reason) => {
            cage.mover = Some(Err(reason));
            None
        }
    }
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
