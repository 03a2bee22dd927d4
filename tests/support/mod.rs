//! What the integration tests stand on.
//!
//! Owns a world of a test's own: directories, a hermetic git, the program
//! under a limit on hanging, and the leak oracle, which looks at the host
//! when the test is over and fails it if anything is left. Nothing in here
//! knows how the program works; what it knows is `interface.md` of the
//! contract: names, exit codes and JSON.
//!
//! - `env`: the directories and who acts in them
//! - `fence`: what keeps an attempt to escape from harming the machine
//! - `repo`: a repository in any state
//! - `run`: the program in the foreground and in the background
//! - `print`: a fingerprint of directories, to prove that nothing moved
//! - `same`: whether an agent gets the parent's bytes, with every backend
//! - `oracle`: what may not be left when a test ends

mod env;
mod fence;
mod oracle;
mod print;
mod repo;
mod run;
mod same;

pub(crate) use env::TestEnv;
pub(crate) use fence::{only_apart, only_below};
pub(crate) use oracle::{groups, processes_of};
pub(crate) use print::TreePrint;
pub(crate) use repo::Repo;
pub(crate) use run::{Run, Running, Signal};
pub(crate) use same::{BACKENDS, backends, is_to_be_had, run_in};

use std::path::Path;

use serde_json::Value;

/// The agent objects of a document.
#[track_caller]
pub(crate) fn agents(document: &Value) -> &[Value] {
    document["agents"]
        .as_array()
        .unwrap_or_else(|| panic!("no `agents` in {document:#}"))
}

/// The agent of that name in a document.
#[track_caller]
pub(crate) fn agent<'v>(document: &'v Value, name: &str) -> &'v Value {
    agents(document)
        .iter()
        .find(|agent| agent["name"] == name)
        .unwrap_or_else(|| panic!("no agent `{name}` in {document:#}"))
}

/// The one agent of a document.
#[track_caller]
pub(crate) fn only_agent(document: &Value) -> &Value {
    let [agent] = agents(document) else {
        panic!("not one agent in {document:#}");
    };
    agent
}

/// A member that must be text.
#[track_caller]
pub(crate) fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member]
        .as_str()
        .unwrap_or_else(|| panic!("`{member}` is not text in {value:#}"))
}

/// The `path` members of a list, sorted.
#[track_caller]
pub(crate) fn paths(list: &Value) -> Vec<&str> {
    let mut paths: Vec<_> = list
        .as_array()
        .unwrap_or_else(|| panic!("not a list: {list:#}"))
        .iter()
        .map(|entry| text(entry, "path"))
        .collect();
    paths.sort_unstable();
    paths
}

/// A path as text; those of the tests are.
pub(crate) fn shown(path: &Path) -> &str {
    path.to_str()
        .expect("because the tests' own directories have plain names")
}
