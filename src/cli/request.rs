//! From arguments and files to a request.
//!
//! Owns the order in which the layers of settings are read: defaults, the
//! repository's file, the environment, the plan, the options. What each may
//! say and what wins is decided in `config/`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args::RunArgs;
use super::failure::Failure;
use crate::config::{
    self, Asked, Assembled, ConfigError, Layers, PartialSettings, Plan, Setting, Settings,
    Surroundings,
};
use crate::model::{Clock as _, StdinMode, SystemClock};

/// What a run is made from.
pub(super) struct Parts<'a> {
    /// The repository's top directory.
    pub(super) top: &'a Path,
    /// The caller's directory.
    pub(super) cwd: &'a Path,
    /// The caller's environment.
    pub(super) variables: BTreeMap<OsString, OsString>,
    /// The options.
    pub(super) options: PartialSettings,
    /// What is to be run.
    pub(super) work: Work,
}

/// What is to be run.
pub(super) enum Work {
    /// One command.
    Command(Vec<OsString>),
    /// A plan file.
    Plan(PathBuf),
}

/// How the run is shown, whichever layer said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Faces {
    /// Whether the answer is one JSON document.
    pub(super) json: bool,
    /// Where events go.
    pub(super) events: Option<PathBuf>,
    /// Whether only errors and the agents' own output are shown.
    pub(super) quiet: bool,
}

/// Reads every layer and makes the request.
///
/// The repository's directory is given by `top`: what a layer says of it was
/// looked at before, when the repository was opened.
pub(super) fn assemble(parts: Parts<'_>) -> Result<(Assembled, Faces), ConfigError> {
    let plan: Option<Plan> = match &parts.work {
        Work::Plan(path) => Some(config::load_plan(&parts.cwd.join(path))?),
        Work::Command(_) => None,
    };
    let layers = Layers {
        repository: config::load_repository_settings(parts.top)?,
        environment: config::environment_layer(&parts.variables)?,
        plan: plan
            .as_ref()
            .map(|plan| plan.run.clone())
            .unwrap_or_default(),
        options: parts.options,
    };
    let settings = Settings::resolve(layers);
    let roles = config::load_roles(parts.top, settings.roles.as_deref())?;
    let brief = settings
        .brief
        .as_deref()
        .map(|path| config::load_brief(&parts.cwd.join(path)))
        .transpose()?;
    let command = match parts.work {
        Work::Command(command) => command,
        Work::Plan(_) => Vec::new(),
    };
    let asked = match plan {
        Some(plan) => Asked::Plan(Box::new(plan)),
        None => Asked::Command { command, brief },
    };
    let around = Surroundings {
        cwd: parts.cwd.to_owned(),
        now: SystemClock.now(),
        variables: parts.variables,
    };
    let faces = Faces {
        json: settings.json,
        events: settings.events.clone(),
        quiet: settings.quiet,
    };
    let mut assembled = config::assemble(asked, &settings, &roles, &around)?;
    parts.top.clone_into(&mut assembled.request.repo);
    Ok((assembled, faces))
}

/// The options as a layer of settings.
pub(super) fn options(args: &RunArgs) -> Result<PartialSettings, Failure> {
    let single = [
        (Setting::Role, &args.role),
        (Setting::Task, &args.task),
        (Setting::Name, &args.name),
        (Setting::Base, &args.base),
        (Setting::Integrate, &args.integrate),
        (Setting::Land, &args.land),
        (Setting::OnConflict, &args.on_conflict),
        (Setting::Setup, &args.setup),
        (Setting::SetupWall, &args.setup_wall),
        (Setting::Verify, &args.verify),
        (Setting::Deadline, &args.deadline),
        (Setting::MaxDepth, &args.max_depth),
        (Setting::MaxTotal, &args.max_total),
        (Setting::MaxLive, &args.max_live),
        (Setting::Turns, &args.turns),
        (Setting::Tokens, &args.tokens),
        (Setting::Usd, &args.usd),
        (Setting::Memory, &args.memory),
        (Setting::Procs, &args.procs),
        (Setting::Disk, &args.disk),
        (Setting::Output, &args.output),
        (Setting::Network, &args.network),
        (Setting::Workspace, &args.workspace),
    ];
    let lists = [
        (Setting::Paths, &args.paths),
        (Setting::Carry, &args.carry),
        (Setting::Env, &args.env),
        (Setting::AllowDegraded, &args.allow_degraded),
    ];
    let mut layer = PartialSettings::default();
    for (setting, value) in single {
        if let Some(text) = value {
            layer
                .set(setting, &setting.option(), text)
                .map_err(ConfigError::from)?;
        }
    }
    for (setting, values) in lists {
        for text in values {
            layer
                .set(setting, &setting.option(), text)
                .map_err(ConfigError::from)?;
        }
    }
    layer.roles.clone_from(&args.roles);
    layer.brief.clone_from(&args.brief);
    layer.events.clone_from(&args.events);
    // Not given is not "no": a plan may say so.
    layer.json = args.json.then_some(true);
    layer.quiet = args.quiet.then_some(true);
    if args.stdin {
        layer.stdin = Some(StdinMode::Pass);
    }
    Ok(layer)
}
