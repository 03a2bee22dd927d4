//! Tests of the policy: whole values for a made-up machine.
//!
//! Owns that machine: which paths it has, whose home there is, what was
//! enforced when it was tried. Nothing of the machine that runs the tests is
//! looked at.

mod environment;
mod guarantees;
mod policy;
mod toolchains;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cofferdam_sandbox::guarantees::MACHINES;
use cofferdam_sandbox::{Enforcement, Feature, Layer, Proof, Status};

use super::{AgentFacts, CacheMount, Found, Host, Input, Room, Waivers};
use crate::model::{
    AgentId, Contract, EnvEntry, ResourceLimits, RunId, View, ViewAccess, ViewMode, ViewMount,
    ViewSource,
};

const STATE: &str = "/home/me/.local/state/cofferdam/runs/r";

/// Everything that an [`Input`] borrows.
struct Machine {
    directories: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    home: PathBuf,
    own_exe: PathBuf,
    /// Bound sockets besides the usual ones.
    sockets: Vec<PathBuf>,
    login_files: Vec<PathBuf>,
    /// Where links lead.
    links: BTreeMap<PathBuf, PathBuf>,
    variables: BTreeMap<OsString, OsString>,
    enforcement: Enforcement,
    waivers: Waivers,
    view: View,
    command: Vec<OsString>,
    cwd: PathBuf,
    env: Vec<EnvEntry>,
    caches: Vec<CacheMount>,
    run: RunId,
    agent: AgentId,
}

fn full() -> Enforcement {
    let mut enforcement = Enforcement {
        proof: Proof::PidNamespace,
        ..Enforcement::default()
    };
    for layer in Layer::ALL {
        enforcement.layers.insert(layer, Status::Full);
    }
    enforcement.features = MACHINES
        .iter()
        .find(|machine| machine.landlock == 7)
        .map(cofferdam_sandbox::guarantees::Machine::features)
        .expect("because the list holds this machine");
    enforcement.features.insert(Feature::TreeLimits);
    enforcement
}

fn view(root: &str) -> View {
    let mount = |source: &str, target: String, access| ViewMount {
        source: ViewSource::Path(PathBuf::from(STATE).join(source)),
        target: target.into(),
        access,
    };
    View {
        mode: ViewMode::Mounted,
        root: root.into(),
        mounts: vec![
            mount("tree", root.to_owned(), ViewAccess::ReadWrite),
            mount("git", format!("{root}/.git"), ViewAccess::ReadOnly),
        ],
        writable: vec![root.into()],
        readable: vec![format!("{root}/.git").into()],
        home: PathBuf::from(STATE).join("home"),
        tmp: PathBuf::from(STATE).join("tmp"),
    }
}

/// The top of a usual file system, and a directory of the machine's own.
const TOP_LEVEL: [&str; 9] = [
    "/data", "/dev", "/etc", "/home", "/root", "/run", "/tmp", "/usr", "/var",
];

impl Machine {
    fn new() -> Self {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect();
        Self {
            directories: paths(&[
                "/usr",
                "/etc",
                "/proc",
                "/sys",
                "/home",
                "/root",
                "/run",
                "/var",
                "/var/tmp",
                "/tmp",
                "/dev/pts",
                "/dev/shm",
                "/home/me",
                "/home/me/.cargo/bin",
                "/home/me/.rustup",
                "/home/me/.ssh",
                "/home/me/bin",
                "/etc/sudoers.d",
            ]),
            files: paths(&[
                "/bin",
                "/lib64",
                "/dev/null",
                "/dev/urandom",
                "/dev/tty",
                "/dev/ptmx",
                "/etc/shadow",
                "/opt/cofferdam/cofferdam",
                "/home/me/.cargo/credentials.toml",
                "/home/me/tool",
            ]),
            home: "/home/me".into(),
            own_exe: "/opt/cofferdam/cofferdam".into(),
            sockets: vec!["/opt/daemon/socket".into(), "/run/hidden".into()],
            login_files: Vec::new(),
            links: BTreeMap::new(),
            variables: BTreeMap::from([(
                "PATH".into(),
                "/home/me/.cargo/bin:/home/me/bin:/usr/bin:relative::/home/me:/home/me/.ssh".into(),
            )]),
            enforcement: full(),
            waivers: Waivers::default(),
            view: view("/home/me/repo"),
            command: vec!["sh".into(), "-c".into(), "true".into()],
            cwd: "/home/me/repo/sub".into(),
            env: Vec::new(),
            caches: Vec::new(),
            run: RunId::from_bits(1),
            agent: AgentId::from_bits(2),
        }
    }

    fn waive(&mut self, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.waivers = Waivers::parse(&names).expect("because the names are known");
    }

    fn with_input<T>(&self, contract: &Contract, then: impl FnOnce(&Input<'_>) -> T) -> T {
        let look = |path: &Path| {
            if self.directories.contains(path) {
                Found::Directory
            } else if self.files.contains(path) {
                Found::Other
            } else {
                Found::Nothing
            }
        };
        then(&Input {
            contract,
            view: &self.view,
            command: &self.command,
            cwd: &self.cwd,
            env: &self.env,
            caches: &self.caches,
            agent: AgentFacts {
                run: &self.run,
                agent: &self.agent,
                name: "docs",
                depth: 1,
                deadline: None,
                brief: Path::new("/brief.json"),
                denials: Path::new("/denials.jsonl"),
                port: 20_001,
            },
            host: Host {
                home: &self.home,
                own_exe: &self.own_exe,
                state: Path::new("/home/ann/.local/state/cofferdam"),
                checkout: Path::new("/home/me/repo"),
                private_settings: &[PathBuf::from("/etc/private.key")],
                open_settings: None,
                top_level: &TOP_LEVEL.map(PathBuf::from),
                sockets: &self.sockets,
                login_files: &self.login_files,
                variables: &self.variables,
                look: &look,
                resolve: &|path| {
                    self.links
                        .get(path)
                        .map_or_else(|| path.to_owned(), PathBuf::clone)
                },
            },
            waivers: &self.waivers,
            enforcement: &self.enforcement,
            limits: ResourceLimits::default(),
            room: Room {
                directory: Path::new(STATE),
                memory: Some(8 << 30),
                free_bytes: Some(100 << 30),
                free_files: Some(1 << 20),
            },
        })
    }

    fn policy(&self, contract: &Contract) -> Result<cofferdam_sandbox::Policy, super::Error> {
        self.with_input(contract, super::policy)
    }
}
