//! Owns what a caller may ask for: the command, the view, the rules, the limits.
//!
//! Plain data that survives a round trip through JSON exactly, names that are
//! not UTF-8 included. It decides nothing and touches no file: whether a path
//! exists is found out in the stage, where it is opened. Callers build a
//! [`Policy`]; [`crate::spawn`] checks its shape and sends it to the stage.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path as the host names it.
///
/// Serialised as a string where it is UTF-8 and as a list of bytes where it is
/// not, so that every file name survives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPath(pub PathBuf);

impl From<PathBuf> for HostPath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl From<&Path> for HostPath {
    fn from(path: &Path) -> Self {
        Self(path.to_path_buf())
    }
}

impl AsRef<Path> for HostPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Deref for HostPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.display())
    }
}

/// The two spellings of a name in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Spelling {
    Text(String),
    Bytes(Vec<u8>),
}

impl Serialize for HostPath {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => out.serialize_str(text),
            None => Spelling::Bytes(self.0.as_os_str().as_bytes().to_vec()).serialize(out),
        }
    }
}

impl<'de> Deserialize<'de> for HostPath {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Ok(Self(match Spelling::deserialize(input)? {
            Spelling::Text(text) => PathBuf::from(text),
            Spelling::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        }))
    }
}

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
    /// What one process may use up.
    pub limits: Limits,
    /// Layers that the caller gave up by name.
    pub waived: BTreeSet<Layer>,
    /// Layers that must be in full force, or nothing is started.
    pub required: BTreeSet<Layer>,
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
    /// The mounts, in the order in which they are made.
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
}

impl Mount {
    /// Where this is mounted.
    #[must_use]
    pub fn target(&self) -> &HostPath {
        match self {
            Self::Bind { target, .. } | Self::Tmpfs { target, .. } => target,
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
    /// None at all, not even a loopback to talk to oneself over TCP.
    None,
    /// The host's, unfiltered, its abstract sockets kept out where possible.
    Open,
}

/// What one process may use up.
///
/// These are resource limits of single processes, so the layer is at best
/// partial: a tree of processes can use a multiple. A limit above the
/// launcher's own hard limit is lowered to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Address space of one process.
    pub memory_bytes: Option<u64>,
    /// Processes of this user (of this cage, in a user namespace of its own).
    pub processes: Option<u64>,
    /// Size of one file written.
    pub file_bytes: Option<u64>,
    /// Open descriptors of one process.
    pub open_files: Option<u64>,
    /// Processor time of one process.
    pub cpu_seconds: Option<u64>,
}

/// One thing that confines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Which files may be opened.
    Landlock,
    /// Which files are there, and which of them can change in any way.
    Mounts,
    /// Processes, users, host name and shared memory of one's own.
    Namespaces,
    /// Which system calls there are.
    Seccomp,
    /// No capability, now or later.
    Capabilities,
    /// No network.
    Network,
    /// Resource limits.
    Limits,
}

impl Layer {
    /// Every layer.
    pub const ALL: [Self; 7] = [
        Self::Landlock,
        Self::Mounts,
        Self::Namespaces,
        Self::Seccomp,
        Self::Capabilities,
        Self::Network,
        Self::Limits,
    ];

    /// The layer's name in policies, reports and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Mounts => "mounts",
            Self::Namespaces => "namespaces",
            Self::Seccomp => "seccomp",
            Self::Capabilities => "capabilities",
            Self::Network => "network",
            Self::Limits => "limits",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// A word that names no layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "know a layer `{word}`; there are landlock, mounts, namespaces, seccomp, capabilities, network, limits"
)]
pub struct UnknownLayer {
    /// The word.
    pub word: String,
}

impl FromStr for Layer {
    type Err = UnknownLayer;

    fn from_str(word: &str) -> Result<Self, UnknownLayer> {
        Self::ALL
            .into_iter()
            .find(|layer| layer.word() == word)
            .ok_or_else(|| UnknownLayer {
                word: word.to_owned(),
            })
    }
}

/// What is wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PolicyError {
    /// There is nothing to execute.
    #[error("find a program: `argv` is empty")]
    NoProgram,
    /// A name holds a NUL byte, or the name of a variable is empty or holds `=`.
    #[error("use {what}: it is not a name the kernel accepts")]
    BadName {
        /// Which one.
        what: String,
    },
    /// A path is relative or goes up.
    #[error("use the path `{path}`: it must be absolute and without `..`")]
    BadPath {
        /// The path.
        path: HostPath,
    },
    /// Mounts are listed for a view that makes none.
    #[error(
        "mount `{target}`: the view is in place or the mounts layer is waived, so nothing is mounted"
    )]
    MountWithoutView {
        /// Where the first of them would have gone.
        target: HostPath,
    },
    /// A rule is for a path that does not exist in the view.
    #[error("find `{path}`, for which there is a rule")]
    MissingRule {
        /// The path.
        path: HostPath,
    },
    /// A rule is for a path that this user cannot reach.
    #[error("reach `{path}`, for which there is a rule: {reason}")]
    UnreachableRule {
        /// The path.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// The source of a bind mount does not exist, cannot be reached or must not be shown.
    #[error("mount `{path}`: {reason}")]
    BadSource {
        /// The path.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// The target of a mount does not exist and may not be made, or is behind a symbolic link.
    #[error("mount at `{path}`: {reason}")]
    BadTarget {
        /// The path.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// The working directory does not exist in the view.
    #[error("enter the working directory `{path}`: {reason}")]
    BadDirectory {
        /// The path.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// A limit that leaves nothing.
    #[error("apply the limit `{limit}` of {value}: nothing could run")]
    ImpossibleLimit {
        /// Its name.
        limit: String,
        /// Its value.
        value: u64,
    },
    /// A layer is both waived and required.
    #[error("require the layer `{layer}`, which is also waived")]
    Contradiction {
        /// The layer.
        layer: Layer,
    },
}

impl Policy {
    /// Whether a layer was given up by name.
    #[must_use]
    pub fn waives(&self, layer: Layer) -> bool {
        self.waived.contains(&layer)
    }

    /// Whether mounts are to be made.
    #[must_use]
    pub fn mounts_wanted(&self) -> bool {
        match self.view.mode {
            ViewMode::Mounted => !self.waives(Layer::Mounts),
            ViewMode::InPlace => false,
        }
    }

    /// Finds what is wrong with the policy's shape, without touching a file.
    ///
    /// # Errors
    /// Names the first thing that is wrong.
    pub fn check(&self) -> Result<(), PolicyError> {
        if let Some(layer) = self.waived.intersection(&self.required).next() {
            return Err(PolicyError::Contradiction { layer: *layer });
        }
        self.check_command()?;
        self.check_view()?;
        for rule in &self.files {
            check_path(&rule.path)?;
        }
        self.limits.check()
    }

    fn check_command(&self) -> Result<(), PolicyError> {
        if self
            .command
            .argv
            .first()
            .is_none_or(|program| program.is_empty())
        {
            return Err(PolicyError::NoProgram);
        }
        check_path(&self.command.cwd)?;
        for argument in &self.command.argv {
            check_name("an argument", argument)?;
        }
        for (key, value) in &self.command.env {
            let what = format!("the variable `{}`", key.to_string_lossy());
            if key.is_empty() || key.as_bytes().contains(&b'=') {
                return Err(PolicyError::BadName { what });
            }
            check_name(&what, key)?;
            check_name(&what, value)?;
        }
        Ok(())
    }

    fn check_view(&self) -> Result<(), PolicyError> {
        for mount in &self.view.mounts {
            let target = mount.target();
            if !self.mounts_wanted() {
                return Err(PolicyError::MountWithoutView {
                    target: target.clone(),
                });
            }
            check_path(target)?;
            if target.parent().is_none() {
                return Err(PolicyError::BadTarget {
                    path: target.clone(),
                    reason: "the root itself cannot be replaced".into(),
                });
            }
            match mount {
                Mount::Bind { source, .. } => check_path(source)?,
                Mount::Tmpfs {
                    access: Access::ReadWrite,
                    bytes: 0,
                    ..
                } => {
                    return Err(PolicyError::ImpossibleLimit {
                        limit: format!("bytes of `{target}`"),
                        value: 0,
                    });
                }
                Mount::Tmpfs { .. } => {}
            }
        }
        Ok(())
    }
}

impl Limits {
    /// Each limit with its name.
    pub(crate) fn named(&self) -> [(&'static str, Option<u64>); 5] {
        [
            ("memory_bytes", self.memory_bytes),
            ("processes", self.processes),
            ("file_bytes", self.file_bytes),
            ("open_files", self.open_files),
            ("cpu_seconds", self.cpu_seconds),
        ]
    }

    fn check(&self) -> Result<(), PolicyError> {
        // Without three descriptors nothing that reads or prints can start. A
        // file size of zero is a wish that makes sense: nothing is written.
        for (limit, value) in self.named() {
            let least = match limit {
                "open_files" => 4,
                "file_bytes" => 0,
                _ => 1,
            };
            if let Some(value) = value.filter(|value| *value < least) {
                return Err(PolicyError::ImpossibleLimit {
                    limit: limit.into(),
                    value,
                });
            }
        }
        Ok(())
    }
}

fn check_name(what: &str, name: &OsStr) -> Result<(), PolicyError> {
    if name.as_bytes().contains(&0) {
        return Err(PolicyError::BadName {
            what: what.to_owned(),
        });
    }
    Ok(())
}

fn check_path(path: &HostPath) -> Result<(), PolicyError> {
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() || goes_up || path.as_os_str().as_bytes().contains(&0) {
        return Err(PolicyError::BadPath { path: path.clone() });
    }
    Ok(())
}
