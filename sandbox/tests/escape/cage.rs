//! Owns the cages that attempts are made in, and the machines they stand on.
//!
//! Three kinds: a view of its own, a view in place whose namespaces were given
//! up, and one on a machine that has no namespaces at all. Asserts nothing
//! about confinement.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cofferdam_sandbox::{Layer, Policy, Rights, ViewMode};
use cofferdam_shim::{Feature, take_away};
use serde_json::Value;

use crate::setting::{FIXTURE, Setting, Who, as_everyone, printed, rule};

/// What the cage is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything there is.
    View,
    /// No view and no PID namespace; the network's namespace stays.
    InPlace,
    /// The machine has no namespaces.
    Bare,
}

/// One cage of one user.
pub struct Cage<'a> {
    pub setting: &'a Setting,
    pub kind: Kind,
}

/// Runs a case for every user in every kind of cage.
pub fn everywhere(case: impl Fn(&Cage<'_>)) {
    for kind in [Kind::View, Kind::InPlace, Kind::Bare] {
        as_everyone(|setting| case(&Cage { setting, kind }));
    }
}

/// The same where nothing is mounted.
pub fn without_a_view(case: impl Fn(&Cage<'_>)) {
    for kind in [Kind::InPlace, Kind::Bare] {
        as_everyone(|setting| case(&Cage { setting, kind }));
    }
}

/// The same in cages with a view only.
pub fn in_views(case: impl Fn(&Cage<'_>)) {
    as_everyone(|setting| {
        case(&Cage {
            setting,
            kind: Kind::View,
        });
    });
}

impl Cage<'_> {
    /// The features that the machine lacks.
    pub fn lacks(&self) -> Vec<Feature> {
        match self.kind {
            Kind::View | Kind::InPlace => vec![],
            Kind::Bare => vec![Feature::Namespaces],
        }
    }

    /// The setting's policy for this kind.
    pub fn policy(&self, argv: &[&str]) -> Policy {
        let policy = self.setting.policy(argv);
        match self.kind {
            Kind::View => policy,
            Kind::InPlace => in_place(policy, &[Layer::Namespaces]),
            Kind::Bare => in_place(policy, &[]),
        }
    }

    /// The same, with what lies outside readable, so that a rule for reading
    /// is seen to be none for changing.
    pub fn attempts(&self, attempts: &[String]) -> Policy {
        let mut argv = vec![FIXTURE, "try"];
        argv.extend(attempts.iter().map(String::as_str));
        let mut policy = self.policy(&argv);
        let outside = rule(&self.setting.outside(), Rights::Read);
        policy.files.push(outside);
        policy
    }

    /// Makes attempts and returns the outcome of each.
    pub fn outcomes(&self, attempts: &[String]) -> Vec<String> {
        self.outcomes_of(&self.attempts(attempts))
    }

    /// Makes the attempts of a policy and returns the outcome of each.
    pub fn outcomes_of(&self, policy: &Policy) -> Vec<String> {
        let result = self.launch(policy);
        let outcomes: Value = result["stdout"]
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_else(|| panic!("{:?} {:?}: {result}", self.kind, self.setting.who));
        policy.command.argv[2..]
            .iter()
            .map(|attempt| {
                let outcome = &outcomes[attempt.to_str().unwrap()];
                outcome.as_str().unwrap_or("none").to_owned()
            })
            .collect()
    }

    pub fn launch(&self, policy: &Policy) -> Value {
        launch_without(&self.lacks(), self.setting, "launch", policy)
    }

    /// Asserts that the kernel refused each attempt, naming those it did not.
    #[track_caller]
    pub fn assert_denied(&self, attempts: &[String]) {
        let outcomes = self.outcomes(attempts);
        let through: Vec<_> = attempts
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.parse::<i32>().is_err())
            .collect();
        assert!(
            through.is_empty(),
            "{:?} of {:?} did not deny {through:?}",
            self.kind,
            self.setting.who
        );
    }

    /// Asserts that each attempt worked, naming those that did not.
    #[track_caller]
    pub fn assert_works(&self, attempts: &[String]) {
        let outcomes = self.outcomes(attempts);
        let failed: Vec<_> = attempts
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| *outcome != "ok")
            .collect();
        assert!(
            failed.is_empty(),
            "{:?} of {:?}: {failed:?}",
            self.kind,
            self.setting.who
        );
    }
}

/// A policy without a view, which waives some layers.
pub fn in_place(mut policy: Policy, waived: &[Layer]) -> Policy {
    policy.view.mode = ViewMode::InPlace;
    policy.view.mounts.clear();
    policy.waived.extend(waived);
    policy.required = [Layer::Landlock, Layer::Seccomp].into();
    policy
}

/// Starts the launcher on a machine that lacks some features.
pub fn start_without(
    lacks: &[Feature],
    program: &Path,
    setting: &Setting,
    mode: &str,
    policy: &Policy,
) -> Child {
    let mut command = Command::new(program);
    command
        .args(mode.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A fence: what signals its own group reaches no test.
        .process_group(0);
    if setting.who == Who::Ordinary {
        command.uid(1000).gid(1000);
    }
    take_away(lacks, &mut command).unwrap();
    let mut child = command.spawn().unwrap();
    let mut text = serde_json::to_vec(policy).unwrap();
    text.push(b'\n');
    // One that was refused early has not read it.
    let _ = child.stdin.take().unwrap().write_all(&text);
    child
}

/// Runs the launcher on such a machine until it ends; what it printed.
pub fn launch_without(lacks: &[Feature], setting: &Setting, mode: &str, policy: &Policy) -> Value {
    printed(start_without(
        lacks,
        FIXTURE.as_ref(),
        setting,
        mode,
        policy,
    ))
}

/// An attempt with an argument of words.
pub fn with(what: &str, words: &[&str]) -> String {
    format!("{what}={}", words.join(","))
}

/// An attempt on one path.
pub fn on(what: &str, path: &Path) -> String {
    with(what, &[path.to_str().unwrap()])
}

/// An attempt on two.
pub fn on_both(what: &str, from: &Path, to: &Path) -> String {
    with(what, &[from.to_str().unwrap(), to.to_str().unwrap()])
}
