//! What an agent prints.
//!
//! Owns the two ways it goes: whole lines to a sink as they come, and a log
//! file that keeps the beginning and the end of a flood; and the bound past
//! which a flood ends the agent. Bytes are passed on as they are; nothing in
//! them is obeyed or parsed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cofferdam_sandbox::{Limit, LimitHit, Mechanism};
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::Notify;

/// Which of the two streams a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Receives an agent's lines, without their line ends.
pub trait LineSink: Send + Sync {
    /// One line; longer ones than 8 KiB come in pieces.
    fn line(&self, stream: Stream, line: &[u8]);
}

/// Bytes of a log's beginning that are kept.
const HEAD: u64 = 4 * 1024 * 1024;
/// Bytes of a log's end that are kept once the beginning is full.
const TAIL: usize = 64 * 1024;
/// The longest piece of a line that is passed on at once.
const PIECE: usize = 8 * 1024;

/// Keeps the beginning and the end of what one agent prints.
#[derive(Debug)]
pub struct OutputLog {
    file: File,
    written: u64,
    left_out: u64,
    tail: VecDeque<u8>,
}

impl OutputLog {
    /// Logs into this file.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self {
            file,
            written: 0,
            left_out: 0,
            tail: VecDeque::new(),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(HEAD.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        self.file.write_all(head)?;
        self.written += head.len() as u64;
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
        Ok(())
    }

    /// Writes the kept end. A log that cannot be written loses output, never
    /// work: the agent's run does not fail for it.
    pub fn finish(mut self) {
        if self.left_out > 0 {
            let mark = format!("\n[… {} bytes left out …]\n", self.left_out);
            if let Err(error) = self.file.write_all(mark.as_bytes()) {
                tracing::warn!(%error, "the log of an agent is incomplete");
            }
        }
        let (front, back) = self.tail.as_slices();
        if let Err(error) = self
            .file
            .write_all(front)
            .and_then(|()| self.file.write_all(back))
        {
            tracing::warn!(%error, "the log of an agent is incomplete");
        }
    }
}

/// Counts what an agent prints on both streams.
#[derive(Debug)]
pub(super) struct Flood {
    most: u64,
    seen: AtomicU64,
    passed: Notify,
}

impl Flood {
    pub(super) fn over(most: u64) -> Self {
        Self {
            most,
            seen: AtomicU64::new(0),
            passed: Notify::new(),
        }
    }

    /// Counts bytes; false once there are too many.
    fn count(&self, bytes: usize) -> bool {
        let before = self.seen.fetch_add(bytes as u64, Ordering::Relaxed);
        let fits = before.saturating_add(bytes as u64) <= self.most;
        if !fits {
            self.passed.notify_one();
        }
        fits
    }

    /// Resolves when too much was printed.
    pub(super) async fn passed(&self) {
        self.passed.notified().await;
    }

    /// The fact, if too much was printed.
    pub(super) fn hit(&self) -> Option<LimitHit> {
        (self.seen.load(Ordering::Relaxed) > self.most).then_some(LimitHit {
            limit: Limit::Output,
            value: self.most,
            by: Mechanism::Launcher,
            count: 1,
        })
    }
}

/// Reads one stream to its end. What comes after a flood has passed its limit
/// is read and thrown away: the agent is being ended.
///
/// The cage ends before the stream must: a process that holds the pipe open
/// dies with the cage, so the end always comes.
pub(super) async fn pump(
    fd: OwnedFd,
    stream: Stream,
    sink: Arc<dyn LineSink>,
    log: Arc<Mutex<Option<OutputLog>>>,
    flood: Arc<Flood>,
) {
    let Ok(receiver) = pipe::Receiver::from_owned_fd(fd) else {
        tracing::warn!("an agent's output is not a pipe and is not read");
        return;
    };
    let mut reader = BufReader::new(receiver);
    let mut pending = Vec::with_capacity(PIECE);
    let mut buffer = vec![0_u8; PIECE];
    loop {
        let count = match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        if !flood.count(count) {
            continue;
        }
        let bytes = &buffer[..count];
        if let Some(log) = log.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
            && let Err(error) = log.take(bytes)
        {
            tracing::warn!(%error, "the log of an agent is incomplete");
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let room = PIECE - pending.len();
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()).min(room));
            pending.extend_from_slice(piece);
            // What follows is a line's end, or no longer fits into the piece.
            if !after.is_empty() {
                sink.line(stream, &pending);
                pending.clear();
            }
            rest = after.strip_prefix(b"\n").unwrap_or(after);
        }
    }
    if !pending.is_empty() {
        sink.line(stream, &pending);
    }
}
