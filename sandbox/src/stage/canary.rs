//! Owns the last test before the command: attempts to get out, for real.
//!
//! A layer that reports success and does nothing is the worst case, so each
//! attempt is made against the kernel and not against our books, and only
//! where a guarantee is claimed. One that succeeds means that nothing is
//! started. Every attempt is harmless if it succeeds, or is undone at once.

use std::collections::BTreeSet;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, chmodat, openat, statat, unlinkat};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, getppid, test_kill_process};
use rustix::thread::UnshareFlags;

use super::hidden::Hidden;
use crate::bait::Bait;
use crate::enforcement::{Enforcement, Tried};
use crate::guarantees::{Feature, Guarantee, held};
use crate::policy::{Access, Network, Policy};
use crate::sys::kernel::{mount_nothing, trace, unshare};

/// What the canaries know.
pub(super) struct Canaries<'a> {
    pub(super) policy: &'a Policy,
    pub(super) bait: &'a Bait,
    /// What the paths out of reach were before there was a view.
    pub(super) hidden: &'a Hidden,
    pub(super) report: &'a Enforcement,
}

/// An attempt that succeeded.
pub(super) type Escape = (Guarantee, String);

impl Canaries<'_> {
    /// Tries every way out of what is claimed; the first one that is open is the error.
    pub(super) fn try_to_escape(&self) -> Result<Vec<Tried>, Escape> {
        let claimed: BTreeSet<Guarantee> = held(&self.report.features)
            .into_iter()
            .filter(|(_, holders)| !holders.is_empty())
            .map(|(guarantee, _)| guarantee)
            .collect();
        let mut tried = Vec::new();
        for (guarantee, attempt, succeeds) in self.attempts() {
            if !claimed.contains(&guarantee) {
                continue;
            }
            if succeeds() {
                return Err((guarantee, attempt));
            }
            tried.push(Tried { guarantee, attempt });
        }
        Ok(tried)
    }

    fn attempts(&self) -> Vec<Attempt<'_>> {
        let mut attempts = self.on_files();
        attempts.extend(self.on_secrets());
        attempts.extend(self.on_processes());
        attempts.extend(self.on_sockets());
        attempts.extend(on_privilege());
        attempts
    }

    fn on_files(&self) -> Vec<Attempt<'_>> {
        let writable = |rule: &&crate::FileRule| rule.rights.access() == Access::ReadWrite;
        let rules = self.policy.files.iter().filter(writable);
        let written: Vec<&Path> = rules.map(|rule| rule.path.as_ref() as &Path).collect();
        let covered = |path: &Path| written.iter().any(|rule| path.starts_with(rule));
        let mut places = vec![Path::new("/")];
        places.extend(written.iter().filter_map(|path| path.parent()).take(4));
        places.dedup();
        let mut attempts: Vec<Attempt<'_>> = places
            .into_iter()
            .filter(|place| !covered(place))
            .map(|place| {
                attempt(
                    Guarantee::NoWriteOutside,
                    format!("create a file in `{}`", place.display()),
                    move || creates(place),
                )
            })
            .collect();
        let switch = Path::new("/proc/sys/kernel/core_pattern");
        if !covered(switch) {
            attempts.push(attempt(
                Guarantee::NoWriteOutside,
                "write a switch of the kernel".into(),
                move || opens(switch, OFlags::WRONLY),
            ));
        }
        if !covered(Path::new("/")) {
            attempts.push(attempt(
                Guarantee::NoMetadataChangeOutside,
                "change the mode of `/`".into(),
                || {
                    let mode = statat(CWD, "/", AtFlags::empty()).map(|facts| facts.st_mode);
                    mode.is_ok_and(|mode| {
                        chmodat(CWD, "/", Mode::from_raw_mode(mode), AtFlags::empty()).is_ok()
                    })
                },
            ));
        }
        attempts
    }

    fn on_secrets(&self) -> Vec<Attempt<'_>> {
        let paths = self.policy.out_of_reach.iter();
        let mut attempts: Vec<Attempt<'_>> = paths
            .map(|path| {
                attempt(
                    Guarantee::NoReadOfSecrets,
                    format!("open `{path}`"),
                    move || {
                        // What stands there now may be something else.
                        self.hidden.still(path) && opens(path, OFlags::RDONLY | OFlags::NONBLOCK)
                    },
                )
            })
            .collect();
        let root = Path::new("/");
        if !self
            .policy
            .files
            .iter()
            .any(|rule| rule.path.as_ref() as &Path == root)
            && self.report.features.contains(&Feature::FileRules)
        {
            attempts.push(attempt(
                Guarantee::NoReadOfSecrets,
                "list a directory without a rule".into(),
                move || opens(root, OFlags::DIRECTORY),
            ));
        }
        attempts
    }

    fn on_processes(&self) -> Vec<Attempt<'_>> {
        let mut attempts = Vec::new();
        let launcher = i32::try_from(self.bait.launcher)
            .ok()
            .and_then(Pid::from_raw);
        // In a namespace of its own the number may be one of this cage's.
        let own = self.report.features.contains(&Feature::PidNamespace);
        let this = super::this().as_raw_nonzero();
        if let Some(launcher) = launcher.filter(|pid| !own || pid.as_raw_nonzero() > this) {
            attempts.push(attempt(
                Guarantee::NoSignalOutside,
                "signal the launcher".into(),
                move || test_kill_process(launcher).is_ok(),
            ));
        }
        if let Some(keeper) = getppid() {
            attempts.push(attempt(
                Guarantee::NoTraceOutside,
                "trace the keeper of the cage".into(),
                move || trace(keeper),
            ));
        }
        attempts
    }

    fn on_sockets(&self) -> Vec<Attempt<'_>> {
        let mut attempts = vec![
            attempt(
                Guarantee::NoHostSockets,
                "connect to an abstract socket of the launcher".into(),
                || {
                    SocketAddr::from_abstract_name(&self.bait.name)
                        .and_then(|address| UnixStream::connect_addr(&address))
                        .is_ok()
                },
            ),
            attempt(
                Guarantee::NoHostSockets,
                "make a socket to the virtual machine's host".into(),
                || makes(AddressFamily::VSOCK, SocketType::STREAM),
            ),
        ];
        let closed = match self.policy.network {
            Network::None => true,
            // Its port may be the very number of the bait.
            Network::Gateway { port } => self.bait.port != Some(port),
            Network::Open => false,
        };
        if let Some(port) = self.bait.port.filter(|_| closed) {
            attempts.push(attempt(
                Guarantee::NoNetwork,
                "connect to a port of the launcher".into(),
                move || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(),
            ));
        }
        attempts
    }
}

fn on_privilege() -> Vec<Attempt<'static>> {
    vec![
        attempt(
            Guarantee::NoNewNamespaces,
            "make a user namespace".into(),
            || unshare(UnshareFlags::NEWUSER).is_ok(),
        ),
        attempt(Guarantee::NoNewMounts, "mount something".into(), || {
            mount_nothing().is_ok()
        }),
    ]
}

type Attempt<'a> = (Guarantee, String, Box<dyn FnOnce() -> bool + 'a>);

fn attempt<'a>(
    guarantee: Guarantee,
    what: String,
    succeeds: impl FnOnce() -> bool + 'a,
) -> Attempt<'a> {
    (guarantee, what, Box::new(succeeds))
}

fn creates(directory: &Path) -> bool {
    let path = directory.join(format!(
        ".cofferdam-canary-{}",
        super::this().as_raw_nonzero()
    ));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = openat(CWD, &path, flags, Mode::RUSR).is_ok();
    if made {
        let _ = unlinkat(CWD, &path, AtFlags::empty());
    }
    made
}

fn opens(path: impl AsRef<Path>, flags: OFlags) -> bool {
    openat(CWD, path.as_ref(), flags | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

fn makes(family: AddressFamily, kind: SocketType) -> bool {
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).is_ok()
}
