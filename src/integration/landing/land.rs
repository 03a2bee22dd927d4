//! The landing as a whole.
//!
//! Owns the order of its parts and what follows when one fails: before the
//! mark of commitment, staging is removed and nothing was touched; after it,
//! every step is put back; once it was told that all is in place, nothing is.
//! The journal is removed before the slots, because a
//! slot that is gone would read as a step that is done.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::lines::{Act, Header, Line, Step};
use super::plan::{Plan, above, plan};
use super::preflight::{Obstacles, Preflight};
use super::recover::belongs;
use super::stage;
use super::steps::{Back, Forward, Writer};
use super::watch::{Point, Unwatched, Watch, tell};
use crate::integration::objects::differences;
use crate::integration::{Error, ObjectStore};
use crate::model::{Conflict, RepoPath};
use crate::store::{self, Journal, Root, Stat, Sync};

/// From this many directories on, one sync of the whole file system is cheaper.
const MANY: usize = 32;

/// The journal's name in the staging directory.
pub(super) const JOURNAL: &str = "journal";

/// What lands where.
pub struct LandRequest<'a> {
    /// The parent's tree.
    pub root: &'a Root,
    /// A directory that does not exist yet, on the tree's file system: see
    /// [`staging_dir`](super::staging_dir).
    pub staging: &'a Path,
    /// Who lands which trees; what is written is the difference between them.
    pub header: &'a Header,
    /// Whether the repository's rules ignore a path.
    pub ignored: &'a dyn Fn(&RepoPath) -> bool,
    /// Told once every file is in place, while the journal still stands: what
    /// is noted here is never ahead of the files, and a crash before it is
    /// finished by recovery, which tells it again.
    pub landed: &'a dyn Fn(),
}

/// How a landing ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Landing {
    /// The tree is wholly as merged.
    Landed {
        /// Every path that changed, submodules aside.
        paths: Vec<RepoPath>,
        /// Submodules that the trees move; their directories were not entered.
        submodules: Vec<RepoPath>,
    },
    /// The person changed what the merge was computed from; the tree is as it
    /// was, with their text in it. Merge again from the tree as it is now.
    Moved {
        /// Where.
        paths: Vec<RepoPath>,
        /// Older versions of files that were edited between landing and
        /// putting back, where there are any.
        backups: Option<PathBuf>,
    },
    /// Something that no snapshot holds is in the way; the tree is as it was.
    Blocked {
        /// What, and where.
        conflicts: Vec<Conflict>,
    },
}

/// Lands the difference between two trees, wholly or not at all.
///
/// The caller holds the repository's landing lock and has recovered what an
/// earlier landing left. The index, refs and configuration are not touched.
///
/// # Errors
/// It could not be tried, or failed and was taken back: the tree is as it
/// was. Only [`Error::HalfDone`] means that it is not; recovery goes on then.
pub fn land(objects: &impl ObjectStore, request: &LandRequest<'_>) -> Result<Landing, Error> {
    land_watched(objects, request, &Unwatched)
}

/// [`land`], with somebody looking on.
pub(in crate::integration) fn land_watched(
    objects: &impl ObjectStore,
    request: &LandRequest<'_>,
    watch: &dyn Watch,
) -> Result<Landing, Error> {
    let header = request.header;
    belongs(header, request.root, request.staging)?;
    let delta = differences(objects, &header.ours, &header.merged)?;
    let plan = plan(objects, request.root, &delta)?;
    if plan.steps.is_empty() {
        return Ok(Landing::Landed {
            paths: Vec::new(),
            submodules: plan.submodules,
        });
    }
    let at = Site {
        root: request.root,
        staging: request.staging,
        watch,
    };
    let staging = at.open()?;
    let prepared = at.prepare(objects, request, &staging, &plan);
    let (mut journal, steps) = match prepared {
        Ok(Prepared::Ready(journal, steps)) => (journal, steps),
        Ok(Prepared::Obstructed(found)) => {
            at.close(&staging)?;
            return Ok(obstructed(found));
        }
        Err(error) => {
            // What made it fail is worth more than what staging leaves behind.
            if !error.is_death() {
                drop(at.close(&staging));
            }
            return Err(error);
        }
    };
    let moved = at.write(&staging, &mut journal, &steps, request.landed)?;
    match moved {
        None => Ok(Landing::Landed {
            paths: plan
                .staged
                .into_keys()
                .chain(plan.deleted)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            submodules: plan.submodules,
        }),
        Some((paths, backups)) => Ok(Landing::Moved { paths, backups }),
    }
}

fn obstructed(found: Obstacles) -> Landing {
    if found.blocked.is_empty() {
        Landing::Moved {
            paths: found.moved.into_iter().collect(),
            backups: None,
        }
    } else {
        Landing::Blocked {
            conflicts: found.blocked,
        }
    }
}

enum Prepared {
    Ready(Journal<Line>, Vec<(Step, RepoPath)>),
    Obstructed(Obstacles),
}

/// Paths that moved, and where older versions are kept.
pub(super) type Moved = (Vec<RepoPath>, Option<PathBuf>);

/// Where a landing happens.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) root: &'a Root,
    pub(super) staging: &'a Path,
    pub(super) watch: &'a dyn Watch,
}

impl Site<'_> {
    fn open(&self) -> Result<Root, Error> {
        let staging = self.land(stage::open(self.staging))?;
        if staging.device() == self.root.device() {
            return Ok(staging);
        }
        self.close(&staging)?;
        Err(Error::OtherFileSystem {
            tree: self.root.path().to_owned(),
            path: self.root.path().to_owned(),
            staging: self.staging.to_owned(),
        })
    }

    /// Everything up to the mark of commitment; touches no file of the tree.
    fn prepare(
        &self,
        objects: &impl ObjectStore,
        request: &LandRequest<'_>,
        staging: &Root,
        plan: &Plan,
    ) -> Result<Prepared, Error> {
        tell(self.watch, Point::Opened)?;
        let preflight = Preflight {
            root: self.root,
            staging,
            plan,
            ignored: request.ignored,
        };
        let inodes = stage::fill(objects, self.root, staging, plan, self.watch)?;
        let known = |slot: u32| {
            let index = usize::try_from(slot).ok();
            index
                .and_then(|index| inodes.get(index))
                .copied()
                .unwrap_or(0)
        };
        let steps: Vec<_> = plan.steps(known);
        let mut journal = self.land(Journal::create(&self.journal()))?;
        self.land(journal.append(&Line::Header(request.header.clone()), Sync::Later))?;
        for step in &steps {
            self.land(journal.append(&Line::Step(step.clone()), Sync::Later))?;
        }
        // Synced for themselves: a mark that reached the disk before the steps
        // would make the journal damaged instead of torn.
        self.land(journal.sync())?;
        tell(self.watch, Point::Journalled)?;
        let found = preflight.look()?;
        if !found.moved.is_empty() || !found.blocked.is_empty() {
            return Ok(Prepared::Obstructed(found));
        }
        tell(self.watch, Point::Preflighted)?;
        self.land(journal.append(&Line::Committed, Sync::Now))?;
        let paths = plan.steps.iter().map(|(path, _)| path.clone());
        Ok(Prepared::Ready(
            journal,
            steps.into_iter().zip(paths).collect(),
        ))
    }

    /// Does every step, or puts every step back and says which paths moved.
    pub(super) fn write(
        &self,
        staging: &Root,
        journal: &mut Journal<Line>,
        steps: &[(Step, RepoPath)],
        landed: &dyn Fn(),
    ) -> Result<Option<Moved>, Error> {
        let (why, moved) = match self.write_forward(staging, steps) {
            Ok(moved) if moved.is_empty() => {
                landed();
                return self.end(staging).map(|()| None);
            }
            Ok(moved) => (None, moved),
            Err(error) if error.is_death() => return Err(error),
            Err(error) => (Some(error), Vec::new()),
        };
        // Best effort: without the mark recovery would go forward, which ends
        // wholly as well. On a full disk the way back must not need space.
        drop(journal.append(&Line::TakingBack, Sync::Now));
        let (kept, backups) = self.take_back(staging, steps)?;
        match why {
            Some(error) => Err(error),
            None => {
                let paths: BTreeSet<_> = moved.into_iter().chain(kept).collect();
                Ok(Some((paths.into_iter().collect(), backups)))
            }
        }
    }

    /// Ends a landing that was told: what was told is never taken back.
    ///
    /// A journal that cannot be removed stands for recovery, which finds every
    /// step done and tells it again.
    fn end(&self, staging: &Root) -> Result<(), Error> {
        let closed = tell(self.watch, Point::Told).and_then(|()| self.close(staging));
        match closed {
            Err(error) if error.is_death() => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Does every step up to the first that moved, and brings it to the disk.
    fn write_forward(
        &self,
        staging: &Root,
        steps: &[(Step, RepoPath)],
    ) -> Result<Vec<RepoPath>, Error> {
        let writer = self.writer(staging);
        tell(self.watch, Point::Committed)?;
        let mut backups: Vec<Option<Stat>> = Vec::with_capacity(steps.len());
        for (step, path) in steps {
            match writer.forward(step, path)? {
                Forward::Done => backups.push(writer.backup(step)?),
                Forward::Moved => return Ok(vec![path.clone()]),
            }
        }
        tell(self.watch, Point::Written)?;
        self.sync(steps)?;
        tell(self.watch, Point::Synced)?;
        // A program that held a file open may have written into what is now
        // the backup: that text must not vanish with the staging directory.
        let mut late = Vec::new();
        for ((step, path), before) in steps.iter().zip(backups) {
            if writer.backup(step)? != before {
                late.push(path.clone());
            }
        }
        Ok(late)
    }

    /// Puts every step back, last first, and removes staging.
    pub(super) fn take_back(
        &self,
        staging: &Root,
        steps: &[(Step, RepoPath)],
    ) -> Result<Moved, Error> {
        self.put_back(staging, steps).map_err(|error| match error {
            Error::Land { tree, source } => Error::HalfDone {
                tree,
                staging: self.staging.to_owned(),
                source,
            },
            other => other,
        })
    }

    fn put_back(&self, staging: &Root, steps: &[(Step, RepoPath)]) -> Result<Moved, Error> {
        let writer = self.writer(staging);
        let mut kept = Vec::new();
        let mut has_backup = false;
        for (step, path) in steps.iter().rev() {
            match writer.back(step, path)? {
                Back::Done => {}
                Back::Kept => {
                    has_backup |= writer.backup(step)?.is_some();
                    kept.push(path.clone());
                }
            }
        }
        self.sync(steps)?;
        if !has_backup {
            self.close(staging)?;
            return Ok((kept, None));
        }
        let backups = self.keep()?;
        Ok((kept, Some(backups)))
    }

    /// Brings the names that the steps changed to the disk.
    fn sync(&self, steps: &[(Step, RepoPath)]) -> Result<(), Error> {
        let mut directories = BTreeSet::new();
        for (step, path) in steps {
            match &step.act {
                Act::RemoveDirectory { .. } | Act::MakeDirectory => {
                    directories.extend(above(path).into_iter().map(Some));
                }
                Act::Delete { .. } | Act::Create { .. } | Act::Replace { .. } => {}
            }
            directories.insert(path.parent());
        }
        if directories.len() >= MANY {
            return self.land(self.root.sync_file_system());
        }
        for directory in &directories {
            self.land(self.root.sync_directory(directory.as_ref()))?;
        }
        Ok(())
    }

    /// Removes staging, the journal first: with it the landing is over.
    ///
    /// What cannot be removed after that is no failure of the landing; the
    /// next recovery removes it.
    pub(super) fn close(&self, staging: &Root) -> Result<(), Error> {
        let journal = RepoPath::from_bytes(JOURNAL.as_bytes()).expect("because it is a plain name");
        let place = self.land(staging.make_place(&journal))?;
        self.land(place.remove_file())?;
        match self.clear(staging) {
            Err(error) if error.is_death() => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes the slots, once the journal is gone for good: a journal that
    /// came back after a power failure would take a slot that is gone for a
    /// step that is done.
    fn clear(&self, staging: &Root) -> Result<(), Error> {
        self.land(staging.sync_directory(None))?;
        tell(self.watch, Point::Closed)?;
        let failed = store::Error::io("remove", self.staging);
        self.land(std::fs::remove_dir_all(self.staging).map_err(failed))
    }

    /// Puts staging aside under a name that recovery passes over.
    fn keep(&self) -> Result<PathBuf, Error> {
        let name = self
            .staging
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let mut aside = self.staging.with_file_name(format!("kept-{name}"));
        for number in 2.. {
            if !aside.exists() {
                break;
            }
            aside = self.staging.with_file_name(format!("kept-{name}-{number}"));
        }
        let failed = store::Error::io("rename", self.staging);
        self.land(std::fs::rename(self.staging, &aside).map_err(failed))?;
        Ok(aside)
    }

    fn writer<'b>(&'b self, staging: &'b Root) -> Writer<'b> {
        Writer {
            root: self.root,
            staging,
            watch: self.watch,
        }
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.staging.join(JOURNAL)
    }

    pub(super) fn land<T>(&self, result: Result<T, store::Error>) -> Result<T, Error> {
        result.map_err(|source| Error::Land {
            tree: self.root.path().to_owned(),
            source,
        })
    }
}
