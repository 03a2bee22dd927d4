//! A thread that writes, so that nobody else waits for a reader.
//!
//! Owns the queue in front of a place whose reader may stall, as standard
//! error's may. What does not fit is dropped and counted, and one line tells
//! how much once the rest has been read. Nothing that a program relies on goes
//! this way: events and documents are written by whoever makes them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that may wait; beyond them the reader is taken to have stalled.
const ROOM: usize = 4 * 1024 * 1024;

/// Writes lines in their order, on a thread of its own.
#[derive(Debug)]
pub(super) struct Printer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
    written: u64,
    writing: bool,
}

impl Queue {
    fn is_done(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0 && !self.writing
    }

    /// The next line; after the last one, what was dropped meanwhile.
    fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(line) = self.lines.pop_front() {
            self.bytes -= line.len();
            return Some(line);
        }
        let dropped = std::mem::take(&mut self.dropped);
        (dropped > 0).then(|| {
            format!(
                "cofferdam: {dropped} line(s) are not shown here, because nobody read them in time; the logs of the agents have theirs\n"
            )
            .into_bytes()
        })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_for_ever(&self, mut place: impl io::Write) {
        loop {
            let mut queue = self.lock();
            let line = loop {
                match queue.next() {
                    Some(line) => break line,
                    None => {
                        queue = self
                            .moved
                            .wait(queue)
                            .unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            queue.writing = true;
            drop(queue);
            // A reader that went away is no error: there is nobody to tell.
            let _gone = place.write_all(&line).and_then(|()| place.flush());
            let mut queue = self.lock();
            queue.writing = false;
            queue.written += 1;
            self.moved.notify_all();
        }
    }
}

impl Printer {
    /// Starts the thread, which ends with the program.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub(super) fn over(place: impl io::Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        thread::Builder::new()
            .name("printer".to_owned())
            .spawn(move || own.write_for_ever(place))?;
        Ok(Self(shared))
    }

    /// Takes a line with its line end, and never waits.
    pub(super) fn push(&self, line: Vec<u8>) {
        let mut queue = self.0.lock();
        // Until everything that waits is written, all that comes is dropped:
        // one gap with one mark, not a line here and there.
        if queue.dropped > 0 || queue.bytes + line.len() > ROOM {
            queue.dropped += 1;
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(line);
        self.0.moved.notify_all();
    }

    /// Waits until all is written, but no longer than this without a line
    /// being taken by the reader.
    pub(super) fn settle(&self, patience: Duration) {
        let mut queue = self.0.lock();
        while !queue.is_done() {
            let before = queue.written;
            let (now, waited) = self
                .0
                .moved
                .wait_timeout_while(queue, patience, |queue| {
                    !queue.is_done() && queue.written == before
                })
                .unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                return;
            }
            queue = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::{Printer, ROOM};

    const FOR_EVER: Duration = Duration::from_secs(300);

    /// Takes nothing before it is told to, and then everything.
    struct Stalled {
        go_on: Option<Receiver<()>>,
        read: Sender<Vec<u8>>,
    }

    impl io::Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(go_on) = self.go_on.take() {
                go_on.recv().map_err(io::Error::other)?;
            }
            self.read.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stalls_stops_nobody_and_is_told_what_it_missed() {
        let (told, go_on) = channel();
        let (read, lines) = channel();
        let printer = Printer::over(Stalled {
            go_on: Some(go_on),
            read,
        })
        .expect("because a thread can be made");
        let line = vec![b'x'; ROOM / 8];
        for _ in 0..100 {
            printer.push(line.clone());
        }
        printer.settle(Duration::ZERO);
        told.send(()).expect("because the printer waits for it");
        printer.settle(FOR_EVER);
        printer.push(b"after\n".to_vec());
        printer.settle(FOR_EVER);

        let lines: Vec<_> = lines.try_iter().collect();
        let shown = lines.iter().filter(|one| **one == line).count();
        let mark = String::from_utf8_lossy(&lines[shown]).into_owned();
        assert!((8..=9).contains(&shown), "{shown}");
        assert!(mark.contains(&format!("{} line(s)", 100 - shown)), "{mark}");
        assert_eq!(lines[shown + 1..], [b"after\n".to_vec()]);
    }
}
