//! Owns the answers to refused calls, and the book of them.
//!
//! The listener waits until somebody answers, so this must never wait itself:
//! not for the launcher to read, not for more than a few calls at a time. It
//! always gives the error that the filter alone would give; no refused call is
//! ever let through. What else comes over the listener is for `renames`. What is kept is bounded, however many calls a command makes:
//! equal ones are counted, and an operation with too many faces keeps its count
//! only. A command that installs a filter of its own can answer its calls
//! before they get here; then they are not made, and not recorded.

use std::collections::BTreeMap;
use std::fs;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::renames::Renames;
use super::sweep;
use crate::denial::Denial;
use crate::layers::seccomp::{Attempt, Place};
use crate::protocol::{self, ProtocolError, Report};
use crate::ready;
use crate::sys::seccomp::{Listener, Refused, read_memory};

/// Calls answered before the keeper looks at its other work again.
const AT_ONCE: usize = 64;
/// Different paths, programs and details kept of one operation.
const FACES: usize = 16;
/// Bytes kept of one path.
const PATH: usize = 256;
/// Bytes kept of one program's name.
const NAME: usize = 64;
/// Denials in one message. Such a message fits into one buffer of the socket,
/// so that it goes whole or not at all.
const BATCH: usize = 16;
/// Counted calls of which the launcher hears nothing before it is told.
const UNTOLD: u64 = 1024;
/// The same in milliseconds, when nothing else happens.
const PAUSE_MS: i64 = 250;

/// The calls that were refused, and who waits for an answer.
#[derive(Debug)]
pub(super) struct Denials {
    listener: Option<Listener>,
    /// The calls that the same listener has besides the refused ones.
    renames: Option<Renames>,
    /// Whether procfs numbers processes as this process does.
    procfs: bool,
    book: Book,
    /// How many have been counted since the launcher was told.
    untold: u64,
    /// Whether the launcher has not heard of something at all.
    news: bool,
    /// Whether the line was full.
    full: bool,
}

impl Denials {
    /// Starts the book of a command that is being executed.
    pub(super) fn new(listener: Option<Listener>, renames: Option<Renames>) -> Self {
        Self {
            listener,
            renames,
            procfs: sweep::require_own_procfs().is_ok(),
            book: Book::default(),
            untold: 0,
            news: false,
            full: false,
        }
    }

    /// What to wait for besides the keeper's own.
    pub(super) fn entries(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listener = self.listener.as_ref();
        let mover = listener.and_then(|_| self.renames.as_ref()?.entry());
        let listener = listener.map(|listener| PollFd::new(listener, PollFlags::IN));
        listener.into_iter().chain(mover)
    }

    /// What the line is watched for.
    pub(super) fn line_flags(&self) -> PollFlags {
        if self.full {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        }
    }

    /// How long the launcher may go on without hearing of what was counted.
    pub(super) fn patience(&self) -> Option<rustix::event::Timespec> {
        (self.untold > 0 && !self.full).then_some(rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: PAUSE_MS * 1_000_000,
        })
    }

    /// Answers what waits, as far as this round goes. `moved` is what is seen
    /// of the mover.
    pub(super) fn answer(&mut self, seen: PollFlags, moved: PollFlags) {
        let Some(listener) = &self.listener else {
            return;
        };
        if let Some(renames) = self.renames.as_mut().filter(|_| !moved.is_empty()) {
            renames.hear(listener);
        }
        if !seen.contains(PollFlags::IN) {
            if !seen.is_empty() {
                // Nobody is left whom the filter binds.
                self.listener = None;
            }
            return;
        }
        for round in 0..AT_ONCE {
            // The first was seen by the caller.
            if round > 0 && !waits(listener) {
                return;
            }
            let Some(call) = listener.take() else {
                continue;
            };
            if let Some(renames) = &mut self.renames
                && renames.take(listener, call)
            {
                continue;
            }
            let fact = Fact::of(&call, self.procfs);
            // Only after the answer is it certain that the process that was
            // looked at was the caller: until then it could not go on.
            if listener.refuse(&call, libc::EPERM) {
                self.untold += 1;
                let procfs = self.procfs;
                self.news |= self.book.note(fact, || process(call.thread, procfs));
            }
        }
    }

    /// Tells the launcher what is new, if it can hear it now.
    pub(super) fn tell(&mut self, line: &OwnedFd, pace: Pace) -> Result<(), ProtocolError> {
        let due = match pace {
            Pace::Busy => self.news || self.untold >= UNTOLD || self.full,
            Pace::Quiet => self.news || self.untold > 0,
        };
        if !due {
            return Ok(());
        }
        while let Some(frame) = self.book.next_frame()? {
            match send_now(line, &frame) {
                Ok(true) => self.book.told(),
                Ok(false) => {
                    self.full = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        (self.full, self.news, self.untold) = (false, false, 0);
        Ok(())
    }

    /// Tells the launcher all, however long that takes.
    pub(super) fn tell_all(&mut self, line: &OwnedFd) -> Result<(), ProtocolError> {
        while let Some(frame) = self.book.next_frame()? {
            protocol::send_bytes(line.as_fd(), &frame, &[])?;
            self.book.told();
        }
        Ok(())
    }
}

/// Whether anything else happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Busy,
    Quiet,
}

/// Answers the stage's own attempts to get out, of which there is no record.
pub(super) fn answer_unrecorded(listener: &Listener) {
    if waits(listener)
        && let Some(call) = listener.take()
    {
        listener.refuse(&call, libc::EPERM);
    }
}

/// Whether a call waits: taking one that does not would wait for it.
fn waits(listener: &Listener) -> bool {
    ready::now(listener, PollFlags::IN).is_ok_and(|seen| seen.contains(PollFlags::IN))
}

/// Sends a whole frame; false if there is no room for it now.
fn send_now(line: &OwnedFd, frame: &[u8]) -> Result<bool, ProtocolError> {
    let mut control = SendAncillaryBuffer::default();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match sendmsg(line, &[IoSlice::new(frame)], &mut control, flags) {
        Ok(sent) => {
            protocol::send_bytes(line.as_fd(), &frame[sent..], &[])?;
            Ok(true)
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(ProtocolError::Io(errno.into())),
    }
}

/// What makes two refusals the same.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fact {
    attempt: Attempt,
    path: Option<String>,
    exe: Option<String>,
}

impl Fact {
    fn of(call: &Refused, procfs: bool) -> Self {
        let mut attempt = Attempt::of(call);
        let path = match attempt.path {
            Place::Nowhere => None,
            Place::Memory(address) => path_in_memory(call.thread, address),
            Place::Descriptor(number) if procfs => {
                link(&format!("/proc/{}/fd/{number}", call.thread), PATH)
            }
            Place::Descriptor(_) => None,
        };
        // Where it was found is nothing that tells two attempts apart.
        attempt.path = Place::Nowhere;
        let exe = procfs
            .then(|| fs::read_link(format!("/proc/{}/exe", call.thread)).ok())
            .flatten()
            .and_then(|path| Some(text(path.file_name()?.as_bytes(), NAME)));
        Self { attempt, path, exe }
    }

    /// Nothing of it but the operation.
    fn faceless(mut self) -> Self {
        self.attempt.detail = None;
        Self {
            attempt: self.attempt,
            path: None,
            exe: None,
        }
    }
}

fn path_in_memory(thread: u32, address: u64) -> Option<String> {
    let mut bytes = [0; PATH];
    let mut read = 0;
    // A read ends where the caller's memory has a page that is not there; what
    // lies behind the end of one that is, is asked for once more.
    while read < PATH && !bytes[..read].contains(&0) {
        let place = address.checked_add(u64::try_from(read).ok()?)?;
        match read_memory(thread, place, &mut bytes[read..]) {
            Ok(0) | Err(_) => break,
            Ok(more) => read += more,
        }
    }
    match bytes[..read].iter().position(|byte| *byte == 0) {
        Some(end) => Some(text(&bytes[..end], PATH)),
        // Cut, and it says so.
        None => Some(format!("{}…", text(&bytes[..read], PATH))).filter(|_| read > 0),
    }
    .filter(|path| !path.is_empty())
}

fn link(path: &str, longest: usize) -> Option<String> {
    let target = fs::read_link(Path::new(path)).ok()?;
    Some(text(target.as_os_str().as_bytes(), longest))
}

fn text(bytes: &[u8], longest: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(longest)]).into_owned()
}

/// The process that a thread belongs to; the thread itself where nobody says.
fn process(thread: u32, procfs: bool) -> Option<u32> {
    let status = procfs.then(|| fs::read_to_string(format!("/proc/{thread}/status")).ok());
    let process = status.flatten().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        line.trim().parse().ok()
    });
    process.or((thread != 0).then_some(thread))
}

/// One kind of refusal.
#[derive(Debug)]
struct Line {
    fact: Fact,
    pid: Option<u32>,
    count: u64,
    /// The count that the launcher has heard of.
    told: u64,
}

/// What was refused, counted.
#[derive(Debug, Default)]
struct Book {
    lines: Vec<Line>,
    /// How many lines an operation has.
    faces: BTreeMap<&'static str, usize>,
    /// The line that stands for all of an operation that have none of their own.
    rest: BTreeMap<&'static str, usize>,
    /// The lines and counts of the message that is on its way.
    sending: Vec<(usize, u64)>,
}

impl Book {
    /// Counts a refusal; true if a line begins with it.
    fn note(&mut self, fact: Fact, pid: impl FnOnce() -> Option<u32>) -> bool {
        if let Some(line) = self.lines.iter_mut().rev().find(|line| line.fact == fact) {
            line.count += 1;
            return false;
        }
        let operation = fact.attempt.operation;
        if let Some(rest) = self.rest.get(operation) {
            self.lines[*rest].count += 1;
            return false;
        }
        let faces = self.faces.entry(operation).or_default();
        *faces += 1;
        let (fact, pid) = if *faces <= FACES {
            (fact, pid())
        } else {
            self.rest.insert(operation, self.lines.len());
            (fact.faceless(), None)
        };
        self.lines.push(Line {
            fact,
            pid,
            count: 1,
            told: 0,
        });
        true
    }

    /// A message about what the launcher has not heard; none if it knows all.
    fn next_frame(&mut self) -> Result<Option<Vec<u8>>, ProtocolError> {
        let untold = self.lines.iter().enumerate();
        let untold = untold
            .filter(|(_, line)| line.count != line.told)
            .take(BATCH);
        let batch: Vec<Denial> = untold.map(|(at, line)| line.denial(at)).collect();
        if batch.is_empty() {
            return Ok(None);
        }
        self.sending = batch
            .iter()
            .map(|one| (one.number as usize, one.count))
            .collect();
        protocol::encode(&Report::Denied(batch)).map(Some)
    }

    /// The last message has gone.
    fn told(&mut self) {
        for (at, count) in self.sending.drain(..) {
            self.lines[at].told = count;
        }
    }
}

impl Line {
    fn denial(&self, at: usize) -> Denial {
        let Fact { attempt, path, exe } = self.fact.clone();
        Denial {
            number: u32::try_from(at).expect("because the book is short"),
            layer: attempt.layer,
            operation: attempt.operation.to_owned(),
            detail: attempt.detail,
            path,
            pid: self.pid,
            exe,
            count: self.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount_at(path: u64, book: &mut Book) -> bool {
        let number = i32::try_from(libc::SYS_mount).expect("because numbers are small");
        let mut fact = Fact {
            attempt: Attempt::of(&Refused::made_up(number, [0; 6])),
            path: Some(path.to_string()),
            exe: Some("mount".into()),
        };
        fact.attempt.path = Place::Nowhere;
        book.note(fact, || Some(7))
    }

    #[test]
    fn counts_equal_refusals_and_bounds_different_ones() {
        let mut book = Book::default();
        assert!(mount_at(0, &mut book));
        assert!(!mount_at(0, &mut book));
        for path in 0..1_000_000 {
            mount_at(path, &mut book);
        }
        assert_eq!(book.lines.len(), FACES + 1);
        let counted: u64 = book.lines.iter().map(|line| line.count).sum();
        assert_eq!(counted, 1_000_002);
        let rest = book.lines.last().map(|line| line.denial(FACES));
        let rest = rest.expect("because there is one");
        assert_eq!((rest.path, rest.exe, rest.pid), (None, None, None));
        assert_eq!(rest.operation, "mount");
    }

    #[test]
    fn tells_each_count_once() {
        let mut book = Book::default();
        for path in 0..FACES as u64 + 1 {
            mount_at(path, &mut book);
        }
        let mut frames = 0;
        while book
            .next_frame()
            .expect("because it is plain data")
            .is_some()
        {
            book.told();
            frames += 1;
        }
        assert_eq!(frames, 2);
        mount_at(3, &mut book);
        let again = book.next_frame().expect("because it is plain data");
        assert!(again.is_some_and(|frame| frame.len() < 16 << 10));
        assert_eq!(book.sending, [(3, 2)]);
    }

    #[test]
    fn the_largest_message_fits_into_one_buffer() {
        let number = i32::try_from(libc::SYS_mount).expect("because numbers are small");
        let longest = "\u{1}".repeat(PATH);
        let mut book = Book::default();
        for path in 0..BATCH {
            let fact = Fact {
                attempt: Attempt::of(&Refused::made_up(number, [0; 6])),
                path: Some(format!("{longest}{path}")),
                exe: Some(longest[..NAME].to_owned()),
            };
            book.note(fact, || Some(u32::MAX));
        }
        let frame = book.next_frame().expect("because it is plain data");
        assert!(frame.is_some_and(|frame| frame.len() < 32 << 10));
    }
}
