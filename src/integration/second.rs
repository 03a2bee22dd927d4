//! A second opinion on merged text: another algorithm, written independently.
//!
//! Owns a plain three-way merge of lines over two Myers diffs. It never
//! replaces git's answer; where the two differ, a person is told. Changes
//! that touch or overlap are conflicts, so it is never bolder than git.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Merges three texts by lines; `None` where both sides changed the same
/// place differently.
pub(super) fn merge_lines(base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let [base, ours, theirs] = [base, ours, theirs].map(lines);
    let left = changes(&base, &ours);
    let right = changes(&base, &theirs);
    let (mut l, mut r) = (left.iter().peekable(), right.iter().peekable());
    let mut merged = Vec::new();
    let mut at = 0;
    loop {
        let (change, text) = match (l.peek(), r.peek()) {
            (None, None) => break,
            (Some(a), Some(b)) if touch(a, b) => {
                // The same change on both sides is one change.
                if a.base != b.base || ours[a.side.clone()] != theirs[b.side.clone()] {
                    return None;
                }
                r.next();
                (l.next()?, &ours)
            }
            (Some(a), Some(b)) if a.base.start < b.base.start => (l.next()?, &ours),
            (Some(_), None) => (l.next()?, &ours),
            (_, Some(_)) => (r.next()?, &theirs),
        };
        // After a change that both made, one of its halves may still touch
        // the next change of the other side.
        if change.base.start < at {
            return None;
        }
        merged.extend(base[at..change.base.start].concat());
        merged.extend(text[change.side.clone()].concat());
        at = change.base.end;
    }
    merged.extend(base[at..].concat());
    Some(merged)
}

/// A stretch of the base that one side replaced.
struct Change {
    base: Range<usize>,
    side: Range<usize>,
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|b| *b == b'\n').collect()
}

fn changes(base: &[&[u8]], side: &[&[u8]]) -> Vec<Change> {
    let mut found: Vec<Change> = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, base, side) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (base, side) = (op.old_range(), op.new_range());
        match found.last_mut() {
            Some(last) if last.base.end == base.start && last.side.end == side.start => {
                last.base.end = base.end;
                last.side.end = side.end;
            }
            Some(_) | None => found.push(Change { base, side }),
        }
    }
    found
}

/// Whether two changes overlap or lie side by side.
fn touch(a: &Change, b: &Change) -> bool {
    a.base.start <= b.base.end && b.base.start <= a.base.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(base: &str, ours: &str, theirs: &str) -> Option<String> {
        let bytes = merge_lines(base.as_bytes(), ours.as_bytes(), theirs.as_bytes())?;
        Some(String::from_utf8(bytes).expect("because all three were text"))
    }

    #[test]
    fn disjoint_changes_merge_and_touching_ones_do_not() {
        let base = "a\nb\nc\nd\ne\n";
        assert_eq!(
            merged(base, "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n").as_deref(),
            Some("A\nb\nc\nd\nE\n")
        );
        assert_eq!(merged(base, "A\nb\nc\nd\ne\n", "a\nB\nc\nd\ne\n"), None);
        assert_eq!(
            merged(base, "A\nb\nc\nd\ne\n", "a\nb\nC\nd\ne\n").as_deref(),
            Some("A\nb\nC\nd\ne\n")
        );
        assert_eq!(
            merged(base, "x\na\nb\nc\nd\ne\n", "y\na\nb\nc\nd\ne\n"),
            None
        );
    }

    #[test]
    fn one_side_alone_and_both_the_same_give_that_side() {
        for (base, side) in [
            ("a\nb\n", ""),
            ("", "a\n"),
            ("a\nb", "a\nb\n"),
            ("a\n", "b\na\nc\n"),
        ] {
            assert_eq!(merged(base, side, base).as_deref(), Some(side));
            assert_eq!(merged(base, base, side).as_deref(), Some(side));
            assert_eq!(merged(base, side, side).as_deref(), Some(side));
        }
    }
}
