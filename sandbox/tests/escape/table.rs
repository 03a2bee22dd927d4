//! Owns the check of `table.txt`: where each attempt T01 to T78 is held.
//!
//! Both directions are checked: no number is left out, no named test is
//! missing, and no test of this target stands beside the list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const TABLE: &str = include_str!("table.txt");

/// The lines of the table: a number, and a place or a reason.
fn lines() -> impl Iterator<Item = (u8, &'static str)> {
    TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (number, place) = line.split_once(' ').unwrap();
            (number.strip_prefix('T').unwrap().parse().unwrap(), place)
        })
}

/// The file and the name of each test in the table.
fn named() -> impl Iterator<Item = (PathBuf, &'static str)> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    lines()
        .filter(|(_, place)| !place.starts_with("elsewhere: "))
        .map(|(_, place)| {
            let parts: Vec<_> = place.split("::").collect();
            let [target, file, name] = parts[..] else {
                panic!("{place}");
            };
            let directory = match target {
                "escape" | "cage" => format!("tests/{target}"),
                "it" => "../tests/it".to_owned(),
                _ => panic!("{place}"),
            };
            (crate_root.join(directory).join(format!("{file}.rs")), name)
        })
}

/// The tests of a file, each with the comment above it.
fn tests_of(path: &Path) -> Vec<(String, String)> {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    let mut found = Vec::new();
    let mut parts = text.split("#[test]\n");
    let mut before = parts.next().unwrap();
    for part in parts {
        let name = part
            .trim_start()
            .strip_prefix("fn ")
            .and_then(|rest| rest.split('(').next())
            .unwrap();
        let comment: Vec<_> = before
            .lines()
            .rev()
            .take_while(|line| line.starts_with("///"))
            .collect();
        found.push((name.to_owned(), comment.join(" ")));
        before = part;
    }
    found
}

/// T01 to T78, in order and none left out.
#[test]
fn every_number_has_its_place() {
    let numbers: Vec<u8> = lines().map(|(number, _)| number).collect();
    assert!(numbers.is_sorted());
    let numbers: BTreeSet<u8> = numbers.into_iter().collect();
    assert_eq!(numbers, (1..=78).collect());
}

/// T01 to T78: what the table names is there.
#[test]
fn every_named_test_is_there() {
    for (path, name) in named() {
        let there = tests_of(&path).iter().any(|(test, _)| test == name);
        assert!(there, "{} has no test `{name}`", path.display());
    }
}

/// T01 to T78: each test here stands in the table and says which number it holds.
#[test]
fn every_test_here_says_what_it_holds() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named: BTreeSet<(PathBuf, &str)> = named().collect();
    for entry in fs::read_dir(crate_root.join("tests/escape")).unwrap() {
        let path = entry.unwrap().path();
        let own = ["table.rs", "table.txt"]
            .iter()
            .any(|name| path.ends_with(name));
        for (name, comment) in tests_of(&path) {
            let says = comment
                .split('T')
                .skip(1)
                .any(|rest| rest.len() >= 2 && rest.as_bytes()[..2].iter().all(u8::is_ascii_digit));
            assert!(says || own, "{}: `{name}` names no number", path.display());
            let listed = named.contains(&(path.clone(), name.as_str()));
            assert!(
                listed || own,
                "{}: `{name}` is not in the table",
                path.display()
            );
        }
    }
}
