//! The words of a workspace backend, and the choice of one.
//!
//! Owns the trait that callers see, what they hand in and what they get. A
//! caller never asks which backend it has: a new one needs no change outside
//! this room. Mounts nothing and starts nothing.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::identity::Identities;
use super::layout::Basis;
use super::overlay::Warm;
use super::{BACKENDS, Error, History, Need, Snapshot, Stop};
use crate::git::Repository;
use crate::model::{AgentId, ChangeSet, ObjectId, View, ViewMode, Warning, WorkspaceChoice};

/// Makes workspaces, for agents that start from one snapshot.
///
/// They are captured and removed by [`capture`](super::capture) and
/// [`dispose`](super::dispose), whoever made them.
pub trait Backend: std::fmt::Debug + Send + Sync {
    /// Its name, as the record tells it.
    fn name(&self) -> &'static str;

    /// Makes a workspace in a directory that is empty and ours.
    ///
    /// # Errors
    /// Nothing is left behind then, the directory included. A full disk can
    /// be told by [`Error::is_disk`].
    fn create(&self, order: &Order<'_>) -> Result<Workspace, Error>;

    /// What a workspace takes of the disk for itself, beyond [`Need::SMALL`].
    ///
    /// Room for what workspaces share is kept by whoever makes it, in
    /// [`Backend::create`].
    ///
    /// # Errors
    /// What it would hold cannot be read.
    fn needs(&self, order: &Order<'_>) -> Result<Need, Error>;
}

/// Whether an agent may write its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It gets a copy and a registered worktree of its own.
    Writer,
    /// It looks only.
    Reader,
}

/// What one workspace is to be.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The parent's repository.
    pub repo: &'a Repository,
    /// What the agent starts from.
    pub snapshot: &'a Snapshot,
    /// Whose it is.
    pub agent: &'a AgentId,
    /// The agent's own directory: exists, is empty and ours.
    pub dir: &'a Path,
    /// Whether mounts can be made.
    pub mode: ViewMode,
    /// Globs of ignored files to take along.
    pub carry: &'a [String],
    /// Whether the agent may write.
    pub writer: Access,
    /// Asked while it is made.
    pub stop: Stop<'a>,
    /// The time by the caller's clock.
    pub now: Timestamp,
}

/// One agent's workspace.
#[derive(Debug)]
pub struct Workspace {
    /// The agent's own directory.
    pub dir: PathBuf,
    /// Its files, as they lie on the host: all of them, or those that the
    /// agent wrote over others.
    pub tree: PathBuf,
    /// How the agent sees them.
    pub view: View,
    /// What could not be taken along.
    pub warnings: Vec<Warning>,
    pub(super) repo: Repository,
    pub(super) basis: Basis,
    pub(super) identities: Identities,
    /// What its files lie over, held as long as anybody may look at them.
    pub(super) _stands_on: Option<Arc<dyn Any + Send + Sync>>,
}

impl Workspace {
    /// The commit of the snapshot that it started from.
    #[must_use]
    pub fn base(&self) -> &ObjectId {
        &self.basis.commit
    }

    /// Whether the agent finds a directory at a path beneath the top.
    #[must_use]
    pub fn has_directory(&self, below: &Path) -> bool {
        for layer in [&self.tree].into_iter().chain(&self.basis.lower()) {
            match layer.join(below).symlink_metadata() {
                Ok(metadata) => return metadata.is_dir(),
                // What hides the way to it in one layer hides all below.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return false,
                Err(_) => {}
            }
        }
        false
    }

    /// The top of the tree that it is a copy of.
    #[must_use]
    pub fn original(&self) -> &Path {
        self.repo.top()
    }

    /// Whose it is.
    #[must_use]
    pub fn agent(&self) -> &AgentId {
        &self.basis.agent
    }
}

/// What a capture needs besides the workspace.
#[derive(Debug, Clone, Copy)]
pub struct Harvest<'a> {
    /// Where files go that no tree holds: on the same file system as the
    /// workspace. Made if something is moved there, and only then.
    pub keep: &'a Path,
    /// The date of the result commit.
    pub at: Timestamp,
    /// The message of the result commit.
    pub message: &'a str,
}

/// What an agent changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// The trees, the paths between them, what was left out and why.
    pub changes: ChangeSet,
    /// What was moved to the keep directory, relative to it.
    pub kept: Vec<PathBuf>,
    /// The result on top of the snapshot; `None` when nothing changed.
    pub commit: Option<ObjectId>,
    /// The agent's own commits, where somebody looked for them.
    pub history: Option<History>,
}

/// The backends by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Shared layers and a private one.
    Overlay,
    /// Plain files that share their blocks with the parent's.
    Reflink,
    /// Plain files.
    Checkout,
}

/// Where workspaces would be made.
#[derive(Debug)]
pub struct Ground<'a> {
    /// The parent's repository.
    pub repo: &'a Repository,
    /// The directory beneath which the agents' directories lie; what they
    /// share goes there too.
    pub state: &'a Path,
    /// Where checkouts are kept that many runs share.
    pub bases: &'a Path,
    /// Whether mounts can be made.
    pub mode: ViewMode,
    /// Whether directories can be merged in `state`, or why not.
    pub merges: Result<(), &'a str>,
    /// What was looked over ahead of time.
    pub warm: Option<Warm>,
}

/// One line of the table of backends.
#[derive(Debug, Clone, Copy)]
pub struct BackendEntry {
    /// Which one.
    pub kind: BackendKind,
    /// What asks for it by name.
    pub choice: WorkspaceChoice,
    /// Tries whether it works on a ground: the reason for it, or against it.
    pub probe: fn(&Ground<'_>) -> Result<String, String>,
    /// Makes it.
    pub make: fn(Ground<'_>) -> Arc<dyn Backend>,
}

/// Chooses a backend, and says why.
///
/// # Errors
/// The one that was asked for by name is not to be had; none is put in its
/// place.
pub fn choose(
    choice: WorkspaceChoice,
    ground: Ground<'_>,
) -> Result<(Arc<dyn Backend>, String), Error> {
    let mut against: Vec<(&str, String)> = Vec::new();
    for entry in BACKENDS {
        if choice != WorkspaceChoice::Auto && choice != entry.choice {
            continue;
        }
        match (entry.probe)(&ground) {
            Ok(reason) => {
                let backend = (entry.make)(ground);
                // Why those that cost less were not chosen.
                let against = against
                    .iter()
                    .map(|(name, why)| format!("; no {name}: {why}"));
                let chosen = format!(
                    "{}: {reason}{}",
                    backend.name(),
                    against.collect::<String>()
                );
                return Ok((backend, chosen));
            }
            Err(why) => against.push((name_of(entry.choice), why)),
        }
    }
    let why = against.pop().map(|(_, why)| why);
    Err(Error::Unavailable {
        name: name_of(choice),
        why: why.unwrap_or_else(|| "it is not built yet".to_owned()),
    })
}

fn name_of(choice: WorkspaceChoice) -> &'static str {
    match choice {
        WorkspaceChoice::Auto => "auto",
        WorkspaceChoice::Overlay => "overlay",
        WorkspaceChoice::Reflink => "reflink",
        WorkspaceChoice::Checkout => "checkout",
    }
}
