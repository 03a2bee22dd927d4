//! Plans: what stands in `PLAN.toml`, key by key.
//!
//! Owns `[run]` and `[[task]]`: which keys there are, and that names are
//! unique, orders are possible and every task has something to execute. Paths
//! are taken from the plan file's directory. Contracts and limits are applied
//! in `assemble`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::document::{Item, Section, Source};
use super::error::{ConfigError, Place};
use super::partial::{Author, PartialSettings};
use super::setting::Reach;
use super::words;
use crate::model::Brief;

/// The kinds of agent that a task may name, besides a command of its own.
///
/// To add one: a line here and a file in `agent/`.
pub const AGENT_KINDS: [&str; 1] = ["command"];

/// What a task is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BriefSource {
    /// Written in the plan.
    Inline(Brief),
    /// In a file of its own.
    File(PathBuf),
}

/// One `[[task]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanTask {
    /// Where it stands.
    pub place: Place,
    /// Its unique name.
    pub name: String,
    /// What it is to do; `None` where the command says all.
    pub brief: Option<BriefSource>,
    /// What is executed.
    pub command: Vec<OsString>,
    /// Names of tasks that must have landed before.
    pub after: Vec<String>,
    /// Whether it queues behind tasks whose scope overlaps.
    pub exclusive: bool,
    /// Its own settings.
    pub settings: PartialSettings,
}

/// A whole plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The file.
    pub file: PathBuf,
    /// `[run]`.
    pub run: PartialSettings,
    /// The tasks in their order.
    pub tasks: Vec<PlanTask>,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// Names file, line and key of the first thing that is wrong.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let source = Source::new(file, text);
        let mut outer = source.parse()?;
        let directory = file.parent().unwrap_or(Path::new(""));
        let mut section = outer.section("run")?;
        let mut run = PartialSettings::from_section(
            &mut section,
            &[Reach::Run, Reach::Task],
            Author::Person,
        )?;
        section.finish()?;
        resolve_paths(&mut run, directory);
        let empty = outer.wrong("at least one `[[task]]`");
        let mut tasks = Vec::new();
        let mut orders = Vec::new();
        for section in outer.sections("task")? {
            let (task, order) = task(section, directory)?;
            tasks.push(task);
            orders.push(order);
        }
        outer.finish()?;
        if tasks.is_empty() {
            return Err(empty);
        }
        check_names(&tasks)?;
        check_order(&tasks, &orders)?;
        Ok(Self {
            file: file.to_owned(),
            run,
            tasks,
        })
    }
}

/// A task and where its `after` stands.
type Placed = (PlanTask, Place);

fn task(mut section: Section<'_>, directory: &Path) -> Result<Placed, ConfigError> {
    let name = section.require("name")?;
    let place = name.place();
    let text = name.text()?;
    let label = words::label("name", &text).map_err(|error| name.refused(&error))?;
    let brief = brief(&mut section, directory)?;
    let command = command(&mut section)?;
    let (after, order) = match section.take("after") {
        None => (Vec::new(), place.clone()),
        Some(item) => (item.texts()?, item.place()),
    };
    let exclusive = section.flag("exclusive")?.unwrap_or(false);
    let settings = PartialSettings::from_section(&mut section, &[Reach::Task], Author::Person)?;
    section.finish()?;
    let task = PlanTask {
        place,
        name: label,
        brief,
        command,
        after,
        exclusive,
        settings,
    };
    Ok((task, order))
}

fn brief(section: &mut Section<'_>, directory: &Path) -> Result<Option<BriefSource>, ConfigError> {
    let task = section.take("task");
    let brief = section.take("brief");
    match (task, brief) {
        (None, None) => Ok(None),
        (Some(_), Some(item)) => Err(item.wrong("either `task` or `brief`, found both")),
        (Some(item), None) => {
            let brief = Brief::of_task(item.text()?);
            check_brief(&brief).map_err(|reason| item.wrong(&reason))?;
            Ok(Some(BriefSource::Inline(brief)))
        }
        (None, Some(item)) if item.is_table() => {
            let wrong = item.wrong("");
            let brief = brief_fields(item.section()?)?;
            check_brief(&brief).map_err(|reason| with_expectation(wrong, reason))?;
            Ok(Some(BriefSource::Inline(brief)))
        }
        (None, Some(item)) => Ok(Some(BriefSource::File(directory.join(item.text()?)))),
    }
}

fn with_expectation(mut error: ConfigError, reason: String) -> ConfigError {
    if let ConfigError::Key { expected, .. } = &mut error {
        *expected = reason;
    }
    error
}

/// Reads the fields of a brief.
pub(crate) fn brief_fields(mut section: Section<'_>) -> Result<Brief, ConfigError> {
    let brief = Brief {
        task: section.require("task")?.text()?,
        constraints: section.texts("constraints")?,
        done_when: section.texts("done_when")?,
        artifacts: section.texts("artifacts")?,
        output_format: section.text("output_format")?,
    };
    section.finish()?;
    Ok(brief)
}

/// What is wrong with a brief as a whole.
///
/// # Errors
/// Says what was expected.
pub fn check_brief(brief: &Brief) -> Result<(), String> {
    if brief.task.trim().is_empty() {
        return Err("a task that is not empty".to_owned());
    }
    let bytes = serde_json::to_vec(brief).map_or(usize::MAX, |json| json.len());
    if bytes > Brief::MAX_BYTES {
        return Err(format!(
            "a brief of at most {} bytes, found {bytes}; put long material into files of the repository",
            Brief::MAX_BYTES
        ));
    }
    Ok(())
}

fn command(section: &mut Section<'_>) -> Result<Vec<OsString>, ConfigError> {
    let agent = section.take("agent");
    let command = section.take("command");
    if let Some(item) = &agent {
        known_kind(item)?;
    }
    let Some(item) = command else {
        return Err(match agent {
            Some(item) => item.wrong("a `command` beside it: it is what such an agent executes"),
            None => section.wrong("`command = [\"program\", …]`, or `agent`, found neither"),
        });
    };
    let words = item.texts()?;
    if words.first().is_none_or(String::is_empty) || words.iter().any(|word| word.contains('\0')) {
        return Err(item.wrong("a program and its arguments, without NUL bytes"));
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

fn known_kind(item: &Item<'_>) -> Result<(), ConfigError> {
    let kind = item.text()?;
    if AGENT_KINDS.contains(&kind.as_str()) {
        return Ok(());
    }
    let known: Vec<String> = AGENT_KINDS.iter().map(|kind| format!("`{kind}`")).collect();
    Err(item.wrong(&format!(
        "a kind of agent that exists ({}), found `{kind}`; give its command line as `command`",
        known.join(", ")
    )))
}

fn resolve_paths(run: &mut PartialSettings, directory: &Path) {
    for path in [&mut run.repo, &mut run.roles].into_iter().flatten() {
        *path = directory.join(&*path);
    }
    // `-` is the standard output, not a file of that name.
    if let Some(path) = run.events.as_mut().filter(|path| path.as_os_str() != "-") {
        *path = directory.join(&*path);
    }
}

fn check_names(tasks: &[PlanTask]) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    for task in tasks {
        if !seen.insert(&task.name) {
            return Err(wrong(
                &task.place,
                format!("a name of its own, but `{}` is there twice", task.name),
            ));
        }
    }
    Ok(())
}

fn wrong(place: &Place, expected: String) -> ConfigError {
    ConfigError::Key {
        place: place.clone(),
        expected,
        hint: String::new(),
    }
}

/// Each `after` names another task, and some order satisfies them all.
fn check_order(tasks: &[PlanTask], orders: &[Place]) -> Result<(), ConfigError> {
    for (task, place) in tasks.iter().zip(orders) {
        if let Some(unknown) = task
            .after
            .iter()
            .find(|name| tasks.iter().all(|other| other.name != **name))
        {
            return Err(wrong(
                place,
                format!("names of other tasks, but there is no task `{unknown}`"),
            ));
        }
    }
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    loop {
        let ready: Vec<&str> = tasks
            .iter()
            .filter(|task| !placed.contains(task.name.as_str()))
            .filter(|task| task.after.iter().all(|name| placed.contains(name.as_str())))
            .map(|task| task.name.as_str())
            .collect();
        if ready.is_empty() {
            break;
        }
        placed.extend(ready);
    }
    let in_cycle = |name: &str| !placed.contains(name);
    let Some(at) = tasks.iter().position(|task| in_cycle(&task.name)) else {
        return Ok(());
    };
    Err(wrong(
        &orders[at],
        format!(
            "an order that is possible, but {}",
            cycle(tasks, at, in_cycle)
        ),
    ))
}

/// Walks from a task that cannot be placed until a name comes twice.
fn cycle(tasks: &[PlanTask], start: usize, in_cycle: impl Fn(&str) -> bool) -> String {
    let mut walk = vec![tasks[start].name.as_str()];
    loop {
        let last = walk[walk.len() - 1];
        let next = tasks
            .iter()
            .find(|task| task.name == last)
            .and_then(|task| task.after.iter().find(|name| in_cycle(name)));
        let Some(next) = next else {
            return "the tasks wait for each other".to_owned();
        };
        if let Some(from) = walk.iter().position(|name| name == next) {
            walk.push(next);
            let names: Vec<String> = walk[from..]
                .iter()
                .map(|name| format!("`{name}`"))
                .collect();
            return format!("{} wait for each other", names.join(" → "));
        }
        walk.push(next);
    }
}
