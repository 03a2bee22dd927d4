//! The grammar of the command line.
//!
//! Owns names and help texts only. Values stay text: `config/` parses them,
//! so that a file, a variable and a flag are held to the same rules and
//! answer with the same words.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A temporary, watertight enclosure for coding agents that write.
#[derive(Debug, Parser)]
#[command(name = "cofferdam", version, about, disable_help_subcommand = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the whole job on a throw-away repository, and prove each claim
    Demo(DemoArgs),
    /// Run one agent, or a plan of many, and integrate what they changed
    Run(Box<RunArgs>),
    /// List runs and what they left
    Ls(LsArgs),
    /// Show everything about an agent or a run
    Show(IdArgs),
    /// Show what an agent changed
    Diff(IdArgs),
    /// Show what happened, event by event
    Log(LogArgs),
    /// Land a result that waits
    Apply(ApplyArgs),
    /// Drop a result that waits
    Discard(DiscardArgs),
    /// Reclaim what dead runs left and results past their keep time
    Gc(GcArgs),
    /// Try what this machine enforces, and recover dead runs
    Doctor(DoctorArgs),
    /// Print the roles and their contracts
    Roles(RolesArgs),
}

impl Command {
    /// Whether the answer is to be one JSON document, on failure too.
    pub(super) fn wants_json(&self) -> bool {
        match self {
            Self::Demo(_) => false,
            Self::Run(args) => args.json,
            Self::Ls(args) => args.json,
            Self::Show(args) | Self::Diff(args) => args.json,
            Self::Log(args) => args.json,
            Self::Apply(args) => args.json,
            Self::Discard(args) => args.json,
            Self::Gc(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Roles(args) => args.json,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Keep the sample repository and say where it is
    #[arg(long)]
    pub(super) keep: bool,
}

#[derive(Debug, Args, Default)]
pub(super) struct RunArgs {
    /// Use the repository around this directory instead of the current one
    #[arg(long, value_name = "DIR")]
    pub(super) repo: Option<PathBuf>,
    /// Give the agent this role [default: writer]
    #[arg(long, value_name = "NAME")]
    pub(super) role: Option<String>,
    /// Read roles from this file
    #[arg(long, value_name = "FILE")]
    pub(super) roles: Option<PathBuf>,
    /// Brief the agent with this text
    #[arg(long, value_name = "TEXT", conflicts_with = "brief")]
    pub(super) task: Option<String>,
    /// Brief the agent with this file
    #[arg(long, value_name = "FILE")]
    pub(super) brief: Option<PathBuf>,
    /// Label the agent
    #[arg(long, value_name = "LABEL")]
    pub(super) name: Option<String>,
    /// Start from this revision instead of the working tree as it stands
    #[arg(long, value_name = "REV")]
    pub(super) base: Option<String>,
    /// Let the agent change only these paths
    #[arg(long, value_name = "GLOB")]
    pub(super) paths: Vec<String>,
    /// Land results by themselves, hold them, or never land them [default: auto]
    #[arg(long, value_name = "auto|hold|never")]
    pub(super) integrate: Option<String>,
    /// Land in the worktree or on a branch [default: worktree]
    #[arg(long, value_name = "worktree|branch[=NAME]")]
    pub(super) land: Option<String>,
    /// Decide what happens to a result that conflicts [default: hold]
    #[arg(long, value_name = "hold|markers|ours|theirs")]
    pub(super) on_conflict: Option<String>,
    /// Make each workspace ready with this shell command, confined as its agent;
    /// an empty one runs none
    #[arg(long, value_name = "CMD")]
    pub(super) setup: Option<String>,
    /// Give the set-up command this time [default: 10m]
    #[arg(long, value_name = "DURATION")]
    pub(super) setup_wall: Option<String>,
    /// Approve the repository's set-up command that has this hash
    #[arg(long, value_name = "HASH")]
    pub(super) approve_setup: Vec<String>,
    /// Land only what this shell command accepts
    #[arg(long, value_name = "CMD")]
    pub(super) verify: Option<String>,
    /// End everything at this instant or after this time
    #[arg(long, value_name = "10m|RFC3339")]
    pub(super) deadline: Option<String>,
    /// Let agents exist at depths 0 to N [default: 2]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) max_depth: Option<String>,
    /// Start at most N agents in the run's whole life [default: 16]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) max_total: Option<String>,
    /// Run at most N agents at once [default: 4]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) max_live: Option<String>,
    /// Give each agent N turns
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) turns: Option<String>,
    /// Give the run N tokens
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) tokens: Option<String>,
    /// Give the run this much money
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(super) usd: Option<String>,
    /// Limit memory [default: half of the machine's]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) memory: Option<String>,
    /// Limit processes and threads [default: 4096]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) procs: Option<String>,
    /// Limit the copy and private directories [default: half of the free disk]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) disk: Option<String>,
    /// Limit what is printed [default: 1GiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) output: Option<String>,
    /// Narrow what the agent reaches over the network [default: what the role says]
    #[arg(long, value_name = "none|gateway|open")]
    pub(super) network: Option<String>,
    /// Choose how workspaces are made [default: auto]
    #[arg(long, value_name = "auto|overlay|reflink|checkout")]
    pub(super) workspace: Option<String>,
    /// Copy these ignored files into the workspace
    #[arg(long, value_name = "GLOB")]
    pub(super) carry: Vec<String>,
    /// Copy this variable, or set it
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<String>,
    /// Do without this layer or guarantee; recorded with the run
    #[arg(long, value_name = "NAME")]
    pub(super) allow_degraded: Vec<String>,
    /// Pass standard input to the agent
    #[arg(long)]
    pub(super) stdin: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Write one event a line as it happens; `-` is standard output
    #[arg(long, value_name = "FILE|-")]
    pub(super) events: Option<PathBuf>,
    /// Print nothing but errors and the agents' own output
    #[arg(long)]
    pub(super) quiet: bool,
    /// A plan file, or the command after `--`
    #[arg(value_name = "PLAN.toml")]
    pub(super) plan: Option<PathBuf>,
    /// The agent's command
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// List every run on record, with every ref and directory that is kept
    #[arg(long)]
    pub(super) all: bool,
    /// Use the repository around this directory instead of the current one
    #[arg(long, value_name = "DIR")]
    pub(super) repo: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct IdArgs {
    /// An agent's id or a unique prefix of it, or a run's
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// An agent's or a run's id, or a unique prefix of it
    #[arg(value_name = "ID")]
    pub(super) id: Option<String>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// An agent's id or a unique prefix of it, or a run's with one agent
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// Decide what happens where it conflicts [default: hold]
    #[arg(long, value_name = "hold|markers|ours|theirs")]
    pub(super) on_conflict: Option<String>,
    /// Land in the worktree or on a branch [default: worktree]
    #[arg(long, value_name = "worktree|branch[=NAME]")]
    pub(super) land: Option<String>,
    /// Land only what this shell command accepts
    #[arg(long, value_name = "CMD")]
    pub(super) verify: Option<String>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DiscardArgs {
    /// An agent's id or a unique prefix of it, or a run's with one agent
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct GcArgs {
    /// Forget results that ended longer ago than this [default: 7d]
    #[arg(long, value_name = "DUR", allow_hyphen_values = true)]
    pub(super) older: Option<String>,
    /// Use the repository around this directory instead of the current one
    #[arg(long, value_name = "DIR")]
    pub(super) repo: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Recover what dead runs left
    #[arg(long)]
    pub(super) repair: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RolesArgs {
    #[command(subcommand)]
    pub(super) command: RolesCommand,
    /// Read roles from this file
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) roles: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum RolesCommand {
    /// List the roles
    List,
    /// Print the worst that an agent of a role can do here, in words and as kernel policy
    Explain {
        /// The role
        name: String,
        /// Do without this layer or guarantee, as a run with it would
        #[arg(long, value_name = "NAME")]
        allow_degraded: Vec<String>,
    },
    /// Print a role's whole contract
    Show {
        /// The role
        name: String,
    },
}
