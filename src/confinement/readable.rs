//! What an agent may read and execute beyond its workspace.
//!
//! Owns the one list of it: the system, the devices, the toolchains of the
//! person (their table is `toolchains`) and the directories of `PATH`. The
//! rest of the home directory is not in it, and no entry reaches a file that
//! holds a credential. What the machine does not have is left out.

use std::path::{Path, PathBuf};

use cofferdam_sandbox::{FileRule, Rights};

use super::input::{Host, Input};
use super::toolchains::{NEVER, TOOLCHAINS, may_be_read};
use crate::model::{NetworkAccess, ViewMode};

/// The system's own files.
const SYSTEM: [(&str, Rights); 16] = [
    ("/usr", Rights::ReadExecute),
    ("/bin", Rights::ReadExecute),
    ("/sbin", Rights::ReadExecute),
    ("/lib", Rights::ReadExecute),
    ("/lib32", Rights::ReadExecute),
    ("/lib64", Rights::ReadExecute),
    ("/libx32", Rights::ReadExecute),
    ("/opt", Rights::ReadExecute),
    ("/nix/store", Rights::ReadExecute),
    ("/run/current-system", Rights::ReadExecute),
    ("/snap", Rights::ReadExecute),
    ("/var/lib/dpkg", Rights::Read),
    ("/var/lib/ca-certificates", Rights::Read),
    ("/var/cache/fontconfig", Rights::Read),
    ("/proc", Rights::Read),
    ("/sys", Rights::Read),
];

/// The system's settings, where a view covers the secrets among them.
const SETTINGS: &str = "/etc";

/// What of them is readable in place, where nothing covers the secrets: a rule
/// for the whole would uncover them to the superuser.
const PLAIN_SETTINGS: [&str; 52] = [
    "/etc/adjtime",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/bash_completion.d",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/environment",
    "/etc/fedora-release",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/login.defs",
    "/etc/lsb-release",
    "/etc/machine-id",
    "/etc/magic",
    "/etc/magic.mime",
    "/etc/mailcap",
    "/etc/mime.types",
    "/etc/nanorc",
    "/etc/netconfig",
    "/etc/networks",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/perl",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/rpc",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/terminfo",
    "/etc/timezone",
];

/// Devices that belong to nobody.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Devices that only a view of its own makes private: in place they are the
/// person's terminals and shared memory.
const PRIVATE_DEVICES: [(&str, Rights); 4] = [
    ("/dev/tty", Rights::Device),
    ("/dev/ptmx", Rights::Device),
    ("/dev/pts", Rights::Device),
    ("/dev/shm", Rights::ReadWrite),
];

/// What name resolution reads where the network is open.
const RESOLVER: [&str; 2] = ["/run/systemd/resolve", "/run/resolvconf"];

/// Secrets beneath what is readable. They are covered by an empty directory
/// or the null device; the superuser could read them otherwise.
pub const SECRETS: [&str; 15] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/pki/tls/private",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
];

/// Where nobody keeps packages: a variable that leads there would show what is
/// covered or closed.
const NO_PACKAGES: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run",
    "/sbin", "/sys",
];

/// Where packages lie beneath, but which are more than packages themselves.
const MORE_THAN_PACKAGES: [&str; 11] = [
    "/home",
    "/media",
    "/mnt",
    "/nix",
    "/opt",
    "/root",
    "/srv",
    "/tmp",
    "/usr/local",
    "/var/lib",
    "/var/tmp",
];

/// Whether packages or a toolchain may be where a variable says: not in a part
/// of the system, and not where a secret or one of the files `covered` lies.
///
/// Beneath `/usr` and `/opt` they may: images have whole toolchains there, and
/// everything but secrets is readable there as it is.
#[must_use]
pub fn may_hold_packages(place: &Path, covered: &[PathBuf]) -> bool {
    let touches = |one: &Path| one.starts_with(place) || place.starts_with(one);
    let system = NO_PACKAGES.iter().any(|one| touches(Path::new(one)));
    let more = MORE_THAN_PACKAGES
        .iter()
        .any(|one| Path::new(one).starts_with(place));
    let secret =
        SECRETS.iter().any(|one| touches(Path::new(one))) || covered.iter().any(|one| touches(one));
    !system && !more && !secret
}

/// What is secret on this machine: of the system's, what is listed and what
/// others may not read; of the home directory's, what is never readable.
pub(super) fn secrets(host: &Host<'_>) -> impl Iterator<Item = PathBuf> {
    system_secrets(host).chain(NEVER.iter().map(|name| host.home.join(name)))
}

/// The system's part of it.
pub(super) fn system_secrets(host: &Host<'_>) -> impl Iterator<Item = PathBuf> {
    let listed = SECRETS.into_iter().map(PathBuf::from);
    let private = host.private_settings.iter();
    let listed_already = |path: &&PathBuf| !SECRETS.iter().any(|one| Path::new(one) == *path);
    listed.chain(private.filter(listed_already).cloned())
}

/// The rules for everything that is read and executed but not written, and
/// for devices.
pub(super) fn rules(input: &Input<'_>) -> Vec<FileRule> {
    let host = &input.host;
    let mut rules = Rules::new(host);
    let in_place = input.view.mode == ViewMode::InPlace;
    for (path, rights) in SYSTEM {
        let path = Path::new(path);
        // In place nothing hides a home directory that lies in the system.
        if !(in_place && host.home.starts_with(path)) {
            rules.add(path, rights);
        }
    }
    settings(input, &mut rules);
    for path in DEVICES {
        rules.add(Path::new(path), Rights::Device);
    }
    if !in_place {
        for (path, rights) in PRIVATE_DEVICES {
            rules.add(Path::new(path), rights);
        }
    }
    match input.contract.network {
        NetworkAccess::None | NetworkAccess::Gateway => {}
        NetworkAccess::Open => {
            for path in RESOLVER {
                rules.add(Path::new(path), Rights::Read);
            }
        }
    }
    for toolchain in TOOLCHAINS {
        let directory = toolchain.root(host.home, host.variables);
        if toolchain.parts.is_empty() {
            rules.add(&directory, Rights::ReadExecute);
        }
        for part in toolchain.parts {
            rules.add(&directory.join(part), Rights::ReadExecute);
        }
    }
    for directory in path_directories(host) {
        rules.add(&directory, Rights::ReadExecute);
    }
    if in_place {
        // Where nothing is mounted the private home has links to them.
        for cache in input.caches {
            rules.add(&cache.lower, Rights::ReadExecute);
        }
    }
    rules.add(host.own_exe, Rights::ReadExecute);
    if let Some(program) = program_by_path(input) {
        rules.add(&program, Rights::ReadExecute);
    }
    rules.list
}

/// The system's settings without the secrets among them.
fn settings(input: &Input<'_>, rules: &mut Rules<'_>) {
    let host = &input.host;
    let holds_secret = |path: &Path| {
        let mut private = host.private_settings.iter();
        private.any(|one| one.starts_with(path))
    };
    match (input.view.mode, host.open_settings) {
        // In place nothing covers a secret.
        (ViewMode::InPlace, _) => {
            let plain = PLAIN_SETTINGS.into_iter().map(Path::new);
            for path in plain.filter(|path| !holds_secret(path)) {
                rules.add(path, Rights::Read);
            }
        }
        (ViewMode::Mounted, None) => rules.add(Path::new(SETTINGS), Rights::Read),
        // Each by itself: a private file that the host replaces while it is
        // covered is then without a rule.
        (ViewMode::Mounted, Some(open)) => {
            // They were listed from the directory itself, the topmost only.
            rules.list.extend(open.iter().map(|path| FileRule {
                path: path.as_path().into(),
                rights: Rights::Read,
            }));
        }
    }
}

/// The directories of `PATH` that may be looked into: absolute, not the home
/// directory or one above it, and none that holds or lies in a secret place.
pub(super) fn path_directories(host: &Host<'_>) -> Vec<PathBuf> {
    let Some(path) = host.variables.get(std::ffi::OsStr::new("PATH")) else {
        return Vec::new();
    };
    let mut directories: Vec<PathBuf> = Vec::new();
    for directory in std::env::split_paths(path) {
        // What it leads to counts too, and nothing in the checkout does: there an
        // earlier agent may have put a link.
        let leads_to = (host.resolve)(&directory);
        let of_checkout = [&directory, &leads_to]
            .into_iter()
            .any(|path| path.starts_with(host.checkout));
        let readable = may_be_read(host.home, &directory) && may_be_read(host.home, &leads_to);
        if readable && !of_checkout && !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories
}

/// The program's file where the command names it by path and the workspace
/// does not hold it.
fn program_by_path(input: &Input<'_>) -> Option<PathBuf> {
    let program = Path::new(input.command.first()?);
    let by_path = program.components().count() > 1;
    let plain = program
        .components()
        .all(|part| part != std::path::Component::ParentDir);
    let path = input.cwd.join(program);
    (by_path && plain && !path.starts_with(&input.view.root)).then_some(path)
}

struct Rules<'a> {
    host: &'a Host<'a>,
    list: Vec<FileRule>,
}

impl<'a> Rules<'a> {
    fn new(host: &'a Host<'a>) -> Self {
        Self {
            host,
            list: Vec::new(),
        }
    }

    /// Adds a rule where there is something and nothing above it says as much.
    fn add(&mut self, path: &Path, rights: Rights) {
        let covered = self
            .list
            .iter()
            .any(|rule| rule.rights == rights && path.starts_with(&rule.path));
        if !covered && self.host.exists(path) {
            self.list.push(FileRule {
                path: path.into(),
                rights,
            });
        }
    }
}
