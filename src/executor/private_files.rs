//! Files of the machine that must be covered one by one.
//!
//! Owns two looks: at the system's settings that others may not read, and at
//! the files within toolchains that may log the person in. Which directories
//! and names is decided by tables; nothing is changed here.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Where the system and what was installed beside it keep their settings.
const SETTINGS: [&str; 2] = ["/etc", "/usr/local/etc"];

/// The settings of the system that others may not read.
///
/// The superuser could, at any depth, and with that an agent of the
/// superuser's. For anybody else the kernel decides already, so only the top
/// is listed.
pub(super) fn private_settings() -> Vec<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return private_below(Path::new(SETTINGS[0]), 1);
    }
    let tops = SETTINGS.iter().map(Path::new);
    tops.flat_map(|top| private_below(top, usize::MAX))
        .collect()
}

/// What beneath a directory others may not read or enter, the topmost of it.
///
/// Other file systems that are mounted there are walked too: volumes of
/// secrets are.
fn private_below(top: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut walk = WalkDir::new(top)
        .follow_links(false)
        .min_depth(1)
        .max_depth(depth)
        .sort_by_file_name()
        .into_iter();
    while let Some(entry) = walk.next() {
        let Ok(entry) = entry else {
            continue;
        };
        let kind = entry.file_type();
        if kind.is_symlink() {
            continue;
        }
        let needed = if kind.is_dir() { 0o001 } else { 0o004 };
        let open = entry
            .metadata()
            .is_ok_and(|data| data.permissions().mode() & needed != 0);
        if !open {
            if kind.is_dir() {
                walk.skip_current_dir();
            }
            found.push(entry.into_path());
        }
    }
    found
}

/// What of the system's settings an agent may read where some must not be: the
/// topmost paths that hold nothing private. A rule for the whole would be one
/// for a private file too, should the host replace it while it is covered.
pub(super) fn open_settings(private: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::from(SETTINGS[0])];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        // What a link leads to has a rule where it lies, or none.
        let entries =
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
        for path in entries.map(|entry| entry.path()) {
            let is_private = private.contains(&path);
            let holds_private = private.iter().any(|one| one.starts_with(&path));
            match (is_private, holds_private) {
                (true, _) => {}
                (false, true) => directories.push(path),
                (false, false) => found.push(path),
            }
        }
    }
    found.sort();
    found
}

/// The files that patterns name, links resolved; `*` is any one name.
pub(super) fn expand(masks: impl Iterator<Item = (PathBuf, &'static str)>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = masks
        .flat_map(|(root, pattern)| {
            pattern.split('/').fold(vec![root], |directories, part| {
                directories
                    .iter()
                    .flat_map(|directory| step(directory, part))
                    .collect()
            })
        })
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.dedup();
    found
}

fn step(directory: &Path, part: &str) -> Vec<PathBuf> {
    match part {
        "*" => {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        }
        name => vec![directory.join(name)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, mode: u32) {
        let parent = path.parent().expect("because it lies in a directory");
        fs::create_dir_all(parent).expect("because it is in a directory of the test's");
        fs::write(path, "x").expect("because the directory is there");
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(path, mode).expect("because the file is the test's");
    }

    #[test]
    fn lists_what_others_may_not_read_at_any_depth() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let at = |name: &str| dir.path().join(name);
        put(&at("a/b/private"), 0o600);
        put(&at("a/b/open"), 0o644);
        put(&at("closed/within/private"), 0o600);
        put(&at("closed/open"), 0o644);
        put(&at("group"), 0o640);
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(at("closed"), mode).expect("because it is the test's");
        std::os::unix::fs::symlink("/", at("a/all")).expect("because it is new");
        assert_eq!(
            private_below(dir.path(), usize::MAX),
            [at("a/b/private"), at("closed"), at("group")]
        );
        assert_eq!(private_below(dir.path(), 1), [at("closed"), at("group")]);
        assert!(private_below(&at("absent"), usize::MAX).is_empty());
    }

    #[test]
    fn a_pattern_names_each_file_that_there_is() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let top = dir.path().canonicalize().expect("because it is there");
        for name in ["v/1/etc/npmrc", "v/2/etc/npmrc", "v/3/etc/other", "rc"] {
            put(&top.join(name), 0o600);
        }
        let masks = [(top.clone(), "v/*/etc/npmrc"), (top.clone(), "rc")];
        assert_eq!(
            expand(masks.into_iter()),
            [
                top.join("rc"),
                top.join("v/1/etc/npmrc"),
                top.join("v/2/etc/npmrc")
            ]
        );
    }
}
