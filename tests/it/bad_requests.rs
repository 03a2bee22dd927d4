//! Requests that are wrong in themselves.
//!
//! Owns: one clear error, exit 2 or 3, and nothing started or changed.

use crate::support::TestEnv;

/// Demands that `run` with these arguments is refused and that nothing moved.
#[track_caller]
fn refused(code: i32, arguments: &[&str], word: &str) {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    let error = repo
        .cofferdam([&["run", "--json"], arguments].concat())
        .expect_error(code);
    before.expect_same(&repo.print());
    let told = error.to_string();
    assert!(told.contains(word), "`{word}` is not named in {error:#}");
    repo.cofferdam([&["run"], arguments].concat())
        .expect_code(code)
        .expect_told();
    before.expect_same(&repo.print());
    assert_eq!(repo.added_refs(), [""; 0]);
}

#[test]
fn a_missing_command_is_told() {
    refused(2, &[], "");
    refused(2, &["--"], "");
}

#[test]
fn a_command_that_is_not_there_is_told() {
    refused(2, &["--", "no-such-program"], "no-such-program");
    refused(2, &["--", "./no-such-program"], "no-such-program");
}

#[test]
fn a_command_that_cannot_be_executed_is_told() {
    refused(2, &["--", "./a.txt"], "a.txt");
    refused(2, &["--", "docs"], "docs");
    refused(2, &["--", "./docs"], "docs");
}

#[test]
fn an_unknown_role_is_told() {
    refused(2, &["--role", "wizard", "--", "true"], "wizard");
}

#[test]
fn an_unknown_option_is_told() {
    refused(2, &["--colour", "--", "true"], "--colour");
}

#[test]
fn numbers_out_of_range_are_told() {
    for option in ["--max-total", "--max-live"] {
        for value in ["0", "-1", "1.5", "many", "99999999999999999999", ""] {
            refused(2, &[&format!("{option}={value}"), "--", "true"], option);
        }
    }
    for value in ["-1", "1.5", "deep"] {
        refused(
            2,
            &[&format!("--max-depth={value}"), "--", "true"],
            "--max-depth",
        );
    }
    for value in ["0", "0s", "-5m", "soon", "2001-01-01T00:00:00Z garbage"] {
        refused(
            2,
            &[&format!("--deadline={value}"), "--", "true"],
            "deadline",
        );
    }
}

#[test]
fn a_depth_of_zero_is_fine() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.cofferdam(["run", "--max-depth", "0", "--", "true"])
        .expect_code(0);
}

#[test]
fn a_variable_that_is_not_set_is_told() {
    refused(
        2,
        &["--env", "NO_SUCH_VARIABLE", "--", "true"],
        "NO_SUCH_VARIABLE",
    );
}

#[test]
fn an_unknown_choice_is_told() {
    refused(2, &["--integrate", "perhaps", "--", "true"], "perhaps");
    refused(2, &["--on-conflict", "fight", "--", "true"], "fight");
    refused(2, &["--workspace", "tent", "--", "true"], "tent");
    refused(2, &["--allow-degraded", "gravity", "--", "true"], "gravity");
}

#[test]
fn a_revision_that_is_not_there_is_told() {
    refused(
        2,
        &["--base", "no-such-branch", "--", "true"],
        "no-such-branch",
    );
}

#[test]
fn a_wider_network_than_the_roles_is_refused_by_a_gate() {
    refused(3, &["--network", "open", "--", "true"], "network");
}

#[test]
fn a_deadline_that_has_passed_is_refused_by_a_gate() {
    refused(
        3,
        &["--deadline", "2001-01-01T00:00:00Z", "--", "true"],
        "deadline",
    );
}

#[test]
fn an_unknown_command_is_told() {
    let env = TestEnv::new();
    env.cofferdam_in(env.root(), ["dig", "--json"])
        .expect_error(2);
    env.cofferdam_in(env.root(), ["dig"])
        .expect_code(2)
        .expect_told();
}
