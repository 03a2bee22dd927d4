//! Settings, roles and a command or a plan become one request.
//!
//! Owns the last check before anything is started: after this every number is
//! in range, every role exists, every contract is narrowed and every variable
//! has its value. Pure: the time, the directory and the environment are handed
//! in, files have been read by `load`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::error::ConfigError;
use super::partial::{EnvAsk, PartialSettings};
use super::plan::{BriefSource, Plan, PlanTask, check_brief};
use super::role_set::RoleSet;
use super::settings::Settings;
use super::{Setting, ValueError, check_waiver, narrow, scope, words};
use crate::model::{
    Base, Brief, Contract, Deadline, EnvEntry, Land, LaunchLimits, RunRequest, Setup, SetupAuthor,
    StdinMode, TaskRequest,
};

/// What is to be run.
#[derive(Debug, Clone)]
pub enum Asked {
    /// One agent that executes a command; the brief is that of `--brief`.
    Command {
        /// The program and its arguments.
        command: Vec<OsString>,
        /// The brief that was read from a file.
        brief: Option<Brief>,
    },
    /// A fleet.
    Plan(Box<Plan>),
}

/// What is around the launcher.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The caller's directory.
    pub cwd: PathBuf,
    /// The instant from which durations count.
    pub now: Timestamp,
    /// The launcher's own environment, for variables that are copied.
    pub variables: BTreeMap<OsString, OsString>,
}

/// A request and what the person should know about it.
#[derive(Debug, Clone)]
pub struct Assembled {
    /// The request.
    pub request: RunRequest,
    /// Overlapping scopes, and keys that have no effect on this kind of agent.
    pub notices: Vec<String>,
}

/// Makes the request.
///
/// # Errors
/// Names the option or key, with the exit code of the contract; nothing has
/// been started.
pub fn assemble(
    asked: Asked,
    settings: &Settings,
    roles: &RoleSet,
    around: &Surroundings,
) -> Result<Assembled, ConfigError> {
    for name in &settings.allow_degraded {
        check_waiver("--allow-degraded", name)?;
    }
    check_output(settings)?;
    let mut notices = Vec::new();
    let tasks = match asked {
        Asked::Command { command, brief } => {
            let work = single(command, brief, settings)?;
            vec![task(work, settings, (roles, around), &mut notices)?]
        }
        Asked::Plan(plan) => {
            check_plan(&plan, settings)?;
            let mut tasks = Vec::new();
            for planned in plan.tasks {
                let own = settings.for_task(&planned.settings);
                tasks.push(task(work(planned)?, &own, (roles, around), &mut notices)?);
            }
            notices.extend(overlaps(&tasks));
            tasks
        }
    };
    notices.dedup();
    let request = RunRequest {
        repo: around.cwd.join(&settings.repo),
        cwd: around.cwd.clone(),
        base: settings.base.clone().map_or(Base::Worktree, Base::Revision),
        tasks,
        limits: LaunchLimits {
            max_depth: settings.max_depth,
            max_total: settings.max_total,
            max_live: settings.max_live,
            deadline: run_deadline(settings, around.now)?,
            ..LaunchLimits::default()
        },
        order: settings.order,
        approve_setup: Vec::new(),
        workspace: settings.workspace,
        allow_degraded: settings.allow_degraded.clone(),
        stdin: settings.stdin,
    };
    Ok(Assembled { request, notices })
}

/// One agent before its contract is made.
struct Work {
    name: String,
    brief: Brief,
    command: Vec<OsString>,
    after: Vec<String>,
    exclusive: bool,
    own: PartialSettings,
}

fn usage(what: String, key: &str, hint: &str) -> ConfigError {
    ConfigError::Usage {
        what,
        key: key.to_owned(),
        hint: hint.to_owned(),
    }
}

fn single(
    command: Vec<OsString>,
    brief: Option<Brief>,
    settings: &Settings,
) -> Result<Work, ConfigError> {
    let Some(program) = command.first().filter(|program| !program.is_empty()) else {
        return Err(usage(
            "an empty command".to_owned(),
            "command",
            "give it after `--`: `cofferdam run -- CMD`",
        ));
    };
    let name = settings
        .name
        .clone()
        .unwrap_or_else(|| default_name(program));
    let brief = match (brief, &settings.task) {
        (Some(_), Some(_)) => {
            return Err(usage(
                "`--task` together with `--brief`".to_owned(),
                "task",
                "use one of them",
            ));
        }
        (Some(brief), None) => brief,
        (None, Some(text)) => {
            let brief = Brief::of_task(text);
            check_brief(&brief).map_err(|expected| ValueError::new("--task", expected, "…"))?;
            brief
        }
        (None, None) => brief_of_command(&command),
    };
    Ok(Work {
        name,
        brief,
        command,
        after: Vec::new(),
        exclusive: false,
        own: PartialSettings::default(),
    })
}

/// A command alone says what is to be done.
fn brief_of_command(command: &[OsString]) -> Brief {
    let words: Vec<String> = command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line: String = words.join(" ").chars().take(1024).collect();
    Brief::of_task(line)
}

fn default_name(program: &OsStr) -> String {
    let name = Path::new(program)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    words::label("name", &name).unwrap_or_else(|_| "agent".to_owned())
}

fn work(planned: PlanTask) -> Result<Work, ConfigError> {
    let brief = match planned.brief {
        Some(BriefSource::Inline(brief)) => brief,
        Some(BriefSource::File(path)) => {
            return Err(ConfigError::BadFile {
                path,
                reason: "the brief was not read".to_owned(),
            });
        }
        None => brief_of_command(&planned.command),
    };
    Ok(Work {
        name: planned.name,
        brief,
        command: planned.command,
        after: planned.after,
        exclusive: planned.exclusive,
        own: planned.settings,
    })
}

fn task(
    work: Work,
    settings: &Settings,
    (roles, around): (&RoleSet, &Surroundings),
    notices: &mut Vec<String>,
) -> Result<TaskRequest, ConfigError> {
    let role = roles.require(&settings.role)?;
    notices.extend(narrow::notices(role));
    let contract = narrow::contract(role, settings)?;
    if settings.land == Land::Commit {
        return Err(usage(
            "`--land commit`: this version lands in the worktree or on a branch".to_owned(),
            "land",
            "use `--land branch`, or land in the worktree and commit it yourself",
        ));
    }
    let deadline = match work.own.deadline {
        None => None,
        Some(spec) => Some(spec.resolve("deadline", around.now)?),
    };
    Ok(TaskRequest {
        name: work.name,
        brief: work.brief,
        command: work.command,
        after: work.after,
        paths: settings.paths.clone(),
        exclusive: work.exclusive,
        env: variables(&settings.env, &around.variables)?,
        integrate: settings.integrate,
        land: settings.land.clone(),
        on_conflict: settings.on_conflict,
        setup: setup(&contract, settings),
        verify: settings.verify.clone(),
        deadline,
        limits: contract.limits,
        carry: settings.carry.clone(),
        contract,
    })
}

/// What makes the workspace ready: what the person says, else the role, else
/// the repository. What is meant for every agent passes by those that could
/// not write a result of it.
fn setup(role: &Contract, settings: &Settings) -> Option<Setup> {
    let said = settings.setup.clone();
    let (by_person, by_repository) = match said {
        Some(setup) if setup.author == SetupAuthor::Person => (Some(setup), None),
        other => (None, other),
    };
    by_person
        .or_else(|| role.setup.clone())
        .or_else(|| by_repository.filter(|_| role.is_writer()))
        .filter(|setup| !setup.command.is_empty())
}

fn run_deadline(settings: &Settings, now: Timestamp) -> Result<Option<Deadline>, ConfigError> {
    let key = Setting::Deadline.key();
    let resolved = settings.deadline.map(|spec| spec.resolve(key, now));
    Ok(resolved.transpose()?)
}

fn variables(
    asked: &[EnvAsk],
    own: &BTreeMap<OsString, OsString>,
) -> Result<Vec<EnvEntry>, ConfigError> {
    let entries = asked.iter().map(|entry| match entry {
        EnvAsk::Set(name, value) => Ok(EnvEntry {
            name: name.clone(),
            value: value.clone(),
        }),
        EnvAsk::Copy(name) => match own.get(OsStr::new(name)) {
            Some(value) => Ok(EnvEntry {
                name: name.clone(),
                value: value.clone(),
            }),
            None => Err(usage(
                format!("`--env {name}`: the variable is not set"),
                "env",
                "set it, or give a value as `--env NAME=VALUE`",
            )),
        },
    });
    entries.collect()
}

fn check_output(settings: &Settings) -> Result<(), ConfigError> {
    let events_to_stdout = settings.events.as_deref() == Some(Path::new("-"));
    if settings.json && events_to_stdout {
        return Err(usage(
            "`--events -` together with `--json`: both write to the standard output".to_owned(),
            "events",
            "write the events to a file",
        ));
    }
    Ok(())
}

fn check_plan(plan: &Plan, settings: &Settings) -> Result<(), ConfigError> {
    let count = plan.tasks.len();
    if u32::try_from(count).map_or(true, |count| count > settings.max_total) {
        return Err(usage(
            format!(
                "a plan of {count} tasks with `--max-total {}`",
                settings.max_total
            ),
            "max_total",
            "raise `--max-total`, or `max_total` in `[run]`",
        ));
    }
    let options = settings.options();
    let of_one_agent = [
        (Setting::Name, options.name.is_some()),
        (Setting::Task, options.task.is_some()),
        (Setting::Brief, options.brief.is_some()),
    ];
    if let Some((setting, _)) = of_one_agent.iter().find(|(_, given)| *given) {
        return Err(usage(
            format!("`{}` with a plan: it concerns one agent", setting.option()),
            setting.key(),
            "write it into the `[[task]]`",
        ));
    }
    match settings.stdin {
        StdinMode::Pass if count > 1 => Err(usage(
            "`--stdin` with several agents, which cannot share it".to_owned(),
            "stdin",
            "leave it out",
        )),
        StdinMode::Pass | StdinMode::Null => Ok(()),
    }
}

/// What each task follows, by its name.
type After<'a> = BTreeMap<&'a str, &'a [String]>;

/// Pairs of tasks that claim overlapping scopes and may run at once.
fn overlaps(tasks: &[TaskRequest]) -> Vec<String> {
    let after: After<'_> = tasks
        .iter()
        .map(|task| (task.name.as_str(), task.after.as_slice()))
        .collect();
    let mut found = Vec::new();
    for (at, one) in tasks.iter().enumerate() {
        for other in &tasks[at + 1..] {
            let clash = one.paths.iter().find_map(|glob| {
                let met = other
                    .paths
                    .iter()
                    .find(|other| scope::may_overlap(glob, other))?;
                Some((glob, met))
            });
            let ordered = || {
                waits_for(&after, &one.name, &other.name)
                    || waits_for(&after, &other.name, &one.name)
            };
            if let Some((glob, met)) = clash.filter(|_| !ordered()) {
                found.push(format!(
                    "tasks `{}` and `{}` may change the same files: `{glob}` and `{met}` overlap",
                    one.name, other.name
                ));
            }
        }
    }
    found
}

/// Whether `late` follows `early` by `after`, directly or not.
fn waits_for(after: &After<'_>, late: &str, early: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![late];
    while let Some(name) = open.pop() {
        for before in after.get(name).copied().unwrap_or_default() {
            if before == early {
                return true;
            }
            if seen.insert(before.as_str()) {
                open.push(before);
            }
        }
    }
    false
}
