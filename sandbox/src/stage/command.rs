//! Owns the last process before the command: drops what it can do, then becomes it.
//!
//! The order binds. The directory is entered and privilege is dropped while
//! files can still be opened; Landlock's rules are opened in the finished
//! view; the filter comes last of the layers; then canaries try to get out;
//! limits come at the very end, because the stage itself must not run into them.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Signal, chdir, set_parent_process_death_signal, setsid};

use super::canary::Canaries;
use super::{Cage, Stop, failed, mover};
use crate::enforcement::Status;
use crate::guarantees::{Feature, Guarantee, held};
use crate::layers::seccomp::{Reach, Renames};
use crate::layers::{capabilities, descriptors, landlock, limits, namespaces, seccomp};
use crate::policy::{Command, Layer, Network, PolicyError};
use crate::protocol::{self, Failure, LISTENER, Purpose, Report};
use crate::sys::process::{execute, reset_signals};

/// Where programs are looked for if the environment does not say.
const USUAL_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Confines this process and executes the command; returns only on failure.
pub(super) fn confine_and_execute(mut cage: Cage<'_>, tell: &OwnedFd) -> i32 {
    let failure = match confine(&mut cage, tell) {
        Err(Stop::Gone) => return 1,
        Err(Stop::Failed(failure)) => failure,
        Ok(()) => {
            let image = Image::of(&cage.request.policy.command);
            match ready(&mut cage, tell) {
                Err(Stop::Gone) => return 1,
                Err(Stop::Failed(failure)) => failure,
                Ok(()) if cage.request.purpose == Purpose::Probe => return 0,
                Ok(()) => {
                    reset_signals();
                    Failure::Command {
                        errno: image.execute(),
                    }
                }
            }
        }
    };
    // Without a reader the launcher is gone, and so is the need to tell.
    drop(write(tell, &Report::Failed(failure)));
    127
}

fn confine(cage: &mut Cage<'_>, tell: &OwnedFd) -> Result<(), Stop> {
    setsid().map_err(failed("start a session"))?;
    if !cage.spaces.pid() {
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(failed("ask for a death signal"))?;
    }
    let policy = &cage.request.policy;
    let report = &mut cage.report;
    chdir(policy.command.cwd.as_ref() as &std::path::Path).map_err(|errno| {
        let path = policy.command.cwd.clone();
        Stop::Failed(Failure::Policy(PolicyError::BadDirectory {
            path,
            reason: errno.to_string(),
        }))
    })?;
    let status = capabilities::apply(policy)?;
    match status {
        Status::Full => report
            .features
            .extend([Feature::NoCapabilities, Feature::LockedCapabilities]),
        Status::Partial { .. } => report.features.extend([Feature::NoCapabilities]),
        Status::Absent { .. } | Status::Waived => {}
    }
    report.layers.insert(Layer::Capabilities, status);
    let ruled = landlock::apply(policy, &cage.rules, &cage.spaces)?;
    report.layers.insert(Layer::Landlock, ruled.status);
    report.landlock_abi = ruled.abi;
    report.features.extend(ruled.features);
    report.holes.extend(ruled.holes);
    filter(cage, tell)?;
    let canaries = Canaries {
        policy: &cage.request.policy,
        bait: &cage.request.bait,
        hidden: &cage.hidden,
        report: &cage.report,
    };
    let tried = canaries
        .try_to_escape()
        .map_err(|(guarantee, attempt)| Stop::Failed(Failure::Canary { guarantee, attempt }))?;
    cage.report.tried = tried;
    Ok(())
}

/// Filters the calls, and says who answers which.
fn filter(cage: &mut Cage<'_>, tell: &OwnedFd) -> Result<(), Stop> {
    let policy = &cage.request.policy;
    let report = &mut cage.report;
    let mover = cage.mover.as_ref().map(|told| {
        let told = told.as_ref().map_err(Clone::clone)?;
        mover::hear(told)
    });
    let renames = match mover {
        Some(Ok(())) => Renames::Keeper,
        Some(Err(_)) | None => Renames::Kernel,
    };
    let reach = Reach::of(policy, &cage.spaces, renames);
    let filter = seccomp::apply(policy, reach)?;
    let unrenamed = match mover {
        Some(Err(reason)) => Some(reason),
        Some(Ok(())) if filter.listener.is_none() => filter.unrecorded.clone(),
        Some(Ok(())) | None => None,
    };
    report
        .view_notes
        .extend(unrenamed.iter().flat_map(|reason| {
            let targets = cage.unrenamed.iter().map(|target| target.display());
            targets.map(move |target| {
                format!("directories that lie beneath `{target}` cannot be renamed: {reason}")
            })
        }));
    // Calls wait for the keeper from now on. The command must never hold what
    // they wait at, or it could answer for itself.
    if let Some(listener) = filter.listener {
        protocol::send_bytes(tell.as_fd(), LISTENER, &[listener.as_fd()])?;
    }
    if filter.status == Status::Full {
        report.features.extend(reach.features());
    }
    let filtered = report.features.contains(&Feature::InternetRefused);
    report.layers.insert(Layer::Seccomp, filter.status);
    let unrecorded = filter.unrecorded.map(|reason| (Layer::Seccomp, reason));
    report.unrecorded.extend(unrecorded);
    report.layers.insert(
        Layer::Network,
        namespaces::network_status(policy, &cage.spaces, filtered),
    );
    Ok(())
}

/// Sets the limits, compares with what is required, and says that all is ready.
fn ready(cage: &mut Cage<'_>, tell: &OwnedFd) -> Result<(), Stop> {
    descriptors::seal()?;
    let others = match cage.mover {
        Some(Ok(_)) => 1,
        Some(Err(_)) | None => 0,
    };
    let request = &cage.request;
    let bound = limits::apply(&request.policy, &request.group, &cage.spaces, others)?;
    match bound.status {
        Status::Full => cage.report.features.extend([Feature::TreeLimits]),
        Status::Partial { .. } => cage.report.features.extend([Feature::ProcessLimits]),
        Status::Absent { .. } | Status::Waived => {}
    }
    cage.report.layers.insert(Layer::Limits, bound.status);
    cage.report.limits = bound.held;
    if cage.request.purpose == Purpose::Run {
        require(cage)?;
    }
    write(tell, &Report::Ready(std::mem::take(&mut cage.report)))
}

/// Refuses where a layer falls short that the policy requires.
fn require(cage: &Cage<'_>) -> Result<(), Stop> {
    let policy = &cage.request.policy;
    for (layer, status) in &cage.report.layers {
        // A gateway is reached through a network of one's own.
        let needed = policy.required.contains(layer)
            || (*layer == Layer::Network && matches!(policy.network, Network::Gateway { .. }));
        let short = match status {
            Status::Full => false,
            Status::Partial { .. } | Status::Waived => needed,
            // Without file rules there is no cage: that must be a decision.
            Status::Absent { .. } => needed || *layer == Layer::Landlock,
        };
        if short {
            return Err(Stop::Failed(Failure::Unavailable {
                layer: *layer,
                reason: status.shortfall(),
            }));
        }
    }
    let held = held(&cage.report.features);
    let unheld: Vec<Guarantee> = policy
        .promised
        .iter()
        .copied()
        .filter(|guarantee| held[guarantee].is_empty())
        .collect();
    if unheld.is_empty() {
        Ok(())
    } else {
        Err(Stop::Failed(Failure::Unheld { guarantees: unheld }))
    }
}

fn write(tell: &OwnedFd, report: &Report) -> Result<(), Stop> {
    let frame = protocol::encode(report)?;
    let mut rest = frame.as_slice();
    while !rest.is_empty() {
        match rustix::io::write(tell, rest) {
            Ok(written) => rest = &rest[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(Stop::Gone),
        }
    }
    Ok(())
}

/// A command in the shape that the kernel takes, made before limits bind.
struct Image {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Image {
    fn of(command: &Command) -> Self {
        let program = &command.argv[0];
        let env = command.env.iter().map(|(key, value)| {
            let mut text = OsString::from(key);
            text.push("=");
            text.push(value);
            c_string(text.as_bytes())
        });
        Self {
            candidates: candidates(program, &command.env),
            argv: command
                .argv
                .iter()
                .map(|argument| c_string(argument.as_bytes()))
                .collect(),
            env: env.collect(),
        }
    }

    /// Executes the first candidate that can be; the error if none can.
    fn execute(&self) -> i32 {
        let mut denied = None;
        for candidate in &self.candidates {
            let error = execute(candidate, &self.argv, &self.env);
            match error.raw_os_error().unwrap_or(libc::EIO) {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => denied = Some(libc::EACCES),
                libc::ENOEXEC => return self.execute_by_shell(candidate),
                other => return other,
            }
        }
        denied.unwrap_or(libc::ENOENT)
    }

    /// A text without `#!` is a script of the shell's, by custom.
    fn execute_by_shell(&self, script: &CString) -> i32 {
        let shell = c_string(b"/bin/sh");
        let mut argv = vec![shell.clone(), script.clone()];
        argv.extend(self.argv.iter().skip(1).cloned());
        execute(&shell, &argv, &self.env);
        libc::ENOEXEC
    }
}

fn candidates(program: &OsStr, env: &[(OsString, OsString)]) -> Vec<CString> {
    if program.as_bytes().contains(&b'/') {
        return vec![c_string(program.as_bytes())];
    }
    let path = env.iter().find(|(key, _)| key == "PATH");
    let path = path.map_or(USUAL_PATH, |(_, value)| value.as_bytes());
    path.split(|byte| *byte == b':')
        .map(|directory| {
            let directory = if directory.is_empty() {
                b".".as_slice()
            } else {
                directory
            };
            c_string(&[directory, b"/", program.as_bytes()].concat())
        })
        .collect()
}

fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).expect("because the launcher refuses names with NUL bytes")
}
