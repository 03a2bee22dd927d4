//! Owns the namespaces: which are wanted, which there are, and the user map.
//!
//! A privileged launcher makes them directly and gets a user namespace of its
//! own afterwards ([`descend`]), which then owns none of the others: nothing
//! inside can change a mount, whatever capability it finds. An ordinary user
//! needs the user namespace first. Each namespace is tried by itself, because
//! machines forbid them one by one.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;

use caps::{CapSet, Capability};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use super::LayerError;
use crate::enforcement::{Status, UidMap};
use crate::guarantees::Feature;
use crate::policy::{Layer, Network, Policy};
use crate::sys::kernel::{raise_loopback, unshare};

/// What was left behind, and what could not be.
#[derive(Debug)]
pub(crate) struct Spaces {
    made: UnshareFlags,
    refused: BTreeMap<&'static str, String>,
    pub(crate) uid_map: UidMap,
    /// Whether the user namespace may have no further ones.
    closed: bool,
}

impl Spaces {
    /// Whether the next child is the init of a PID namespace.
    pub(crate) fn pid(&self) -> bool {
        self.made.contains(UnshareFlags::NEWPID)
    }

    /// Whether there is a namespace for memory and queues under a key.
    pub(crate) fn ipc(&self) -> bool {
        self.made.contains(UnshareFlags::NEWIPC)
    }

    /// Whether there is a network namespace.
    pub(crate) fn net(&self) -> bool {
        self.made.contains(UnshareFlags::NEWNET)
    }

    /// Why there is no mount namespace, if there is none.
    pub(crate) fn no_mounts(&self) -> Option<String> {
        (!self.made.contains(UnshareFlags::NEWNS)).then(|| self.why("mount"))
    }

    /// Why there is no namespace of this name.
    pub(crate) fn why(&self, name: &str) -> String {
        let reason = self.refused.get(name).or_else(|| self.refused.get("user"));
        let reason = reason.map_or("it was not asked for", String::as_str);
        format!("no {name} namespace: {reason}")
    }

    /// What of the kernel is in force.
    pub(crate) fn features(&self) -> impl Iterator<Item = Feature> {
        let own_users = match self.uid_map {
            UidMap::Itself => true,
            UidMap::Host => false,
        };
        [
            (self.pid(), Feature::PidNamespace),
            (self.net(), Feature::NetworkNamespace),
            (own_users, Feature::UserNamespace),
            (own_users && self.closed, Feature::NamespaceQuota),
        ]
        .into_iter()
        .filter_map(|(holds, feature)| holds.then_some(feature))
    }

    /// What the layer achieved.
    pub(crate) fn status(&self, policy: &Policy) -> Status {
        if policy.waives(Layer::Namespaces) {
            return Status::Waived;
        }
        if !self.pid() {
            return Status::Absent {
                reason: self.why("pid"),
            };
        }
        let others = ["ipc", "uts"]
            .into_iter()
            .filter(|name| self.refused.contains_key(name));
        Status::unless(others.map(|name| self.why(name)).collect())
    }
}

/// Leaves every namespace that the policy wants left, as far as the machine allows.
pub(crate) fn apply(policy: &Policy) -> Result<Spaces, LayerError> {
    let mut spaces = Spaces {
        made: UnshareFlags::empty(),
        refused: BTreeMap::new(),
        uid_map: UidMap::Host,
        closed: false,
    };
    let wanted = wanted(policy);
    if wanted.is_empty() {
        return Ok(spaces);
    }
    let mut procfs = None;
    if !privileged() {
        if let Err(source) = unshare(UnshareFlags::NEWUSER) {
            spaces.refused.insert("user", source.to_string());
            return Ok(spaces);
        }
        let found = host_procfs().ok_or_else(|| LayerError::Step {
            what: "map this user".into(),
            reason: "procfs is not there".into(),
        })?;
        map_itself(&found)?;
        spaces.uid_map = UidMap::Itself;
        procfs = Some(found);
    }
    // All at once where the machine allows it, because each call costs a set
    // of its own; one by one where it does not, to learn which it forbids.
    let all = wanted
        .iter()
        .fold(UnshareFlags::empty(), |all, (_, flag)| all | *flag);
    if unshare(all).is_ok() {
        spaces.made = all;
    } else {
        for (name, flag) in wanted {
            match unshare(flag) {
                Ok(()) => spaces.made |= flag,
                Err(source) => {
                    spaces.refused.insert(name, source.to_string());
                }
            }
        }
    }
    // Only now: it would forbid the ones above as well.
    spaces.closed = procfs.as_ref().is_some_and(forbid_further);
    if spaces.net() {
        // Test suites and local servers talk to themselves on it; it leads
        // nowhere else.
        raise_loopback().map_err(LayerError::step("bring up the loopback interface"))?;
    }
    Ok(spaces)
}

fn wanted(policy: &Policy) -> Vec<(&'static str, UnshareFlags)> {
    let mut wanted = Vec::new();
    if !policy.waives(Layer::Namespaces) {
        wanted.extend([
            ("pid", UnshareFlags::NEWPID),
            ("ipc", UnshareFlags::NEWIPC),
            ("uts", UnshareFlags::NEWUTS),
        ]);
    }
    if policy.mounts_wanted() {
        wanted.push(("mount", UnshareFlags::NEWNS));
    }
    match policy.network {
        Network::None | Network::Gateway { .. } if !policy.waives(Layer::Network) => {
            wanted.push(("network", UnshareFlags::NEWNET));
        }
        Network::None | Network::Gateway { .. } | Network::Open => {}
    }
    wanted
}

/// Enters a user namespace after everything was made; for privileged launchers.
///
/// Returns a hole to report if the machine does not allow it.
///
/// The maps are written through the procfs handed in: the one in place is
/// read-only by now.
pub(crate) fn descend(
    spaces: &mut Spaces,
    policy: &Policy,
    procfs: Option<OwnedFd>,
) -> Result<Option<String>, LayerError> {
    if policy.waives(Layer::Namespaces) || spaces.uid_map == UidMap::Itself || !spaces.pid() {
        return Ok(None);
    }
    let hole = |why: String| {
        Some(format!(
            "user ids are the host's: no late user namespace: {why}"
        ))
    };
    // Without a procfs to write the maps through, this user would be nobody.
    let Some(procfs) = procfs.or_else(host_procfs) else {
        return Ok(hole("procfs is not there".into()));
    };
    match unshare(UnshareFlags::NEWUSER) {
        Ok(()) => {
            map_itself(&procfs)?;
            spaces.uid_map = UidMap::Itself;
            spaces.closed = forbid_further(&procfs);
            Ok(None)
        }
        Err(source) => Ok(hole(source.to_string())),
    }
}

/// The listener of a policy with a gateway, in this cage's network namespace.
///
/// The launcher accepts on it from outside: a socket stays in the namespace in
/// which it was made, whoever holds it.
pub(crate) fn gateway(policy: &Policy, spaces: &Spaces) -> Result<Option<OwnedFd>, LayerError> {
    match policy.network {
        Network::Gateway { port } if spaces.net() => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                .map_err(LayerError::step(format!("listen on port {port} inside")))?;
            Ok(Some(listener.into()))
        }
        Network::Gateway { .. } | Network::None | Network::Open => Ok(None),
    }
}

/// What the layer `network` achieved.
pub(crate) fn network_status(policy: &Policy, spaces: &Spaces, filtered: bool) -> Status {
    if policy.waives(Layer::Network) {
        return Status::Waived;
    }
    match policy.network {
        Network::Open => Status::Absent {
            reason: "the policy leaves the network open".into(),
        },
        Network::None | Network::Gateway { .. } if spaces.net() => Status::Full,
        // Without a namespace of its own there is nothing that a gateway could
        // be reached through and everything else not.
        Network::Gateway { .. } => Status::Absent {
            reason: spaces.why("network"),
        },
        Network::None if filtered => Status::Partial {
            missing: vec![format!(
                "{}; internet sockets are refused by the system call filter instead",
                spaces.why("network")
            )],
        },
        Network::None => Status::Absent {
            reason: spaces.why("network"),
        },
    }
}

fn privileged() -> bool {
    caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN).unwrap_or(false)
}

/// The procfs in place, if it is one and has maps.
fn host_procfs() -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let procfs = openat(CWD, "/proc", flags, Mode::empty()).ok()?;
    let there = statat(&procfs, "self/uid_map", AtFlags::empty()).is_ok();
    there.then_some(procfs)
}

/// Maps this user and this group to themselves.
fn map_itself(procfs: &OwnedFd) -> Result<(), LayerError> {
    // The ids inside are "nobody" until the map is written, and the ids
    // written must be those outside: the auxiliary vector has the latter.
    let write = |file: &str, text: String| {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        openat(procfs, format!("self/{file}"), flags, Mode::empty())
            .and_then(|file| rustix::io::write(&file, text.as_bytes()))
            .map_err(LayerError::step(format!("write {file}")))
    };
    let (uid, gid) = outside();
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1")).map(drop)
}

/// Allows no user namespace below this one, and with that no privilege in a
/// namespace of any kind. Only the privilege that is dropped next could undo it.
fn forbid_further(procfs: &OwnedFd) -> bool {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let set = |name: &str, value: &[u8]| {
        openat(procfs, format!("sys/user/{name}"), flags, Mode::empty())
            .and_then(|file| rustix::io::write(&file, value))
            .is_ok()
    };
    // What is counted for the user as a whole must leave some to others; where
    // the kernel has no such file, nothing is lost.
    set("max_inotify_instances", INOTIFY);
    set("max_user_namespaces", b"0")
}

/// Watches of changes that a cage may have at once: a quarter of what a user
/// usually has.
const INOTIFY: &[u8] = b"32";

fn outside() -> (u32, u32) {
    use std::sync::OnceLock;
    // The stage has one user for its whole life; the first call is made before
    // any user namespace.
    static IDS: OnceLock<(u32, u32)> = OnceLock::new();
    *IDS.get_or_init(|| (geteuid().as_raw(), getegid().as_raw()))
}

/// Remembers who this is, before a namespace hides it.
pub(crate) fn remember_ids() {
    outside();
}
