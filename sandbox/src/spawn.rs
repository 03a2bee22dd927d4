//! Owns the launcher's side: starts the stage, holds the life line, waits.
//!
//! A confined command lives as long as the line is held. This module confines
//! nothing itself and has no unsafe code; what it reports is what the stage
//! told. Called by the program's one long-lived launching thread.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::bait::{self, Laid};
use crate::confined::{Confined, Ends, Line};
use crate::enforcement::Enforcement;
use crate::guarantees::{Guarantee, needs};
use crate::input::{self, Input};
use crate::layers::merging::Merging;
use crate::limits::{Group, Joining};
use crate::policy::{HostPath, Layer, Limits, Policy, PolicyError};
use crate::protocol::{self, Failure, Handed, ProtocolError, Purpose, Reader, Report, Request};
use crate::stage::STAGE_ARGUMENT;

/// How long a helper may be silent before its command is executed: no start
/// takes a thousandth of it.
const LONGEST_START: Duration = Duration::from_secs(60);

/// How to start this program again as the stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper {
    /// The program; its `main` must call
    /// [`enter_stage_if_asked`](crate::enter_stage_if_asked) first.
    pub program: PathBuf,
    /// Its arguments; the first must be [`STAGE_ARGUMENT`].
    pub args: Vec<OsString>,
}

impl Helper {
    /// The running program itself, also if its file was replaced or removed.
    #[must_use]
    pub fn current() -> Self {
        Self {
            program: "/proc/self/exe".into(),
            args: vec![STAGE_ARGUMENT.into()],
        }
    }
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The policy is wrong.
    #[error("follow the policy")]
    Policy(#[from] PolicyError),
    /// The machine cannot enforce what the policy requires.
    #[error("enforce the layer `{layer}`: {reason}")]
    Unavailable {
        /// The layer that falls short.
        layer: Layer,
        /// Why.
        reason: String,
        /// What can be done.
        hint: String,
    },
    /// The command cannot be executed.
    #[error("execute `{}`", program.display())]
    Command {
        /// The program as it was named.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// Nothing on this machine holds what was promised.
    #[error("{}", unheld(.guarantees))]
    Unheld {
        /// The guarantees that no layer holds.
        guarantees: Vec<Guarantee>,
    },
    /// An attempt to get out of the finished cage succeeded.
    #[error(
        "hold `{guarantee}`: it was possible to {attempt}, although every layer reported success"
    )]
    CanaryEscaped {
        /// What was broken.
        guarantee: Guarantee,
        /// What was possible.
        attempt: String,
    },
    /// The helper could not do its work.
    #[error("use the helper")]
    Helper(#[from] HelperError),
}

/// Why the helper could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// It could not be started.
    #[error("start `{}`", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A step failed that no policy explains.
    #[error("{step}: {reason}")]
    Step {
        /// The step.
        step: String,
        /// Why.
        reason: String,
    },
    /// It ended or spoke out of turn.
    #[error("understand the helper: {reason}")]
    Protocol {
        /// What was wrong, with what it printed.
        reason: String,
    },
}

/// Starts a command in a cage.
///
/// Returns when the command has been executed, so that a missing program is an
/// error here and not an exit code. Blocks until then. The command dies with
/// the thread that called this.
///
/// # Errors
/// Nothing was started, and nothing is left. See [`SpawnError`].
pub fn spawn(policy: &Policy, input: Input, helper: &Helper) -> Result<Confined, SpawnError> {
    policy.check()?;
    let mut starting = Starting::new(helper)?;
    starting.send(policy, input, (Purpose::Run, None))?;
    let enforcement = match starting.next()? {
        Report::Ready(enforcement) => enforcement,
        Report::Failed(failure) => return Err(starting.refused(failure, policy)),
        Report::Merged(_)
        | Report::Started { .. }
        | Report::Denied(_)
        | Report::Crossed(_)
        | Report::Noticed(_)
        | Report::Exited { .. }
        | Report::Emptied { .. } => {
            return Err(starting.out_of_turn());
        }
    };
    match starting.next()? {
        Report::Started { handed } => Ok(starting.started(enforcement, policy, &handed)),
        Report::Failed(failure) => Err(starting.refused(failure, policy)),
        Report::Merged(_)
        | Report::Ready(_)
        | Report::Denied(_)
        | Report::Crossed(_)
        | Report::Noticed(_)
        | Report::Exited { .. }
        | Report::Emptied { .. } => Err(starting.out_of_turn()),
    }
}

/// What a stage without a command achieved.
pub(crate) struct Rehearsal {
    pub(crate) enforcement: Enforcement,
    /// Nothing if nothing was to be merged.
    pub(crate) merging: Option<Result<Merging, String>>,
}

/// Runs the stage without a command; merges directories if there are some.
pub(crate) fn rehearse(
    policy: &Policy,
    merged: Option<HostPath>,
    helper: &Helper,
) -> Result<Rehearsal, SpawnError> {
    let mut starting = Starting::new(helper)?;
    starting.send(policy, Input::Null, (Purpose::Probe, merged))?;
    let mut merging = None;
    loop {
        match starting.next()? {
            Report::Merged(found) if merging.is_none() => merging = Some(found),
            Report::Ready(enforcement) => {
                return Ok(Rehearsal {
                    enforcement,
                    merging,
                });
            }
            Report::Failed(failure) => return Err(starting.refused(failure, policy)),
            Report::Merged(_)
            | Report::Started { .. }
            | Report::Denied(_)
            | Report::Crossed(_)
            | Report::Noticed(_)
            | Report::Exited { .. }
            | Report::Emptied { .. } => return Err(starting.out_of_turn()),
        }
    }
}

/// A helper that has not executed a command yet; dropping it ends it.
struct Starting {
    // The order binds: the line closes before the helper is waited for.
    socket: Option<OwnedFd>,
    helper: Option<Child>,
    reader: Reader,
    laid: Laid,
    group: Option<Group>,
}

impl Starting {
    fn new(helper: &Helper) -> Result<Self, HelperError> {
        let failed = |source: io::Error| HelperError::Start {
            program: helper.program.clone(),
            source,
        };
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| failed(errno.into()))?;
        // A path of the policy may lie on a file system that never answers;
        // other starts must not wait for that.
        set_socket_timeout(&ours, Timeout::Recv, Some(LONGEST_START))
            .map_err(|errno| failed(errno.into()))?;
        let laid = bait::lay().map_err(failed)?;
        let child = std::process::Command::new(&helper.program)
            .args(&helper.args)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        Ok(Self {
            socket: Some(ours),
            helper: Some(child),
            reader: Reader::new(),
            laid,
            group: None,
        })
    }

    fn socket(&self) -> &OwnedFd {
        self.socket
            .as_ref()
            .expect("because it is taken only when the start is over")
    }

    fn send(
        &mut self,
        policy: &Policy,
        input: Input,
        (purpose, merged): (Purpose, Option<HostPath>),
    ) -> Result<(), SpawnError> {
        // Made while the helper starts, on the other processor.
        let (group, joining) = match policy.waives(Layer::Limits) {
            true => (None, Joining::default()),
            false => Group::make(&policy.limits),
        };
        self.group = group;
        let request = Request {
            purpose,
            policy: policy.clone(),
            bait: self.laid.bait.clone(),
            group: joining,
            merged,
        };
        let sent = match input {
            Input::Null => protocol::send(self.socket().as_fd(), &request, &[]),
            Input::Piped => {
                let pipe = input::piped().map_err(|source| HelperError::Start {
                    program: "the copier of standard input".into(),
                    source,
                })?;
                protocol::send(self.socket().as_fd(), &request, &[pipe.as_fd()])
            }
        };
        sent.map_err(|error| self.broken(&error))
    }

    fn next(&mut self) -> Result<Report, SpawnError> {
        let socket = self
            .socket
            .as_ref()
            .expect("because it is taken only when the start is over");
        match self.reader.next(socket.as_fd()) {
            Ok(Some(report)) => Ok(report),
            Ok(None) => Err(self.broken(&ProtocolError::Cut)),
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn out_of_turn(&mut self) -> SpawnError {
        self.broken(&ProtocolError::Cut)
    }

    /// What went wrong with the helper, with the last words it printed.
    fn broken(&mut self, error: &ProtocolError) -> SpawnError {
        self.socket = None;
        let mut words = Vec::new();
        if let Some(mut child) = self.helper.take() {
            drop(child.kill());
            if error.is_silence() {
                // It may wait in the kernel for ever; somebody else buries it.
                std::thread::spawn(move || child.wait());
                let seconds = LONGEST_START.as_secs();
                return HelperError::Protocol {
                    reason: format!(
                        "it said nothing for {seconds} s; a path of the policy may lie on a file system that does not answer"
                    ),
                }
                .into();
            }
            if let Some(stderr) = child.stderr.take() {
                drop(stderr.take(4096).read_to_end(&mut words));
            }
            let status = child
                .wait()
                .map_or_else(|error| error.to_string(), |status| status.to_string());
            let words = String::from_utf8_lossy(&words).trim().to_owned();
            return HelperError::Protocol {
                reason: format!("failed to {error}; it ended with {status}; {words}"),
            }
            .into();
        }
        HelperError::Protocol {
            reason: error.to_string(),
        }
        .into()
    }

    fn refused(&mut self, failure: Failure, policy: &Policy) -> SpawnError {
        match failure {
            Failure::Policy(error) => error.into(),
            Failure::Unavailable { layer, reason } => SpawnError::Unavailable {
                layer,
                reason,
                hint: hint(layer).into(),
            },
            Failure::Command { errno } => SpawnError::Command {
                program: policy
                    .command
                    .argv
                    .first()
                    .map_or(OsStr::new(""), OsString::as_os_str)
                    .to_owned(),
                source: io::Error::from_raw_os_error(errno),
            },
            Failure::Unheld { guarantees } => SpawnError::Unheld { guarantees },
            Failure::Canary { guarantee, attempt } => {
                SpawnError::CanaryEscaped { guarantee, attempt }
            }
            Failure::Step { step, reason } => HelperError::Step { step, reason }.into(),
        }
    }

    fn started(mut self, enforcement: Enforcement, policy: &Policy, handed: &[Handed]) -> Confined {
        let socket = self
            .socket
            .take()
            .expect("because the start is over only now");
        let mut helper = self
            .helper
            .take()
            .expect("because the start is over only now");
        let limits = match policy.waives(Layer::Limits) {
            true => Limits::default(),
            false => policy.limits.clone(),
        };
        // From here on the command decides how long nothing is said. It fails
        // for no socket that took the limit.
        let _ = set_socket_timeout(&socket, Timeout::Recv, None);
        let mut reader = std::mem::replace(&mut self.reader, Reader::new());
        let (mut init, mut gateway) = (None, None);
        for (what, descriptor) in handed.iter().zip(reader.descriptors.drain(..)) {
            match what {
                Handed::Init => init = Some(descriptor),
                Handed::Gateway => gateway = Some(TcpListener::from(descriptor)),
            }
        }
        let stdout = helper.stdout.take().map(OwnedFd::from);
        let stderr = helper.stderr.take().map(OwnedFd::from);
        Confined::new(
            helper,
            Ends {
                stdout,
                stderr,
                gateway,
            },
            Line { socket, init },
            reader,
            enforcement,
        )
        .bound(limits, self.group.take())
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.socket = None;
        if let Some(mut helper) = self.helper.take() {
            // Its end is near: the line is closed. Waiting leaves no zombie.
            drop(helper.stdout.take());
            drop(helper.stderr.take());
            drop(helper.wait());
        }
    }
}

fn unheld(guarantees: &[Guarantee]) -> String {
    let each = guarantees
        .iter()
        .map(|one| format!("hold `{one}`, which needs {}", needs(*one)));
    each.collect::<Vec<_>>().join("; ")
}

fn hint(layer: Layer) -> &'static str {
    match layer {
        Layer::Landlock => {
            "enable Landlock in the kernel (`lsm=landlock,...`, Linux 6.2 or later), or waive the layer by name"
        }
        Layer::Mounts => "allow user namespaces for this user, or use a view in place",
        Layer::Namespaces => "allow user namespaces for this user, or do not require the layer",
        Layer::Seccomp => "use a kernel with seccomp filters, or do not require the layer",
        Layer::Capabilities => {
            "run as a user who may drop the bounding set, or do not require the layer"
        }
        Layer::Network => {
            "allow network namespaces for this user, ask for no network, or do not require the layer"
        }
        Layer::Limits => {
            "start the launcher where it may make control groups (`systemd-run --user --scope`), or do not require the layer"
        }
    }
}
