//! Owns the data of a policy; what is wrong with one is for `check`.
//!
//! Unknown keys are refused everywhere, because a misspelt restriction would
//! otherwise restrict nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::{HostPath, Layer, Limits};
use crate::guarantees::Guarantee;

/// Everything that decides what a confined command can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What to execute.
    pub command: Command,
    /// What is mounted.
    pub view: View,
    /// What Landlock allows; nothing else may be opened.
    pub files: Vec<FileRule>,
    /// Whether there is a network.
    pub network: Network,
    /// What it may use up.
    pub limits: Limits,
    /// What must not be reached whatever else is granted: secrets, files of
    /// other commands, the launcher's own. None of it may be covered by a rule
    /// or shown by the view; the canaries try each. What does not exist is fine.
    pub out_of_reach: Vec<HostPath>,
    /// Layers that the caller gave up by name.
    pub waived: BTreeSet<Layer>,
    /// Layers that must be in full force, or nothing is started.
    pub required: BTreeSet<Layer>,
    /// Guarantees that must be held by at least one layer, or nothing is started.
    pub promised: BTreeSet<Guarantee>,
}

/// The program, its arguments, where it starts and its whole environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments; a program without a slash is looked for
    /// in the `PATH` of [`Command::env`], from inside the cage.
    pub argv: Vec<OsString>,
    /// The directory it starts in, as seen from inside.
    pub cwd: HostPath,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
}

/// How the file system looks from inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Whether mounts are made at all.
    pub mode: ViewMode,
    /// The mounts, in the order in which they are made. Before them come a
    /// procfs, a `/dev` with those devices only that a rule names, and a
    /// `/dev/shm`, all of the cage's own.
    pub mounts: Vec<Mount>,
}

/// Whether the command gets a mount namespace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ViewMode {
    /// Everything is read-only except what the policy makes writable.
    Mounted,
    /// No mounts are made, for machines without mount namespaces.
    InPlace,
}

/// One thing to mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mount {
    /// Shows a directory or file of the host, with all that is mounted below.
    Bind {
        /// What to show.
        source: HostPath,
        /// Where to show it.
        target: HostPath,
        /// Whether it can be written.
        access: Access,
    },
    /// A private empty directory; read-only, it hides what was there.
    Tmpfs {
        /// Where to put it.
        target: HostPath,
        /// Whether it can be written.
        access: Access,
        /// The most it may hold; must not be zero if it can be written.
        bytes: u64,
    },
    /// Shows directories of the host as one that can be changed; every change
    /// lands in a directory of its own and they stay as they are.
    ///
    /// `upper` and `work` are one owner's for one cage at a time, on one file
    /// system that keeps extended attributes, and the command must not reach
    /// them by another way. What others change beneath meanwhile is seen or
    /// not. Paths lead through no symbolic link. What the kernel leaves in
    /// `work` is a directory without any permission. Nothing is written back
    /// to the disk at once, not even on request (`fsync`): a power failure may
    /// lose changes.
    Overlay {
        /// What is shown beneath, topmost first.
        lower: Vec<HostPath>,
        /// What takes the changes.
        upper: HostPath,
        /// What the kernel needs besides; on the file system of `upper`.
        work: HostPath,
        /// Where to show it.
        target: HostPath,
        /// Whether it can be changed; read-only, nothing lands in `upper`.
        access: Access,
        /// Whether directories that lie beneath can be renamed.
        directories: Directories,
        /// What is shown where the machine merges no such directories.
        otherwise: Otherwise,
    },
}

/// What becomes of a rename of a directory that lies beneath an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directories {
    /// It fails with `EXDEV`, which `mv` answers by copying; other programs
    /// give up.
    Copied,
    /// It works, as on any other file system, whoever launches. Where the
    /// kernel does not do it itself, the content of the directory is copied
    /// and its rename is not one step; and where nobody can do it the report
    /// says so ([`Enforcement::view_notes`](crate::Enforcement::view_notes))
    /// and it is as for [`Directories::Copied`]. See "What it does not do" at
    /// the top.
    Renamed,
}

/// What becomes of an overlay that cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Otherwise {
    /// Nothing is started.
    Refuse,
    /// The topmost lower directory is shown read-only, and the report says so.
    ReadOnly,
}

impl Mount {
    /// Where this is mounted.
    #[must_use]
    pub fn target(&self) -> &HostPath {
        match self {
            Self::Bind { target, .. }
            | Self::Tmpfs { target, .. }
            | Self::Overlay { target, .. } => target,
        }
    }
}

/// Whether a mount can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// No change of any kind, attributes included.
    ReadOnly,
    /// As the files' own permissions say.
    ReadWrite,
}

/// What may be done with a path and everything beneath it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRule {
    /// The file or directory; it must exist.
    pub path: HostPath,
    /// What is allowed.
    pub rights: Rights,
}

/// What a rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rights {
    /// Read files, list directories.
    Read,
    /// The same, and execute.
    ReadExecute,
    /// Read, change, make, remove, rename and link; no device nodes.
    ReadWrite,
    /// The same, and execute.
    ReadWriteExecute,
    /// Read, write and control a device node, or those in a directory.
    Device,
}

impl Rights {
    /// Whether regular files beneath the path may change.
    #[must_use]
    pub fn access(self) -> Access {
        match self {
            Self::Read | Self::ReadExecute | Self::Device => Access::ReadOnly,
            Self::ReadWrite | Self::ReadWriteExecute => Access::ReadWrite,
        }
    }
}

/// Whether there is a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// None but a loopback interface of its own, which leads nowhere.
    None,
    /// The same, and one port of it leads to the launcher, which accepts what
    /// connects there ([`crate::Confined::take_gateway`]).
    Gateway {
        /// The port of `127.0.0.1` inside.
        port: u16,
    },
    /// The host's, unfiltered, its abstract sockets kept out where possible.
    Open,
}
