//! The house rules, enforced on the project's own text.
//!
//! Owns one test a rule. A rule is a function from text to findings; it
//! stands in a file by subject and is tried there on small strings that break
//! it, because a rule that cannot fail is no rule. Reads files and asks git
//! for their names; builds and runs nothing of the program.
//!
//! To add a rule: a function in the file of its subject with a test that
//! breaks it, and one `#[test]` below that runs it over the project.

mod floors;
mod manifest;
mod places;
mod shape;
mod source;
mod words;

use source::{Finding, Source};

/// Fails with every finding on a line of its own.
#[track_caller]
fn demand_none(findings: &[Finding]) {
    assert!(
        findings.is_empty(),
        "{} finding(s):\n{}",
        findings.len(),
        findings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    );
}

/// Runs one rule over every source file below the given directories.
fn over(directories: &[&str], rule: fn(&Source) -> Vec<Finding>) -> Vec<Finding> {
    let sources = source::rust_files(directories);
    assert!(!sources.is_empty(), "no source file below {directories:?}");
    sources.iter().flat_map(rule).collect()
}

const PROGRAM: [&str; 2] = ["src", "sandbox/src"];
const EVERYTHING: [&str; 3] = ["src", "sandbox/src", "tests"];

#[test]
fn every_file_opens_with_what_it_owns() {
    demand_none(&over(&EVERYTHING, shape::opens_with_a_doc));
}

#[test]
fn no_file_has_more_than_one_job() {
    demand_none(&over(&PROGRAM, shape::short_enough));
}

#[test]
fn unsafe_code_stands_in_one_folder() {
    demand_none(&over(&EVERYTHING, words::unsafe_only_in_sys));
}

#[test]
fn the_program_forbids_unsafe_code_at_its_roots() {
    for path in ["src/lib.rs", "src/main.rs"] {
        demand_none(&words::forbids_unsafe(&source::load(path)));
    }
}

#[test]
fn nothing_is_unfinished_or_muted() {
    demand_none(&over(&EVERYTHING, words::nothing_unfinished));
}

#[test]
fn no_lint_is_allowed_without_a_reason() {
    demand_none(&over(&EVERYTHING, words::allows_say_why));
}

#[test]
fn only_the_faces_print() {
    demand_none(&over(&PROGRAM, words::only_faces_print));
}

#[test]
fn rooms_use_lower_floors_only() {
    let table = floors::Table::parse(&source::read("src/lib.rs"))
        .expect("because src/lib.rs opens with the table of floors");
    let findings: Vec<_> = source::rust_files(&["src"])
        .iter()
        .flat_map(|file| table.check(file))
        .collect();
    demand_none(&findings);
}

#[test]
fn every_dependency_says_why_it_is_there() {
    for path in ["Cargo.toml", "sandbox/Cargo.toml"] {
        demand_none(&manifest::dependencies_say_why(path, &source::read(path)));
    }
}

#[test]
fn no_path_of_a_machine_is_written_down() {
    let findings: Vec<_> = source::tracked_texts()
        .iter()
        .flat_map(|(path, text)| places::no_machine_paths(path, text))
        .collect();
    demand_none(&findings);
}

#[test]
fn scripts_can_be_run_and_say_what_they_do() {
    let scripts = places::scripts();
    assert!(!scripts.is_empty(), "no script below scripts/");
    let findings: Vec<_> = scripts
        .iter()
        .flat_map(|(path, mode, text)| places::script_is_runnable(path, *mode, text))
        .collect();
    demand_none(&findings);
}

#[test]
fn the_readme_names_its_two_commands() {
    demand_none(&places::readme_has_its_commands(&source::read("README.md")));
    assert!(
        source::root().join("scripts/check.sh").is_file(),
        "scripts/check.sh: the test command that README.md names is missing"
    );
}
