//! Finds the conflicted stretches of a file with markers.
//!
//! Owns the reading of git's markers by their labels, so that a text which
//! merely shows markers is not taken for a conflict.

use crate::git::{OURS, THEIRS};

/// The first and last line, counted from 1, of each conflicted stretch.
pub(super) fn ranges(text: &[u8]) -> Vec<[u32; 2]> {
    let mut found = Vec::new();
    let mut open: Option<(usize, u32)> = None;
    for (line, number) in text.split(|b| *b == b'\n').zip(1_u32..) {
        match open {
            None => open = marker(line, b'<', OURS).map(|size| (size, number)),
            // A conflict inside a conflict has markers of another size.
            Some((size, first)) if marker(line, b'>', THEIRS) == Some(size) => {
                found.push([first, number]);
                open = None;
            }
            Some(_) => {}
        }
    }
    found
}

/// The size of the marker that a line is, if it is one.
fn marker(line: &[u8], sign: u8, label: &str) -> Option<usize> {
    let size = line.iter().take_while(|b| **b == sign).count();
    let rest = line[size..]
        .strip_prefix(b" ")?
        .strip_prefix(label.as_bytes())?;
    let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
    (size >= 7 && (rest.is_empty() || rest.starts_with(b":"))).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_stretches_by_their_labels() {
        let text = b"a\n<<<<<<< parent\nx\n=======\ny\n>>>>>>> agent\nb\n\
            <<<<<<< HEAD\nshown\n>>>>>>> agent\n\
            <<<<<<< parent:old name\r\n<<<<<<<<< parent\n>>>>>>>>> agent\n>>>>>>> agent:new\r\n";
        assert_eq!(ranges(text), [[2, 6], [11, 14]]);
        assert_eq!(ranges(b""), [[0_u32; 2]; 0]);
        assert_eq!(ranges(b"<<<<<<< parent\nnever closed"), [[0_u32; 2]; 0]);
    }
}
