//! One layer of settings: what one source says, and nothing about the rest.
//!
//! Owns the typed value of each setting and the one way from text to it, so
//! that a file, a variable and an option accept exactly the same values. A
//! layer knows no defaults; layers are put over each other here and become
//! one immutable value in `settings`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::document::{Item, Section};
use super::error::{ConfigError, ValueError};
use super::setting::{InRepository, Kind, Reach, Setting};
use super::values::{
    DeadlineSpec, parse_count, parse_depth, parse_duration, parse_size, parse_small_count,
    parse_usd, parse_word,
};
use super::words;
use crate::model::{Integrate, Land, NetworkAccess, OnConflict, Order, StdinMode, WorkspaceChoice};

/// A variable that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvAsk {
    /// The launcher's own value is copied.
    Copy(String),
    /// This value is set.
    Set(String, OsString),
}

macro_rules! partial {
    ($($field:ident: $type:ty,)*) => {
        /// What one source says about the settings.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each field is the long option of that name")]
        pub struct PartialSettings { $(pub $field: Option<$type>,)* }

        impl PartialSettings {
            /// This layer over a lower one: what this one says wins, lists as a whole.
            #[must_use]
            pub fn over(self, lower: Self) -> Self {
                Self { $($field: self.$field.or(lower.$field),)* }
            }
        }
    };
}

partial! {
    repo: PathBuf,
    role: String,
    roles: PathBuf,
    task: String,
    brief: PathBuf,
    name: String,
    base: String,
    paths: Vec<String>,
    integrate: Integrate,
    land: Land,
    on_conflict: OnConflict,
    setup: String,
    setup_wall: Duration,
    verify: String,
    deadline: DeadlineSpec,
    max_depth: u32,
    max_total: u32,
    max_live: u32,
    turns: u64,
    tokens: u64,
    micro_usd: u64,
    memory: u64,
    procs: u64,
    disk: u64,
    output: u64,
    network: NetworkAccess,
    workspace: WorkspaceChoice,
    carry: Vec<String>,
    env: Vec<EnvAsk>,
    allow_degraded: Vec<String>,
    order: Order,
    stdin: StdinMode,
    json: bool,
    events: PathBuf,
    quiet: bool,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The person who starts the run.
    Person,
    /// Whoever wrote the repository: it may only narrow.
    Repository,
}

impl PartialSettings {
    /// Sets one setting from text; a list gets one more entry.
    ///
    /// `key` is how the person wrote it, for the message.
    ///
    /// # Errors
    /// Names what was expected of `key`.
    pub fn set(&mut self, setting: Setting, key: &str, text: &str) -> Result<(), ValueError> {
        match setting {
            Setting::Repo => self.repo = Some(filled(key, text)?.into()),
            Setting::Role => self.role = Some(filled(key, text)?),
            Setting::Roles => self.roles = Some(filled(key, text)?.into()),
            Setting::Task => self.task = Some(filled(key, text)?),
            Setting::Brief => self.brief = Some(filled(key, text)?.into()),
            Setting::Name => self.name = Some(words::label(key, text)?),
            Setting::Base => self.base = Some(words::revision(key, text)?),
            Setting::Paths => push(&mut self.paths, words::glob(key, text)?),
            Setting::Integrate => self.integrate = Some(parse_word(key, text, &words::INTEGRATE)?),
            Setting::Land => self.land = Some(words::land(key, text)?),
            Setting::OnConflict => {
                self.on_conflict = Some(parse_word(key, text, &words::ON_CONFLICT)?);
            }
            Setting::Setup => self.setup = Some(words::setup(key, text)?),
            Setting::SetupWall => self.setup_wall = Some(parse_duration(key, text)?),
            Setting::Verify => self.verify = Some(filled(key, text)?),
            Setting::Deadline => self.deadline = Some(DeadlineSpec::parse(key, text)?),
            Setting::MaxDepth => self.max_depth = Some(parse_depth(key, text)?),
            Setting::MaxTotal => self.max_total = Some(parse_small_count(key, text)?),
            Setting::MaxLive => self.max_live = Some(parse_small_count(key, text)?),
            Setting::Turns => self.turns = Some(parse_count(key, text)?),
            Setting::Tokens => self.tokens = Some(parse_count(key, text)?),
            Setting::Usd => self.micro_usd = Some(parse_usd(key, text)?),
            Setting::Memory => self.memory = Some(parse_size(key, text)?),
            Setting::Procs => self.procs = Some(parse_count(key, text)?),
            Setting::Disk => self.disk = Some(parse_size(key, text)?),
            Setting::Output => self.output = Some(parse_size(key, text)?),
            Setting::Network => self.network = Some(parse_word(key, text, &words::NETWORK)?),
            Setting::Workspace => self.workspace = Some(parse_word(key, text, &words::WORKSPACE)?),
            Setting::Carry => push(&mut self.carry, words::glob(key, text)?),
            Setting::Env => push(&mut self.env, words::variable(key, text)?),
            Setting::AllowDegraded => push(&mut self.allow_degraded, filled(key, text)?),
            Setting::Order => self.order = Some(parse_word(key, text, &words::ORDER)?),
            Setting::Stdin => {
                self.stdin = Some(match parse_word(key, text, &words::FLAG)? {
                    true => StdinMode::Pass,
                    false => StdinMode::Null,
                });
            }
            Setting::Json => self.json = Some(parse_word(key, text, &words::FLAG)?),
            Setting::Events => self.events = Some(filled(key, text)?.into()),
            Setting::Quiet => self.quiet = Some(parse_word(key, text, &words::FLAG)?),
        }
        Ok(())
    }

    /// Takes the settings out of a section; other keys stay in it.
    pub(crate) fn from_section(
        section: &mut Section<'_>,
        reaches: &[Reach],
        author: Author,
    ) -> Result<Self, ConfigError> {
        let mut partial = Self::default();
        for setting in Setting::ALL {
            if !reaches.contains(&setting.reach()) {
                continue;
            }
            if let Some(item) = section.take(setting.key()) {
                partial.set_item(*setting, item, author)?;
            }
        }
        Ok(partial)
    }

    fn set_item(
        &mut self,
        setting: Setting,
        item: Item<'_>,
        author: Author,
    ) -> Result<(), ConfigError> {
        let key = setting.key();
        match author {
            Author::Person => {}
            Author::Repository => refuse_in_repository(setting, &item)?,
        }
        let texts = match setting.kind() {
            Kind::Text => vec![item.text()?],
            Kind::Count => vec![
                item.digits()
                    .ok_or_else(|| item.wrong(&format!("a whole number, found {}", item.kind())))?,
            ],
            Kind::Size => vec![match item.digits() {
                Some(digits) => digits,
                None => item.text()?,
            }],
            Kind::Money => vec![item.number().ok_or_else(|| {
                item.wrong(&format!("an amount in dollars, found {}", item.kind()))
            })?],
            Kind::Flag => vec![item.flag()?.to_string()],
            Kind::List => item.texts()?,
            Kind::Variables if item.is_table() => return self.set_variables(item),
            Kind::Variables => item.texts()?,
        };
        // An empty list is a value of its own: it replaces that of a lower layer.
        self.start_list(setting);
        for text in &texts {
            self.set(setting, key, text)
                .map_err(|error| item.refused(&error))?;
        }
        match author {
            Author::Repository if self.is_wider_than_default(setting) => Err(item.wrong(
                "a value that is not wider than the default: a repository's own file may only narrow",
            )),
            Author::Person | Author::Repository => Ok(()),
        }
    }

    fn set_variables(&mut self, item: Item<'_>) -> Result<(), ConfigError> {
        let mut variables = Vec::new();
        for (name, value) in item.section()?.into_items() {
            words::variable_name("env", &name).map_err(|error| value.refused(&error))?;
            variables.push(EnvAsk::Set(name, value.text()?.into()));
        }
        self.env = Some(variables);
        Ok(())
    }

    fn start_list(&mut self, setting: Setting) {
        let lists = [
            (Setting::Paths, &mut self.paths),
            (Setting::Carry, &mut self.carry),
            (Setting::AllowDegraded, &mut self.allow_degraded),
        ];
        for (list, value) in lists {
            if list == setting {
                *value = Some(Vec::new());
            }
        }
        if setting == Setting::Env {
            self.env = Some(Vec::new());
        }
    }

    /// Whether the value of a setting with [`InRepository::Narrower`] grants
    /// more than what holds without the file.
    fn is_wider_than_default(&self, setting: Setting) -> bool {
        let default = super::Settings::default();
        let wider = [
            (Setting::MaxDepth, self.max_depth > Some(default.max_depth)),
            (Setting::MaxTotal, self.max_total > Some(default.max_total)),
            (Setting::MaxLive, self.max_live > Some(default.max_live)),
            (
                Setting::OnConflict,
                self.on_conflict != Some(default.on_conflict),
            ),
        ];
        wider
            .iter()
            .any(|(checked, wider)| *checked == setting && *wider)
    }
}

fn refuse_in_repository(setting: Setting, item: &Item<'_>) -> Result<(), ConfigError> {
    match setting.in_repository() {
        InRepository::Free | InRepository::Narrower => Ok(()),
        InRepository::Never => Err(ConfigError::Key {
            place: item.place(),
            expected: format!(
                "no `{}`: a repository's own file may only narrow",
                setting.key()
            ),
            hint: match setting.variable() {
                Some(variable) => format!("use `{}` or `{variable}`", setting.option()),
                None => format!("use `{}`", setting.option()),
            },
        }),
    }
}

fn filled(key: &str, text: &str) -> Result<String, ValueError> {
    if text.is_empty() || text.contains('\0') {
        return Err(ValueError::new(key, "a text that is not empty", text));
    }
    Ok(text.to_owned())
}

fn push<T>(list: &mut Option<Vec<T>>, entry: T) {
    list.get_or_insert_default().push(entry);
}
