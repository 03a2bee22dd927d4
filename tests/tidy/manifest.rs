//! The rule of the manifests: every dependency says why it is there.
//!
//! Owns reading the dependency tables line by line. A line that takes a crate
//! from the workspace has its reason there.

use crate::source::Finding;

pub(crate) fn dependencies_say_why(path: &str, text: &str) -> Vec<Finding> {
    let mut in_table = false;
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            let name = line.trim_matches(['[', ']']);
            in_table = name.ends_with("dependencies");
            if name.contains("dependencies.") {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    "write the dependency on one line, where its reason can stand",
                ));
            }
        } else if in_table && names_a_crate(line) && !has_reason(line) {
            findings.push(Finding::new(
                path,
                index + 1,
                "say in a comment behind the line why the crate is needed",
            ));
        }
    }
    findings
}

fn names_a_crate(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else {
        return false;
    };
    let from_workspace = name.trim_end().ends_with(".workspace")
        || value
            .replace(' ', "")
            .trim_start_matches(['{', ','])
            .starts_with("workspace=true");
    !line.starts_with('#') && !from_workspace
}

/// Whether words stand behind a `#` that is not part of a quoted value.
fn has_reason(line: &str) -> bool {
    let mut quoted = false;
    for (at, character) in line.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '#' if !quoted => return line[at + 1..].split_whitespace().count() > 1,
            _ => {}
        }
    }
    false
}

#[test]
fn a_dependency_without_a_reason_is_found() {
    let text = "[package]\nname = \"a\"\n[dependencies]\nb = \"1\"\nc = \"1\" # why it is here\n\
                d.workspace = true\ne = { workspace = true }\nf = { version = \"1#2\" }\n\
                [dev-dependencies]\ng = \"1\" #\n[lints]\nworkspace = true\n\
                [dependencies.h]\nversion = \"1\"\n";
    let lines: Vec<_> = dependencies_say_why("Cargo.toml", text)
        .iter()
        .map(|finding| finding.to_string().split(':').nth(1).map(str::to_owned))
        .collect();
    let expected = ["4", "8", "10", "13"].map(|line| Some(line.to_owned()));
    assert_eq!(lines, expected);
}
