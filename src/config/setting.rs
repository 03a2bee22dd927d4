//! The table of settings.
//!
//! Owns the names of all settings and, for each, how its value is written,
//! where it may stand and what a repository's own file may do with it. The
//! long option, the key and the variable of a setting are one name in three
//! spellings. Values are parsed in `partial`; nothing is read here.
//!
//! To add a setting: one line in the table, one field in `PartialSettings`.

/// How a value is written in TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// A whole number.
    Count,
    /// A whole number or a string with a unit.
    Size,
    /// A number, decimals allowed.
    Money,
    /// `true` or `false`.
    Flag,
    /// A list of strings.
    List,
    /// A table of names and values, or a list of `NAME` and `NAME=VALUE`.
    Variables,
}

/// Where a setting may stand in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It concerns the whole run.
    Run,
    /// It may also be set for one task.
    Task,
    /// It only makes sense for one agent.
    OneAgent,
}

/// What the repository's own settings file may do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InRepository {
    /// No value is wider than another.
    Free,
    /// Only a value that is not wider than the default.
    Narrower,
    /// Nothing.
    Never,
}

macro_rules! settings {
    ($($name:ident $key:literal $kind:ident $reach:ident $rule:ident,)*) => {
        /// One setting.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is the long option of that name, documented there")]
        pub enum Setting { $($name,)* }

        impl Setting {
            /// Every setting, in the order of the contract.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in files: the long option in snake case.
            #[must_use]
            pub fn key(self) -> &'static str {
                match self { $(Self::$name => $key,)* }
            }

            pub(crate) fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)* }
            }

            pub(crate) fn reach(self) -> Reach {
                match self { $(Self::$name => Reach::$reach,)* }
            }

            pub(crate) fn in_repository(self) -> InRepository {
                match self { $(Self::$name => InRepository::$rule,)* }
            }
        }
    };
}

settings! {
    Repo          "repo"           Text      Run      Never,
    Role          "role"           Text      Task     Never,
    Roles         "roles"          Text      Run      Never,
    Task          "task"           Text      OneAgent Never,
    Brief         "brief"          Text      OneAgent Never,
    Name          "name"           Text      OneAgent Never,
    Base          "base"           Text      Run      Never,
    Paths         "paths"          List      Task     Free,
    Integrate     "integrate"      Text      Task     Narrower,
    Land          "land"           Text      Task     Never,
    OnConflict    "on_conflict"    Text      Task     Narrower,
    Setup         "setup"          Text      Task     Free,
    SetupWall     "setup_wall"     Text      Task     Free,
    Verify        "verify"         Text      Task     Never,
    Deadline      "deadline"       Text      Task     Free,
    MaxDepth      "max_depth"      Count     Run      Narrower,
    MaxTotal      "max_total"      Count     Run      Narrower,
    MaxLive       "max_live"       Count     Run      Narrower,
    Turns         "turns"          Count     Task     Free,
    Tokens        "tokens"         Count     Task     Free,
    Usd           "usd"            Money     Task     Free,
    Memory        "memory"         Size      Task     Free,
    Procs         "procs"          Count     Task     Free,
    Disk          "disk"           Size      Task     Free,
    Output        "output"         Size      Task     Free,
    Network       "network"        Text      Task     Never,
    Workspace     "workspace"      Text      Run      Free,
    Carry         "carry"          List      Task     Never,
    Env           "env"            Variables Task     Never,
    AllowDegraded "allow_degraded" List      Run      Never,
    Order         "order"          Text      Run      Free,
    Stdin         "stdin"          Flag      Run      Never,
    Json          "json"           Flag      Run      Never,
    Events        "events"         Text      Run      Never,
    Quiet         "quiet"          Flag      Run      Never,
}

/// Variables that are set for agents and must not steer a launcher that one
/// of them starts.
const SET_FOR_AGENTS: [Setting; 4] = [
    Setting::Repo,
    Setting::Role,
    Setting::Deadline,
    Setting::Brief,
];

impl Setting {
    /// The long option, as `--max-depth`.
    #[must_use]
    pub fn option(self) -> String {
        format!("--{}", self.key().replace('_', "-"))
    }

    /// The variable, as `COFFERDAM_MAX_DEPTH`; `None` where that name is one
    /// of those that inform agents.
    #[must_use]
    pub fn variable(self) -> Option<String> {
        (!SET_FOR_AGENTS.contains(&self))
            .then(|| format!("COFFERDAM_{}", self.key().to_ascii_uppercase()))
    }

    /// The setting of that key; `None` where there is none.
    #[must_use]
    pub fn named(key: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|setting| setting.key() == key)
    }
}
