//! What a policy is made from, and why it may not be made.
//!
//! Owns the facts that are handed in: the machine's are looked up by a
//! function of the caller's, so that this room stays free of files. Plain
//! data; nothing is decided here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cofferdam_sandbox::Enforcement;

use super::guarantees::{Shortfall, Waivers};
use super::limits::Room;
use crate::model::{AgentId, Contract, Deadline, EnvEntry, ResourceLimits, RunId, View};

/// What stands at a path of the host, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or a link that leads nowhere.
    Nothing,
    /// A directory.
    Directory,
    /// A file, a device, or a link that leads somewhere.
    Other,
}

/// What is known of the machine and of the person.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The person's home directory, links resolved.
    pub home: &'a Path,
    /// The program's own executable.
    pub own_exe: &'a Path,
    /// Where the launcher keeps runs, records and other agents' files.
    pub state: &'a Path,
    /// The repository's real checkout.
    pub checkout: &'a Path,
    /// What of the system's settings others may not read. The superuser could,
    /// and with that an agent of the superuser's.
    pub private_settings: &'a [PathBuf],
    /// The settings that hold nothing of that, the topmost of them, where the
    /// launcher is the superuser; `None` where the kernel keeps it from the rest.
    pub open_settings: Option<&'a [PathBuf]>,
    /// Files within toolchains that may log the person in, links resolved.
    pub login_files: &'a [PathBuf],
    /// The directories at the top of the file system.
    pub top_level: &'a [PathBuf],
    /// Sockets of the host that have a path, links resolved.
    pub sockets: &'a [PathBuf],
    /// The launcher's environment.
    pub variables: &'a BTreeMap<OsString, OsString>,
    /// Looks at a path of the host.
    pub look: &'a dyn Fn(&Path) -> Found,
    /// A path of the host without links, as far as there is something.
    pub resolve: &'a dyn Fn(&Path) -> PathBuf,
}

impl std::fmt::Debug for Host<'_> {
    // The environment may hold secrets, so it is not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("home", &self.home)
            .field("own_exe", &self.own_exe)
            .finish_non_exhaustive()
    }
}

impl Host<'_> {
    pub(super) fn exists(&self, path: &Path) -> bool {
        match (self.look)(path) {
            Found::Nothing => false,
            Found::Directory | Found::Other => true,
        }
    }

    pub(super) fn is_directory(&self, path: &Path) -> bool {
        match (self.look)(path) {
            Found::Directory => true,
            Found::Nothing | Found::Other => false,
        }
    }
}

/// What an agent is told about itself; it only informs.
#[derive(Debug, Clone, Copy)]
pub struct AgentFacts<'a> {
    /// Its run.
    pub run: &'a RunId,
    /// Its id.
    pub agent: &'a AgentId,
    /// Its label.
    pub name: &'a str,
    /// How many ancestors it has.
    pub depth: u32,
    /// When it must have ended.
    pub deadline: Option<Deadline>,
    /// The file that holds its brief, as it sees it.
    pub brief: &'a Path,
    /// The file that tells it what it was denied, as it sees it.
    pub denials: &'a Path,
    /// A port of its own.
    pub port: u16,
}

/// A cache of the person's that the agent builds upon; see `toolchains`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheMount {
    /// The person's, links resolved.
    pub lower: PathBuf,
    /// The agent's own directory for what it changes.
    pub upper: PathBuf,
    /// What the kernel needs besides.
    pub work: PathBuf,
    /// Where the agent sees it, in its private home.
    pub target: PathBuf,
}

/// Everything that decides the policy of one agent.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// What it may do.
    pub contract: &'a Contract,
    /// How it sees its workspace.
    pub view: &'a View,
    /// What is executed.
    pub command: &'a [OsString],
    /// Where it starts: the view's root or beneath it.
    pub cwd: &'a Path,
    /// Variables beyond the allow-list.
    pub env: &'a [EnvEntry],
    /// What it is told about itself.
    pub agent: AgentFacts<'a>,
    /// Caches that it builds upon; those that exist.
    pub caches: &'a [CacheMount],
    /// The machine and the person.
    pub host: Host<'a>,
    /// What was given up by name.
    pub waivers: &'a Waivers,
    /// What the machine achieved when it was tried.
    pub enforcement: &'a Enforcement,
    /// Limits on the machine's resources.
    pub limits: ResourceLimits,
    /// What the machine has, and what of it the agent fills.
    pub room: Room<'a>,
}

/// Why there is no policy; nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The machine does not hold what is promised, and it was not given up.
    #[error("hold what is promised: {}", list(.0))]
    Short(Vec<Shortfall>),
    /// The view mounts, and mounts were given up.
    #[error(
        "show the workspace: its view is mounted and the layer `mounts` is waived; make the workspace in place"
    )]
    MountsWaived,
    /// The command would start outside its workspace.
    #[error("start in `{}`: it is outside the workspace `{}`", cwd.display(), root.display())]
    CwdOutside {
        /// The directory.
        cwd: PathBuf,
        /// The workspace as the agent sees it.
        root: PathBuf,
    },
    /// There is nothing to execute.
    #[error("find a program: the command is empty")]
    NoProgram,
    /// The network asked for needs a part that does not exist.
    #[error("reach a gateway: there is none yet")]
    NoGateway,
}

fn list(shortfalls: &[Shortfall]) -> String {
    let words: Vec<String> = shortfalls.iter().map(ToString::to_string).collect();
    words.join("; ")
}
