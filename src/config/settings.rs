//! All settings of one run, as one immutable value.
//!
//! Owns the defaults of the contract and the order of the layers: defaults <
//! the repository's file < environment < plan `[run]` < plan `[[task]]` <
//! options. The repository's file is untrusted and may only narrow; that is
//! checked where it is read. Nothing is re-read after this.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::document::Source;
use super::error::{ConfigError, ValueError};
use super::partial::{Author, EnvAsk, PartialSettings};
use super::setting::{Kind, Reach, Setting};
use super::values::DeadlineSpec;
use crate::model::{
    Integrate, Land, LaunchLimits, NetworkAccess, OnConflict, Order, Setup, SetupAuthor, StdinMode,
    WorkspaceChoice,
};

/// What each source says; the later wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layers {
    /// `.cofferdam/config.toml` of the repository.
    pub repository: PartialSettings,
    /// `COFFERDAM_…` variables.
    pub environment: PartialSettings,
    /// `[run]` of the plan.
    pub plan: PartialSettings,
    /// Options of the command line.
    pub options: PartialSettings,
}

/// All settings, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the long option of that name")]
pub struct Settings {
    pub repo: PathBuf,
    pub role: String,
    pub roles: Option<PathBuf>,
    pub task: Option<String>,
    pub brief: Option<PathBuf>,
    pub name: Option<String>,
    pub base: Option<String>,
    pub paths: Vec<String>,
    pub integrate: Integrate,
    pub land: Land,
    pub on_conflict: OnConflict,
    pub setup: Option<Setup>,
    pub verify: Option<String>,
    pub deadline: Option<DeadlineSpec>,
    pub max_depth: u32,
    pub max_total: u32,
    pub max_live: u32,
    pub turns: Option<u64>,
    pub tokens: Option<u64>,
    pub micro_usd: Option<u64>,
    pub memory: Option<u64>,
    pub procs: Option<u64>,
    pub disk: Option<u64>,
    pub output: Option<u64>,
    pub network: Option<NetworkAccess>,
    pub workspace: WorkspaceChoice,
    pub carry: Vec<String>,
    pub env: Vec<EnvAsk>,
    pub allow_degraded: Vec<String>,
    pub order: Order,
    pub stdin: StdinMode,
    pub json: bool,
    pub events: Option<PathBuf>,
    pub quiet: bool,
    layers: Layers,
}

impl Default for Settings {
    fn default() -> Self {
        Self::resolve(Layers::default())
    }
}

impl Settings {
    /// Puts the layers over each other.
    #[must_use]
    pub fn resolve(layers: Layers) -> Self {
        Self::with_task(layers, PartialSettings::default())
    }

    /// The settings of one task of a plan: its own keys stand above those of
    /// the run and below the options.
    #[must_use]
    pub fn for_task(&self, task: &PartialSettings) -> Self {
        Self::with_task(self.layers.clone(), task.clone())
    }

    fn with_task(layers: Layers, task: PartialSettings) -> Self {
        let all = layers.clone();
        let person = all.options.over(task).over(all.plan).over(all.environment);
        let by_person = person.setup.is_some();
        let said = person.over(all.repository);
        let setup_author = if by_person {
            SetupAuthor::Person
        } else {
            SetupAuthor::Repository
        };
        let limits = LaunchLimits::default();
        Self {
            repo: said.repo.unwrap_or_else(|| PathBuf::from(".")),
            role: said.role.unwrap_or_else(|| "writer".to_owned()),
            roles: said.roles,
            task: said.task,
            brief: said.brief,
            name: said.name,
            base: said.base,
            paths: said.paths.unwrap_or_default(),
            integrate: said.integrate.unwrap_or(Integrate::Auto),
            land: said.land.unwrap_or(Land::Worktree),
            on_conflict: said.on_conflict.unwrap_or(OnConflict::Hold),
            setup: said
                .setup
                .map(|command| Setup::new(&command, said.setup_wall, setup_author)),
            verify: said.verify,
            deadline: said.deadline,
            max_depth: said.max_depth.unwrap_or(limits.max_depth),
            max_total: said.max_total.unwrap_or(limits.max_total),
            max_live: said.max_live.unwrap_or(limits.max_live),
            turns: said.turns,
            tokens: said.tokens,
            micro_usd: said.micro_usd,
            memory: said.memory,
            procs: said.procs,
            disk: said.disk,
            output: said.output,
            network: said.network,
            workspace: said.workspace.unwrap_or(WorkspaceChoice::Auto),
            carry: said.carry.unwrap_or_default(),
            env: said.env.unwrap_or_default(),
            allow_degraded: said.allow_degraded.unwrap_or_default(),
            order: said.order.unwrap_or(Order::Plan),
            stdin: said.stdin.unwrap_or(StdinMode::Null),
            json: said.json.unwrap_or(false),
            events: said.events,
            quiet: said.quiet.unwrap_or(false),
            layers,
        }
    }

    /// What the options alone say.
    #[must_use]
    pub fn options(&self) -> &PartialSettings {
        &self.layers.options
    }
}

/// Reads the settings file of a repository.
///
/// The file belongs to whoever wrote the repository, so it may only narrow.
///
/// # Errors
/// Names file, line and key of what is unknown, wrong or wider.
pub fn repository_layer(file: &Path, text: &str) -> Result<PartialSettings, ConfigError> {
    let source = Source::new(file, text);
    let mut section = source.parse()?;
    let every = [Reach::Run, Reach::Task, Reach::OneAgent];
    let partial = PartialSettings::from_section(&mut section, &every, Author::Repository)?;
    section.finish()?;
    Ok(partial)
}

/// Reads the `COFFERDAM_…` variables that are settings.
///
/// Lists hold one entry a line; `allow_degraded` may separate by commas too.
/// Other variables of that prefix are not looked at: some inform agents, some
/// belong to other tools.
///
/// # Errors
/// Names the variable of what is wrong.
pub fn environment_layer(
    variables: &BTreeMap<OsString, OsString>,
) -> Result<PartialSettings, ConfigError> {
    let mut partial = PartialSettings::default();
    for setting in Setting::ALL {
        let Some(variable) = setting.variable() else {
            continue;
        };
        let Some(value) = variables.get(OsStr::new(&variable)) else {
            continue;
        };
        let text = value
            .to_str()
            .ok_or_else(|| ValueError::new(&variable, "UTF-8", &value.to_string_lossy()))?;
        match setting.kind() {
            Kind::List | Kind::Variables => {
                let separators: &[char] = if *setting == Setting::AllowDegraded {
                    &['\n', ',']
                } else {
                    &['\n']
                };
                for entry in text.split(separators).filter(|entry| !entry.is_empty()) {
                    partial.set(*setting, &variable, entry)?;
                }
            }
            Kind::Text | Kind::Count | Kind::Size | Kind::Money | Kind::Flag => {
                partial.set(*setting, &variable, text)?;
            }
        }
    }
    Ok(partial)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn repository(text: &str) -> Result<PartialSettings, ConfigError> {
        repository_layer(Path::new(".cofferdam/config.toml"), text)
    }

    #[test]
    fn the_defaults_are_those_of_the_contract() {
        let settings = Settings::default();
        assert_eq!(
            (settings.max_depth, settings.max_total, settings.max_live),
            (2, 16, 4)
        );
        assert_eq!(settings.role, "writer");
        assert_eq!(
            (settings.integrate, settings.land, settings.on_conflict),
            (Integrate::Auto, Land::Worktree, OnConflict::Hold)
        );
        assert_eq!(settings.network, None);
        assert_eq!(settings.turns, None);
    }

    #[test]
    fn each_layer_wins_over_the_one_below() {
        let layer = |live| PartialSettings {
            max_live: live,
            ..PartialSettings::default()
        };
        let mut layers = Layers {
            repository: layer(Some(1)),
            ..Layers::default()
        };
        assert_eq!(Settings::resolve(layers.clone()).max_live, 1);
        layers.environment = layer(Some(2));
        assert_eq!(Settings::resolve(layers.clone()).max_live, 2);
        layers.plan = layer(Some(3));
        let settings = Settings::resolve(layers.clone());
        assert_eq!(settings.max_live, 3);
        assert_eq!(settings.for_task(&layer(Some(5))).max_live, 5);
        layers.options = layer(Some(9));
        assert_eq!(
            Settings::resolve(layers).for_task(&layer(Some(5))).max_live,
            9
        );
    }

    #[test]
    fn a_set_up_command_is_told_apart_by_who_wrote_it() {
        let said = |command: &str| PartialSettings {
            setup: Some(command.to_owned()),
            ..PartialSettings::default()
        };
        let mut layers = Layers {
            repository: repository("setup = \"npm ci\"\nsetup_wall = \"90s\"\n")
                .expect("because a repository may name one"),
            ..Layers::default()
        };
        let wall = Some(Duration::from_secs(90));
        assert_eq!(
            Settings::resolve(layers.clone()).setup,
            Some(Setup::new("npm ci", wall, SetupAuthor::Repository))
        );
        layers.environment = said("");
        assert_eq!(
            Settings::resolve(layers).setup,
            Some(Setup::new("", wall, SetupAuthor::Person))
        );
        let error = repository("setup = \"  \"").expect_err("because it says nothing");
        assert_eq!((error.key(), error.line()), (Some("setup"), Some(1)));
    }

    #[test]
    fn an_unknown_key_is_refused_with_file_line_and_key() {
        let error =
            repository("max_live = 2\n\nmax_lives = 3\n").expect_err("because the key is unknown");
        assert_eq!(error.path(), Some(Path::new(".cofferdam/config.toml")));
        assert_eq!((error.line(), error.key()), (Some(3), Some("max_lives")));
        assert_eq!(error.exit_code().number(), 2);
    }

    #[test]
    fn a_repository_may_narrow() {
        let partial = repository(
            "max_depth = 0\nmax_total = 16\nmax_live = 2\nintegrate = \"hold\"\npaths = [\"docs/**\"]\nmemory = \"1GiB\"\ndeadline = \"10m\"\non_conflict = \"hold\"\n",
        )
        .expect("because nothing is wider");
        assert_eq!(partial.max_depth, Some(0));
        assert_eq!(partial.integrate, Some(Integrate::Hold));
        assert_eq!(partial.memory, Some(1 << 30));
    }

    #[test]
    fn a_repository_can_not_widen() {
        for (text, key) in [
            ("max_depth = 3", "max_depth"),
            ("max_total = 17", "max_total"),
            ("max_live = 5", "max_live"),
            ("allow_degraded = [\"landlock\"]", "allow_degraded"),
            ("allow_degraded = []", "allow_degraded"),
            ("network = \"open\"", "network"),
            ("env = [\"HOME\"]", "env"),
            ("verify = \"sh evil.sh\"", "verify"),
            ("on_conflict = \"theirs\"", "on_conflict"),
            ("land = \"commit\"", "land"),
            ("role = \"other\"", "role"),
            ("roles = \"x.toml\"", "roles"),
            ("carry = [\".env\"]", "carry"),
            ("repo = \"/\"", "repo"),
            ("stdin = true", "stdin"),
            ("json = true", "json"),
            ("events = \"/x\"", "events"),
        ] {
            let error = repository(text).expect_err("because it is wider");
            assert_eq!((error.key(), error.line()), (Some(key), Some(1)), "{text}");
        }
    }

    #[test]
    fn wrong_values_of_a_file_are_refused_by_line() {
        for text in [
            "\nmax_live = \"2\"",
            "\nmax_live = 0",
            "\nmax_live = -1",
            "\nmax_live = 1.0",
            "\nmax_live = 99999999999999999999",
            "\nmax_live = true",
            "\nmax_depth = \"abc\"",
            "\nturns = 0",
            "\nmemory = \"4G\"",
            "\nmemory = -4",
            "\npaths = \"docs\"",
            "\npaths = [\"../x\"]",
            "\ndeadline = 10",
            "\nintegrate = \"later\"",
            "\nusd = \"5\"",
            "\n= 3",
        ] {
            let error = repository(text).expect_err("because the value is wrong");
            assert_eq!(
                (error.line(), error.exit_code().number()),
                (Some(2), 2),
                "{text} {error}"
            );
        }
    }

    #[test]
    fn variables_are_settings_unless_they_inform_agents() {
        let variables = [
            ("COFFERDAM_MAX_LIVE", "3"),
            ("COFFERDAM_ALLOW_DEGRADED", "landlock,mounts"),
            ("COFFERDAM_PATHS", "a/**\nb/{c,d}"),
            ("COFFERDAM_ROLE", "reader"),
            ("COFFERDAM_DEADLINE", "2001-01-01T00:00:00Z"),
            ("COFFERDAM_REPO", "/elsewhere"),
            ("COFFERDAM_BRIEF", "/brief"),
            ("COFFERDAM_STATE_DIR", "/state"),
        ];
        let variables = variables
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let partial = environment_layer(&variables).expect("because all values are right");
        assert_eq!(
            partial,
            PartialSettings {
                max_live: Some(3),
                allow_degraded: Some(vec!["landlock".into(), "mounts".into()]),
                paths: Some(vec!["a/**".into(), "b/{c,d}".into()]),
                ..PartialSettings::default()
            }
        );
        let wrong = BTreeMap::from([("COFFERDAM_MAX_LIVE".into(), "0".into())]);
        let error = environment_layer(&wrong).expect_err("because zero is no limit");
        assert_eq!(error.key(), Some("COFFERDAM_MAX_LIVE"));
    }
}
