//! What dead runs left, and how it is reclaimed.
//!
//! A run is dead when its lease can be taken: the kernel drops the lease with
//! the process, however it died. Its landings are finished or taken back, the
//! work in its workspaces is pinned under refs, and only then is anything
//! removed. Live runs are not looked at, and no process id decides anything
//! but whether the first process of a dead run's cage is gone.

use std::fs;
use std::path::Path;

use cofferdam_sandbox::{Reach, sweep_groups};

use super::errand::give_up_ballast;
use super::error::{Error, Stage};
use super::place;
use super::site::Site;
use super::unnoted::{self, agents};
use crate::cleanup::{self, Footprint, INIT, Noting, Places, Salvaged, Settled, Step};
use crate::git::Repository;
use crate::model::{
    AgentRecord, AgentState, CleanupReport, Event, EventKind, ExitCode, Integration,
    IntegrationStatus, LeftOver, Outcome, RunId, RunRecord,
};
use crate::store::{Lease, Lock};
use crate::workspace;

/// What recovery did about one dead run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Which run.
    pub run: RunId,
    /// How many agents' work was pinned on the way.
    pub pinned: usize,
    /// What is still there.
    pub report: CleanupReport,
}

/// Settles what a run still holds; its landings first.
///
/// Nothing is looked at, let alone removed, while a process of one of its
/// cages could still write.
pub(super) fn settle_open(
    site: &Site,
    repo: &Repository,
    footprint: &Footprint,
    pinned: &mut Noting<'_>,
) -> Settled {
    if let Err(left) = cages_empty(footprint.directory()) {
        return Settled {
            quarantined: Vec::new(),
            report: CleanupReport {
                complete: false,
                left: vec![left],
            },
        };
    }
    give_up_ballast(footprint.directory());
    for step in footprint.open_steps() {
        let Step::Landing { staging, .. } = &step else {
            continue;
        };
        let recovered = place::recover_landings(site, repo).and_then(|()| {
            // One that could not be read is left alone, and is not over.
            if Path::new(staging).exists() {
                return Ok(());
            }
            footprint
                .undone(&step)
                .map_err(|error| Error::at(Stage::Cleanup, error))
        });
        if let Err(error) = recovered {
            // The step stays open, and settling names it as left over.
            tracing::error!(%error, "a landing could not be recovered");
        }
    }
    let kept = match footprint.run() {
        Some((run, _)) => site.state.kept_root(&run),
        None => site.state.path().join("kept"),
    };
    if let Err(error) = unnoted::take_on(footprint) {
        return Settled {
            quarantined: Vec::new(),
            report: CleanupReport {
                complete: false,
                left: vec![left(footprint.directory(), error)],
            },
        };
    }
    let trash = site.state.trash_dir();
    let places = Places {
        kept: &kept,
        trash: &trash,
        now: site.clock.now(),
    };
    cleanup::settle(footprint, repo, places, pinned)
}

/// The runs whose lease nobody holds.
pub(super) fn stale(site: &Site) -> Result<Vec<RunId>, Error> {
    let runs = site
        .state
        .list_runs()
        .map_err(|error| Error::at(Stage::Cleanup, error))?;
    let _starting = Lock::wait(&site.state.starting_lock(), &mut || false)
        .map_err(|error| Error::at(Stage::Cleanup, error))?;
    let dead = |run: &RunId| matches!(Lease::try_take(&site.state.lease_path(run)), Ok(Some(_)));
    Ok(runs.into_iter().filter(dead).collect())
}

/// Recovers every dead run of one repository, or of all where none is named.
///
/// What is wrong with one of them stands in the answer and hinders no other.
pub(super) fn recover_dead(
    site: &Site,
    around: Option<&Repository>,
) -> Result<Vec<Recovered>, Error> {
    let mut done = Vec::new();
    let runs = site
        .state
        .list_runs()
        .map_err(|error| Error::at(Stage::Cleanup, error))?;
    for run in runs {
        let directory = site.state.run_dir(&run);
        let lease = {
            // Without this a run that is just being made could be taken for dead.
            let _starting = Lock::wait(&site.state.starting_lock(), &mut || false)
                .map_err(|error| Error::at(Stage::Cleanup, error))?;
            // A run that has just ended took its directory along.
            if !directory.exists() {
                continue;
            }
            Lease::try_take(&directory.join("lease"))
        };
        let Ok(Some(_lease)) = lease else { continue };
        match recover_one(site, around, &run, &directory) {
            Ok(None) => {}
            Ok(Some(recovered)) => {
                tracing::info!(run = %recovered.run, pinned = recovered.pinned, "a dead run was recovered");
                done.push(recovered);
            }
            Err(left) => {
                tracing::warn!(%run, what = %left.what, why = %left.why, "a dead run could not be recovered");
                let report = CleanupReport {
                    complete: false,
                    left: vec![left],
                };
                done.push(Recovered {
                    run,
                    pinned: 0,
                    report,
                });
            }
        }
    }
    if let Err(error) = cleanup::empty_trash(&site.state.trash_dir()) {
        tracing::warn!(%error, "the trash could not be emptied");
    }
    // Of a launcher that was killed while it made one or took one away.
    if let Err(error) = workspace::sweep_half_made(&site.state.bases_dir()) {
        tracing::warn!(%error, "half a shared checkout could not be removed");
    }
    let reach = match around {
        Some(_) => Reach::Nearby,
        None => Reach::Everywhere,
    };
    for group in sweep_groups(reach) {
        tracing::warn!(group = %group.display(), "a control group of a dead launcher could not be removed");
    }
    Ok(done)
}

fn left(directory: &Path, why: impl std::fmt::Display) -> LeftOver {
    LeftOver {
        what: directory.to_string_lossy().into_owned(),
        why: why.to_string(),
    }
}

fn recover_one(
    site: &Site,
    around: Option<&Repository>,
    run: &RunId,
    directory: &Path,
) -> Result<Option<Recovered>, LeftOver> {
    let named = |error: &dyn std::fmt::Display| left(directory, error);
    let footprint = match Footprint::load(directory) {
        Ok(Some(footprint)) => footprint,
        // Nothing beyond its directory was ever acquired, or somebody took the
        // journal away.
        Ok(None) => return without_journal(site, run, directory),
        Err(error) => {
            return Err(left(
                directory,
                format_args!(
                    "its journal cannot be read: {error}; what its agents wrote is in `agents/*/tree` there"
                ),
            ));
        }
    };
    let Some((_, place)) = footprint.run() else {
        return Err(left(directory, "its journal does not name its repository"));
    };
    if around.is_some_and(|repo| repo.common_dir().as_os_str() != place.common_dir) {
        return Ok(None);
    }
    let mut pinned = 0;
    let settled = match Path::new(&place.common_dir).exists() {
        true => match site.repository(Path::new(&place.top)) {
            Ok(repo) if repo.common_dir().as_os_str() == place.common_dir => {
                let settled = settle_open(site, &repo, &footprint, &mut |found| {
                    pinned += usize::from(found.reference.is_some());
                    note_in_book(site, run, found)
                });
                unnoted::name_results(site, &repo, run).map_err(|error| named(&error))?;
                settled
            }
            Ok(_) => {
                return Err(left(
                    directory,
                    "another repository stands where its own did",
                ));
            }
            Err(error) => {
                return Err(left(
                    directory,
                    format_args!("its repository cannot be opened: {error}"),
                ));
            }
        },
        // The repository was deleted, and its objects with it: what the
        // agents' files hold is all there is.
        false => {
            cages_empty(directory)?;
            unnoted::keep_files(site, run, directory).map_err(|error| named(&error))?
        }
    };
    close_record(site, run, &settled).map_err(|error| named(&error))?;
    let report = settled.report;
    if report.complete {
        cleanup::discard_directory(directory, &site.state.trash_dir())
            .map_err(|error| named(&error))?;
    }
    Ok(Some(Recovered {
        run: run.clone(),
        pinned,
        report,
    }))
}

/// Takes away a run of which nothing says what it acquired; what its agents
/// wrote is kept.
fn without_journal(
    site: &Site,
    run: &RunId,
    directory: &Path,
) -> Result<Option<Recovered>, LeftOver> {
    let named = |error: &dyn std::fmt::Display| left(directory, error);
    let any = !agents(directory).map_err(|error| named(&error))?.is_empty();
    if any {
        cages_empty(directory)?;
        let settled = unnoted::keep_files(site, run, directory).map_err(|error| named(&error))?;
        close_record(site, run, &settled).map_err(|error| named(&error))?;
    }
    cleanup::discard_directory(directory, &site.state.trash_dir())
        .map_err(|error| named(&error))?;
    Ok(any.then(|| Recovered {
        run: run.clone(),
        pinned: 0,
        report: CleanupReport::clean(),
    }))
}

/// Makes sure that no process of a run's cages is left to write.
///
/// The kernel ends a cage with its launcher. Its first process is named by id
/// and start time, so a reused id is never taken for it.
fn cages_empty(directory: &Path) -> Result<(), LeftOver> {
    for agent in agents(directory).map_err(|error| left(directory, error))? {
        let text = match fs::read(agent.join(INIT)) {
            Ok(text) => text,
            // The cage had not come up, or had ended before it could be named.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(left(&agent, error)),
        };
        let identity: cofferdam_sandbox::Identity = serde_json::from_slice(&text)
            .map_err(|error| left(&agent, format_args!("`{INIT}` cannot be read: {error}")))?;
        identity.end_and_wait().map_err(|error| {
            left(
                &agent,
                format_args!("the first process of its cage is still there: {error}"),
            )
        })?;
    }
    Ok(())
}

fn close_record(site: &Site, run: &RunId, settled: &Settled) -> Result<(), Error> {
    let Some(mut record) = site.book().find(run)? else {
        return Ok(());
    };
    close_dead(&mut record, settled);
    site.book().save(&record)?;
    let event = Event::of_run(
        run,
        &site.clock.now().to_string(),
        EventKind::Decided {
            command: "recover".to_owned(),
            status: IntegrationStatus::NotRequested,
        },
    );
    site.note(&event);
    Ok(())
}

/// Puts work that was pinned into a record on disk.
fn note_in_book(site: &Site, run: &RunId, found: &Salvaged) -> Result<(), String> {
    let keep = site.state.kept_dir(run, &found.agent);
    let kept_until = site.kept_until();
    match site.book().find(run) {
        // The launcher died before its first record: the ref is all there is,
        // and `ls --all` lists it.
        Ok(None) => return Ok(()),
        Ok(Some(_)) => {}
        Err(error) => return Err(error.to_string()),
    }
    let amended = site.book().amend(run, &found.agent, |agent| {
        note_salvaged(agent, found, (&keep, &kept_until))
    });
    match amended {
        Ok(_) => Ok(()),
        // Without room for the record the ref is what names the work, and
        // removing the workspace is what makes room.
        Err(error) if error.exit_code() == ExitCode::Isolation && found.reference.is_some() => {
            tracing::error!(%error, reference = ?found.reference, "the record could not be written; the work is under its ref");
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Puts work that was pinned into an agent's record.
pub(super) fn note_salvaged(
    agent: &mut AgentRecord,
    found: &Salvaged,
    (keep, until): (&Path, &str),
) {
    let at = (found.result_ref.as_str(), keep, until);
    super::close::note_capture(agent, &found.capture, at);
    agent.state = AgentState::Cleaned;
}

/// Names the agents whose workspace stays.
pub(super) fn note_quarantined(record: &mut RunRecord, settled: &Settled) {
    for agent in &mut record.agents {
        if settled.quarantined.contains(&agent.id) {
            agent.state = AgentState::Quarantined;
        }
    }
}

fn close_dead(record: &mut RunRecord, settled: &Settled) {
    note_quarantined(record, settled);
    for agent in &mut record.agents {
        if agent.state.is_final() && agent.outcome.is_some() {
            continue;
        }
        if agent.outcome.is_none() {
            agent.outcome = Some(Outcome::Unknown);
            agent.reason = Some("the launcher died while it ran".to_owned());
        }
        if agent.state != AgentState::Quarantined {
            agent.state = AgentState::Cleaned;
        }
        if agent.integration.status == IntegrationStatus::Landed {
            continue;
        }
        let warnings = std::mem::take(&mut agent.integration.warnings);
        agent.integration = Integration {
            warnings,
            ..Integration::not_requested()
        };
    }
    record.exit_code = ExitCode::Internal.number();
    record.cleanup = settled.report.clone();
}
