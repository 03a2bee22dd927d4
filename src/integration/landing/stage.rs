//! Writes new contents beside the repository and brings them to the disk.
//!
//! Owns the slots: regular files with their final permission bits, links with
//! their text. Bytes are written raw; no filter runs. Nothing of a set-id bit
//! is ever made.

use std::fs::DirBuilder;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::plan::Plan;
use super::watch::{Point, Watch, tell};
use crate::integration::objects::read;
use crate::integration::{Entry, Error, ObjectStore};
use crate::model::{RepoPath, TreeMode};
use crate::store::{self, Kind, Place, Root};

/// From this many files on, one sync of the whole file system is cheaper than
/// one for each file.
const MANY: usize = 64;

/// Makes the staging directory; what leads to it is made where missing.
pub(super) fn open(staging: &Path) -> Result<Root, store::Error> {
    if let Some(parent) = staging.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(store::Error::io("create", parent))?;
    }
    DirBuilder::new()
        .mode(0o700)
        .create(staging)
        .map_err(store::Error::io("create", staging))?;
    if let Some(parent) = staging.parent() {
        store::sync_directory(parent)?;
    }
    Root::open(staging)
}

/// Fills the slots of a plan; returns the inode of each.
pub(super) fn fill(
    objects: &impl ObjectStore,
    root: &Root,
    staging: &Root,
    plan: &Plan,
    watch: &dyn Watch,
) -> Result<Vec<u64>, Error> {
    let land = |source| Error::Land {
        tree: root.path().to_owned(),
        source,
    };
    let sync_each = plan.staged.len() < MANY;
    let mut inodes = Vec::with_capacity(plan.steps.len());
    for (step, (path, _)) in plan.steps(|_| 0).iter().zip(&plan.steps) {
        let entry = plan.staged.get(path).filter(|_| step.act.is_staged());
        let Some(entry) = entry else {
            inodes.push(0);
            continue;
        };
        let bytes = read(objects, &entry.oid)?;
        let mode = permissions(root, path, entry).map_err(land)?;
        let name = step.slot_name();
        let place = staging.make_place(&name).map_err(land)?;
        write(&place, entry, &bytes, mode, sync_each).map_err(land)?;
        let stat = place.stat().map_err(land)?;
        inodes.push(stat.map_or(0, |stat| stat.inode));
        tell(watch, Point::Staged(step.slot))?;
    }
    if sync_each {
        staging.sync_directory(None).map_err(land)?;
    } else {
        staging.sync_file_system().map_err(land)?;
    }
    Ok(inodes)
}

/// As git makes them, and no wider than what the person had at the path.
fn permissions(root: &Root, path: &RepoPath, entry: &Entry) -> Result<u32, store::Error> {
    let usual = if entry.mode == TreeMode::Executable {
        0o777
    } else {
        0o666
    };
    let narrowed = root
        .stat(path)?
        .filter(|stat| stat.kind == Kind::File)
        .map(|stat| {
            let readers = stat.mode & 0o444;
            usual & (stat.mode | 0o200 | readers >> 2)
        });
    Ok(narrowed.unwrap_or(usual))
}

fn write(
    place: &Place,
    entry: &Entry,
    bytes: &[u8],
    mode: u32,
    sync_each: bool,
) -> Result<(), store::Error> {
    if entry.mode == TreeMode::Symlink {
        return place.create_link(bytes);
    }
    let failed = || store::Error::io("write", place.shown());
    let mut file = place.create_file(mode)?;
    file.write_all(bytes).map_err(failed())?;
    if sync_each {
        file.sync_all().map_err(failed())?;
    }
    Ok(())
}
