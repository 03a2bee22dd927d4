//! Owns `/dev` of a cage: what is in it that is not a node of the host.
//!
//! A private directory holds links to a process's own descriptors and
//! pseudo-terminals that no other cage has. Nodes of the host are not made
//! here: `plan` shows those with a rule, each by a bind mount, and no other is
//! there, even for the superuser. `mounts` makes it read-only when its targets
//! are made.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkdirat, symlinkat};
use rustix::mount::{OpenTreeFlags, open_tree};

use super::LayerError;
use super::mounts::{cover, filesystem};

/// The place.
pub(super) const DEVICES: &str = "/dev";

/// Nodes that a rule for the whole of `/dev`, or for the root, brings in.
pub(super) const NODES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

const TERMINALS: &str = "/dev/pts";
const TERMINAL_OPENER: &str = "/dev/ptmx";

const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Whether a path is the cage's own and never the host's.
pub(super) fn provides(path: &Path) -> bool {
    path.starts_with(TERMINALS)
        || path == Path::new(TERMINAL_OPENER)
        || LINKS
            .iter()
            .any(|(name, _)| path == Path::new(DEVICES).join(name))
}

/// Where a path leads in the private directory: the terminals' opener is a
/// link there, of this module's own making.
pub(super) fn behind(path: PathBuf) -> PathBuf {
    if path == Path::new(TERMINAL_OPENER) {
        PathBuf::from("/dev/pts/ptmx")
    } else {
        path
    }
}

/// A detached directory with the links, and the places of terminals where the
/// machine has any.
///
/// It is not sticky: in such a directory the kernel refuses to open another
/// user's device for writing if `O_CREAT` is given, as shells do.
pub(super) fn make() -> Result<OwnedFd, LayerError> {
    let made = || -> rustix::io::Result<OwnedFd> {
        let devices = filesystem("tmpfs", &[("size", "65536"), ("mode", "755")])?;
        for (name, leads_to) in LINKS {
            symlinkat(leads_to, &devices, name)?;
        }
        if Path::new(TERMINALS).is_dir() {
            mkdirat(&devices, "pts", Mode::from_raw_mode(0o755))?;
            symlinkat("pts/ptmx", &devices, "ptmx")?;
        }
        Ok(devices)
    };
    made().map_err(LayerError::step("make a private directory for devices"))
}

/// Gives the cage its own pseudo-terminals, where there is a place for them.
///
/// Returns what is missing.
pub(super) fn mount_terminals() -> Option<String> {
    if !Path::new(TERMINALS).is_dir() {
        return None;
    }
    let made = filesystem("devpts", &[("ptmxmode", "0666"), ("mode", "0620")]);
    let made = made.map_err(LayerError::step("make them")).and_then(|pts| {
        cover(TERMINALS, &pts)?;
        // In the private directory the opener is a link into what was just
        // mounted; only a shown `/dev` has a node.
        if !fs::symlink_metadata(TERMINAL_OPENER).is_ok_and(|entry| !entry.is_symlink()) {
            return Ok(());
        }
        let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let opener = open_tree(CWD, "/dev/pts/ptmx", clone)
            .map_err(LayerError::step("open their opener"))?;
        cover(TERMINAL_OPENER, &opener)
    });
    made.err()
        .map(|reason| format!("pseudo-terminals of one's own: {reason}"))
}
