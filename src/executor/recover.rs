//! What dead runs left, and how it is reclaimed.
//!
//! A run is dead when its lease can be taken: the kernel drops the lease with
//! the process, however it died. Its landings are finished or taken back, the
//! work in its workspaces is pinned under refs, and only then is anything
//! removed. Live runs are not looked at, and no process id decides anything
//! but whether the first process of a dead run's cage is gone.

use std::fs;
use std::path::Path;

use super::error::{Error, Stage};
use super::land;
use super::site::Site;
use crate::cleanup::{self, Footprint, INIT, Places, STARTED, Settled, Step};
use crate::git::Repository;
use crate::model::{
    AgentState, CleanupReport, ExitCode, Integration, IntegrationStatus, LeftOver, Outcome, RunId,
    RunRecord,
};
use crate::store::{Lease, Lock};

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
pub(super) fn settle_open(
    site: &Site,
    repo: &Repository,
    footprint: &Footprint,
    run: &RunId,
) -> Settled {
    for step in footprint.open_steps() {
        let Step::Landing { staging, .. } = &step else {
            continue;
        };
        let recovered = land::recover_landings(site, repo).and_then(|()| {
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
    let kept = site.state.kept_root(run);
    let trash = site.state.trash_dir();
    cleanup::settle(
        footprint,
        repo,
        Places {
            kept: &kept,
            trash: &trash,
            now: site.clock.now(),
        },
    )
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
            Lease::try_take(&directory.join("lease"))
        };
        let Ok(Some(_lease)) = lease else { continue };
        if let Some(recovered) = recover_one(site, around, &run, &directory)? {
            done.push(recovered);
        }
    }
    if let Err(error) = cleanup::empty_trash(&site.state.trash_dir()) {
        tracing::warn!(%error, "the trash could not be emptied");
    }
    Ok(done)
}

fn recover_one(
    site: &Site,
    around: Option<&Repository>,
    run: &RunId,
    directory: &Path,
) -> Result<Option<Recovered>, Error> {
    let failed = |why: String| {
        let report = CleanupReport {
            complete: false,
            left: vec![LeftOver {
                what: directory.to_string_lossy().into_owned(),
                why,
            }],
        };
        Ok(Some(Recovered {
            run: run.clone(),
            pinned: 0,
            report,
        }))
    };
    let footprint = match Footprint::load(directory) {
        Ok(Some(footprint)) => footprint,
        // Nothing beyond its directory was ever acquired.
        Ok(None) => {
            cleanup::discard_directory(directory, &site.state.trash_dir())
                .map_err(|error| Error::at(Stage::Cleanup, error))?;
            return Ok(None);
        }
        Err(error) => return failed(format!("its journal cannot be read: {error}")),
    };
    let Some((_, place)) = footprint.run() else {
        return failed("its journal does not name its repository".to_owned());
    };
    if around.is_some_and(|repo| repo.common_dir().as_os_str() != place.common_dir) {
        return Ok(None);
    }
    let repo = match site.repository(Path::new(&place.top)) {
        Ok(repo) if repo.common_dir().as_os_str() == place.common_dir => repo,
        Ok(_) => return failed("another repository stands where its own did".to_owned()),
        Err(error) => return failed(format!("its repository cannot be opened: {error}")),
    };
    if let Err(left) = cages_empty(directory) {
        return failed(left);
    }
    let settled = settle_open(site, &repo, &footprint, run);
    let pinned = settled
        .salvaged
        .iter()
        .filter(|found| found.reference.is_some())
        .count();
    if let Ok(mut record) = site.book().load(run) {
        close_dead(&mut record, &settled, &site.kept_until());
        site.book().save(&record)?;
    }
    let report = settled.report;
    if report.complete {
        cleanup::discard_directory(directory, &site.state.trash_dir())
            .map_err(|error| Error::at(Stage::Cleanup, error))?;
    }
    Ok(Some(Recovered {
        run: run.clone(),
        pinned,
        report,
    }))
}

/// Makes sure that no process of a dead run's cages is left to write.
///
/// The kernel ends a cage with its launcher. Its first process is named by id
/// and start time, so a reused id is never taken for it.
fn cages_empty(directory: &Path) -> Result<(), String> {
    let Ok(agents) = fs::read_dir(directory.join("agents")) else {
        return Ok(());
    };
    for agent in agents.flatten() {
        let started = agent.path().join(STARTED).exists();
        let Ok(text) = fs::read(agent.path().join(INIT)) else {
            if started {
                tracing::debug!(agent = ?agent.file_name(), "the launcher died while it started this agent");
            }
            continue;
        };
        let identity: cofferdam_sandbox::Identity = serde_json::from_slice(&text)
            .map_err(|error| format!("`{INIT}` cannot be read: {error}"))?;
        identity.end_and_wait().map_err(|error| {
            format!("the first process of an agent's cage is still there: {error}")
        })?;
    }
    Ok(())
}

/// Puts what settling pinned into the record of a run.
pub(super) fn note_salvaged(record: &mut RunRecord, settled: &Settled, kept_until: &str) {
    for found in &settled.salvaged {
        if let Some(agent) = record
            .agents
            .iter_mut()
            .find(|agent| agent.id == found.agent)
        {
            super::close::note_capture(
                agent,
                &found.capture,
                (found.reference.clone(), kept_until),
            );
            agent.state = AgentState::Cleaned;
        }
    }
    for id in &settled.quarantined {
        if let Some(agent) = record.agents.iter_mut().find(|agent| agent.id == *id) {
            agent.state = AgentState::Quarantined;
        }
    }
}

fn close_dead(record: &mut RunRecord, settled: &Settled, kept_until: &str) {
    note_salvaged(record, settled, kept_until);
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
