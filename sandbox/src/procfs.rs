//! Owns reading procfs: which processes there are, and the line about each.
//!
//! Numbers are those of the procfs in place. What is read is a moment old, and
//! a process may be gone by then; what that means is for the caller.

use std::fs;
use std::io;
use std::str::FromStr;

/// Deeper than any tree: a loop can appear while parents change.
const DEEPEST: usize = 4096;

/// Every process that is seen now.
pub(crate) fn processes() -> io::Result<impl Iterator<Item = i32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// Whether a process has another among its ancestors, as `parent` tells them.
pub(crate) fn descends(pid: i32, from: i32, parent: impl Fn(i32) -> Option<i32>) -> bool {
    let mut above = pid;
    for _ in 0..DEEPEST {
        match parent(above) {
            Some(parent) if parent == from => return true,
            Some(parent) => above = parent,
            None => return false,
        }
    }
    false
}

/// `/proc/PID/stat` behind the name, which is any bytes that the process chose.
pub(crate) struct Stat(String);

impl Stat {
    /// The line about a process.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        let name_ends = text.iter().rposition(|byte| *byte == b')');
        let rest = name_ends.map_or(&text[text.len()..], |end| &text[end + 1..]);
        Ok(Self(String::from_utf8_lossy(rest).into_owned()))
    }

    /// A field by its number in proc(5); the name is the second.
    pub(crate) fn field<T: FromStr>(&self, number: usize) -> Option<T> {
        const BEHIND_NAME: usize = 3;
        let at = number.checked_sub(BEHIND_NAME)?;
        self.0.split_whitespace().nth(at)?.parse().ok()
    }
}
