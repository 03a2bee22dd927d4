//! What a run's agents have in common beyond a shared checkout.
//!
//! Owns the thin layer between it and an agent's own: the files in which the
//! parent differs, marks over those that it has not, ignored files that are
//! carried along, and the private git directory. Made once for all agents that
//! start from one snapshot; agents see it and cannot write it. Nothing of the
//! parent's is shared with it, not even a file's blocks under another name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::super::carry::carry;
use super::super::checkout::stat_index::{self, StatIndex};
use super::super::checkout::{private_git, writer::write_entries};
use super::super::error::file;
use super::super::identity::Identities;
use super::super::{Error, FileTime, Order, Snapshot};
use super::base::{Base, index_of};
use crate::git::{IndexRow, Objects, TreeEntry};
use crate::model::{ObjectId, RepoPath, TreeMode, Warning};

/// Makes the layer in a directory that exists; says what could not be carried.
pub(super) fn make(order: &Order<'_>, base: &Base, dir: &Path) -> Result<Vec<Warning>, Error> {
    let (tree, objects_at) = (dir.join("tree"), dir.join("objects"));
    for path in [&tree, &objects_at] {
        fs::create_dir(path).map_err(file("make", path))?;
    }
    let snapshot = order.snapshot;
    private_git::make(&tree, snapshot, &objects_at)?;
    let objects = order.repo.objects()?;
    let mut carried = Identities::default();
    let warnings = carry(order, &tree, &mut carried)?;
    let carries = carried.carried_paths().next().is_some();
    let mut changed = Changed::between(&objects, (&base.tree, snapshot), &carried)?;
    let own_index = snapshot.index_tree.as_ref() != Some(&base.tree);
    let unseen = |entry: &TreeEntry| !snapshot.seen.contains_key(&entry.path);
    let parents = if own_index || carries || changed.present.iter().any(unseen) {
        // Where it is written again, unless it is only asked for times.
        let target = match own_index {
            true => index_of(&tree),
            false => dir.join("parents-index"),
        };
        stat_index::open(order.repo, snapshot.index.as_ref(), &target)?
    } else {
        StatIndex::None
    };
    if carries {
        let newer = newer(base, &changed, &parents)?;
        changed.present.extend(newer);
    }
    let work: Vec<(TreeEntry, Option<FileTime>)> = changed
        .present
        .into_iter()
        .map(|entry| {
            let seen = snapshot.seen.get(&entry.path).copied();
            let time = seen.or_else(|| parents.modified(&entry.path, entry.mode, &entry.oid));
            (entry, time)
        })
        .collect();
    let written = write_entries(order.repo, (&tree, order.stop), work)?;
    for path in &changed.gone {
        white_out(&tree.join(path.as_path()))?;
    }
    if own_index {
        let rows = written.into_iter().map(|file| file.row);
        write_index(order, base, (&objects, parents), (&tree, rows.collect()))?;
    }
    Ok(warnings)
}

/// Files that the parent has with the same bytes and another time than the
/// shared checkout. What was built from them may be carried along, and build
/// tools go by the time alone.
fn newer(base: &Base, changed: &Changed, parents: &StatIndex) -> Result<Vec<TreeEntry>, Error> {
    let written: HashSet<&RepoPath> = changed.present.iter().map(|entry| &entry.path).collect();
    let shared = base.index()?;
    let mut found = Vec::new();
    for row in shared.rows()? {
        let Some(entry) = row.entry().filter(|entry| !written.contains(&entry.path)) else {
            continue;
        };
        let time = parents.modified(&entry.path, entry.mode, &entry.oid);
        if time.is_some_and(|time| time != row.stat.modified()) && !changed.hides(&entry.path) {
            found.push(entry);
        }
    }
    Ok(found)
}

/// The index that agents see where the shared checkout's is not the parent's.
fn write_index(
    order: &Order<'_>,
    base: &Base,
    (objects, parents): (&Objects, StatIndex),
    (tree, written): (&Path, Vec<IndexRow>),
) -> Result<(), Error> {
    let snapshot = order.snapshot;
    let target = index_of(tree);
    let shared = base.index()?;
    let mut known: HashMap<RepoPath, IndexRow> = HashMap::new();
    for row in shared.rows()? {
        if let Some(entry) = row.entry() {
            let stat = (!row.is_submodule()).then_some(row.stat);
            known.insert(entry.path.clone(), IndexRow { entry, stat });
        }
    }
    // What lies above hides what lies below.
    let above = written.into_iter().map(|row| (row.entry.path.clone(), row));
    known.extend(above);
    let Some(listed) = &snapshot.index_tree else {
        if snapshot.index.as_ref().is_some_and(|index| !index.exists()) {
            return white_out(&target);
        }
        let rows: Vec<IndexRow> = known.into_values().collect();
        return stat_index::refresh(parents, &rows, (order.repo, &snapshot.tree, &target));
    };
    let rows: Vec<IndexRow> = objects
        .entries(listed)?
        .into_iter()
        .map(|entry| {
            let stat = known.get(&entry.path).filter(|row| row.entry == entry);
            let stat = stat.and_then(|row| row.stat);
            IndexRow { entry, stat }
        })
        .collect();
    Ok(objects.write_index(&target, listed, &rows)?)
}

/// How a snapshot differs from a shared checkout, as files on disk.
struct Changed {
    /// Entries to be written.
    present: Vec<TreeEntry>,
    /// Files and whole directories that are not to be seen.
    gone: BTreeSet<RepoPath>,
}

impl Changed {
    /// Whether a path or a directory above it is gone.
    fn hides(&self, path: &RepoPath) -> bool {
        let mut at = Some(path.clone());
        while let Some(path) = at {
            if self.gone.contains(&path) {
                return true;
            }
            at = path.parent();
        }
        false
    }

    fn between(
        objects: &Objects,
        (base, snapshot): (&ObjectId, &Snapshot),
        carried: &Identities,
    ) -> Result<Self, Error> {
        let mut ground = Ground {
            objects,
            snapshot,
            carried: HashSet::new(),
            above_carried: HashSet::new(),
            empty: HashMap::new(),
        };
        for path in carried.carried_paths() {
            ground.carried.insert(path.clone());
            let mut parent = path.parent();
            while let Some(directory) = parent {
                parent = directory.parent();
                ground.above_carried.insert(directory);
            }
        }
        let mut present = Vec::new();
        let mut missing: BTreeSet<RepoPath> = snapshot.absent.clone();
        for change in objects.differences(base, &snapshot.tree)? {
            let path = change.path;
            match change.new {
                Some(_) if snapshot.absent.contains(&path) => {}
                Some((mode, oid)) => present.push(TreeEntry { path, mode, oid }),
                None => drop(missing.insert(path)),
            }
        }
        let mut gone = BTreeSet::new();
        for path in missing {
            gone.extend(ground.top_of(&path)?);
        }
        Ok(Self { present, gone })
    }
}

/// What stands at a directory's path in the snapshot.
enum Standing {
    Nothing,
    Directory,
    /// Hides what lies below by itself.
    Leaf,
    /// An empty directory, which does not.
    Submodule,
}

/// The snapshot as files, asked about directories.
struct Ground<'a> {
    objects: &'a Objects,
    snapshot: &'a Snapshot,
    /// Files that are in the layer already, and the directories above them.
    carried: HashSet<RepoPath>,
    above_carried: HashSet<RepoPath>,
    /// Whether all that a directory holds is absent.
    empty: HashMap<RepoPath, bool>,
}

impl Ground<'_> {
    /// The topmost path that has to be hidden for a file to be gone; none if
    /// something else hides it.
    fn top_of(&mut self, path: &RepoPath) -> Result<Option<RepoPath>, Error> {
        let mut top = match self.standing(path)? {
            // Its own path is a directory now, whose files are written.
            Standing::Directory | Standing::Submodule => return Ok(None),
            Standing::Leaf if self.carried.contains(path) => return Ok(None),
            Standing::Nothing | Standing::Leaf => path.clone(),
        };
        while let Some(parent) = top.parent() {
            match self.standing(&parent)? {
                Standing::Nothing => top = parent,
                Standing::Leaf => return Ok(None),
                Standing::Directory | Standing::Submodule => break,
            }
        }
        Ok(Some(top))
    }

    fn standing(&mut self, path: &RepoPath) -> Result<Standing, Error> {
        if self.carried.contains(path) {
            return Ok(Standing::Leaf);
        }
        if self.above_carried.contains(path) {
            return Ok(Standing::Directory);
        }
        let tree = &self.snapshot.tree;
        if let Some(entry) = self.objects.entry(tree, path)? {
            return Ok(match entry.mode {
                TreeMode::Gitlink => Standing::Submodule,
                _ if self.snapshot.absent.contains(path) => Standing::Nothing,
                TreeMode::File | TreeMode::Executable | TreeMode::Symlink => Standing::Leaf,
            });
        }
        let Some(directory) = self.objects.subtree(tree, path)? else {
            return Ok(Standing::Nothing);
        };
        if self.snapshot.absent.is_empty() {
            return Ok(Standing::Directory);
        }
        if let Some(empty) = self.empty.get(path) {
            return Ok(match empty {
                true => Standing::Nothing,
                false => Standing::Directory,
            });
        }
        let absent = |entry: TreeEntry| {
            let whole = [path.as_bytes(), b"/", entry.path.as_bytes()].concat();
            RepoPath::from_bytes(&whole).is_ok_and(|path| self.snapshot.absent.contains(&path))
        };
        let empty = self.objects.entries(&directory)?.into_iter().all(absent);
        self.empty.insert(path.clone(), empty);
        match empty {
            true => Ok(Standing::Nothing),
            false => Ok(Standing::Directory),
        }
    }
}

/// Puts the kernel's mark over a path that is not to be seen. Any user may
/// make this one device: it means nothing anywhere else.
fn white_out(path: &Path) -> Result<(), Error> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(file("make", directory))?;
    }
    let kind = FileType::CharacterDevice;
    mknodat(CWD, path, kind, Mode::empty(), makedev(0, 0))
        .map_err(|errno| file("mark as gone", path)(errno.into()))
}
