//! Plans that are refused before anything starts.
//!
//! Owns: every mistake is told with where it stands, and nothing has moved.

use serde_json::Value;

use crate::support::{TestEnv, shown};

/// Demands that a plan is refused with exit 2 and that nothing moved.
#[track_caller]
fn refused(plan: &str) -> Value {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    let path = repo.plan(plan);
    let error = repo
        .cofferdam(["run", "--json", shown(&path)])
        .expect_error(2);
    before.expect_same(&repo.print());
    assert_eq!(repo.added_refs(), [""; 0]);
    error
}

/// Demands that the message or hint names something.
#[track_caller]
fn names(error: &Value, word: &str) {
    let told = format!("{} {} {}", error["message"], error["hint"], error["key"]);
    assert!(told.contains(word), "`{word}` is not named in {error:#}");
}

const GOOD: &str = "[[task]]\nname = \"one\"\ncommand = [\"true\"]\n";

#[test]
fn a_cycle_is_refused() {
    let error = refused(
        "[[task]]\nname = \"one\"\ncommand = [\"true\"]\nafter = [\"two\"]\n\
         [[task]]\nname = \"two\"\ncommand = [\"true\"]\nafter = [\"one\"]\n",
    );
    names(&error, "one");
    names(&refused(&format!("{GOOD}after = [\"one\"]\n")), "one");
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let task = refused(&format!("{GOOD}colour = \"red\"\n"));
    names(&task, "colour");
    let run = refused(&format!("[run]\nmax_lives = 9\n{GOOD}"));
    names(&run, "max_lives");
    let table = refused(&format!("{GOOD}[tasks]\n"));
    names(&table, "tasks");
}

#[test]
fn a_repeated_name_is_refused() {
    names(&refused(&format!("{GOOD}{GOOD}")), "one");
}

#[test]
fn an_unknown_forerunner_is_refused() {
    names(&refused(&format!("{GOOD}after = [\"nobody\"]\n")), "nobody");
}

#[test]
fn an_unknown_role_is_refused() {
    names(&refused(&format!("{GOOD}role = \"wizard\"\n")), "wizard");
}

#[test]
fn a_command_that_cannot_be_executed_is_refused() {
    let plan = format!("{GOOD}[[task]]\nname = \"two\"\ncommand = [\"no-such-program\"]\n");
    names(&refused(&plan), "no-such-program");
    refused("[[task]]\nname = \"one\"\ncommand = []\n");
    refused("[[task]]\nname = \"one\"\n");
}

#[test]
fn more_tasks_than_the_total_are_refused_by_the_settings_name() {
    let plan: String = (0..17)
        .map(|n| format!("[[task]]\nname = \"t{n}\"\ncommand = [\"true\"]\n"))
        .collect();
    let error = refused(&plan);
    let told = error.to_string();
    assert!(
        told.contains("max-total") || told.contains("max_total"),
        "the setting is not named in {error:#}"
    );
}

#[test]
fn a_number_out_of_range_is_refused() {
    for value in ["0", "-1", "1.5", "\"many\"", "99999999999999999999"] {
        names(
            &refused(&format!("[run]\nmax_total = {value}\n{GOOD}")),
            "max_total",
        );
    }
    names(
        &refused(&format!("[run]\ndeadline = \"soon\"\n{GOOD}")),
        "deadline",
    );
}

#[test]
fn what_is_no_plan_is_refused_with_its_place() {
    let error = refused("[[task]\nname = 1\n");
    assert_eq!(error["line"], 1, "{error:#}");
    refused("");
    refused("[run]\nmax_live = 2\n");
}

#[test]
fn a_plan_that_is_not_there_is_refused() {
    let env = TestEnv::new();
    let repo = env.repo();
    let error = repo
        .cofferdam(["run", "--json", "no-such-plan.toml"])
        .expect_error(2);
    names(&error, "no-such-plan.toml");
}
