//! Rules on words that may stand in code only here or there, or nowhere.
//!
//! Owns: unsafe code, unfinished or muted code, lints allowed without a
//! reason, and printing. Forbidden words are put together from halves, so
//! that this file keeps its own rules.

use crate::source::{Finding, Source, whole_words};

fn found(file: &Source, text: &str, word: &str, what: &str) -> Vec<Finding> {
    whole_words(text, word)
        .into_iter()
        .map(|at| Finding::new(&file.path, file.line_at(at), what))
        .collect()
}

pub(crate) fn unsafe_only_in_sys(file: &Source) -> Vec<Finding> {
    if file.path.starts_with("sandbox/src/sys/") {
        return Vec::new();
    }
    found(
        file,
        &file.code,
        "unsafe",
        "unsafe code stands in sandbox/src/sys/ only",
    )
}

pub(crate) fn forbids_unsafe(file: &Source) -> Vec<Finding> {
    if file.code.contains("#![forbid(unsafe_code)]") {
        return Vec::new();
    }
    vec![Finding::new(&file.path, 1, "add `#![forbid(unsafe_code)]`")]
}

pub(crate) fn nothing_unfinished(file: &Source) -> Vec<Finding> {
    let in_code = [
        ("#[ignore", "a test runs or is deleted; it is not muted"),
        (
            "#[should_panic",
            "assert the value that says what went wrong",
        ),
        ("todo!", "write it or leave it out"),
        ("unimplemented!", "write it or leave it out"),
    ];
    let anywhere = [
        (concat!("FIX", "ME"), "mend it or file it"),
        (concat!("XX", "X"), "mend it or file it"),
    ];
    let mut findings = Vec::new();
    for (word, what) in in_code {
        findings.extend(found(file, &file.code, word, what));
    }
    for (word, what) in anywhere {
        findings.extend(found(file, &file.text, word, what));
    }
    findings
}

pub(crate) fn allows_say_why(file: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for opening in ["#[allow(", "#![allow("] {
        for (at, _) in file.code.match_indices(opening) {
            let attribute = file.code[at..].split(']').next().unwrap_or_default();
            if !attribute.contains("reason") {
                findings.push(Finding::new(
                    &file.path,
                    file.line_at(at),
                    "use `#[expect(lint, reason = …)]`, or give the allow its reason",
                ));
            }
        }
    }
    findings
}

pub(crate) fn only_faces_print(file: &Source) -> Vec<Finding> {
    let is_face = file.path == "src/main.rs"
        || ["src/cli/", "src/report/"]
            .iter()
            .any(|room| file.path.starts_with(room));
    if is_face {
        return Vec::new();
    }
    ["println!", "eprintln!", "print!", "eprint!", "dbg!"]
        .into_iter()
        .flat_map(|word| {
            found(
                file,
                &file.code,
                word,
                "only src/cli/, src/report/ and src/main.rs print",
            )
        })
        .collect()
}

#[test]
fn unsafe_code_is_found_outside_its_folder() {
    let text = "//! A.\n#![forbid(unsafe_code)]\nunsafe { b() } // unsafe\n";
    assert_eq!(
        unsafe_only_in_sys(&Source::new("src/a.rs", text)),
        [Finding::new(
            "src/a.rs",
            3,
            "unsafe code stands in sandbox/src/sys/ only"
        )]
    );
    assert_eq!(
        unsafe_only_in_sys(&Source::new("sandbox/src/sys/a.rs", text)),
        []
    );
    assert_eq!(forbids_unsafe(&Source::new("src/a.rs", text)), []);
    assert_eq!(
        forbids_unsafe(&Source::new("src/a.rs", "// #![forbid(unsafe_code)]\n")).len(),
        1
    );
}

#[test]
fn unfinished_and_muted_code_is_found() {
    for bad in [
        "#[ignore]\n",
        "#[ignore = \"slow\"]\n",
        "#[should_panic]\n",
        "todo!()\n",
        "unimplemented!()\n",
        concat!("// FIX", "ME: later\n"),
        concat!("// XX", "X\n"),
    ] {
        let file = Source::new("a.rs", bad);
        assert_eq!(nothing_unfinished(&file).len(), 1, "{bad}");
    }
    let fine = Source::new(
        "a.rs",
        "let a = \"todo!\"; // todo!()\nlet b = \"XXXXXX\";\n",
    );
    assert_eq!(nothing_unfinished(&fine), []);
}

#[test]
fn a_bare_allow_is_found() {
    let bad = Source::new(
        "a.rs",
        "fn a() {}\n#[allow(dead_code)]\n#![allow(unused)]\n",
    );
    assert_eq!(allows_say_why(&bad).len(), 2);
    let fine = Source::new(
        "a.rs",
        "#[allow(dead_code, reason = \"because\")]\n#[expect(dead_code, reason = \"b\")]\n",
    );
    assert_eq!(allows_say_why(&fine), []);
}

#[test]
fn printing_outside_the_faces_is_found() {
    let text = "println!(\"a\");\neprint!(\"b\");\n// println!\nwriteln!(out)?;\n";
    assert_eq!(
        only_faces_print(&Source::new("src/git/a.rs", text)).len(),
        2
    );
    assert_eq!(only_faces_print(&Source::new("src/cli/a.rs", text)), []);
    assert_eq!(
        only_faces_print(&Source::new("src/client/a.rs", text)).len(),
        2
    );
}
