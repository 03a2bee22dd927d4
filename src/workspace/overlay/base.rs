//! Checkouts that many agents share.
//!
//! Owns the cache of them: one directory a tree, made once, never changed
//! afterwards, shown to agents as a layer that nobody can write. Each is
//! looked over before a run uses it, file by file, and one in which anything
//! was touched is not used again. How many there are is bounded; one in use is
//! never taken away, whoever uses it.
//!
//! ```text
//! bases/<repository>/<tree>-<generation>/   tree/ (with .git/index)   base.json
//!                   /<tree>-<generation>.lock   held by its users; its time is the last use
//!                   /building.lock              one is made at a time
//! ```

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::checkout::writer::write_entries;
use super::super::dispose::remove_beneath;
use super::super::error::file;
use super::super::{Error, FileTime, Stop};
use super::look_over;
use super::sweep::remove_unless_held;
use crate::git::{IndexFile, IndexRow, ObjectFormat, Objects, Repository, TreeEntry};
use crate::model::{ObjectId, RepoPath};
use crate::store::{self, Alone, Shared};

const SCHEMA: &str = "cofferdam.base/1";
/// As many are kept of one repository, those in use not counted.
const KEPT: usize = 4;
/// The lock of whoever makes one.
pub(super) const BUILDING: &str = "building.lock";
const PAUSE: Duration = Duration::from_millis(5);

/// When files of a tree were modified in the parent, where that is known.
pub(in super::super) type Times = HashMap<RepoPath, (ObjectId, FileTime)>;

/// The shared checkouts of one repository.
#[derive(Debug)]
pub(in super::super) struct Bases {
    repo: Repository,
    dir: PathBuf,
}

/// What is known of a base besides its files.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    schema: String,
    /// Files are not forced to the disk: after the machine went down they may
    /// be anything.
    boot: String,
}

/// One of them, which nobody takes away as long as this is held.
#[derive(Debug)]
pub(in super::super) struct Base {
    pub(in super::super) tree: ObjectId,
    dir: PathBuf,
    _hold: Shared,
}

/// How closely a base is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Look {
    AtDirectories,
    AtFiles,
}

impl Base {
    /// Its files, and `.git/index` that lists them.
    pub(in super::super) fn files(&self) -> PathBuf {
        self.dir.join("tree")
    }

    fn held(tree: &ObjectId, dir: PathBuf, hold: Shared) -> Self {
        Self {
            tree: tree.clone(),
            dir,
            _hold: hold,
        }
    }

    /// Whether it is still as it was made.
    ///
    /// That something was removed, added or replaced is seen always; that a
    /// file was written in place, only by a look at all of them.
    pub(in super::super) fn is_still_as_made(&self, look: Look) -> bool {
        match look {
            Look::AtDirectories => look_over::keeps_its_directories(&self.dir),
            Look::AtFiles => look_over::is_untouched(&self.dir, ObjectFormat::of(&self.tree)),
        }
    }

    /// What its own index says of its files.
    pub(super) fn index(&self) -> Result<IndexFile, Error> {
        let format = ObjectFormat::of(&self.tree);
        Ok(IndexFile::read(&index_of(&self.files()), format)?)
    }
}

pub(super) fn index_of(files: &Path) -> PathBuf {
    files.join(".git").join("index")
}

impl Bases {
    /// The bases of a repository beneath the directory of all bases.
    pub(in super::super) fn of(repo: &Repository, all: &Path) -> Result<Self, Error> {
        let dir = all.join(repo.key()?);
        fs::create_dir_all(&dir).map_err(file("make", &dir))?;
        let repo = repo.clone();
        Ok(Self { repo, dir })
    }

    /// The base of a tree, if there is a good one.
    pub(in super::super) fn find(&self, tree: &ObjectId) -> Result<Option<Base>, Error> {
        for name in self.generations()? {
            if tree_of(&name).as_ref() == Some(tree)
                && let Some(base) = self.open(&name, tree)?
            {
                return Ok(Some(base));
            }
        }
        Ok(None)
    }

    /// The trees that there are bases of, the one used last first.
    pub(in super::super) fn trees(&self) -> Result<Vec<ObjectId>, Error> {
        let names = self.generations()?;
        Ok(names.iter().filter_map(|name| tree_of(name)).collect())
    }

    /// The base of a tree, made if there is none.
    pub(in super::super) fn require(
        &self,
        tree: &ObjectId,
        stop: Stop<'_>,
        times: impl FnOnce(&Path) -> Result<Times, Error>,
    ) -> Result<Base, Error> {
        if let Some(base) = self.find(tree)? {
            return Ok(base);
        }
        let _building = self.building(stop)?;
        // Somebody else may have made it meanwhile.
        if let Some(base) = self.find(tree)? {
            return Ok(base);
        }
        self.sweep(KEPT - 1)?;
        let made = tempfile::Builder::new()
            .prefix("new-")
            .tempdir_in(&self.dir)
            .map_err(file("make a directory in", &self.dir))?;
        self.build(tree, (made.path(), stop), times)?;
        let suffix = made.path().file_name().unwrap_or_default();
        let suffix = suffix.to_string_lossy().replace("new-", "");
        let name = format!("{tree}-{suffix}");
        // The hold comes first: from the rename on anybody may find it.
        let hold = Shared::take(&self.lock(&name))?;
        let dir = self.dir.join(&name);
        let made = made.keep();
        fs::rename(&made, &dir).map_err(file("make", &dir))?;
        match hold {
            Some(hold) => Ok(Base::held(tree, dir, hold)),
            // Nobody knew the name before, so nobody was taking it away.
            None => Err(file("hold", &dir)(std::io::ErrorKind::WouldBlock.into())),
        }
    }

    /// Waits until nobody else makes one.
    fn building(&self, stop: Stop<'_>) -> Result<Alone, Error> {
        loop {
            stop.check()?;
            // Whoever found nothing of use took the directory away.
            fs::create_dir_all(&self.dir).map_err(file("make", &self.dir))?;
            match Alone::try_take(&self.dir.join(BUILDING)) {
                Ok(Some(alone)) => return Ok(alone),
                Ok(None) => {}
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn build(
        &self,
        tree: &ObjectId,
        (dir, stop): (&Path, Stop<'_>),
        times: impl FnOnce(&Path) -> Result<Times, Error>,
    ) -> Result<(), Error> {
        let files = dir.join("tree");
        fs::create_dir(&files).map_err(file("make", &files))?;
        let objects = self.repo.objects()?;
        let times = times(dir)?;
        let work: Vec<(TreeEntry, Option<FileTime>)> = objects
            .entries(tree)?
            .into_iter()
            .map(|entry| {
                let known = times.get(&entry.path).filter(|(oid, _)| *oid == entry.oid);
                let time = known.map(|(_, time)| *time);
                (entry, time)
            })
            .collect();
        let written = write_entries(&self.repo, (&files, stop), work)?;
        let rows: Vec<IndexRow> = written.into_iter().map(|file| file.row).collect();
        let git = files.join(".git");
        fs::create_dir(&git).map_err(file("make", &git))?;
        objects.write_index(&index_of(&files), tree, &rows)?;
        look_over::note(dir, &rows)?;
        let note = Note {
            schema: SCHEMA.to_owned(),
            boot: boot(),
        };
        let path = dir.join("base.json");
        let text = serde_json::to_vec(&note).expect("because it is plain data");
        fs::write(&path, text).map_err(file("write", &path))
    }

    /// Opens one that is as it was made; one that is not is marked.
    fn open(&self, name: &str, tree: &ObjectId) -> Result<Option<Base>, Error> {
        let Some(hold) = Shared::take(&self.lock(name))? else {
            return Ok(None);
        };
        let dir = self.dir.join(name);
        if is_current(&dir) && look_over::is_untouched(&dir, ObjectFormat::of(tree)) {
            return Ok(Some(Base::held(tree, dir, hold)));
        }
        tracing::warn!(
            base = name,
            "a shared checkout is not what was made, or of an earlier start of the machine"
        );
        // If the mark cannot be made it is looked over, and refused, again.
        drop(File::create(dir.join("touched")));
        Ok(None)
    }

    /// Takes away what is of no use, and all but the `keep` used last; what
    /// somebody holds stays.
    pub(in super::super) fn sweep(&self, keep: usize) -> Result<(), Error> {
        let mut kept = 0;
        for name in self.generations()? {
            let dir = self.dir.join(&name);
            if is_current(&dir) && kept < keep {
                kept += 1;
                continue;
            }
            remove_unless_held(&dir, &self.lock(&name))?;
        }
        // Only the holder of the building lock makes these, and that is us.
        for entry in fs::read_dir(&self.dir).map_err(file("list", &self.dir))? {
            let entry = entry.map_err(file("list", &self.dir))?;
            if entry.file_name().to_string_lossy().starts_with("new-") {
                remove_beneath(&entry.path())?;
            }
        }
        Ok(())
    }

    fn lock(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.lock"))
    }

    /// The names of all generations, the one used last first.
    fn generations(&self) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        let listing = match fs::read_dir(&self.dir) {
            Ok(listing) => listing,
            // Somebody found nothing of use in it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file("list", &self.dir)(error)),
        };
        for entry in listing {
            let entry = entry.map_err(file("list", &self.dir))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if tree_of(&name).is_none() || name.contains('.') {
                continue;
            }
            let used = fs::metadata(self.lock(&name)).and_then(|one| one.modified());
            found.push((used.ok(), name));
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }
}

/// Whether a lock could not be had because its directory was taken away.
pub(super) fn is_gone(error: &store::Error) -> bool {
    error
        .io_source()
        .is_some_and(|source| source.kind() == std::io::ErrorKind::NotFound)
}

fn tree_of(name: &str) -> Option<ObjectId> {
    name.split_once('-')?.0.parse().ok()
}

/// Whether it is whole, of this boot, and not known to be touched.
pub(super) fn is_current(dir: &Path) -> bool {
    let note = fs::read(dir.join("base.json")).ok();
    let note: Option<Note> = note.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    note.is_some_and(|note| note.schema == SCHEMA && note.boot == boot())
        && !dir.join("touched").exists()
}

/// Which start of the machine this is; a machine that does not say gives
/// every process one of its own.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(
        |_| format!("unknown-{}", std::process::id()),
        |id| id.trim().to_owned(),
    )
}

/// Reads what an index of the parent's knows of its files' times.
pub(super) fn times_of(
    objects: &Objects,
    tree: &ObjectId,
    modified: impl Fn(&TreeEntry) -> Option<FileTime>,
) -> Result<Times, Error> {
    let entries = objects.entries(tree)?;
    let known = |entry: TreeEntry| {
        let time = modified(&entry)?;
        Some((entry.path, (entry.oid, time)))
    };
    Ok(entries.into_iter().filter_map(known).collect())
}
