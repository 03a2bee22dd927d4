//! What a workspace asks to be mounted.
//!
//! A backend mounts nothing itself: it hands out this list, confinement turns
//! it into a policy, and the helper makes it in the same namespace set-up as
//! the cage. Plain data; no path is opened here.

use std::path::PathBuf;

/// Whether the machine lets the helper mount at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewMode {
    /// The copy is mounted at the repository's own path.
    Mounted,
    /// No mount namespace is to be had: the copy stands where it lies.
    InPlace,
}

/// What may be done through a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewAccess {
    /// Looked at only.
    ReadOnly,
    /// Written too.
    ReadWrite,
}

/// What is seen at a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewSource {
    /// A directory or file of the host.
    Path(PathBuf),
    /// Directories merged into one; what changes lands in `upper` alone.
    Layers {
        /// What is shared, topmost first.
        lower: Vec<PathBuf>,
        /// What takes the changes.
        upper: PathBuf,
        /// What the kernel needs besides, on the same file system.
        work: PathBuf,
    },
}

/// One mount: a source of the host seen at a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewMount {
    /// What is seen.
    pub source: ViewSource,
    /// Where the agent sees it.
    pub target: PathBuf,
    /// Whether the agent may write it.
    pub access: ViewAccess,
}

/// How one agent sees its workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Whether mounts are made.
    pub mode: ViewMode,
    /// The path at which the agent sees its copy: the repository's own where
    /// mounts are made, else where the copy lies.
    pub root: PathBuf,
    /// In order; empty for [`ViewMode::InPlace`].
    pub mounts: Vec<ViewMount>,
    /// Paths, as the agent sees them, that it may write.
    pub writable: Vec<PathBuf>,
    /// Paths, as the agent sees them, that it may read beyond the system's own.
    pub readable: Vec<PathBuf>,
    /// Its private home directory.
    pub home: PathBuf,
    /// Its private directory for temporary files.
    pub tmp: PathBuf,
}
