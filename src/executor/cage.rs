//! From a workspace to the policy of its cage.
//!
//! Owns what an agent's own directory must hold before there is a policy, and
//! the one way in which agents and checks of merged trees get theirs. What is
//! known of the machine is gathered by `host`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use cofferdam_sandbox::{Directories, Enforcement, Layer, Merging, Policy, Status};

use super::caches::{caches, copy_plain_files};
use super::error::{Error, Stage};
use super::host::room;
use super::site::Site;
use super::tool_settings::copy_settings;
use crate::confinement::{self, AgentFacts, Input, Waivers};
use crate::git::Repository;
use crate::model::{AgentId, Brief, Contract, Deadline, EnvEntry, ResourceLimits, RunId, ViewMode};
use crate::workspace::{self, Workspace};

/// The file in an agent's directory that holds its brief.
const BRIEF: &str = "brief.json";
/// The file in an agent's directory that tells it what it was denied: one
/// document a line, appended while it runs. A rule binds what it was made for,
/// so the file stays the same one.
pub(super) const DENIALS: &str = "denials.jsonl";
/// Ports that agents are told are their own start here.
const FIRST_PORT: u16 = 20_000;
const PORTS: u64 = 20_000;

/// What a machine enforces and what the person gave up.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) enforcement: Enforcement,
    pub(super) waivers: Waivers,
    /// Whether directories can be merged where agents' files lie, or why not.
    pub(super) merges: Result<(), String>,
}

impl Machine {
    /// Tries what the machine enforces, and in the same helper whether
    /// directories can be merged in `directory`.
    pub(super) fn try_in(site: &Site, directory: &Path, waivers: Waivers) -> Result<Self, Error> {
        let (enforcement, merging) = cofferdam_sandbox::probe_merging(&site.helper, directory)
            .map_err(|error| Error::at(Stage::Confinement, error))?;
        let merges = match merging {
            Merging::Works {
                directories: Directories::Renamed,
                ..
            } => Ok(()),
            Merging::Works {
                directories: Directories::Copied,
                ..
            } => Err("directories could not be renamed in it".to_owned()),
            Merging::Fails { reason } => Err(reason),
        };
        Ok(Self {
            enforcement,
            waivers,
            merges,
        })
    }

    /// Where workspaces are made beneath a directory.
    pub(super) fn ground<'a>(
        &'a self,
        repo: &'a Repository,
        state: &'a Path,
        bases: &'a Path,
    ) -> workspace::Ground<'a> {
        workspace::Ground {
            repo,
            state,
            bases,
            mode: self.view_mode(),
            warm: None,
            merges: self.merges.as_ref().copied().map_err(String::as_str),
        }
    }

    /// Whether workspaces are mounted at the repository's own path.
    pub(super) fn view_mode(&self) -> ViewMode {
        let given_up = self.waivers.layers().contains(&Layer::Mounts);
        match self.enforcement.status(Layer::Mounts) {
            Some(Status::Full | Status::Partial { .. }) if !given_up => ViewMode::Mounted,
            Some(
                Status::Full | Status::Partial { .. } | Status::Absent { .. } | Status::Waived,
            )
            | None => ViewMode::InPlace,
        }
    }
}

/// One process tree that is to be caged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inmate<'a> {
    pub(super) run: &'a RunId,
    pub(super) agent: &'a AgentId,
    pub(super) name: &'a str,
    pub(super) depth: u32,
    pub(super) deadline: Option<Deadline>,
    pub(super) brief: &'a Brief,
    pub(super) contract: &'a Contract,
    pub(super) command: &'a [OsString],
    /// Where it starts, as it sees it.
    pub(super) start: &'a Path,
    pub(super) env: &'a [EnvEntry],
    pub(super) limits: ResourceLimits,
}

/// Makes the policy for an inmate of a workspace.
pub(super) fn policy(
    site: &Site,
    machine: &Machine,
    workspace: &Workspace,
    inmate: Inmate<'_>,
) -> Result<Policy, Error> {
    let confining = |error: std::io::Error| Error::at(Stage::Confinement, error);
    make_private_directories(&workspace.view.home, &workspace.view.tmp).map_err(confining)?;
    let brief = workspace.dir.join(BRIEF);
    let text = serde_json::to_vec_pretty(inmate.brief).expect("because a brief holds only text");
    fs::write(&brief, text).map_err(confining)?;
    let mut view = workspace.view.clone();
    view.readable.push(brief.clone());
    let denials = workspace.dir.join(DENIALS);
    fs::write(&denials, b"").map_err(confining)?;
    view.readable.push(denials.clone());
    let host = site.host.facts(site);
    let home = &host.home;
    let caches = if inmate.contract.execute {
        copy_plain_files(home, &workspace.view.home).map_err(confining)?;
        copy_settings(site, home, &workspace.view.home).map_err(confining)?;
        caches(site, workspace, &host).map_err(confining)?
    } else {
        Vec::new()
    };
    let input = Input {
        contract: inmate.contract,
        view: &view,
        command: inmate.command,
        cwd: inmate.start,
        env: inmate.env,
        agent: AgentFacts {
            run: inmate.run,
            agent: inmate.agent,
            name: inmate.name,
            depth: inmate.depth,
            deadline: inmate.deadline,
            brief: &brief,
            denials: &denials,
            port: port_of(inmate.agent),
        },
        caches: &caches,
        host: host.of(site, workspace.original()),
        waivers: &machine.waivers,
        enforcement: &machine.enforcement,
        limits: inmate.limits,
        room: room(&workspace.dir),
    };
    confinement::policy(&input).map_err(|error| Error::at(Stage::Confinement, error))
}

/// The directories that the agent's variables name: a program that is told of
/// one may expect it to exist.
fn make_private_directories(home: &Path, tmp: &Path) -> std::io::Result<()> {
    let runtime = tmp.join("runtime");
    fs::create_dir_all(&runtime)?;
    // Programs refuse a runtime directory that others may enter.
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700))?;
    for name in [
        ".cache",
        ".config",
        ".local/share",
        ".local/state",
        ".cargo",
    ] {
        fs::create_dir_all(home.join(name))?;
    }
    Ok(())
}

/// A port that other agents of the machine are not told of, by the agent's id.
fn port_of(agent: &AgentId) -> u16 {
    let digits = agent.as_str().rsplit('-').next().unwrap_or_default();
    let bits = u64::from_str_radix(digits, 16).unwrap_or_default();
    FIRST_PORT + u16::try_from(bits % PORTS).expect("because the number of ports fits")
}
