//! Fingerprints of directories, to prove that nothing moved.
//!
//! Owns one kind of fingerprint with three scopes: a working tree with its
//! ignored files and what git keeps of it, git's own files alone, and any
//! directory with the times of its files. Follows no link.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What stands at each path: kind, mode and a hash of the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreePrint(BTreeMap<PathBuf, String>);

/// What of git's own directory is the person's and may not move.
const AUTHORITY: [&str; 7] = [
    "config",
    "config.worktree",
    "HEAD",
    "index",
    "packed-refs",
    "hooks",
    "info",
];

impl TreePrint {
    /// A working tree, ignored files included, and git's own files.
    pub(crate) fn of_repository(root: &Path) -> Self {
        let mut print = BTreeMap::new();
        walk(root, root, Times::Left, &mut print);
        print.retain(|path, _| !path.starts_with(".git"));
        print.extend(Self::of_authority(root).0);
        Self(print)
    }

    /// Git's own files: configuration, hooks, index, HEAD, refs but for
    /// `refs/cofferdam/`, and the stash.
    pub(crate) fn of_authority(root: &Path) -> Self {
        let git = root.join(".git");
        let mut print = BTreeMap::new();
        for name in AUTHORITY {
            note(root, &git.join(name), Times::Left, &mut print);
        }
        note(root, &git.join("refs"), Times::Left, &mut print);
        note(root, &git.join("logs/refs/stash"), Times::Left, &mut print);
        // Git makes and removes directories for refs as it likes.
        print.retain(|path, what| {
            !path.starts_with(".git/refs/cofferdam") && !what.starts_with("directory")
        });
        Self(print)
    }

    /// Everything below a directory, with owners and times of change.
    pub(crate) fn with_times(directory: &Path) -> Self {
        let mut print = BTreeMap::new();
        walk(directory, directory, Times::Counted, &mut print);
        Self(print)
    }

    /// Fails with every path that differs.
    #[track_caller]
    pub(crate) fn expect_same(&self, later: &Self) {
        let differences = self.differences(later);
        assert!(
            differences.is_empty(),
            "{} path(s) moved:\n{}",
            differences.len(),
            differences.join("\n")
        );
    }

    /// Every path that differs, with both sides.
    pub(crate) fn differences(&self, later: &Self) -> Vec<String> {
        let mut paths: Vec<_> = self.0.keys().chain(later.0.keys()).collect();
        paths.sort();
        paths.dedup();
        let side = |print: &Self, path: &Path| {
            print
                .0
                .get(path)
                .map_or_else(|| "nothing".to_owned(), Clone::clone)
        };
        paths
            .into_iter()
            .filter(|path| self.0.get(*path) != later.0.get(*path))
            .map(|path| {
                format!(
                    "{}: {} became {}",
                    path.display(),
                    side(self, path),
                    side(later, path)
                )
            })
            .collect()
    }
}

/// Whether the times of files are part of the print.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    Counted,
    Left,
}

fn walk(root: &Path, directory: &Path, times: Times, print: &mut BTreeMap<PathBuf, String>) {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("list {}: {error}", directory.display()));
    for entry in entries {
        let path = entry
            .unwrap_or_else(|error| panic!("list {}: {error}", directory.display()))
            .path();
        // Git's own directory is told about by what of it is authority.
        if path != root.join(".git") || times == Times::Counted {
            note(root, &path, times, print);
        }
    }
}

fn note(root: &Path, path: &Path, times: Times, print: &mut BTreeMap<PathBuf, String>) {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return;
    };
    let kind = metadata.file_type();
    let mut hasher = DefaultHasher::new();
    let kind = if kind.is_dir() {
        walk(root, path, times, print);
        "directory"
    } else if kind.is_symlink() {
        let target = fs::read_link(path)
            .unwrap_or_else(|error| panic!("read the link {}: {error}", path.display()));
        hasher.write(target.as_os_str().as_bytes());
        "link"
    } else if kind.is_file() {
        fs::read(path)
            .unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
            .hash(&mut hasher);
        "file"
    } else {
        "special"
    };
    let mut what = format!("{kind} {:o} {:016x}", metadata.mode(), hasher.finish());
    if times == Times::Counted {
        let (uid, gid) = (metadata.uid(), metadata.gid());
        let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
        what = format!("{what} {uid}:{gid} {seconds}.{nanoseconds:09}");
    }
    let relative = path
        .strip_prefix(root)
        .expect("because it was found below the root");
    print.insert(relative.to_owned(), what);
}
