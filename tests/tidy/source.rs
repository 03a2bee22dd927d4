//! The project's own files, as the rules see them.
//!
//! Owns reading and the view of a source file in which comments and literals
//! are blanked, so that a rule about code never fires on words about code.
//! Line numbers are those of the file: blanking keeps every newline. Judges
//! nothing.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One thing that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// One source file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the project, with `/`.
    pub(crate) path: String,
    /// As it stands.
    pub(crate) text: String,
    /// With comments and the insides of literals blanked.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: blank(text),
        }
    }

    /// The line, counted from 1, on which a byte stands.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        line_at(&self.code, offset)
    }
}

/// The line, counted from 1, on which a byte of `text` stands.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// The project's directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of one file of the project.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

/// One source file of the project.
pub(crate) fn load(path: &str) -> Source {
    Source::new(path, &read(path))
}

/// Every `.rs` file below the given directories, in the order of their names.
pub(crate) fn rust_files(directories: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    for directory in directories {
        collect(&root().join(directory), &mut paths);
    }
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let relative = path
                .strip_prefix(root())
                .expect("because it was found below the root");
            load(&relative.to_string_lossy())
        })
        .collect()
}

fn collect(directory: &Path, into: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("list {}: {error}", directory.display()));
    for entry in entries {
        let path = entry
            .unwrap_or_else(|error| panic!("list {}: {error}", directory.display()))
            .path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// Name and text of every tracked file that is text.
pub(crate) fn tracked_texts() -> Vec<(String, String)> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .expect("because git is needed to work on the project");
    assert!(
        output.status.success(),
        "list the tracked files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .split_terminator('\0')
        .filter_map(|path| {
            let text = fs::read_to_string(root().join(path)).ok()?;
            Some((path.to_owned(), text))
        })
        .collect()
}

/// Whether a byte can be part of a name.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Where `word` stands in `text` with no name's character on either side.
///
/// A side of `word` that is not itself a name's character is not looked at,
/// so `todo!` and `#[ignore` are found as they are written.
pub(crate) fn whole_words(text: &str, word: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let first = word.as_bytes()[0];
    let last = word.as_bytes()[word.len() - 1];
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(|at| {
            let before = !is_word(first) || *at == 0 || !is_word(bytes[at - 1]);
            let end = at + word.len();
            let after = !is_word(last) || end == bytes.len() || !is_word(bytes[end]);
            before && after
        })
        .collect()
}

/// Blanks comments and the insides of literals; keeps every newline.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            for byte in &mut out[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(out).expect("because whole characters are blanked")
}

/// Where the comment or literal that starts at `at` ends; `at` if none does.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => at + position(rest, |byte| byte == b'\n'),
        [b'/', b'*', ..] => at + block_comment(rest),
        [b'"', ..] => at + quoted(rest),
        [b'r', b'"' | b'#', ..] if at == 0 || !is_word(bytes[at - 1]) || prefixed(bytes, at) => {
            at + raw_string(rest)
        }
        [b'\'', ..] => at + character(rest),
        _ => at,
    }
}

/// Whether the `r` at `at` follows the `b` or `c` of a byte or C string.
fn prefixed(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at - 1], b'b' | b'c') && (at == 1 || !is_word(bytes[at - 2]))
}

fn position(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> usize {
    bytes
        .iter()
        .position(|byte| wanted(*byte))
        .unwrap_or(bytes.len())
}

fn block_comment(bytes: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn quoted(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of a raw string; 0 for a raw name such as `r#type`.
fn raw_string(bytes: &[u8]) -> usize {
    let hashes = position(&bytes[1..], |byte| byte != b'#');
    if bytes.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let mut closing = vec![b'"'];
    closing.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    bytes[body..]
        .windows(closing.len())
        .position(|window| window == closing)
        .map_or(bytes.len(), |found| body + found + closing.len())
}

/// The length of a character literal; 0 for a lifetime.
fn character(bytes: &[u8]) -> usize {
    match bytes {
        [_, b'\\', ..] => {
            3 + position(bytes.get(3..).unwrap_or_default(), |byte| byte == b'\'') + 1
        }
        [_, first, ..] => {
            let width = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xff => 4,
            };
            if bytes.get(1 + width) == Some(&b'\'') {
                width + 2
            } else {
                0
            }
        }
        _ => 0,
    }
}

#[test]
fn blanking_takes_comments_and_literals_and_keeps_lines() {
    let text = "a /* x /* y */ z */ b // c\n\"d\\\"e\" f r#\"g\"h\"# 'i' '\\'' 'j: &'k str 'é' r#type b\"l\"\n";
    let code = blank(text);
    assert_eq!(code.lines().count(), 2);
    assert_eq!(
        code.split_whitespace().collect::<Vec<_>>(),
        ["a", "b", "f", "'j:", "&'k", "str", "r#type", "b"]
    );
}

#[test]
fn words_are_found_whole() {
    assert_eq!(whole_words("unsafe_code unsafe", "unsafe"), [12]);
    assert_eq!(whole_words("eprintln!(1) println!(2)", "println!"), [13]);
}
