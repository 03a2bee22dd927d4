//! Rules on the shape of a file.
//!
//! Owns: it opens with what it owns, and it is short enough to have one job.

use crate::source::{Finding, Source};

/// More code lines than this have more than one job.
const MOST_CODE_LINES: usize = 500;

pub(crate) fn opens_with_a_doc(file: &Source) -> Vec<Finding> {
    let first = file.text.lines().next().unwrap_or_default();
    let says_something = first
        .strip_prefix("//!")
        .is_some_and(|words| words.split_whitespace().next().is_some());
    if says_something {
        return Vec::new();
    }
    vec![Finding::new(
        &file.path,
        1,
        "open the file with `//!` and what it owns",
    )]
}

pub(crate) fn short_enough(file: &Source) -> Vec<Finding> {
    let lines = file
        .code
        .lines()
        .filter(|line| !line.trim().is_empty())
        .count();
    if lines <= MOST_CODE_LINES {
        return Vec::new();
    }
    vec![Finding::new(
        &file.path,
        1,
        format!("{lines} code lines; split it at {MOST_CODE_LINES} at the latest"),
    )]
}

#[test]
fn a_file_without_an_opening_doc_is_found() {
    assert_eq!(opens_with_a_doc(&Source::new("a.rs", "//! Owns a.\n")), []);
    for bad in [
        "fn main() {}\n",
        "//!\n",
        "// Owns a.\n",
        "\n//! Owns a.\n",
        "",
    ] {
        assert_eq!(opens_with_a_doc(&Source::new("a.rs", bad)).len(), 1);
    }
}

#[test]
fn a_long_file_is_found_and_comments_do_not_count() {
    let long = "let a = 1;\n".repeat(MOST_CODE_LINES + 1);
    assert_eq!(short_enough(&Source::new("a.rs", &long)).len(), 1);
    let told = "let a = 1;\n// b\n\n".repeat(MOST_CODE_LINES);
    assert_eq!(short_enough(&Source::new("a.rs", &told)), []);
}
