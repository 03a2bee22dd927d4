//! Owns the last process before the command: drops what it can do, then becomes it.
//!
//! The order binds. The directory is entered and privilege is dropped while
//! files can still be opened; Landlock's rules are opened in the finished
//! view; the filter comes last of the layers; then canaries try to get out;
//! limits come at the very end, because the stage itself must not run into them.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Signal, chdir, set_parent_process_death_signal, setsid};

use super::{Cage, Stop, canary, failed};
use crate::enforcement::Status;
use crate::layers::seccomp::Internet;
use crate::layers::{capabilities, descriptors, landlock, limits, namespaces, seccomp};
use crate::policy::{Command, Layer, PolicyError};
use crate::protocol::{self, Failure, Purpose, Report};
use crate::sys::process::{execute, reset_signals};

/// Where programs are looked for if the environment does not say.
const USUAL_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Confines this process and executes the command; returns only on failure.
pub(super) fn confine_and_execute(mut cage: Cage<'_>, tell: &OwnedFd) -> i32 {
    let failure = match confine(&mut cage) {
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

fn confine(cage: &mut Cage<'_>) -> Result<(), Stop> {
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
    report
        .layers
        .insert(Layer::Capabilities, capabilities::apply(policy)?);
    let ruled = landlock::apply(policy, &cage.spaces)?;
    report.layers.insert(Layer::Landlock, ruled.status);
    report.landlock_abi = ruled.abi;
    report.holes.extend(ruled.holes);
    let internet = Internet::of(policy, cage.spaces.net());
    let filter = seccomp::apply(policy, internet)?;
    let filtered = filter == Status::Full && internet == Internet::Denied;
    report.layers.insert(Layer::Seccomp, filter);
    report.layers.insert(
        Layer::Network,
        namespaces::network_status(policy, &cage.spaces, filtered),
    );
    canary::try_to_escape(policy, report).map_err(|attempt| {
        Stop::Failed(Failure::Canary {
            attempt: attempt.to_owned(),
        })
    })
}

/// Sets the limits, compares with what is required, and says that all is ready.
fn ready(cage: &mut Cage<'_>, tell: &OwnedFd) -> Result<(), Stop> {
    descriptors::seal()?;
    let bound = limits::apply(&cage.request.policy, &cage.request.group, &cage.spaces)?;
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
        let short = match status {
            Status::Full => false,
            Status::Partial { .. } | Status::Waived => policy.required.contains(layer),
            // Without file rules there is no cage: that must be a decision.
            Status::Absent { .. } => policy.required.contains(layer) || *layer == Layer::Landlock,
        };
        if short {
            return Err(Stop::Failed(Failure::Unavailable {
                layer: *layer,
                reason: status.shortfall(),
            }));
        }
    }
    Ok(())
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
