//! The doors to standard output and standard error.
//!
//! Owns writing, and nothing of what is written. A reader that went away (a
//! closed pipe) is no error: there is nobody left to tell. A reader of
//! standard error that stalls stops nobody; see [`super::printer`].

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::printer::Printer;

/// How long the end of the program waits for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// The one writer of standard error; `None` where no thread is to be had.
static ERRORS: LazyLock<Option<Printer>> = LazyLock::new(|| Printer::over(io::stderr()).ok());

/// Whether something that was asked for could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes text to standard output.
pub(super) fn out(text: &str) {
    out_bytes(text.as_bytes());
}

/// Writes bytes to standard output as they are.
pub(super) fn out_bytes(bytes: &[u8]) {
    let mut place = io::stdout().lock();
    if let Err(error) = place.write_all(bytes).and_then(|()| place.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::SeqCst)
    {
        err_line(&format!(
            "cofferdam: failed to write to standard output: {error}"
        ));
    }
}

/// Whether an answer was lost: the disk that it went to is full, say.
pub(super) fn answer_was_lost() -> bool {
    LOST.load(Ordering::SeqCst)
}

/// Whether a person looks at standard output.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes one line to standard output.
pub(super) fn out_line(line: &str) {
    let mut text = line.to_owned();
    text.push('\n');
    out(&text);
}

/// Writes one line to standard error, without waiting for its reader.
pub(super) fn err_line(line: &str) {
    err_bytes(format!("{line}\n").into_bytes());
}

/// Writes whole lines to standard error as they are, without waiting for
/// their reader.
pub(super) fn err_bytes(lines: Vec<u8>) {
    match &*ERRORS {
        Some(printer) => printer.push(lines),
        None => write(io::stderr().lock(), &lines),
    }
}

/// Waits until standard error is read, where somebody reads it: before what
/// has to stand after it on a terminal, and before the program ends.
pub(super) fn settle() {
    if let Some(printer) = &*ERRORS {
        printer.settle(PATIENCE);
    }
}

/// The door to standard error for what writes by itself, as diagnostics do.
#[derive(Debug)]
pub(super) struct ErrorDoor;

impl io::Write for ErrorDoor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        err_bytes(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes one JSON document to standard output.
pub(super) fn document(value: &impl Serialize) {
    let mut text = serde_json::to_string_pretty(value)
        .expect("because a document holds only text, numbers and lists");
    text.push('\n');
    out(&text);
}

fn write(mut place: impl io::Write, bytes: &[u8]) {
    if let Err(error) = place.write_all(bytes).and_then(|()| place.flush()) {
        tracing::debug!(%error, "nobody reads what is printed");
    }
}
