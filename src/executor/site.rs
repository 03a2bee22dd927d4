//! The machine and its doors, opened once.
//!
//! Owns what every run of one process shares: git, the state directory, the
//! thread that makes children, the clock, the person's environment as data.
//! The library reads no environment and no home directory by itself: what it
//! is to know of the person stands in [`Options`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cofferdam_sandbox::{Enforcement, Helper};

use super::error::{Error, Fault, Stage};
use super::host::LastLook;
use super::{Control, Listener, book::Book, pipeline, recover, run::Run};
use crate::audit::Trail;
use crate::git::{self, Git, Repository};
use crate::model::{AgentId, Clock, Event, ExitCode, RunId, RunRecord, RunRequest, SystemClock};
use crate::process::Spawner;
use crate::store::StateDir;

/// What the executor has to know of its surroundings.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where runs, records and kept files live.
    pub state_dir: PathBuf,
    /// How to re-execute this program as the helper of a cage.
    pub helper: Helper,
    /// The person's environment; agents get an allow-list of it.
    pub variables: BTreeMap<OsString, OsString>,
    /// This program's own file, which agents may execute.
    pub own_exe: PathBuf,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// The usual surroundings: this program as helper, the machine's clock.
    ///
    /// The program must call [`cofferdam_sandbox::enter_stage_if_asked`] first
    /// thing in `main`.
    #[must_use]
    pub fn new(
        state_dir: PathBuf,
        own_exe: PathBuf,
        variables: BTreeMap<OsString, OsString>,
    ) -> Self {
        Self {
            state_dir,
            helper: Helper::current(),
            variables,
            own_exe,
            clock: Arc::new(SystemClock),
        }
    }
}

/// What runs share.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) git: Git,
    pub(super) state: StateDir,
    pub(super) spawner: Spawner,
    pub(super) helper: Helper,
    pub(super) variables: BTreeMap<OsString, OsString>,
    pub(super) own_exe: PathBuf,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) host: LastLook,
}

impl Site {
    pub(super) fn new_run_id() -> RunId {
        RunId::from_bits(random_bits())
    }

    pub(super) fn new_agent_id() -> AgentId {
        AgentId::from_bits(random_bits())
    }

    pub(super) fn book(&self) -> Book<'_> {
        Book::new(&self.state)
    }

    /// Adds an event to the trail, for what later commands decide.
    pub(super) fn note(&self, event: &Event) {
        let noted = Trail::open(&self.state.audit_path()).and_then(|mut trail| trail.append(event));
        if let Err(error) = noted {
            tracing::error!(%error, "an event is missing from the audit log");
        }
    }

    /// The instant until which what is kept from now on is left by `gc`.
    pub(super) fn kept_until(&self) -> String {
        let now = self.clock.now();
        now.checked_add(KEEP).unwrap_or(now).to_string()
    }

    /// Opens a repository; nothing of ours is put into it for that.
    pub(super) fn repository(&self, directory: &Path) -> Result<Repository, git::Error> {
        let found = Repository::discover(&self.git, directory)?;
        Ok(found.with_handle_in(&self.state.path().join("handles")))
    }
}

/// How long results and kept files are left unless the person says otherwise.
pub const KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

fn random_bits() -> u64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    let (low, _) = uuid::Uuid::new_v4().as_u64_pair();
    // A version-4 id has fixed bits; two of them folded have none.
    high ^ low.rotate_left(16)
}

/// Runs agents on repositories.
#[derive(Debug, Clone)]
pub struct Executor {
    pub(super) site: Arc<Site>,
}

impl Executor {
    /// Opens the machine: git, the state directory, the spawner.
    ///
    /// # Errors
    /// Git is missing or too old, or the state directory cannot be made.
    pub fn open(options: Options) -> Result<Self, Error> {
        let opening = |fault: Fault| Error::at(Stage::Opening, fault);
        let git = Git::require().map_err(|error| opening(error.into()))?;
        let state = StateDir::open(&options.state_dir).map_err(|error| opening(error.into()))?;
        let spawner =
            Spawner::start(options.helper.clone()).map_err(|error| opening(error.into()))?;
        let site = Site {
            git,
            state,
            spawner,
            helper: options.helper,
            variables: options.variables,
            own_exe: options.own_exe,
            clock: options.clock,
            host: LastLook::default(),
        };
        Ok(Self {
            site: Arc::new(site),
        })
    }

    /// Opens the repository around a directory that the person named.
    ///
    /// # Errors
    /// There is none, or it is bare.
    pub fn repository(&self, directory: &Path) -> Result<Repository, Error> {
        self.site
            .repository(directory)
            .map_err(|error| Error::at(Stage::Opening, error))
    }

    /// The records that were kept.
    #[must_use]
    pub fn book(&self) -> Book<'_> {
        self.site.book()
    }

    /// The state directory.
    #[must_use]
    pub fn state(&self) -> &StateDir {
        &self.site.state
    }

    /// The version of git that is used.
    #[must_use]
    pub fn git_version(&self) -> String {
        self.site.git.version().to_string()
    }

    /// Tries every layer of confinement in a throw-away child.
    ///
    /// # Errors
    /// The helper could not be run at all.
    pub fn probe(&self) -> Result<Enforcement, Error> {
        cofferdam_sandbox::probe(&self.site.helper)
            .map_err(|error| Error::at(Stage::Confinement, error))
    }

    /// Carries out one request from admission to record.
    ///
    /// Returns only when nothing of the run is left but its record and the
    /// results that it kept. What dead runs left is recovered first.
    ///
    /// # Errors
    /// Nothing was started: the repository, the snapshot or the machine did
    /// not allow it. What goes wrong with a single agent stands in the record.
    pub async fn run(
        &self,
        repo: Repository,
        request: RunRequest,
        control: Control,
        listener: Arc<dyn Listener>,
    ) -> Result<RunRecord, Error> {
        self.site
            .state
            .require_outside(repo.top())
            .map_err(|error| {
                Error::at(
                    Stage::Opening,
                    Fault::new(ExitCode::Usage, error)
                        .hint("set COFFERDAM_STATE_DIR to a directory outside of the repository"),
                )
            })?;
        let site = self.site.clone();
        let around = repo.clone();
        blocking(move || recover::recover_dead(&site, Some(&around))).await??;
        let run = Run::begin(self.site.clone(), repo, request, control, listener).await?;
        let mut agents = tokio::task::JoinSet::new();
        for seat in run.seats() {
            agents.spawn(pipeline::agent(run.clone(), seat));
        }
        while let Some(ended) = agents.join_next().await {
            if let Err(panic) = ended {
                tracing::error!(%panic, "an agent's task ended by a panic");
                run.note_fault(ExitCode::Internal);
            }
        }
        run.end().await
    }
}

/// Runs blocking work off the executor's threads; a panic in it becomes an error.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|panic| Error::at(Stage::Process, Fault::new(ExitCode::Internal, panic)))
}
