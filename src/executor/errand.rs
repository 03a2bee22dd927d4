//! A run's place in the state directory: its directory, lease and footprint.
//!
//! Owns how such a place is taken, so that nobody mistakes one that is just
//! being made for one that a dead launcher left. A fleet is one errand, and
//! so is an `apply`: whatever acquires something acquires it through one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Error, Fault, Stage};
use super::recover;
use super::site::Site;
use crate::cleanup::{self, Footprint, RepositoryPlace, Step};
use crate::git::Repository;
use crate::integration;
use crate::model::{Base, ExitCode, RunId};
use crate::store::{Lease, Lock};
use crate::workspace::{self, Snapshot};

/// The file that holds room for the end of a run.
const BALLAST: &str = "ballast";

/// Gives up the room that was set aside for the end of a run, since this is it.
pub(super) fn give_up_ballast(directory: &Path) {
    match fs::remove_file(directory.join(BALLAST)) {
        // There was none; the end then has the room that there is.
        Ok(()) | Err(_) => {}
    }
}

/// A place of its own, answered for by this process.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) id: RunId,
    pub(super) directory: PathBuf,
    pub(super) footprint: Arc<Footprint>,
    // Last: it is given up after everything above.
    _lease: Lease,
}

impl Errand {
    /// Takes a place for a new run on a repository.
    pub(super) fn begin(site: &Site, repo: &Repository) -> Result<Self, Error> {
        let id = Site::new_run_id();
        let directory = site.state.run_dir(&id);
        let lease = Self::take_place(site, &directory)?;
        Self::acquire((repo, lease), &id, &directory).inspect_err(|_| {
            // Nothing but this directory can have been made yet.
            drop(fs::remove_dir_all(&directory));
        })
    }

    /// Makes the directory, which must not exist, and takes its lease.
    fn take_place(site: &Site, directory: &Path) -> Result<Lease, Error> {
        let opening = |error: std::io::Error| Error::at(Stage::Opening, error);
        fs::create_dir_all(site.state.runs_dir()).map_err(opening)?;
        let _starting = Lock::wait(&site.state.starting_lock(), &mut || false)
            .map_err(|error| Error::at(Stage::Opening, error))?;
        // It must not exist: this is what proves the id unique.
        fs::create_dir(directory).map_err(opening)?;
        Lease::take(&directory.join("lease")).map_err(|error| Error::at(Stage::Opening, error))
    }

    /// Sets a little room aside for the end of the run, which has to write
    /// whatever agents did to the disk. What has none to give, or cannot set
    /// any aside, is met as it comes.
    fn take_ballast(directory: &Path) {
        const BYTES: u64 = 256 << 10;
        let file = fs::File::create(directory.join(BALLAST));
        let kept = file.and_then(|file| {
            let flags = rustix::fs::FallocateFlags::empty();
            Ok(rustix::fs::fallocate(&file, flags, 0, BYTES)?)
        });
        if let Err(error) = kept {
            tracing::debug!(%error, "no room is set aside for the end of the run");
        }
    }

    fn acquire(
        (repo, lease): (&Repository, Lease),
        id: &RunId,
        directory: &Path,
    ) -> Result<Self, Error> {
        let place = RepositoryPlace {
            top: repo.top().as_os_str().to_owned(),
            common_dir: repo.common_dir().as_os_str().to_owned(),
        };
        let footprint = Footprint::start(directory, id, place)
            .map_err(|error| Error::at(Stage::Opening, error))?;
        Self::take_ballast(directory);
        Ok(Self {
            id: id.clone(),
            directory: directory.to_owned(),
            footprint: Arc::new(footprint),
            _lease: lease,
        })
    }

    /// A directory for files that nobody misses, made on first use.
    pub(super) fn scratch(&self, name: &str) -> Result<PathBuf, Error> {
        let scratch = self.directory.join("scratch").join(name);
        fs::create_dir_all(&scratch).map_err(|error| Error::at(Stage::Opening, error))?;
        Ok(scratch)
    }

    /// Takes a snapshot and pins it under a ref of the run, whole: one whose
    /// objects somebody prunes meanwhile is taken again.
    pub(super) fn pinned_snapshot(
        &self,
        repo: &Repository,
        base: &Base,
        name: &str,
    ) -> Result<Snapshot, Error> {
        const ATTEMPTS: u32 = 8;
        let mut last = self.snapshot_once(repo, base, name);
        for _ in 1..ATTEMPTS {
            match &last {
                Err(error) if error.exit_code() == ExitCode::Internal => {
                    last = self.snapshot_once(repo, base, name)
                }
                Ok(_) | Err(_) => break,
            }
        }
        last
    }

    fn snapshot_once(&self, repo: &Repository, base: &Base, name: &str) -> Result<Snapshot, Error> {
        let scratch = self.scratch(name)?;
        let taking = |error| Error::at(Stage::Snapshot, error);
        let snapshot = {
            // A landing under way writes file by file: nobody starts from the
            // middle of one.
            let _landing = integration::lock_if_ever_used(repo.common_dir(), &mut || false)
                .map_err(|error| Error::at(Stage::Snapshot, error))?;
            workspace::snapshot(repo, base, &scratch).map_err(taking)?
        };
        let reference = format!("refs/cofferdam/{}/{name}", self.id);
        let step = Step::BaseRef {
            name: reference.clone(),
            commit: snapshot.commit.clone(),
        };
        self.footprint
            .intend(step)
            .map_err(|error| Error::at(Stage::Snapshot, error))?;
        repo.create_ref(&reference, &snapshot.commit)
            .map_err(|error| Error::at(Stage::Snapshot, error))?;
        let fault = |error: crate::git::Error| Error::at(Stage::Snapshot, error);
        let objects = repo.objects().map_err(fault)?;
        let head = match &snapshot.head {
            Some(head) => objects.tree_of(head),
            None => objects.empty_tree(),
        };
        if !objects
            .is_whole(&snapshot.commit, &head.map_err(fault)?)
            .map_err(fault)?
        {
            repo.delete_ref(&reference, &snapshot.commit)
                .map_err(fault)?;
            let message = "pin the snapshot: its objects vanish; end what prunes the repository";
            return Err(Error::at(
                Stage::Snapshot,
                Fault::new(ExitCode::Internal, message),
            ));
        }
        Ok(snapshot)
    }

    /// Gives everything back, for an errand that came to nothing. What cannot
    /// be given back is told and left to the next command.
    pub(super) fn abandon(&self, site: &Site, repo: &Repository) {
        let settled = recover::settle_open(site, repo, &self.footprint, &mut |_| Ok(()));
        if !settled.report.complete {
            tracing::error!(left = ?settled.report.left, "clean-up is incomplete; the next command tries again");
            return;
        }
        if let Err(error) = cleanup::discard_directory(&self.directory, &site.state.trash_dir()) {
            tracing::error!(%error, "clean-up is incomplete; the next command tries again");
        }
    }
}
