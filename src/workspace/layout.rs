//! What lies in an agent's directory.
//!
//! Owns the names in it, the note of what a workspace started from, and
//! opening one again after its launcher died. The agent reaches `tree`,
//! `home` and `tmp` only, and what it changes in a cache lands in `caches`;
//! the rest is believed.
//!
//! ```text
//! tree/ objects/ (or work/) home/ tmp/ caches/   base.json   identities   ready
//! ```

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::error::file;
use super::identity::Identities;
use super::lowers::Attributes;
use super::{Access, BackendKind, Error, Mirror, Order, Workspace};
use crate::git::Repository;
use crate::model::{
    AgentId, ObjectId, PathText, RepoPath, View, ViewAccess, ViewMode, ViewMount, ViewSource,
};

const SCHEMA: &str = "cofferdam.workspace/1";

/// Path bytes in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PathCode(String);

impl PathCode {
    fn of(path: &Path) -> Self {
        Self(STANDARD.encode(path.as_os_str().as_bytes()))
    }

    pub(super) fn path(&self) -> Option<PathBuf> {
        let bytes = STANDARD.decode(&self.0).ok()?;
        Some(PathBuf::from(OsString::from_vec(bytes)))
    }
}

/// What a workspace started from; written before anything else of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Basis {
    schema: String,
    pub(super) agent: AgentId,
    pub(super) backend: BackendKind,
    pub(super) access: Access,
    mounted: bool,
    pub(super) common_dir: PathCode,
    pub(super) commit: ObjectId,
    pub(super) tree: ObjectId,
    pub(super) head: Option<ObjectId>,
    absent: Vec<PathText>,
    alternates: Vec<PathCode>,
    /// What lies beneath the agent's own files, topmost first; none for a
    /// whole copy.
    #[serde(default)]
    lower: Vec<PathCode>,
    /// Where the agent finds the parent's objects, if not in its directory.
    #[serde(default)]
    objects: Option<PathCode>,
    /// Which marks the kernel leaves among the agent's files, over layers.
    #[serde(default)]
    pub(super) marks: Option<Attributes>,
}

/// The layers that a workspace is made over.
#[derive(Debug)]
pub(super) struct Layered {
    /// The directory of what a run's agents share.
    pub(super) delta: PathBuf,
    /// The files of the shared checkout.
    pub(super) base: PathBuf,
}

impl Basis {
    pub(super) fn of(order: &Order<'_>, backend: BackendKind) -> Self {
        let snapshot = order.snapshot;
        let Mirror { alternates, .. } = &snapshot.mirror;
        Self {
            schema: SCHEMA.to_owned(),
            agent: order.agent.clone(),
            backend,
            access: order.writer,
            mounted: order.mode == ViewMode::Mounted,
            common_dir: PathCode::of(order.repo.common_dir()),
            commit: snapshot.commit.clone(),
            tree: snapshot.tree.clone(),
            head: snapshot.head.clone(),
            absent: snapshot.absent.iter().map(PathText::from).collect(),
            alternates: alternates.iter().map(|path| PathCode::of(path)).collect(),
            lower: Vec::new(),
            objects: None,
            marks: None,
        }
    }

    /// The same, over layers, for an agent's directory.
    pub(super) fn over(mut self, layers: &Layered, dir: &Path) -> Self {
        let lower = [&layers.delta.join("tree"), &layers.base];
        self.lower = lower.map(|path| PathCode::of(path)).to_vec();
        self.objects = Some(PathCode::of(&layers.delta.join("objects")));
        self.marks = Some(Attributes::here(dir));
        self
    }

    /// What lies beneath the agent's own files, topmost first.
    pub(super) fn lower(&self) -> Vec<PathBuf> {
        self.lower.iter().filter_map(PathCode::path).collect()
    }

    pub(super) fn absent(&self) -> BTreeSet<RepoPath> {
        let paths = self.absent.iter();
        paths.filter_map(|path| path.to_path().ok()).collect()
    }

    fn save(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join("base.json");
        let bytes = serde_json::to_vec(self).expect("because it is plain data");
        let temporary = dir.join("base.new");
        fs::write(&temporary, bytes).map_err(file("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(file("write", &path))
    }

    pub(super) fn load(dir: &Path) -> Result<Self, Error> {
        let path = dir.join("base.json");
        let bytes = fs::read(&path).map_err(file("read", &path))?;
        let malformed = |why: String| Error::Malformed {
            path: path.clone(),
            why,
        };
        let basis: Self =
            serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
        match basis.schema.as_str() {
            SCHEMA => Ok(basis),
            other => Err(malformed(format!("its schema is `{other}`"))),
        }
    }
}

/// The names in an agent's directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout<'a>(pub(super) &'a Path);

impl Layout<'_> {
    pub(super) fn tree(self) -> PathBuf {
        self.0.join("tree")
    }

    pub(super) fn objects(self) -> PathBuf {
        self.0.join("objects")
    }

    fn work(self) -> PathBuf {
        self.0.join("work")
    }

    pub(super) fn identities(self) -> PathBuf {
        self.0.join("identities")
    }

    fn ready(self) -> PathBuf {
        self.0.join("ready")
    }

    /// Makes the directories and writes down what they are for.
    pub(super) fn begin(self, basis: &Basis) -> Result<(), Error> {
        basis.save(self.0)?;
        let beside = match basis.lower.is_empty() {
            true => ("objects", 0o755),
            false => ("work", 0o700),
        };
        for (name, mode) in [("tree", 0o755), beside, ("home", 0o700), ("tmp", 0o700)] {
            let path = self.0.join(name);
            fs::DirBuilder::new()
                .mode(mode)
                .create(&path)
                .map_err(file("make", &path))?;
        }
        Ok(())
    }

    /// Puts the person's git identity into the private home directory.
    pub(super) fn write_identity(self, text: &str) -> Result<(), Error> {
        let path = self.0.join("home").join(".gitconfig");
        fs::write(&path, text).map_err(file("write", &path))
    }

    /// Marks the workspace as whole: only then may an agent begin, and only
    /// then does a missing file mean that the agent deleted it.
    pub(super) fn finish(self) -> Result<(), Error> {
        let path = self.ready();
        fs::write(&path, b"").map_err(file("write", &path))
    }
}

/// How an agent sees the workspace in `dir`.
pub(super) fn view(repo: &Repository, basis: &Basis, dir: &Path) -> View {
    let mode = match basis.mounted {
        true => ViewMode::Mounted,
        false => ViewMode::InPlace,
    };
    let mut view = foreseen(repo, (basis.access, mode), dir);
    if let Some(objects) = basis.objects.as_ref().and_then(PathCode::path) {
        over_layers(&mut view, Layout(dir), basis.lower(), &objects);
    }
    let alternates = basis.alternates.iter().filter_map(PathCode::path);
    view.readable.extend(alternates);
    if basis.mounted && lends_by_relative_paths(repo.objects_dir()) {
        hide_alternates(&mut view, repo, Layout(dir));
    }
    view
}

/// Whether the parent's objects directory names another relative to itself.
fn lends_by_relative_paths(objects: &Path) -> bool {
    let text = fs::read(objects.join("info/alternates")).unwrap_or_default();
    text.split(|b| *b == b'\n')
        .any(|line| !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b"/"))
}

/// Shows an empty list where the parent's objects are mounted: from there its
/// paths lead elsewhere. The private list has all of them.
fn hide_alternates(view: &mut View, repo: &Repository, layout: Layout<'_>) {
    let lent = ViewSource::Path(repo.objects_dir().to_owned());
    if let Some(at) = view.mounts.iter().position(|mount| mount.source == lent) {
        let hidden = ViewMount {
            // Empty as it is, and it stays so.
            source: ViewSource::Path(layout.ready()),
            target: view.mounts[at].target.join("info/alternates"),
            access: ViewAccess::ReadOnly,
        };
        view.mounts.insert(at + 1, hidden);
    }
}

/// The same view, its files merged from layers and its objects at a place
/// that all agents of a run share.
fn over_layers(view: &mut View, layout: Layout<'_>, lower: Vec<PathBuf>, objects: &Path) {
    let own = layout.objects();
    for path in view.readable.iter_mut().filter(|path| **path == own) {
        objects.clone_into(path);
    }
    for mount in &mut view.mounts {
        if mount.target == own {
            objects.clone_into(&mut mount.target);
        } else if mount.source == ViewSource::Path(layout.tree()) {
            mount.source = ViewSource::Layers {
                lower: lower.clone(),
                upper: layout.tree(),
                work: layout.work(),
            };
        }
    }
}

/// How an agent would see a workspace in `dir`, whether or not there is one.
#[must_use]
pub fn foreseen(repo: &Repository, (writer, mode): (Access, ViewMode), dir: &Path) -> View {
    let layout = Layout(dir);
    let (home, tmp) = (dir.join("home"), dir.join("tmp"));
    let mounted = mode == ViewMode::Mounted;
    let access = match writer {
        Access::Writer => ViewAccess::ReadWrite,
        Access::Reader => ViewAccess::ReadOnly,
    };
    let objects = if mounted {
        layout.objects()
    } else {
        repo.objects_dir().to_owned()
    };
    let mut readable = vec![objects];
    let root = if mounted {
        repo.top().to_owned()
    } else {
        layout.tree()
    };
    let mut writable = vec![home.clone(), tmp.clone()];
    match writer {
        Access::Writer => writable.insert(0, root.clone()),
        Access::Reader => readable.push(root.clone()),
    }
    let mounts = match mounted {
        false => Vec::new(),
        true => vec![
            // First: the mount over the repository hides where it comes from.
            ViewMount {
                source: ViewSource::Path(repo.objects_dir().to_owned()),
                target: layout.objects(),
                access: ViewAccess::ReadOnly,
            },
            ViewMount {
                source: ViewSource::Path(layout.tree()),
                target: repo.top().to_owned(),
                access,
            },
        ],
    };
    View {
        mode,
        root,
        mounts,
        writable,
        readable,
        home,
        tmp,
    }
}

/// Opens a workspace again from its directory, after its launcher died.
///
/// What it started from is read from disk. A capture then finds the same as
/// the launcher would have found.
///
/// # Errors
/// The directory holds no workspace, another agent's, or one that was never
/// finished: no agent has run in it.
pub fn reopen(repo: &Repository, agent: &AgentId, dir: &Path) -> Result<Workspace, Error> {
    let basis = Basis::load(dir)?;
    let layout = Layout(dir);
    if basis.agent != *agent {
        return Err(Error::Malformed {
            path: dir.join("base.json"),
            why: format!("it belongs to {}, not to {agent}", basis.agent),
        });
    }
    if !layout.ready().exists() {
        return Err(Error::Unfinished {
            dir: dir.to_owned(),
        });
    }
    Ok(Workspace {
        dir: dir.to_owned(),
        tree: layout.tree(),
        view: view(repo, &basis, dir),
        warnings: Vec::new(),
        _stands_on: None,
        repo: repo.clone(),
        identities: Identities::load(&layout.identities()),
        basis,
    })
}
