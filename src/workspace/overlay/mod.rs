//! The `overlay` backend: shared layers and a private one, merged by the kernel.
//!
//! Owns what an agent's view is made of: a checkout that all agents of a tree
//! share, a thin layer with what the parent has besides, and a directory for
//! what this agent changes. Costs nothing per file; the mount is made in the
//! agent's own namespace by the helper. Nothing is mounted on the host.
//!
//! ```text
//! agent's own   <agent>/tree      all that it changes
//! delta         <run>/layers/N    the parent's uncommitted state, carried files, .git
//! base          bases/…           the files of a tree, and the index that lists them
//! ```
//!
//! - `base`: the cache of shared checkouts, `look_over`: whether one is as it
//!   was made, `sweep`: what is of no use any more
//! - `delta`: the layer in between

pub(super) mod base;
mod delta;
mod look_over;
mod sweep;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use jiff::Timestamp;

use self::base::{Base, Bases, Look};
use super::checkout::stat_index;
use super::dispose::dispose;
use super::error::file;
use super::layout::{Basis, Layered, Layout, view};
use super::{
    Access, Backend, BackendKind, Error, Ground, Need, Order, Snapshot, Stop, Workspace, carry,
    need,
};
use crate::git::{Objects, RegisteredHead, Registration, Repository};
use crate::model::{ObjectId, ViewMode, Warning, is_within};

pub use sweep::{sweep_bases, sweep_half_made};

/// As many differing files are written anew for each run rather than once into
/// a checkout of their own.
const FEW: usize = 256;
/// The same as a share of all files of the tree.
const SHARE: usize = 50;

/// How long whoever waits for layers waits before it asks again.
const PAUSE: Duration = Duration::from_millis(1);

/// After so long the files of a base in use are looked at once more: to do it
/// for every agent would cost more than all else that one costs.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// After so long its directories are: agents that start together share a look.
const LOOK_AT_DIRECTORIES_AGAIN: Duration = Duration::from_secs(1);

/// Layers of one snapshot, by what is carried along.
type ByCarried = HashMap<Vec<String>, Arc<Layers>>;

#[derive(Debug)]
struct Overlay {
    bases: PathBuf,
    place: PathBuf,
    layers: Mutex<ByCarried>,
    warm: Mutex<Option<Warm>>,
}

/// What agents share, held as long as any of them may live.
#[derive(Debug)]
struct Layers {
    base: Base,
    looked: Mutex<Looked>,
    delta: PathBuf,
    warnings: Vec<Warning>,
}

/// When a base was looked at last.
#[derive(Debug)]
struct Looked {
    at_files: Timestamp,
    at_directories: Timestamp,
}

impl Looked {
    fn now(now: Timestamp) -> Self {
        Self {
            at_files: now,
            at_directories: now,
        }
    }
}

impl Layers {
    fn are_still_as_made(&self, now: Timestamp) -> bool {
        let looked = self.looked.lock();
        let mut looked = looked.unwrap_or_else(PoisonError::into_inner);
        if !is_within(looked.at_files, LOOK_AGAIN, now) {
            *looked = Looked::now(now);
            return self.base.is_still_as_made(Look::AtFiles);
        }
        if !is_within(looked.at_directories, LOOK_AT_DIRECTORIES_AGAIN, now) {
            looked.at_directories = now;
            return self.base.is_still_as_made(Look::AtDirectories);
        }
        true
    }
}

/// A shared checkout that was looked over while the parent was.
///
/// To look at every file of it takes a moment; there is one anyway, in which
/// git looks at every file of the parent.
#[derive(Debug)]
pub struct Warm(Base);

/// Looks over the shared checkout of the parent's commit, if there is one.
/// Whatever stands in the way is met again by who needs it.
#[must_use]
pub fn warm(repo: &Repository, bases: &Path) -> Option<Warm> {
    let bases = Bases::of(repo, bases).ok()?;
    let head = repo.head().ok()??;
    let tree = repo.objects().ok()?.tree_of(&head).ok()?;
    bases.find(&tree).ok()?.map(Warm)
}

/// Works where the helper can merge directories.
pub(super) fn probe(ground: &Ground<'_>) -> Result<String, String> {
    match ground.mode {
        ViewMode::InPlace => Err("no mounts can be made here".to_owned()),
        ViewMode::Mounted => match ground.merges {
            Ok(()) => usable(ground.bases),
            Err(why) => Err(why.to_owned()),
        },
    }
}

/// Whether shared checkouts can be made and found.
fn usable(bases: &Path) -> Result<String, String> {
    use rustix::fs::Access;
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match rustix::fs::access(bases, all) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {
            Ok("the machine merges directories in the state directory".to_owned())
        }
        Err(errno) => Err(format!(
            "`{}`, where shared checkouts lie, cannot be used: {errno}",
            bases.display()
        )),
    }
}

pub(super) fn make(ground: Ground<'_>) -> Arc<dyn Backend> {
    Arc::new(Overlay {
        bases: ground.bases.to_owned(),
        place: ground.state.join("layers"),
        layers: Mutex::default(),
        warm: Mutex::new(ground.warm),
    })
}

impl Backend for Overlay {
    fn name(&self) -> &'static str {
        "overlay"
    }

    fn create(&self, order: &Order<'_>) -> Result<Workspace, Error> {
        let layers = self.layers(order)?;
        create(order, &layers).inspect_err(|_| {
            // The reason for the failure is what the caller must hear; what
            // cannot be removed now is found by its directory later.
            drop(dispose(order.dir));
        })
    }

    /// Nothing: all that it starts with is shared.
    fn needs(&self, _order: &Order<'_>) -> Result<Need, Error> {
        Ok(Need::default())
    }
}

impl Overlay {
    /// The layers for an order, made by the first who needs them.
    fn layers(&self, order: &Order<'_>) -> Result<Arc<Layers>, Error> {
        let mut made = self.made(order.stop)?;
        if let Some(layers) = made.get(order.carry) {
            if layers.are_still_as_made(order.now) {
                return Ok(layers.clone());
            }
            tracing::error!(
                base = %layers.base.files().display(),
                "a shared checkout was changed while agents work on it: compare what they did \
                 with its files before you use it; later agents get another one"
            );
            made.remove(order.carry);
        }
        let base = self.base(order)?;
        fs::create_dir_all(&self.place).map_err(file("make", &self.place))?;
        let delta = tempfile::Builder::new()
            .prefix("layer-")
            .tempdir_in(&self.place)
            .map_err(file("make a directory in", &self.place))?;
        let _room = need::reserve(&self.place, carry::needs(order)?)?;
        let warnings = delta::make(order, &base, delta.path())?;
        let layers = Arc::new(Layers {
            looked: Mutex::new(Looked::now(order.now)),
            base,
            delta: delta.keep(),
            warnings,
        });
        made.insert(order.carry.to_vec(), layers.clone());
        Ok(layers)
    }

    /// The layers so far, once nobody is making some.
    fn made(&self, stop: Stop<'_>) -> Result<MutexGuard<'_, ByCarried>, Error> {
        loop {
            match self.layers.try_lock() {
                Ok(made) => return Ok(made),
                Err(TryLockError::Poisoned(made)) => return Ok(made.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            stop.check()?;
            std::thread::sleep(PAUSE);
        }
    }

    /// The shared checkout that the fewest files have to be added to.
    ///
    /// One of another commit serves as well where little differs: a person
    /// commits more often than anybody wants to wait for a whole checkout.
    fn base(&self, order: &Order<'_>) -> Result<Base, Error> {
        let snapshot = order.snapshot;
        let bases = Bases::of(order.repo, &self.bases)?;
        let objects = order.repo.objects()?;
        let wanted = wanted(&objects, snapshot)?;
        // One that was looked over ahead is used once: the next snapshot comes
        // later, and who knows what happened meanwhile.
        let warm = self
            .warm
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Warm(base)) = warm
            && base.tree == wanted
        {
            return Ok(base);
        }
        if let Some(base) = bases.find(&wanted)? {
            return Ok(base);
        }
        for tree in bases.trees()?.into_iter().take(2) {
            if few(&objects, &tree, &snapshot.tree)?
                && let Some(base) = bases.find(&tree)?
            {
                return Ok(base);
            }
        }
        let _room = need::reserve(&self.bases, need::of_files(order)?)?;
        bases.require(&wanted, order.stop, |scratch| {
            let index = snapshot.index.as_ref();
            let index = stat_index::open(order.repo, index, &scratch.join("index"))?;
            base::times_of(&objects, &wanted, |entry| {
                index.modified(&entry.path, entry.mode, &entry.oid)
            })
        })
    }
}

/// The tree that a shared checkout is best made of: the commit's, which
/// lasts, unless the parent's files have little to do with it.
fn wanted(objects: &Objects, snapshot: &Snapshot) -> Result<ObjectId, Error> {
    let committed = match &snapshot.head {
        Some(head) => objects.tree_of(head)?,
        None => objects.empty_tree()?,
    };
    Ok(match few(objects, &committed, &snapshot.tree)? {
        true => committed,
        false => snapshot.tree.clone(),
    })
}

fn few(objects: &Objects, base: &ObjectId, tree: &ObjectId) -> Result<bool, Error> {
    if base == tree {
        return Ok(true);
    }
    // Objects of a tree that nothing names any more may be gone.
    let Ok(differences) = objects.differences(base, tree) else {
        return Ok(false);
    };
    let many = differences.len();
    Ok(many <= FEW || many * SHARE <= objects.entries(tree)?.len())
}

fn create(order: &Order<'_>, layers: &Arc<Layers>) -> Result<Workspace, Error> {
    let layout = Layout(order.dir);
    let layered = Layered {
        delta: layers.delta.clone(),
        base: layers.base.files(),
    };
    let basis = Basis::of(order, BackendKind::Overlay).over(&layered, order.dir);
    layout.begin(&basis)?;
    if order.writer == Access::Writer {
        let head = order.snapshot.head.as_ref();
        let head = head.unwrap_or(&order.snapshot.commit);
        let head = RegisteredHead::Detached(head.clone());
        Registration::register(order.repo, order.agent, &head, &layout.tree())?;
    }
    layout.write_identity(&order.snapshot.mirror.identity())?;
    layout.finish()?;
    Ok(Workspace {
        dir: order.dir.to_owned(),
        tree: layout.tree(),
        view: view(order.repo, &basis, order.dir),
        warnings: layers.warnings.clone(),
        repo: order.repo.clone(),
        basis,
        identities: super::identity::Identities::default(),
        _stands_on: Some(layers.clone()),
    })
}
