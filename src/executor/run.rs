//! What the agents of one run share, from its lease to its record.
//!
//! Owns the run's directory, footprint, registry and record, its beginning
//! and its end. The steps that an agent takes are in `steps`; how its record
//! is closed is in `close`.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::cage::Machine;
use super::errand::Errand;
use super::error::{Error, Stage};
use super::events::{Bus, Listener};
use super::live::Live;
use super::recover;
use super::schedule::{Planned, Schedule};
use super::site::{Site, blocking};
use crate::admission::Registry;
use crate::audit::Trail;
use crate::cleanup::Settled;
use crate::config::ConfigError;
use crate::confinement::Waivers;
use crate::git::Repository;
use crate::model::{
    AgentId, AgentRecord, AgentState, BaseRecord, CleanupReport, EventKind, ExitCode, LeftOver,
    RunId, RunLedger, RunRecord, RunRequest, TaskRequest, WorkspaceChoice,
};
use crate::workspace::{self, Backend, Ground, Snapshot};

/// How a caller ends a run early.
#[derive(Debug, Clone, Default)]
pub struct Control {
    /// Cancel it: agents are asked to end, then killed; their work is kept.
    pub cancel: CancellationToken,
    /// Kill at once instead of waiting for the grace period.
    pub kill: CancellationToken,
    /// The number of the signal that asked for it; 0 while none has.
    pub signal: Arc<AtomicI32>,
}

impl Control {
    /// What the program ends with because of a signal, if one came.
    fn by_signal(&self) -> ExitCode {
        match self.signal.load(Ordering::SeqCst) {
            0 => ExitCode::Success,
            number => ExitCode::Signal(number),
        }
    }
}

/// One agent of a run: what was asked, and its place in the record.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) at: usize,
    pub(super) agent: AgentId,
    pub(super) task: TaskRequest,
    /// The agent's own token; the run's cancels it too.
    pub(super) cancel: CancellationToken,
}

/// A snapshot that agents start from, pinned under a ref while they work.
#[derive(Debug)]
pub(super) struct StartingPoint {
    pub(super) snapshot: Snapshot,
    /// What makes their workspaces.
    pub(super) backend: Arc<dyn Backend>,
    /// Its name, and why it was chosen.
    pub(super) chosen: String,
}

impl StartingPoint {
    /// Chooses what makes the workspaces of a snapshot.
    pub(super) fn on(
        snapshot: Snapshot,
        choice: WorkspaceChoice,
        mut ground: Ground<'_>,
    ) -> Result<Self, Error> {
        if choice == WorkspaceChoice::Auto && !snapshot.absent.is_empty() {
            // A shared checkout is whole: of a sparse one it would be many
            // times the size, of a partial clone it could not be made.
            ground.merges = Err("the parent is a sparse checkout");
        }
        let (backend, chosen) = workspace::choose(choice, ground)
            .map_err(|error| Error::at(Stage::Workspace, error))?;
        Ok(Self {
            snapshot,
            backend,
            chosen,
        })
    }
}

/// One run.
pub(super) struct Run {
    pub(super) site: Arc<Site>,
    pub(super) repo: Repository,
    pub(super) request: RunRequest,
    pub(super) control: Control,
    pub(super) registry: Registry,
    pub(super) schedule: Schedule,
    pub(super) bus: Bus,
    pub(super) machine: Machine,
    pub(super) first_base: Arc<StartingPoint>,
    pub(super) record: Mutex<RunRecord>,
    /// Its changes on the disk.
    live: Live,
    seats: Vec<Arc<Seat>>,
    fault: Mutex<ExitCode>,
    // Last, so that its lease is given up after everything above: the lease
    // says that somebody still answers for this run.
    pub(super) errand: Arc<Errand>,
}

impl Run {
    /// Takes the lease, the snapshot and a first look at the machine.
    pub(super) async fn begin(
        site: Arc<Site>,
        repo: Repository,
        request: RunRequest,
        control: Control,
        listener: Arc<dyn Listener>,
    ) -> Result<Arc<Self>, Error> {
        // First, because nothing has been acquired yet that would have to be
        // given back should it fail.
        let trail = Trail::open(&site.state.audit_path())
            .map_err(|error| Error::at(Stage::Record, anyhow::Error::new(error)))?;
        let (errand, first_base, machine) = open_ground(&site, &repo, &request).await?;
        let id = errand.id.clone();
        let bus = Bus::new(id.clone(), site.clock.clone(), trail, listener);
        let seats = seats(&request, &control);
        let planned: Vec<Planned<'_>> = request.tasks.iter().map(Planned::from).collect();
        let schedule = Schedule::new(&planned, request.order);
        let record = first_record(
            &id,
            &repo,
            &first_base.snapshot,
            (&seats, &site),
            &request.allow_degraded,
        );
        let live = Live::new(&site.state, &id);
        let run = Self {
            registry: Registry::new(request.limits, site.clock.clone()),
            repo,
            request,
            control,
            schedule,
            bus,
            machine,
            first_base: Arc::new(first_base),
            record: Mutex::new(record),
            live,
            seats,
            fault: Mutex::new(ExitCode::Success),
            errand,
            site,
        };
        run.write(|| {
            let record = run.record.lock().unwrap_or_else(PoisonError::into_inner);
            run.live.write_whole(&record)
        });
        run.bus.run(EventKind::RunStarted {
            tree: run.first_base.snapshot.tree.to_string(),
            agents: run.seats.len(),
        });
        Ok(Arc::new(run))
    }

    /// The agents of the run, as they were asked for.
    pub(super) fn seats(&self) -> Vec<Arc<Seat>> {
        self.seats.clone()
    }

    /// Cancels every agent of the run.
    pub(super) fn cancel_siblings(&self) {
        self.registry.cancel_all();
        for seat in &self.seats {
            seat.cancel.cancel();
        }
    }

    /// Notes a fault of the program itself or of its clean-up.
    pub(super) fn note_fault(&self, code: ExitCode) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        *fault = fault.worst(code);
    }

    /// Changes an agent's record.
    pub(super) fn amend(&self, seat: &Seat, change: impl FnOnce(&mut AgentRecord)) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut record.agents[seat.at]);
    }

    /// Moves an agent on to another state, and says so.
    pub(super) fn enter(&self, seat: &Seat, state: AgentState) {
        self.amend(seat, |agent| agent.state = state);
        self.bus
            .agent(&seat.agent, &seat.task.name, EventKind::State { state });
    }

    /// Writes down how an agent stands, so that a later start finds it should
    /// this process die. A failure to do so is told and does not end the run.
    pub(super) fn save(&self, seat: &Seat) {
        self.write(|| self.live.write(seat.at, &self.record));
    }

    fn write(&self, write: impl Fn() -> Result<(), crate::store::Error>) {
        let written = write().or_else(|_| {
            // Agents may have filled the disk; this is what the room is for.
            super::errand::give_up_ballast(&self.errand.directory);
            write()
        });
        if let Err(error) = written {
            tracing::error!(%error, "the record of the run could not be written");
        }
    }

    /// As [`Run::save`], off the executor's threads.
    pub(super) async fn saved(self: &Arc<Self>, seat: &Arc<Seat>) {
        let (run, seat) = (self.clone(), seat.clone());
        if let Err(error) = blocking(move || run.save(&seat)).await {
            tracing::error!(%error, "the record of the run could not be written");
        }
    }

    /// The ref under which an agent's work is pinned.
    pub(super) fn result_ref(&self, agent: &AgentId) -> String {
        super::unnoted::result_ref(&self.errand.id, agent)
    }

    /// Ends the run: settles what is open, closes the record, gives up the lease.
    pub(super) async fn end(self: Arc<Self>) -> Result<RunRecord, Error> {
        let run = self.clone();
        let settled = blocking(move || run.settle()).await?;
        let mut record = self
            .record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        recover::note_quarantined(&mut record, &settled);
        record.cleanup = settled.report;
        let fault = *self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let mut code = fault
            .worst(super::close::exit_code(&record, &self.seats))
            .worst(self.control.by_signal());
        if !record.cleanup.complete {
            code = code.worst(ExitCode::Cleanup);
        }
        record.exit_code = code.number();
        let run = self.clone();
        let record = blocking(move || run.finish(record)).await??;
        self.bus.run(EventKind::RunEnded {
            exit_code: record.exit_code,
        });
        Ok(record)
    }

    /// Gives back what is still held; work that is pinned on the way is in the
    /// record before its workspace goes.
    fn settle(&self) -> Settled {
        recover::settle_open(
            &self.site,
            &self.repo,
            &self.errand.footprint,
            &mut |found| {
                let Some(seat) = self.seats.iter().find(|seat| seat.agent == found.agent) else {
                    return Ok(());
                };
                let keep = self.site.state.kept_dir(&self.errand.id, &seat.agent);
                let kept = (keep.as_path(), self.site.kept_until());
                self.amend(seat, |agent| {
                    recover::note_salvaged(agent, found, (kept.0, &kept.1))
                });
                self.save(seat);
                Ok(())
            },
        )
    }

    /// Writes the last record, and only then takes the run's directory away:
    /// a crash in between leaves a dead run, never a record that ends too early.
    fn finish(&self, mut record: RunRecord) -> Result<RunRecord, Error> {
        let book = self.site.book();
        book.save(&record)?;
        if !record.cleanup.complete {
            return Ok(record);
        }
        let discarded =
            crate::cleanup::discard_directory(&self.errand.directory, &self.site.state.trash_dir());
        if let Err(error) = discarded {
            let what = self.errand.directory.to_string_lossy().into_owned();
            record.cleanup.absorb(CleanupReport {
                complete: false,
                left: vec![LeftOver {
                    what,
                    why: error.to_string(),
                }],
            });
            record.exit_code = ExitCode::Cleanup.number();
            book.save(&record)?;
        }
        Ok(record)
    }
}

fn seats(request: &RunRequest, control: &Control) -> Vec<Arc<Seat>> {
    let seat = |(at, task): (usize, &TaskRequest)| {
        Arc::new(Seat {
            at,
            agent: Site::new_agent_id(),
            task: task.clone(),
            cancel: control.cancel.child_token(),
        })
    };
    request.tasks.iter().enumerate().map(seat).collect()
}

fn first_record(
    id: &RunId,
    repo: &Repository,
    snapshot: &Snapshot,
    (seats, site): (&[Arc<Seat>], &Site),
    waived: &[String],
) -> RunRecord {
    let now = site.clock.now().to_string();
    RunRecord {
        schema: RunRecord::SCHEMA.to_owned(),
        run: id.clone(),
        repo: repo.top().to_string_lossy().into_owned(),
        common_dir: repo.common_dir().to_string_lossy().into_owned(),
        // Until the run has ended nobody can say that it succeeded.
        exit_code: ExitCode::Internal.number(),
        base: BaseRecord {
            head: snapshot.head.clone(),
            tree: snapshot.tree.clone(),
            dirty: snapshot.dirty,
            states: workspace::states(repo, snapshot),
            warnings: snapshot.warnings.clone(),
        },
        agents: seats
            .iter()
            .map(|seat| AgentRecord {
                waived: waived.to_vec(),
                ..super::close::first_agent_record(seat, &now)
            })
            .collect(),
        ledger: RunLedger::default(),
        cleanup: CleanupReport::clean(),
    }
}

/// Takes a place, the snapshot and a look at the machine.
///
/// The looks at the machine take as long as the snapshot's own wait for git,
/// so they cost nothing beside it.
async fn open_ground(
    site: &Arc<Site>,
    repo: &Repository,
    request: &RunRequest,
) -> Result<(Arc<Errand>, StartingPoint, Machine), Error> {
    super::preflight::commands(site, repo, request)?;
    super::setup::require_approved(site, repo, request)?;
    super::preflight::room(site, repo)?;
    {
        let (repo, request) = (repo.clone(), request.clone());
        blocking(move || super::preflight::branches(&repo, &request)).await??;
    }
    let waivers = Waivers::parse(&request.allow_degraded)
        .map_err(|error| Error::at(Stage::Confinement, ConfigError::from(error)))?;
    let errand = {
        let (site, repo) = (site.clone(), repo.clone());
        Arc::new(blocking(move || Errand::begin(&site, &repo)).await??)
    };
    match look_around(site, repo, request, (&errand, waivers)).await {
        Ok((base, machine)) => Ok((errand, base, machine)),
        Err(error) => {
            errand.abandon(site, repo);
            Err(error)
        }
    }
}

async fn look_around(
    site: &Arc<Site>,
    repo: &Repository,
    request: &RunRequest,
    (errand, waivers): (&Arc<Errand>, Waivers),
) -> Result<(StartingPoint, Machine), Error> {
    let (site_, errand_) = (site.clone(), errand.clone());
    let machine = blocking(move || Machine::try_in(&site_, &errand_.directory, waivers));
    let (repo_, errand_, base) = (repo.clone(), errand.clone(), request.base.clone());
    let snapshot = blocking(move || errand_.pinned_snapshot(&repo_, &base, "base"));
    let bases = site.state.bases_dir();
    let (repo_, bases_) = (repo.clone(), bases.clone());
    let warm = blocking(move || workspace::warm(&repo_, &bases_));
    let site_ = site.clone();
    let facts = blocking(move || drop(site_.host.facts(&site_)));
    let (machine, snapshot, warm, facts) = tokio::join!(machine, snapshot, warm, facts);
    facts?;
    let (machine, snapshot) = (machine??, snapshot??);
    let mut ground = machine.ground(repo, &errand.directory, &bases);
    ground.warm = warm?;
    let base = StartingPoint::on(snapshot, request.workspace, ground)?;
    Ok((base, machine))
}
