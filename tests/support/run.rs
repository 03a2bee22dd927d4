//! Processes of a test, under a limit on hanging.
//!
//! Owns starting one, talking to it, signalling it by a descriptor that no
//! other process can take over, and its end. A process that does not end, or
//! whose output somebody keeps open, fails the test with what it said so far.

use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use serde_json::Value;

pub(crate) use rustix::process::Signal;

/// Far beyond what anything takes on a busy machine.
const HANG: Duration = Duration::from_secs(300);

/// What a process ended with.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its exit code; 128 and the number for a signal that ended it.
    pub(crate) code: i32,
    /// Its standard output, lossy.
    pub(crate) stdout: String,
    /// Its standard error, lossy.
    pub(crate) stderr: String,
}

impl Run {
    /// Demands an exit code.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "unexpected exit code\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// Its standard output as exactly one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "not one JSON document: {error}\n--- stdout\n{}\n--- stderr\n{}",
                self.stdout, self.stderr
            )
        })
    }

    /// Demands that it ended as an error of the contract does: the code, one
    /// document on standard output, words for a person on standard error.
    #[track_caller]
    pub(crate) fn expect_error(self, code: i32) -> Value {
        let run = self.expect_code(code);
        let document = run.json();
        assert_eq!(document["schema"], "cofferdam.error/1", "{document:#}");
        assert_eq!(document["exit_code"], code, "{document:#}");
        assert!(
            document["message"]
                .as_str()
                .is_some_and(|text| !text.trim().is_empty()),
            "no message in {document:#}"
        );
        run.expect_told();
        document
    }

    /// Demands one clear error on standard error and no trace of a fault.
    #[track_caller]
    pub(crate) fn expect_told(&self) {
        assert!(!self.stderr.trim().is_empty(), "nothing on stderr");
        for sign in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!self.stderr.contains(sign), "a fault: {}", self.stderr);
        }
        let errors = self
            .stderr
            .lines()
            .filter(|line| line.starts_with("error"))
            .count();
        assert!(errors <= 1, "more than one error:\n{}", self.stderr);
    }
}

/// What a process has written so far.
#[derive(Debug, Clone, Default)]
struct Output(Arc<(Mutex<Written>, Condvar)>);

#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    closed: bool,
}

impl Output {
    fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let output = Self::default();
        let shared = output.clone();
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            loop {
                let count = pipe.read(&mut buffer).unwrap_or(0);
                let mut written = shared.0.0.lock().unwrap_or_else(PoisonError::into_inner);
                written.bytes.extend_from_slice(&buffer[..count]);
                written.closed = count == 0;
                shared.0.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        output
    }

    /// Waits until `done`, and says whether it came to that.
    fn wait(&self, done: impl Fn(&Written) -> bool) -> bool {
        let written = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (written, _) = self
            .0
            .1
            .wait_timeout_while(written, HANG, |written| !done(written) && !written.closed)
            .unwrap_or_else(PoisonError::into_inner);
        done(&written)
    }

    fn text(&self) -> String {
        let written = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written.bytes).into_owned()
    }
}

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pid: u32,
    process: OwnedFd,
    stdin: Option<ChildStdin>,
    stdout: Output,
    stderr: Output,
    ended: Receiver<ExitStatus>,
}

impl Running {
    /// Starts a command with all three streams in the test's hands.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let pid = child.id();
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .expect("because the child is not reaped yet");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("because it is a pipe");
        let stderr = child.stderr.take().expect("because it is a pipe");
        let (send, ended) = channel();
        thread::spawn(move || {
            let status = child.wait().expect("because the child is ours to reap");
            // A test that gave up waiting listens no more.
            send.send(status).unwrap_or_default();
        });
        Self {
            pid,
            process,
            stdin,
            stdout: Output::collect(stdout),
            stderr: Output::collect(stderr),
            ended,
        }
    }

    /// Its process id, as the host sees it.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until its standard error holds `words`.
    #[track_caller]
    pub(crate) fn wait_for(&self, words: &str) {
        let came = self
            .stderr
            .wait(|written| String::from_utf8_lossy(&written.bytes).contains(words));
        assert!(
            came,
            "it ended or hung without saying `{words}`\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout.text(),
            self.stderr.text()
        );
    }

    /// Waits until its standard output has `count` lines or is closed.
    pub(crate) fn wait_for_lines(&self, count: usize) {
        self.stdout
            .wait(|written| written.bytes.iter().filter(|byte| **byte == b'\n').count() >= count);
    }

    /// Waits until its standard output has this text in it or is closed.
    pub(crate) fn wait_for_text(&self, text: &str) {
        let text = text.as_bytes();
        self.stdout
            .wait(|written| written.bytes.windows(text.len()).any(|part| part == text));
    }

    /// Gives it a line on its standard input.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("because it is not closed yet");
        writeln!(stdin, "{line}").expect("because it reads its standard input");
    }

    /// Sends it a signal; one that has ended gets none.
    pub(crate) fn signal(&self, signal: Signal) {
        match pidfd_send_signal(&self.process, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => panic!("signal {}: {error}", self.pid),
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Run {
        drop(self.stdin.take());
        let Ok(status) = self.ended.recv_timeout(HANG) else {
            self.signal(Signal::KILL);
            panic!(
                "it hung\n--- stdout\n{}\n--- stderr\n{}",
                self.stdout.text(),
                self.stderr.text()
            );
        };
        for (name, output) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            assert!(
                output.wait(|written| written.closed),
                "it ended and somebody keeps its {name} open:\n{}",
                output.text()
            );
        }
        Run {
            code: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }
}
