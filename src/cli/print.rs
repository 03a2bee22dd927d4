//! The doors to standard output and standard error.
//!
//! Owns writing, and nothing of what is written. A reader that went away (a
//! closed pipe) is no error: there is nobody left to tell.

use std::io;

use serde::Serialize;

/// Writes text to standard output.
pub(super) fn out(text: &str) {
    write(io::stdout().lock(), text.as_bytes());
}

/// Writes one line to standard output.
pub(super) fn out_line(line: &str) {
    let mut text = line.to_owned();
    text.push('\n');
    out(&text);
}

/// Writes one line to standard error.
pub(super) fn err_line(line: &str) {
    let mut text = line.to_owned();
    text.push('\n');
    write(io::stderr().lock(), text.as_bytes());
}

/// Writes bytes to standard error as they are.
pub(super) fn err_bytes(bytes: &[u8]) {
    write(io::stderr().lock(), bytes);
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

/// Text that is safe on a terminal: control characters of an agent's output
/// or of a file name are shown, not obeyed.
pub(super) fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let plain = !c.is_control() || c == '\t';
            let shown: Vec<char> = if plain {
                vec![c]
            } else {
                c.escape_default().collect()
            };
            shown
        })
        .collect()
}
