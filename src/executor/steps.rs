//! The steps that one agent takes, each a call into one room.
//!
//! Owns how the pieces of a request reach a room and how what came back
//! reaches the record. Blocking rooms are called off the executor's threads.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_sandbox::{Confined, Input, Policy};

use super::cage::{self, Inmate};
use super::denials::Telling;
use super::errand::give_up_ballast;
use super::error::{Error, Stage};
use super::land::{self, Fared, LandOrder};
use super::notes::NamedLines;
use super::pipeline::Halt;
use super::run::{Run, Seat, StartingPoint};
use super::schedule::NotLanded;
use super::site::blocking;
use crate::admission::{Admitted, Ask, Live, NotLive, deadline_passed};
use crate::cleanup::{self, Attempt, CAPTURED, STARTED, Step};
use crate::confinement::OUTPUT_BYTES;
use crate::model::{
    AgentState, Approve, Base, CleanupReport, Deadline, EventKind, ExitCode, Gate, HeldFor,
    Integrate, Integration, IntegrationStatus, LeftOver, Outcome, Refusal, StdinMode, Warning,
    WarningKind,
};
use crate::process::{Ended, Supervision, supervise};
use crate::workspace::{self, Capture, Harvest, Workspace};

/// Between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(5);

/// What a copy lacks, in words.
fn left_out(warning: &Warning) -> String {
    let what = match warning.kind {
        WarningKind::SubmoduleChanged => "changes inside a submodule did not come along",
        WarningKind::NestedRepository => "a repository of its own did not come along as one",
        WarningKind::SpecialFile => "a socket, pipe or device did not come along",
        WarningKind::CarriedNothing => {
            "`--carry` took nothing along: no ignored file matches; name what a directory holds with `DIR/**`"
        }
        WarningKind::CarriedTracked => {
            "it was not carried along: what the agent starts from has a file of its own there"
        }
        WarningKind::RunsOnHost
        | WarningKind::SubmoduleMoved
        | WarningKind::DoubtfulMerge
        | WarningKind::CaseCollision
        | WarningKind::EscapingLink
        | WarningKind::EmptyDirectory
        | WarningKind::GitName
        | WarningKind::UnfinishedOperation
        | WarningKind::Unreadable => "did not come along as it stands in the parent",
    };
    format!("{}: {what}", warning.path.text())
}

/// The policies of the cages of one agent.
pub(super) struct Policies {
    /// Of what makes its workspace ready, if anything does.
    pub(super) setup: Option<Policy>,
    /// Of its command.
    pub(super) command: Policy,
}

impl Run {
    /// Waits until nothing in the plan stands before this agent.
    pub(super) async fn wait_for_others(self: &Arc<Self>, seat: &Arc<Seat>) -> Result<(), Halt> {
        self.schedule.clear_way(seat.at, &seat.cancel).await;
        let landed = self.schedule.prerequisites(seat.at, &seat.cancel).await;
        if seat.cancel.is_cancelled() {
            return Err(Halt::Cancelled);
        }
        landed.map_err(|NotLanded(earlier)| Halt::Refused(self.not_landed(seat, earlier)))
    }

    /// What the agent starts from: the run's first snapshot, or, for one that
    /// follows others, the parent's tree as it stands now.
    pub(super) async fn starting_point(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
    ) -> Result<Arc<StartingPoint>, Halt> {
        if !self.schedule.follows(seat.at) {
            return Ok(self.first_base.clone());
        }
        let (run, agent) = (self.clone(), seat.agent.clone());
        let base = blocking(move || {
            let name = format!("base-{agent}");
            let snapshot = run
                .errand
                .pinned_snapshot(&run.repo, &Base::Worktree, &name)?;
            let bases = run.site.state.bases_dir();
            let ground = run.machine.ground(&run.repo, &run.errand.directory, &bases);
            StartingPoint::on(snapshot, run.request.workspace, ground)
        })
        .await??;
        Ok(Arc::new(base))
    }

    fn not_landed(&self, seat: &Seat, earlier: usize) -> Refusal {
        let name = &self.request.tasks[earlier].name;
        Refusal {
            gate: Gate::After,
            have: format!(
                "`{}` follows `{name}`, which has not landed",
                seat.task.name
            ),
            limit: "a task starts once every task that it follows has landed".to_owned(),
            setting: "after".to_owned(),
            advice: format!(
                "see `cofferdam show` on `{name}`, apply its result and run this task again"
            ),
        }
    }

    /// The gates, and the reservation that they make.
    pub(super) fn admit(self: &Arc<Self>, seat: &Arc<Seat>) -> Result<Admitted, Halt> {
        let ask = Ask {
            id: seat.agent.clone(),
            parent: None,
            contract: &seat.task.contract,
            deadline: seat.task.deadline,
        };
        let admitted = self.registry.admit(ask).map_err(Halt::Refused)?;
        self.amend(seat, |agent| agent.depth = admitted.depth());
        let contract = serde_json::to_value(&seat.task.contract)
            .expect("because a contract holds only text, numbers and lists");
        self.bus.agent(
            &seat.agent,
            &seat.task.name,
            EventKind::Admitted {
                role: seat.task.contract.role.clone(),
                depth: admitted.depth(),
                contract,
            },
        );
        self.enter(seat, AgentState::Queued);
        Ok(admitted)
    }

    /// Waits for a place among the running ones.
    pub(super) async fn live_place(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        admitted: Admitted,
    ) -> Result<Live, Halt> {
        let queued = self.site.clock.now();
        let live = match admitted.live_place(&seat.cancel).await {
            Ok(live) => live,
            Err(NotLive::Cancelled) => return Err(Halt::Cancelled),
            Err(NotLive::Refused(refusal)) => return Err(Halt::Refused(refusal)),
        };
        let waited = self.site.clock.now().duration_since(queued).as_millis();
        self.amend(seat, |agent| {
            agent.times.queued_ms = u64::try_from(waited).ok()
        });
        self.enter(seat, AgentState::Starting);
        Ok(live)
    }

    pub(super) fn agent_directory(&self, seat: &Seat) -> PathBuf {
        self.errand
            .directory
            .join("agents")
            .join(seat.agent.as_str())
    }

    fn workspace_step(&self, seat: &Seat) -> Step {
        Step::Workspace {
            agent: seat.agent.clone(),
            result_ref: self.result_ref(&seat.agent),
        }
    }

    /// A workspace that holds exactly what the snapshot holds.
    pub(super) async fn make_workspace(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        live: &Live,
        base: &Arc<StartingPoint>,
    ) -> Result<Workspace, Halt> {
        let (run, seat_, base_) = (self.clone(), seat.clone(), base.clone());
        let deadline = live.admitted().deadline();
        let workspace = blocking(move || -> Result<_, Halt> {
            let (run, seat, base) = (run, seat_, base_);
            let passed = || deadline.filter(|at| at.has_passed(run.site.clock.now()));
            let stopped = || seat.cancel.is_cancelled() || passed().is_some();
            let making = |error: workspace::Error| match (error, passed()) {
                (workspace::Error::Stopped, Some(at)) => {
                    let have = "the deadline passed before its workspace was made";
                    Halt::Refused(deadline_passed(at, have))
                }
                (workspace::Error::Stopped, None) => Halt::Cancelled,
                (error, _) => Halt::Failed(Error::at(Stage::Workspace, error)),
            };
            let directory = run.agent_directory(&seat);
            let order = workspace::Order {
                repo: &run.repo,
                snapshot: &base.snapshot,
                agent: &seat.agent,
                dir: &directory,
                mode: run.machine.view_mode(),
                carry: &seat.task.carry,
                writer: if seat.task.contract.is_writer() {
                    workspace::Access::Writer
                } else {
                    workspace::Access::Reader
                },
                stop: workspace::Stop::when(&stopped),
                now: run.site.clock.now(),
            };
            let _room = workspace::require_room(&*base.backend, &order, &run.errand.directory)
                .map_err(making)?;
            run.errand
                .footprint
                .intend(run.workspace_step(&seat))
                .map_err(|error| Error::at(Stage::Workspace, error))?;
            fs::create_dir_all(&directory).map_err(|error| Error::at(Stage::Workspace, error))?;
            base.backend.create(&order).map_err(making)
        })
        .await??;
        let mut notes: Vec<String> = workspace.warnings.iter().map(left_out).collect();
        if !Arc::ptr_eq(base, &self.first_base) {
            // Those of the run's first snapshot stand with the run.
            notes.extend(base.snapshot.warnings.iter().map(left_out));
        }
        self.amend(seat, |agent| {
            agent.view_notes = notes;
            agent.workspace = Some(base.chosen.clone());
            agent.base = Some(base.snapshot.commit.clone());
        });
        Ok(workspace)
    }

    /// The policies of the cages of one agent.
    ///
    /// All are made before anything runs: what makes them writes into private
    /// directories, where later a link could stand.
    pub(super) fn confine(
        &self,
        seat: &Seat,
        live: &Live,
        workspace: &Workspace,
    ) -> Result<Policies, Halt> {
        let setup = seat.task.setup.as_ref().map(super::setup::argv);
        let caged = |command: &[OsString]| self.cage(seat, live, (workspace, command));
        Ok(Policies {
            setup: setup.map(|argv| caged(&argv)).transpose()?,
            command: caged(&seat.task.command)?,
        })
    }

    fn cage(
        &self,
        seat: &Seat,
        live: &Live,
        (workspace, command): (&Workspace, &[OsString]),
    ) -> Result<Policy, Halt> {
        let permit = live.admitted();
        let start = self.start_directory(workspace);
        let inmate = Inmate {
            run: &self.errand.id,
            agent: &seat.agent,
            name: &seat.task.name,
            depth: permit.depth(),
            deadline: permit.deadline(),
            brief: &seat.task.brief,
            contract: permit.contract(),
            command,
            start: &start,
            env: &seat.task.env,
            limits: seat.task.limits,
        };
        Ok(cage::policy(&self.site, &self.machine, workspace, inmate)?)
    }

    /// The caller's directory inside the copy; the top where the copy has no
    /// such directory.
    fn start_directory(&self, workspace: &Workspace) -> PathBuf {
        let below = self
            .request
            .cwd
            .strip_prefix(self.repo.top())
            .map(PathBuf::from)
            .unwrap_or_default();
        if workspace.has_directory(&below) {
            workspace.view.root.join(below)
        } else {
            workspace.view.root.clone()
        }
    }

    /// Starts something of the agent's in a cage.
    pub(super) async fn spawn(
        &self,
        seat: &Seat,
        policy: Policy,
        input: Input,
    ) -> Result<Confined, Halt> {
        let marker = self.agent_directory(seat).join(STARTED);
        let began = marker.exists();
        fs::write(&marker, b"").map_err(|error| Error::at(Stage::Process, error))?;
        let spawned = self.site.spawner.spawn(policy, input).await;
        let confined = spawned
            .map_err(|error| Error::at(Stage::Process, anyhow::Error::new(error)))?
            .map_err(|error| {
                if !began {
                    // A refused spawn has executed nothing, so there is no work.
                    drop(fs::remove_file(&marker));
                }
                Error::at(Stage::Confinement, error)
            })?;
        Ok(confined)
    }

    /// What ends something of the agent's.
    pub(super) fn watch(&self, seat: &Seat, deadline: Option<Deadline>) -> Supervision {
        Supervision {
            deadline,
            cancel: seat.cancel.clone(),
            kill: self.control.kill.clone(),
            grace: GRACE,
            output: seat.task.limits.output_bytes.unwrap_or(OUTPUT_BYTES),
            clock: self.site.clock.clone(),
        }
    }

    /// Runs the command in its cage until the cage is proven empty.
    pub(super) async fn execute(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        live: &mut Live,
        policy: Policy,
    ) -> Result<Ended, Halt> {
        let input = match self.request.stdin {
            StdinMode::Null => Input::Null,
            StdinMode::Pass => Input::Piped,
        };
        let confined = self.spawn(seat, policy, input).await?;
        live.started();
        self.note_enforcement(seat, confined.enforcement());
        self.note_init(seat, &confined)?;
        let started = self.site.clock.now().to_string();
        self.amend(seat, |agent| agent.times.started_at = Some(started));
        self.enter(seat, AgentState::Running);
        self.saved(seat).await;
        let watch = self.watch(seat, live.admitted().deadline());
        let sink = Arc::new(NamedLines {
            name: seat.task.name.clone(),
            listener: self.bus.listener(),
        });
        let mut telling = Telling::new(self, seat, &self.agent_directory(seat));
        let denied = move |denial: &_| telling.hear(denial);
        let ended = supervise(
            confined,
            &watch,
            sink,
            self.output_log(seat.agent.as_str()),
            denied,
        )
        .await
        .map_err(|error| Error::at(Stage::Process, error))?;
        self.note_ended(seat, &ended);
        Ok(ended)
    }

    /// Measures what the agent changed and pins it under a ref.
    pub(super) async fn capture(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        workspace: Workspace,
    ) -> Result<Capture, Halt> {
        let (run, seat_) = (self.clone(), seat.clone());
        let capture = blocking(move || -> Result<Capture, Error> {
            let (run, seat) = (run, seat_);
            let keep = run.site.state.kept_dir(&run.errand.id, &seat.agent);
            let message = format!("{}: {}", seat.task.name, seat.task.brief.task);
            let harvest = Harvest {
                keep: &keep,
                at: run.site.clock.now(),
                message: &message,
            };
            let name = run.result_ref(&seat.agent);
            let try_to = |attempt| {
                cleanup::capture_and_pin(&run.repo, &workspace, &harvest, (&name, attempt))
                    .map_err(|error| Error::at(Stage::Capture, error))
            };
            match try_to(Attempt::First) {
                // The agent may have filled the disk.
                Err(error) if error.exit_code() == ExitCode::Isolation => {
                    give_up_ballast(&run.errand.directory);
                    try_to(Attempt::Again)
                }
                captured => captured,
            }
        })
        .await??;
        let kept_until = self.site.kept_until();
        let reference = self.result_ref(&seat.agent);
        let keep = self.site.state.kept_dir(&self.errand.id, &seat.agent);
        self.amend(seat, |agent| {
            super::close::note_capture(agent, &capture, (&reference, &keep, &kept_until))
        });
        self.enter(seat, AgentState::Captured);
        // First the record names the work, then the mark says that nobody has
        // to look for it any more: a crash in between finds it once more.
        self.saved(seat).await;
        fs::write(self.agent_directory(seat).join(CAPTURED), b"")
            .map_err(|error| Error::at(Stage::Capture, error))?;
        // Its work is pinned: the workspace goes now, not when its turn to be
        // integrated comes. What cannot be removed must not cost the result;
        // clean-up tries again and names it.
        if let Err(Halt::Failed(error)) = self.remove_workspace(seat).await {
            tracing::warn!(%error, agent = %seat.agent, "the workspace could not be removed yet");
        }
        Ok(capture)
    }

    /// Brings the result into the parent's tree, or says why not.
    pub(super) async fn integrate(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        base: &Arc<StartingPoint>,
        ended: &Ended,
        capture: Capture,
    ) -> Result<(), Halt> {
        self.schedule.turn(seat.at, &seat.cancel).await;
        let integration = match self.before_landing(seat, ended, &capture) {
            Some(decided) => decided,
            None => {
                self.enter(seat, AgentState::Integrating);
                match land::land_result(LandOrder::of_run(self, seat, base, &capture)).await? {
                    Fared::Decided(integration) => integration,
                    Fared::Blocked(error) => {
                        self.amend(seat, |agent| agent.reason = Some(error.to_string()));
                        Integration {
                            held_for: vec![HeldFor::Conflict],
                            ..Integration::plain(IntegrationStatus::Held)
                        }
                    }
                    Fared::Stopped(reason) => {
                        self.amend(seat, |agent| super::close::note_stopped(agent, reason));
                        Integration::not_requested()
                    }
                }
            }
        };
        self.bus.agent(
            &seat.agent,
            &seat.task.name,
            EventKind::Integrated {
                status: integration.status,
                paths: capture.changes.changes.len(),
                conflicts: integration.conflicts.len(),
            },
        );
        let log = super::verify::log_of(&self.site, &self.errand.id, &seat.agent);
        self.amend(seat, |agent| {
            super::close::note_integration(agent, integration, &log)
        });
        Ok(())
    }

    /// What is decided without a merge: nothing to land, or nobody asked.
    fn before_landing(&self, seat: &Seat, ended: &Ended, capture: &Capture) -> Option<Integration> {
        let (outcome, _) = super::close::outcome(ended);
        if capture.changes.is_empty() {
            return Some(Integration::plain(IntegrationStatus::NoChange));
        }
        let cut_short = outcome != Outcome::Succeeded || seat.cancel.is_cancelled();
        if cut_short || seat.task.integrate == Integrate::Never {
            return Some(Integration::not_requested());
        }
        let contract = &seat.task.contract;
        let held_for = match contract.approve {
            Approve::Human => vec![HeldFor::Review],
            Approve::None if contract.holds_when_tainted() => vec![HeldFor::Taint],
            Approve::None => Vec::new(),
        };
        if held_for.is_empty() && seat.task.integrate == Integrate::Auto {
            return None;
        }
        Some(Integration {
            held_for,
            ..Integration::plain(IntegrationStatus::Held)
        })
    }

    /// Removes a workspace whose work is pinned.
    async fn remove_workspace(self: &Arc<Self>, seat: &Arc<Seat>) -> Result<(), Halt> {
        let (run, seat) = (self.clone(), seat.clone());
        blocking(move || -> Result<(), Error> {
            workspace::dispose(&run.agent_directory(&seat))
                .map_err(|error| Error::at(Stage::Cleanup, error))?;
            run.errand
                .footprint
                .undone(&run.workspace_step(&seat))
                .map_err(|error| Error::at(Stage::Cleanup, error))
        })
        .await?
        .map_err(Halt::Failed)
    }

    /// Gives back what the agent still holds; on every path.
    ///
    /// A workspace whose command never ran holds no work, and one whose work
    /// is pinned neither. One whose command ran and that was not captured
    /// stays for the run's end, which tries to pin its work once more before
    /// it removes anything.
    pub(super) async fn clean_up(self: &Arc<Self>, seat: &Arc<Seat>) -> CleanupReport {
        let open = self
            .errand
            .footprint
            .open_steps()
            .contains(&self.workspace_step(seat));
        let directory = self.agent_directory(seat);
        let unpinned = directory.join(STARTED).exists() && !directory.join(CAPTURED).exists();
        if !open || unpinned {
            return CleanupReport::clean();
        }
        match self.remove_workspace(seat).await {
            Ok(()) => CleanupReport::clean(),
            Err(halt) => {
                let why = match halt {
                    Halt::Failed(error) => error.to_string(),
                    Halt::Refused(_) | Halt::Cancelled => "it was interrupted".to_owned(),
                };
                self.note_fault(ExitCode::Cleanup);
                CleanupReport {
                    complete: false,
                    left: vec![LeftOver {
                        what: self.agent_directory(seat).to_string_lossy().into_owned(),
                        why,
                    }],
                }
            }
        }
    }
}
