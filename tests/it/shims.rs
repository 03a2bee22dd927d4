//! Machines that lack a feature of the kernel, each in turn.
//!
//! Owns one table: which promises nothing holds without a feature, for root
//! and for an ordinary user. From it follows what a run is refused for, what
//! `doctor` tells, and what must be given up by name. To change an
//! expectation, change its row.

use cofferdam_shim::{Feature, take_away};
use serde_json::Value;

use crate::support::{Repo, Run, TestEnv, TreePrint, agents, only_agent, shown};

/// The promises that nothing holds on a machine without a feature, and the
/// names (of promises or layers) with which a run starts there all the same.
struct Row {
    feature: Feature,
    /// The layer without which nothing starts, whoever else holds its promises.
    layer: Option<&'static str>,
    root: &'static [&'static str],
    user: &'static [&'static str],
    given_up: &'static [&'static str],
}

const WITHOUT_A_VIEW: &[&str] = &["no_metadata_change_outside", "no_host_sockets"];

const fn both(feature: Feature, unheld: &'static [&'static str]) -> Row {
    Row {
        feature,
        layer: None,
        root: unheld,
        user: unheld,
        given_up: unheld,
    }
}

/// A machine without file rules: there is no cage without, unless it is said.
const fn without_rules(feature: Feature) -> Row {
    Row {
        layer: Some("landlock"),
        given_up: &["landlock"],
        ..both(feature, &[])
    }
}

const TABLE: [Row; 16] = [
    without_rules(Feature::Landlock),
    without_rules(Feature::LandlockSwitch),
    both(Feature::LandlockSince(1), &[]),
    both(Feature::LandlockSince(2), &[]),
    both(Feature::LandlockSince(3), &[]),
    both(Feature::LandlockSince(4), &[]),
    both(Feature::LandlockSince(5), &[]),
    both(Feature::LandlockSince(6), &[]),
    both(Feature::LandlockSince(7), &[]),
    both(Feature::Namespaces, WITHOUT_A_VIEW),
    Row {
        feature: Feature::UserNamespaces,
        layer: None,
        // Who has the privilege makes the others without it.
        root: &[],
        user: WITHOUT_A_VIEW,
        given_up: WITHOUT_A_VIEW,
    },
    both(Feature::PowerInUserNamespaces, WITHOUT_A_VIEW),
    both(Feature::Mounts, WITHOUT_A_VIEW),
    both(Feature::MountDescriptors, WITHOUT_A_VIEW),
    both(Feature::NetworkNamespaces, &[]),
    both(Feature::Seccomp, &["no_host_sockets"]),
];

/// Without these the helper itself cannot work; nothing can be given up.
const NEEDED: [Feature; 1] = [Feature::Openat2];

/// Limits bind single processes at best, and nobody is refused for that.
const NEVER_REFUSED: &str = "bounded_resources";

/// Runs a case on every machine as everybody, with what nothing holds there.
fn on_each_machine(case: impl Fn(&TestEnv, &Row, &[&str])) {
    for row in &TABLE {
        for (number, env) in TestEnv::identities().iter().enumerate() {
            let as_root = TestEnv::caller_is_root() && number == 0;
            case(env, row, if as_root { row.root } else { row.user });
        }
    }
}

/// The program on a machine without the feature.
#[track_caller]
fn without(feature: Feature, env: &TestEnv, arguments: &[&str]) -> Run {
    let mut command = env.program();
    command.args(arguments).current_dir(env.root().join("repo"));
    take_away(&[feature], &mut command).expect("because there are sockets");
    env.finish(&mut command)
}

/// The promises that a document of `doctor` calls held by nobody.
fn unheld(document: &Value) -> Vec<&str> {
    let lines = document["guarantees"].as_array();
    let mut names: Vec<_> = lines
        .unwrap_or_else(|| panic!("no guarantees in {document:#}"))
        .iter()
        .filter(|line| line["held_by"] == Value::Array(vec![]))
        .filter_map(|line| line["guarantee"].as_str())
        .filter(|name| *name != NEVER_REFUSED)
        .collect();
    names.sort_unstable();
    names
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}

#[test]
fn the_table_has_every_feature() {
    // What the helper cannot do without is held by tests of the cage's crate.
    let helpers = [Feature::Pidfd, Feature::CloseRange];
    for feature in Feature::all() {
        let has_row = TABLE.iter().any(|row| row.feature == feature);
        assert!(
            has_row || NEEDED.contains(&feature) || helpers.contains(&feature),
            "{feature}"
        );
    }
}

#[test]
fn nothing_starts_where_a_promise_is_not_held() {
    on_each_machine(|env, row, names| {
        let feature = row.feature;
        let repo = env.repo();
        let before = repo.print();
        let run = without(
            feature,
            env,
            &["run", "--json", "--", "sh", "-c", "echo > n.txt"],
        );
        if names.is_empty() && row.layer.is_none() {
            run.expect_code(0);
            assert!(repo.has("n.txt"), "{feature}");
            return;
        }
        let error = run.expect_error(4);
        for name in names.iter().chain(&row.layer) {
            let told = error["message"]
                .as_str()
                .is_some_and(|text| text.contains(name));
            assert!(told, "{feature}: `{name}` is not named in {error:#}");
        }
        before.expect_same(&repo.print());
        expect_nothing_ran(&repo);
    });
}

/// Demands that a refused agent is at most known, and has neither run nor left
/// a result.
#[track_caller]
fn expect_nothing_ran(repo: &Repo<'_>) {
    let list = repo
        .cofferdam(["ls", "--all", "--json"])
        .expect_code(0)
        .json();
    for agent in agents(&list) {
        assert_eq!(agent["times"]["started_at"], Value::Null, "{agent:#}");
        assert_eq!(agent["result"]["ref"], Value::Null, "{agent:#}");
    }
    assert_eq!(repo.added_refs(), [""; 0]);
}

#[test]
fn doctor_tells_the_same_that_a_run_is_refused_for() {
    on_each_machine(|env, row, names| {
        let feature = row.feature;
        let _repo = env.repo();
        let document = without(feature, env, &["doctor", "--json"]).json();
        assert_eq!(unheld(&document), sorted(names), "{feature}: {document:#}");
    });
}

#[test]
fn what_is_given_up_by_name_starts_and_is_recorded() {
    on_each_machine(|env, row, names| {
        let feature = row.feature;
        let repo = env.repo();
        env.put(&env.outside().join("file"), "the person's\n");
        env.put(&env.home().join(".ssh/id"), "a secret");
        let before = [env.outside(), env.home()].map(|path| TreePrint::with_times(&path));
        let script = format!(
            "echo new > n.txt; echo x >> '{out}/file'; rm -f '{out}/file'; echo x > '{out}/new'; \
             echo x >> '{home}/.ssh/id'; cat '{home}/.ssh/id'; exit 0",
            out = shown(&env.outside()),
            home = shown(&env.home()),
        );
        let mut arguments = vec!["run", "--json"];
        if !names.is_empty() || row.layer.is_some() {
            let given_up = row.given_up.iter();
            arguments.extend(given_up.flat_map(|name| ["--allow-degraded", name]));
        }
        arguments.extend(["--", "sh", "-c", &script]);
        let run = without(feature, env, &arguments).expect_code(0);

        assert_eq!(repo.text("n.txt"), "new\n", "{feature}");
        let after = [env.outside(), env.home()].map(|path| TreePrint::with_times(&path));
        for (before, after) in before.iter().zip(&after) {
            before.expect_same(after);
        }
        assert!(
            !run.stderr.contains("a secret"),
            "{feature}: {}",
            run.stderr
        );
        let record = run.json();
        let agent = only_agent(&record);
        let asked: Vec<_> = arguments
            .windows(2)
            .filter(|pair| pair[0] == "--allow-degraded")
            .map(|pair| Value::from(pair[1]))
            .collect();
        let recorded = agent["waived"].as_array().cloned().unwrap_or_default();
        assert_eq!(recorded, asked, "{feature}: {agent:#}");
        for name in names {
            assert_eq!(
                agent["guarantees"][name],
                Value::Array(vec![]),
                "{feature}: {agent:#}"
            );
        }
    });
}

#[test]
fn one_promise_given_up_does_not_give_up_another() {
    let feature = Feature::Namespaces;
    for env in TestEnv::identities() {
        let repo = env.repo();
        let before = repo.print();
        for name in WITHOUT_A_VIEW {
            let arguments = ["run", "--json", "--allow-degraded", name, "--", "true"];
            let error = without(feature, &env, &arguments).expect_error(4);
            let text = error["message"].as_str().unwrap_or_default();
            for other in WITHOUT_A_VIEW {
                assert_eq!(
                    text.contains(&format!("`{other}`")),
                    other != name,
                    "{text}"
                );
            }
        }
        before.expect_same(&repo.print());
    }
}

#[test]
fn a_machine_without_what_the_helper_needs_is_refused() {
    for feature in NEEDED {
        for env in TestEnv::identities() {
            let repo = env.repo();
            let before = repo.print();
            without(feature, &env, &["run", "--json", "--", "true"]).expect_error(4);
            before.expect_same(&repo.print());
        }
    }
}

#[test]
fn the_name_that_a_refusal_tells_to_give_up_is_enough() {
    on_each_machine(|env, row, names| {
        let feature = row.feature;
        let repo = env.repo();
        let mut arguments = vec!["run", "--json"];
        let given_up = names.iter().chain(&row.layer);
        arguments.extend(given_up.flat_map(|name| ["--allow-degraded", name]));
        arguments.extend(["--", "sh", "-c", "echo new > n.txt"]);
        without(feature, env, &arguments).expect_code(0);
        assert_eq!(repo.text("n.txt"), "new\n", "{feature}");
    });
}

#[test]
fn doctor_ends_as_a_run_would() {
    on_each_machine(|env, row, names| {
        let feature = row.feature;
        let _repo = env.repo();
        let refused = !names.is_empty() || row.layer.is_some();
        let code = if refused { 4 } else { 0 };
        let run = without(feature, env, &["doctor", "--json"]);
        assert_eq!(run.code, code, "{feature}: {}", run.stdout);
    });
}

#[test]
fn a_machine_without_what_the_helper_needs_is_isolation_not_available() {
    for feature in [Feature::Pidfd, Feature::CloseRange] {
        for env in TestEnv::identities() {
            let repo = env.repo();
            let before = repo.print();
            without(feature, &env, &["run", "--json", "--", "true"]).expect_error(4);
            without(feature, &env, &["doctor", "--json"]).expect_code(4);
            before.expect_same(&repo.print());
        }
    }
}
