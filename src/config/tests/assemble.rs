//! Requests: what an option narrows, what is refused and with which code.

use std::path::PathBuf;

use super::super::{
    Asked, Assembled, ConfigError, Layers, PartialSettings, Plan, RoleSet, Setting, Settings,
    assemble,
};
use super::{plan_file, roles_file, surroundings};
use crate::model::{Approve, Brief, ExitCode, Gate, Integrate, NetworkAccess};

type Pairs<'a> = &'a [(Setting, &'a str)];

fn partial(pairs: Pairs<'_>) -> PartialSettings {
    let mut partial = PartialSettings::default();
    for (setting, text) in pairs {
        partial
            .set(*setting, &setting.option(), text)
            .expect("because the value is right");
    }
    partial
}

fn options(pairs: Pairs<'_>) -> Settings {
    Settings::resolve(Layers {
        options: partial(pairs),
        ..Layers::default()
    })
}

fn run_with(settings: &Settings, roles: &RoleSet) -> Result<Assembled, ConfigError> {
    let asked = Asked::Command {
        command: vec!["/bin/sh".into(), "-c".into(), "true".into()],
        brief: None,
    };
    assemble(asked, settings, roles, &surroundings())
}

fn run(pairs: Pairs<'_>) -> Result<Assembled, ConfigError> {
    run_with(&options(pairs), &RoleSet::built_in())
}

fn roles(text: &str) -> RoleSet {
    RoleSet::load(None, roles_file(text)).expect("because the file is right")
}

fn code(result: Result<Assembled, ConfigError>) -> (ExitCode, Option<String>) {
    let error = result.expect_err("because it must be refused");
    (error.exit_code(), error.key().map(str::to_owned))
}

#[test]
fn a_command_alone_becomes_one_writer() {
    let request = run(&[]).expect("because nothing is wrong").request;
    assert_eq!(request.repo, PathBuf::from("/srv/repo/."));
    assert_eq!(request.cwd, PathBuf::from("/srv/repo"));
    assert_eq!(request.limits.deadline, None);
    let task = &request.tasks[0];
    assert_eq!(
        (task.name.as_str(), task.contract.role.as_str()),
        ("sh", "writer")
    );
    assert_eq!(task.brief, Brief::of_task("/bin/sh -c true"));
    assert_eq!(task.integrate, Integrate::Auto);
    assert!(task.paths.is_empty() && task.env.is_empty());
}

#[test]
fn options_narrow_the_contract() {
    let request = run(&[
        (Setting::Memory, "1GiB"),
        (Setting::Procs, "64"),
        (Setting::Network, "none"),
        (Setting::Paths, "docs/**"),
        (Setting::Deadline, "10m"),
        (Setting::Env, "TOKEN"),
        (Setting::Env, "A=1"),
        (Setting::Task, "do it"),
        (Setting::Name, "docs"),
    ])
    .expect("because nothing is wider")
    .request;
    let task = &request.tasks[0];
    assert_eq!(task.limits.memory_bytes, Some(1 << 30));
    assert_eq!(task.contract.limits.processes, Some(64));
    assert_eq!(task.paths, ["docs/**"]);
    assert_eq!(task.brief.task, "do it");
    let deadline = request.limits.deadline.expect("because it was given");
    assert_eq!(deadline.instant().to_string(), "2026-01-01T00:10:00Z");
    let values: Vec<_> = task
        .env
        .iter()
        .map(|entry| (entry.name.as_str(), entry.value.to_string_lossy()))
        .collect();
    assert_eq!(values, [("TOKEN", "secret".into()), ("A", "1".into())]);
}

const CAPPED: &str = r#"
[role.x]
execute = true
write = ["docs/**"]
limits = { memory = "1GiB", processes = 10 }
budget = { turns = 5, usd = 1.5 }
"#;

#[test]
fn what_is_wider_than_the_role_is_refused_by_a_gate() {
    let ledger = (Setting::AllowDegraded, "ledger");
    for (asked, gate) in [
        ((Setting::Network, "open"), Gate::Authority),
        ((Setting::Network, "gateway"), Gate::Authority),
        ((Setting::Memory, "2GiB"), Gate::Authority),
        ((Setting::Procs, "11"), Gate::Authority),
        ((Setting::Paths, "src/**"), Gate::Scope),
        ((Setting::Turns, "6"), Gate::Budget),
        ((Setting::Usd, "1.6"), Gate::Budget),
    ] {
        let settings = options(&[(Setting::Role, "x"), asked, ledger]);
        let error = run_with(&settings, &roles(CAPPED)).expect_err("because it is wider");
        assert_eq!(error.exit_code(), ExitCode::Refused, "{error}");
        let ConfigError::Refused(refusal) = error else {
            panic!("because a gate refuses it: {error}");
        };
        assert_eq!(refusal.gate, gate);
    }
    let reader = run(&[(Setting::Role, "reader"), (Setting::Paths, "docs/**")]);
    assert_eq!(code(reader).0, ExitCode::Refused);
}

const NOT_YET: &str = r#"
[role.gate]
execute = true
network = "gateway"
[role.fork]
execute = true
context = "fork"
[role.secret]
execute = true
credentials = ["c"]
[role.still]
read = ["**"]
[credential.c]
mint = "x"
"#;

#[test]
fn what_cannot_be_had_is_refused_by_name() {
    for (asked, exit, key) in [
        ((Setting::Role, "gate"), ExitCode::Isolation, "network"),
        ((Setting::Role, "fork"), ExitCode::Usage, "context"),
        ((Setting::Role, "secret"), ExitCode::Usage, "credentials"),
        ((Setting::Role, "still"), ExitCode::Refused, "role"),
        ((Setting::Role, "fixer"), ExitCode::Usage, "verify"),
        ((Setting::Role, "ghost"), ExitCode::Usage, "role"),
        ((Setting::Turns, "5"), ExitCode::Usage, "turns"),
        ((Setting::Tokens, "5"), ExitCode::Usage, "tokens"),
        ((Setting::Usd, "5"), ExitCode::Usage, "usd"),
        ((Setting::Env, "UNSET"), ExitCode::Usage, "env"),
        (
            (Setting::AllowDegraded, "everything"),
            ExitCode::Usage,
            "--allow-degraded",
        ),
    ] {
        let result = run_with(&options(&[asked]), &roles(NOT_YET));
        assert_eq!(code(result), (exit, Some(key.to_owned())), "{asked:?}");
    }
    let both = run(&[(Setting::Json, "true"), (Setting::Events, "-")]);
    assert_eq!(code(both), (ExitCode::Usage, Some("events".to_owned())));
}

#[test]
fn what_is_waived_by_name_is_accepted() {
    for name in ["landlock", "no_network", "bounded_resources", "ledger"] {
        assert!(run(&[(Setting::AllowDegraded, name)]).is_ok(), "{name}");
    }
    let unmetered = run(&[(Setting::Turns, "5"), (Setting::AllowDegraded, "ledger")])
        .expect("because it is waived by name");
    assert_eq!(unmetered.request.tasks[0].contract.budget.turns, Some(5));
    let fixer = run(&[(Setting::Role, "fixer"), (Setting::Verify, "true")])
        .expect("because it is verified");
    assert_eq!(fixer.request.tasks[0].verify.as_deref(), Some("true"));
}

#[test]
fn a_role_that_needs_a_person_never_lands_by_itself() {
    let set = roles(
        "[role.x]\nexecute = true\nwrite = [\"**\"]\napprove = \"human\"\nnetwork = \"open\"\nbudget = { turns = 3 }\n",
    );
    let settings = options(&[(Setting::Role, "x")]);
    let assembled = run_with(&settings, &set).expect("because nothing is wrong");
    let task = &assembled.request.tasks[0];
    // Landing decides by the contract; what was asked stands beside it.
    assert_eq!(task.integrate, Integrate::Auto);
    assert_eq!(task.contract.approve, Approve::Human);
    assert_eq!(task.contract.network, NetworkAccess::Open);
    assert_eq!(assembled.notices.len(), 1, "{:?}", assembled.notices);
    let tainted =
        "[role.x]\nexecute = true\nnetwork = \"open\"\nwhen_tainted = { integrate = \"hold\" }\n";
    let assembled = run_with(&settings, &roles(tainted)).expect("because nothing is wrong");
    assert!(assembled.request.tasks[0].contract.holds_when_tainted());
}

fn fleet(text: &str, pairs: Pairs<'_>) -> Result<Assembled, ConfigError> {
    let plan = Plan::parse(plan_file(), text).expect("because the plan is right");
    let settings = Settings::resolve(Layers {
        plan: plan.run.clone(),
        options: partial(pairs),
        ..Layers::default()
    });
    let asked = Asked::Plan(Box::new(plan));
    assemble(asked, &settings, &RoleSet::built_in(), &surroundings())
}

fn task(name: &str, rest: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\ncommand = [\"x\"]\n{rest}\n")
}

#[test]
fn a_plan_with_more_tasks_than_the_total_names_the_setting() {
    let text: String = (0..17).map(|at| task(&format!("t{at}"), "")).collect();
    assert_eq!(
        code(fleet(&text, &[])),
        (ExitCode::Usage, Some("max_total".to_owned()))
    );
    assert!(fleet(&text, &[(Setting::MaxTotal, "17")]).is_ok());
    assert!(fleet(&format!("[run]\nmax_total = 17\n{text}"), &[]).is_ok());
}

#[test]
fn a_tasks_own_keys_stand_above_the_run_and_below_the_options() {
    let text = format!(
        "[run]\nintegrate = \"never\"\ndeadline = \"1h\"\n{}{}",
        task(
            "a",
            "integrate = \"hold\"\ndeadline = \"5m\"\nrole = \"reader\""
        ),
        task("b", "")
    );
    let request = fleet(&text, &[])
        .expect("because the plan is right")
        .request;
    let integrate: Vec<_> = request.tasks.iter().map(|task| task.integrate).collect();
    assert_eq!(integrate, [Integrate::Hold, Integrate::Never]);
    assert_eq!(request.tasks[0].contract.role, "reader");
    assert!(request.tasks[0].deadline < request.limits.deadline);
    assert_eq!(request.tasks[1].deadline, None);
    let request = fleet(&text, &[(Setting::Integrate, "auto")])
        .expect("because the plan is right")
        .request;
    assert_eq!(request.tasks[0].integrate, Integrate::Auto);
}

#[test]
fn overlapping_claims_are_reported_unless_they_are_ordered() {
    let claims = |after: &str| {
        [
            task("a", "paths = [\"docs/**\"]"),
            task(
                "b",
                &format!("paths = [\"docs/a.md\", \"src/**\"]\n{after}"),
            ),
            task("c", "paths = [\"tests/**\"]"),
            task("d", ""),
        ]
        .concat()
    };
    let notices = fleet(&claims(""), &[])
        .expect("because overlap is legal")
        .notices;
    assert_eq!(
        notices,
        ["tasks `a` and `b` may change the same files: `docs/**` and `docs/a.md` overlap"]
    );
    let ordered = fleet(&claims("after = [\"a\"]"), &[]).expect("because overlap is legal");
    assert!(ordered.notices.is_empty());
}

#[test]
fn what_concerns_one_agent_is_refused_with_a_plan() {
    let text = [task("a", ""), task("b", "")].concat();
    for (setting, value) in [
        (Setting::Name, "x"),
        (Setting::Task, "x"),
        (Setting::Brief, "x"),
        (Setting::Stdin, "true"),
    ] {
        assert_eq!(
            code(fleet(&text, &[(setting, value)])),
            (ExitCode::Usage, Some(setting.key().to_owned()))
        );
    }
}
