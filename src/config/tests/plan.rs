//! Plans: every key of the contract, and each way to get one wrong.

use super::super::{BriefSource, ConfigError, EnvAsk, PartialSettings, Plan};
use super::plan_file;
use crate::model::{Brief, Integrate, NetworkAccess};

fn parse(text: &str) -> Result<Plan, ConfigError> {
    Plan::parse(plan_file(), text)
}

const DOCUMENTED: &str = r#"
[run]
max_live = 4
deadline = "30m"
verify   = "cargo test -q"
order    = "completion"
repo     = "../repo"
events   = "out.jsonl"
env      = ["TOKEN"]

[[task]]
name      = "docs"
role      = "writer"
task      = "write docs"
paths     = ["docs/**"]
exclusive = true
command   = ["sh", "-c", "true"]
env       = { A = "1", B = "x=y" }
network   = "none"
integrate = "hold"

[[task]]
name    = "code"
brief   = { task = "t", constraints = ["c"], done_when = ["d"], artifacts = ["a"], output_format = "o" }
agent   = "command"
command = ["make"]
after   = ["docs"]

[[task]]
name    = "late"
brief   = "briefs/late.json"
command = ["make"]
"#;

#[test]
fn every_documented_key_is_read() {
    let plan = parse(DOCUMENTED).expect("because every key is known");
    assert_eq!(plan.run.max_live, Some(4));
    assert_eq!(plan.run.verify.as_deref(), Some("cargo test -q"));
    assert_eq!(plan.run.repo, Some("/plans/../repo".into()));
    assert_eq!(plan.run.events, Some("/plans/out.jsonl".into()));
    assert_eq!(plan.run.env, Some(vec![EnvAsk::Copy("TOKEN".into())]));
    let docs = &plan.tasks[0];
    assert_eq!(
        (docs.name.as_str(), docs.place.line, docs.exclusive),
        ("docs", 12, true)
    );
    assert_eq!(docs.command, ["sh", "-c", "true"]);
    assert_eq!(
        docs.settings,
        PartialSettings {
            role: Some("writer".into()),
            paths: Some(vec!["docs/**".into()]),
            env: Some(vec![
                EnvAsk::Set("A".into(), "1".into()),
                EnvAsk::Set("B".into(), "x=y".into())
            ]),
            network: Some(NetworkAccess::None),
            integrate: Some(Integrate::Hold),
            ..PartialSettings::default()
        }
    );
    assert_eq!(
        docs.brief,
        Some(BriefSource::Inline(Brief::of_task("write docs")))
    );
    assert_eq!(
        plan.tasks[1].brief,
        Some(BriefSource::Inline(Brief {
            task: "t".into(),
            constraints: vec!["c".into()],
            done_when: vec!["d".into()],
            artifacts: vec!["a".into()],
            output_format: Some("o".into()),
        }))
    );
    assert_eq!(plan.tasks[1].after, ["docs"]);
    assert_eq!(
        plan.tasks[2].brief,
        Some(BriefSource::File("/plans/briefs/late.json".into()))
    );
}

fn refused(text: &str) -> (usize, String) {
    let error = parse(text).expect_err("because it is wrong");
    assert_eq!(error.exit_code().number(), 2);
    (
        error.line().unwrap_or_default(),
        error.key().unwrap_or_default().to_owned(),
    )
}

#[test]
fn what_is_wrong_in_a_run_is_refused_with_line_and_key() {
    for (text, line, key) in [
        ("", 1, ""),
        ("[run]\nmax_live = 2\n", 1, ""),
        ("[run]\nmax_lives = 2\n", 2, "run.max_lives"),
        ("[run]\nmax_live = 0\n", 2, "run.max_live"),
        ("[run]\nmax_live = \"2\"\n", 2, "run.max_live"),
        ("[run]\nmax_total = -1\n", 2, "run.max_total"),
        ("[run]\nmax_depth = 1.5\n", 2, "run.max_depth"),
        ("[run]\nname = \"x\"\n", 2, "run.name"),
        ("[[task]]\ncommand = [\"x\"]\n", 1, "task[0].name"),
        ("[[task]]\nname = \"a\"\n", 1, "task[0]"),
        (
            "[[task]]\nname = \"a\"\nagent = \"command\"\n",
            3,
            "task[0].agent",
        ),
        (
            "[[task]]\nname = \"a\"\ncommand = []\n",
            3,
            "task[0].command",
        ),
        (
            "[[task]]\nname = \"a\"\ncommand = \"x\"\n",
            3,
            "task[0].command",
        ),
        (
            "[[task]]\nname = \"\"\ncommand = [\"x\"]\n",
            2,
            "task[0].name",
        ),
        (
            "[[task]]\nname = \"a\\u0007\"\ncommand = [\"x\"]\n",
            2,
            "task[0].name",
        ),
        ("[task]\nname = \"a\"\n", 1, "task"),
        ("\n[tasks]\n", 2, "tasks"),
    ] {
        assert_eq!(refused(text), (line, key.to_owned()), "{text}");
    }
}

#[test]
fn what_is_wrong_in_a_task_is_refused_with_line_and_key() {
    let start = "[[task]]\nname = \"a\"\ncommand = [\"x\"]\n";
    for (rest, line, key) in [
        ("typo = 1\n", 4, "task[0].typo"),
        ("max_live = 1\n", 4, "task[0].max_live"),
        (start, 5, "task[1].name"),
        ("after = [\"b\"]\n", 4, "task[0].after"),
        ("after = [\"a\"]\n", 4, "task[0].after"),
        ("task = \"\"\n", 4, "task[0].task"),
        ("brief = { task = \" \" }\n", 4, "task[0].brief"),
        ("brief = { tsk = \"x\" }\n", 4, "task[0].brief.task"),
        ("task = \"x\"\nbrief = \"y\"\n", 5, "task[0].brief"),
        ("env = { \"A=B\" = \"1\" }\n", 4, "task[0].env.\"A=B\""),
        (
            "env = { COFFERDAM_DEPTH = \"0\" }\n",
            4,
            "task[0].env.COFFERDAM_DEPTH",
        ),
        ("agent = \"claude-code\"\n", 4, "task[0].agent"),
    ] {
        let text = format!("{start}{rest}");
        assert_eq!(refused(&text), (line, key.to_owned()), "{rest}");
    }
}

#[test]
fn a_cycle_names_the_tasks_in_it() {
    let task = |name: &str, after: &str| {
        format!("[[task]]\nname = \"{name}\"\ncommand = [\"x\"]\nafter = [{after}]\n")
    };
    let text = [
        task("free", ""),
        task("a", "\"c\", \"free\""),
        task("b", "\"a\""),
        task("c", "\"b\""),
    ]
    .concat();
    let error = parse(&text).expect_err("because no order satisfies it");
    assert_eq!(error.line(), Some(8));
    assert!(
        error
            .to_string()
            .contains("`a` → `c` → `b` → `a` wait for each other"),
        "{error}"
    );
}

#[test]
fn an_agent_kind_that_does_not_exist_says_which_do() {
    let error = parse("[[task]]\nname = \"a\"\nagent = \"codex\"\n")
        .expect_err("because there is no such kind");
    assert!(
        error.to_string().contains("(`command`), found `codex`"),
        "{error}"
    );
}
