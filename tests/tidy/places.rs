//! Rules on places: paths of a machine, scripts and the README.
//!
//! Owns: no tracked text names a directory of the machine on which it was
//! written, scripts can be run and say what they do, the README names the two
//! commands. Machine paths are put together from halves, so that this file
//! keeps its own rule.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::source::{Finding, is_word, line_at, root};

/// Rooms that speak of system directories by name.
const SPEAK_OF_SYSTEM_DIRECTORIES: [&str; 3] = ["src/confinement/", "sandbox/", "tests/"];

/// The commands that the README promises.
const README_COMMANDS: [&str; 2] = ["cargo run --release -- demo", "scripts/check.sh"];

pub(crate) fn no_machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let home = concat!("/ro", "ot/");
    let speaks = SPEAK_OF_SYSTEM_DIRECTORIES
        .iter()
        .any(|room| path.starts_with(room));
    [concat!("/wo", "rk/"), home]
        .into_iter()
        .filter(|place| !(speaks && *place == home))
        .flat_map(|place| text.match_indices(place))
        .filter(|(at, _)| starts_a_path(text, *at))
        .map(|(at, place)| {
            Finding::new(
                path,
                line_at(text, at),
                format!("`{place}` is a directory of one machine"),
            )
        })
        .collect()
}

/// Whether the slash at `at` is the first of its path.
fn starts_a_path(text: &str, at: usize) -> bool {
    at == 0
        || !matches!(
            text.as_bytes()[at - 1],
            b'.' | b'-' | b'/' | b'}' | b'>' | b')'
        ) && !is_word(text.as_bytes()[at - 1])
}

/// Path, mode and text of every script.
pub(crate) fn scripts() -> Vec<(String, u32, String)> {
    let mut paths = vec![root().join(".ci/run")];
    let directory = root().join("scripts");
    let entries = fs::read_dir(&directory).expect("because the project has scripts/");
    for entry in entries {
        let path = entry.expect("because scripts/ can be listed").path();
        if path.extension().is_some_and(|extension| extension == "sh") {
            paths.push(path);
        }
    }
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let name = path
                .strip_prefix(root())
                .expect("because it was found below the root");
            let mode = fs::metadata(path)
                .unwrap_or_else(|error| panic!("look at {}: {error}", path.display()))
                .permissions()
                .mode();
            let text = fs::read_to_string(path)
                .unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
            (name.to_string_lossy().into_owned(), mode, text)
        })
        .collect()
}

pub(crate) fn script_is_runnable(path: &str, mode: u32, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut lines = text.lines();
    if !lines.next().unwrap_or_default().starts_with("#!") {
        findings.push(Finding::new(path, 1, "open the script with `#!`"));
    }
    let told = lines
        .next()
        .and_then(|line| line.strip_prefix("# "))
        .is_some_and(|words| words.split_whitespace().count() > 2);
    if !told {
        findings.push(Finding::new(
            path,
            2,
            "say in a comment what the script does",
        ));
    }
    if mode & 0o111 == 0 {
        findings.push(Finding::new(path, 1, "make the script executable"));
    }
    findings
}

pub(crate) fn readme_has_its_commands(text: &str) -> Vec<Finding> {
    README_COMMANDS
        .into_iter()
        .filter(|command| !text.lines().any(|line| line.trim() == *command))
        .map(|command| {
            Finding::new(
                "README.md",
                1,
                format!("`{command}` stands on no line of its own"),
            )
        })
        .collect()
}

#[test]
fn a_path_of_a_machine_is_found() {
    let text = concat!(
        "a\nsee /wo",
        "rk/main and (/ro",
        "ot/.cargo\nupper/wo",
        "rk/x\n"
    );
    assert_eq!(no_machine_paths("src/git/a.rs", text).len(), 2);
    assert_eq!(no_machine_paths("src/confinement/a.rs", text).len(), 1);
    assert_eq!(no_machine_paths("README.md", "a/b/work\n"), []);
}

#[test]
fn a_script_that_cannot_run_or_says_nothing_is_found() {
    let good = "#!/usr/bin/env bash\n# Says what it does.\n";
    assert_eq!(script_is_runnable("scripts/a.sh", 0o755, good), []);
    assert_eq!(script_is_runnable("scripts/a.sh", 0o644, good).len(), 1);
    assert_eq!(
        script_is_runnable("scripts/a.sh", 0o755, "set -e\n").len(),
        2
    );
}

#[test]
fn a_readme_without_its_commands_is_found() {
    assert_eq!(readme_has_its_commands("scripts/check.sh\n").len(), 1);
    assert_eq!(
        readme_has_its_commands("  cargo run --release -- demo\nscripts/check.sh\n"),
        []
    );
}
