//! How big a directory is.
//!
//! Owns one walk, links never followed, for lists that tell what is kept. A
//! file that vanishes meanwhile is not counted; nothing is changed.

use std::path::Path;

use walkdir::WalkDir;

/// What a directory holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Measure {
    /// Files and links, in all directories.
    pub files: u64,
    /// Their length in bytes.
    pub bytes: u64,
}

/// Measures a directory; one that is not there holds nothing.
#[must_use]
pub fn measure(directory: &Path) -> Measure {
    let mut sum = Measure::default();
    let entries = WalkDir::new(directory)
        .follow_links(false)
        .into_iter()
        .flatten();
    for entry in entries.filter(|entry| !entry.file_type().is_dir()) {
        sum.files += 1;
        sum.bytes += entry.metadata().map_or(0, |data| data.len());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_inside_and_follows_no_link() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        std::fs::create_dir(dir.path().join("d")).expect("because it is new");
        std::fs::write(dir.path().join("d/f"), b"12345").expect("because it is new");
        std::os::unix::fs::symlink("/", dir.path().join("d/all")).expect("because it is new");
        let sum = measure(dir.path());
        assert_eq!((sum.files, sum.bytes), (2, 6));
        assert_eq!(measure(&dir.path().join("absent")), Measure::default());
    }
}
