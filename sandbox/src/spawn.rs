//! Owns the launcher's side: starts the stage, holds the life line, waits.
//!
//! A confined command lives as long as the line is held. This module confines
//! nothing itself and has no unsafe code; what it reports is what the stage
//! told. Called by the program's one long-lived launching thread.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, pidfd_send_signal};

use crate::enforcement::{Enforcement, Proof};
use crate::policy::{Layer, Policy, PolicyError};
use crate::protocol::{
    self, Failure, KILL, ProtocolError, Purpose, Reader, Report, Request, TERMINATE,
};
use crate::stage::STAGE_ARGUMENT;

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

/// What the command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Null,
    /// What the launcher itself reads.
    Inherit,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The policy is wrong.
    #[error("follow the policy")]
    Policy(#[from] PolicyError),
    /// The machine cannot enforce what the policy requires.
    #[error("enforce the layer `{layer}`: {reason} ({hint})")]
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
    /// An attempt to get out of the finished cage succeeded.
    #[error("confine the command: it could {attempt}, although every layer reported success")]
    CanaryEscaped {
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

/// Why the end of a command could not be established.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The helper could not be waited for.
    #[error("wait for the helper")]
    Helper(#[source] io::Error),
    /// The helper ended without proof that the tree is empty.
    #[error("prove that every process of the command has ended")]
    NotProven,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Ended {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Processor time of the whole tree.
    pub cpu_ms: u64,
    /// What proves that nothing of the tree is left.
    pub emptied: Proof,
}

/// A confined command, from its start to the proven end of all it started.
///
/// Dropping it kills everything inside and waits for that.
#[derive(Debug)]
#[must_use]
pub struct Confined {
    helper: Child,
    line: Arc<Line>,
    reader: Reader,
    enforcement: Enforcement,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

/// The launcher's end of the life line.
#[derive(Debug)]
struct Line {
    socket: OwnedFd,
    init: Option<OwnedFd>,
}

/// Ends a confined command from any thread.
#[derive(Debug, Clone)]
pub struct Killer {
    line: Arc<Line>,
}

impl Killer {
    /// Sends `SIGTERM` to everything inside. Does nothing after the end.
    pub fn terminate(&self) {
        self.line.order(TERMINATE);
    }

    /// Ends everything inside at once. Does nothing after the end.
    ///
    /// The handle means that very process for ever, never one with a reused
    /// number.
    pub fn kill(&self) {
        self.line.order(KILL);
        if let Some(init) = &self.line.init {
            // It fails only if the process has ended, which is what is wanted.
            let _ = pidfd_send_signal(init, Signal::KILL);
        }
    }
}

impl Line {
    fn order(&self, byte: u8) {
        // Fails if the other side has ended, or if a thousand orders are
        // waiting already; either way there is nothing left to say.
        let _ = rustix::net::send(
            &self.socket,
            &[byte],
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        );
    }
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
    starting.send(policy, input, Purpose::Run)?;
    let enforcement = match starting.next()? {
        Report::Ready(enforcement) => enforcement,
        Report::Failed(failure) => return Err(starting.refused(failure, policy)),
        Report::Started | Report::Exited { .. } | Report::Emptied { .. } => {
            return Err(starting.out_of_turn());
        }
    };
    match starting.next()? {
        Report::Started => Ok(starting.started(enforcement)),
        Report::Failed(failure) => Err(starting.refused(failure, policy)),
        Report::Ready(_) | Report::Exited { .. } | Report::Emptied { .. } => {
            Err(starting.out_of_turn())
        }
    }
}

/// Runs the stage without a command and returns what it achieved.
pub(crate) fn rehearse(policy: &Policy, helper: &Helper) -> Result<Enforcement, SpawnError> {
    let mut starting = Starting::new(helper)?;
    starting.send(policy, Input::Null, Purpose::Probe)?;
    match starting.next()? {
        Report::Ready(enforcement) => Ok(enforcement),
        Report::Failed(failure) => Err(starting.refused(failure, policy)),
        Report::Started | Report::Exited { .. } | Report::Emptied { .. } => {
            Err(starting.out_of_turn())
        }
    }
}

/// A helper that has not executed a command yet; dropping it ends it.
struct Starting {
    // The order binds: the line closes before the helper is waited for.
    socket: Option<OwnedFd>,
    helper: Option<Child>,
    reader: Reader,
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
        })
    }

    fn socket(&self) -> &OwnedFd {
        self.socket
            .as_ref()
            .expect("because it is taken only when the start is over")
    }

    fn send(&mut self, policy: &Policy, input: Input, purpose: Purpose) -> Result<(), SpawnError> {
        let request = Request {
            purpose,
            policy: policy.clone(),
        };
        let stdin = io::stdin();
        let sent = match input {
            Input::Null => protocol::send(self.socket().as_fd(), &request, &[]),
            Input::Inherit => protocol::send(self.socket().as_fd(), &request, &[stdin.as_fd()]),
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
            Failure::Canary { attempt } => SpawnError::CanaryEscaped { attempt },
            Failure::Step { step, reason } => HelperError::Step { step, reason }.into(),
        }
    }

    fn started(mut self, enforcement: Enforcement) -> Confined {
        let socket = self
            .socket
            .take()
            .expect("because the start is over only now");
        let mut helper = self
            .helper
            .take()
            .expect("because the start is over only now");
        let mut reader = std::mem::replace(&mut self.reader, Reader::new());
        let init = reader.descriptors.pop();
        Confined {
            stdout: helper.stdout.take().map(OwnedFd::from),
            stderr: helper.stderr.take().map(OwnedFd::from),
            helper,
            line: Arc::new(Line { socket, init }),
            reader,
            enforcement,
        }
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
        Layer::Limits => "limits bind each process only in this version; do not require the layer",
    }
}

impl Confined {
    /// What each layer achieved for this command.
    #[must_use]
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// The read end of the command's standard output; none the second time.
    pub fn take_stdout(&mut self) -> Option<OwnedFd> {
        self.stdout.take()
    }

    /// The read end of the command's standard error; none the second time.
    pub fn take_stderr(&mut self) -> Option<OwnedFd> {
        self.stderr.take()
    }

    /// A handle that ends the command from another thread.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer {
            line: Arc::clone(&self.line),
        }
    }

    /// Waits until the command and everything it started have ended.
    ///
    /// A daemon does not delay this: it is killed when the command ends.
    ///
    /// # Errors
    /// Fails if it cannot be proven that nothing is left.
    pub fn wait(mut self) -> Result<Ended, WaitError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Ended, WaitError> {
        let (mut status, mut emptied) = (None, None);
        while let Ok(Some(report)) = self.reader.next(self.line.socket.as_fd()) {
            match report {
                Report::Exited { status: raw } => status = Some(ExitStatus::from_raw(raw)),
                Report::Emptied { cpu_ms, proof } => emptied = Some((cpu_ms, proof)),
                Report::Ready(_) | Report::Started | Report::Failed(_) => {}
            }
        }
        self.helper.wait().map_err(WaitError::Helper)?;
        if emptied.is_none() && self.init_ended() {
            // The helper was killed; its init dies of that, and the kernel
            // reports an init's end only when its namespace is empty.
            emptied = Some((0, Proof::PidNamespace));
        }
        let (cpu_ms, emptied) = emptied.ok_or(WaitError::NotProven)?;
        let (code, signal) = match status {
            Some(status) => (status.code(), status.signal()),
            None => (None, Some(Signal::KILL.as_raw())),
        };
        Ok(Ended {
            code,
            signal,
            cpu_ms,
            emptied,
        })
    }

    /// Waits for the init by its handle; false if there is none.
    fn init_ended(&self) -> bool {
        let Some(init) = &self.line.init else {
            return false;
        };
        loop {
            let mut entry = [PollFd::new(init, PollFlags::IN)];
            match poll(&mut entry, None) {
                Ok(_) if entry[0].revents().contains(PollFlags::IN) => return true,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // After `wait` the helper has been reaped, and this does nothing.
        if let Ok(None) = self.helper.try_wait() {
            self.killer().kill();
            drop(self.finish());
        }
    }
}
