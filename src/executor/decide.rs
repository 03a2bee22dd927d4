//! What a person decides about results later: apply, discard, reclaim.
//!
//! Owns the three verbs and nothing of how they are done: applying is the
//! landing of a run once more, discarding deletes a ref that we made, and
//! reclaiming never touches a live run or work that is not pinned.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Executor;
use super::book::FoundAgent;
use super::cage::Machine;
use super::errand::Errand;
use super::error::{Error, Fault, Stage};
use super::land::{self, LandOrder, OnLanded};
use super::recover::{self, Recovered};
use super::site::blocking;
use crate::cleanup;
use crate::confinement::Waivers;
use crate::git::{Registration, Repository};
use crate::integration::Authority;
use crate::model::{
    AgentRecord, ExitCode, IntegrationStatus, Land, LeftOver, OnConflict, RunId, RunRecord,
};

/// How a result is to be applied.
#[derive(Debug, Clone)]
pub struct ApplyOrder {
    /// What happens where it conflicts.
    pub on_conflict: OnConflict,
    /// Where it lands.
    pub land: Land,
    /// A check of the merged tree.
    pub verify: Option<String>,
}

/// What a decision changed.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The agents whose results it was about, as they stand now.
    pub agents: Vec<AgentRecord>,
    /// What the program ends with.
    pub exit_code: ExitCode,
}

/// What `gc` took away and left.
#[derive(Debug, Clone, Default)]
pub struct Reclaimed {
    /// Dead runs that were recovered.
    pub recovered: Vec<Recovered>,
    /// Runs whose results and records are gone.
    pub runs: Vec<RunId>,
    /// Refs that were deleted.
    pub refs: Vec<String>,
    /// Results that are kept, by ref.
    pub kept: Vec<String>,
    /// What could not be taken away.
    pub left: Vec<LeftOver>,
}

impl Executor {
    /// Lands a result that waits.
    ///
    /// # Errors
    /// There is no such result, or landing it could not be tried.
    pub async fn apply(&self, found: FoundAgent, how: ApplyOrder) -> Result<Decided, Error> {
        let repo = self.repository(std::path::Path::new(&found.record.repo))?;
        let (site, around) = (self.site.clone(), repo.clone());
        let errand = blocking(move || -> Result<Errand, Error> {
            recover::recover_dead(&site, Some(&around))?;
            Errand::begin(&site, &around)
        })
        .await??;
        let errand = Arc::new(errand);
        let on_conflict = how.on_conflict;
        let landed = match self.order(&found, how, (&repo, &errand)) {
            Ok(order) => land::land_result(order).await,
            Err(error) => Err(error),
        };
        errand.abandon(&self.site, &repo);
        let integration = landed?;
        let marked = on_conflict == OnConflict::Markers && !integration.conflicts.is_empty();
        let exit_code = match integration.status {
            IntegrationStatus::Landed | IntegrationStatus::NoChange if !marked => ExitCode::Success,
            IntegrationStatus::Landed
            | IntegrationStatus::NoChange
            | IntegrationStatus::Held
            | IntegrationStatus::Rejected
            | IntegrationStatus::NotRequested => ExitCode::Held,
        };
        let agent = found.agent().id.clone();
        let record = self.book().amend(&found.record.run, &agent, |agent| {
            super::close::note_integration(agent, integration);
        })?;
        Ok(Decided {
            agents: record
                .agents
                .into_iter()
                .filter(|one| one.id == agent)
                .collect(),
            exit_code,
        })
    }

    /// The way of a result that waits; an error where it does not wait.
    fn order(
        &self,
        found: &FoundAgent,
        how: ApplyOrder,
        (repo, errand): (&Repository, &Arc<Errand>),
    ) -> Result<LandOrder, Error> {
        let agent = found.agent();
        let waits = agent.result.reference.is_some()
            && agent.integration.status != IntegrationStatus::Landed;
        let (true, Some(tree), Some(base), Some(contract)) =
            (waits, &agent.result.tree, &agent.base, &agent.contract)
        else {
            return Err(nothing_to_apply(agent));
        };
        Ok(LandOrder {
            site: self.site.clone(),
            repo: repo.clone(),
            errand: errand.clone(),
            machine: Machine {
                enforcement: self.probe()?,
                waivers: Waivers::default(),
            },
            agent: agent.id.clone(),
            title: land::title(&agent.name, agent.task.as_deref().unwrap_or("")),
            base_commit: base.clone(),
            result_tree: tree.clone(),
            contract: contract.clone(),
            // The person who applies it has looked, and decides beyond its scope.
            scope: vec!["**".to_owned()],
            paths: Vec::new(),
            record: found.record.run.clone(),
            landed: OnLanded::of_book(&self.site, &found.record.run, &agent.id),
            cancel: CancellationToken::new(),
            authority: Authority::Person,
            on_conflict: how.on_conflict,
            land: how.land,
            branch: format!("cofferdam/{}/{}", found.record.run, agent.id),
            verify: how.verify,
        })
    }

    /// Drops a result: its ref is deleted, its record says so.
    ///
    /// # Errors
    /// The ref cannot be deleted or the record not be written.
    pub fn discard(&self, found: &FoundAgent) -> Result<Decided, Error> {
        let agent = found.agent().clone();
        let repo = self.repository(std::path::Path::new(&found.record.repo))?;
        if let Some(name) = &agent.result.reference {
            delete_if_there(&repo, name)?;
        }
        let kept = self.site.state.kept_dir(&found.record.run, &agent.id);
        cleanup::discard_directory(&kept, &self.site.state.trash_dir())
            .map_err(|error| Error::at(Stage::Cleanup, error))?;
        let record = self.book().amend(&found.record.run, &agent.id, |agent| {
            agent.result.reference = None;
            agent.ignored.clear();
            if agent.integration.status != IntegrationStatus::Landed {
                agent.integration.status = IntegrationStatus::Rejected;
                agent.integration.held_for.clear();
            }
        })?;
        Ok(Decided {
            agents: record
                .agents
                .into_iter()
                .filter(|one| one.id == agent.id)
                .collect(),
            exit_code: ExitCode::Success,
        })
    }

    /// The runs that are dead and not recovered.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub fn stale(&self) -> Result<Vec<RunId>, Error> {
        recover::stale(&self.site)
    }

    /// Recovers what dead runs left.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub fn recover(&self) -> Result<Vec<Recovered>, Error> {
        recover::recover_dead(&self.site, None)
    }

    /// Reclaims what dead runs left and results past their keep time.
    ///
    /// # Errors
    /// The state directory cannot be read. What cannot be taken away is in
    /// the answer.
    pub fn reclaim(&self, repo: Option<&Repository>, older: Duration) -> Result<Reclaimed, Error> {
        let mut done = Reclaimed {
            recovered: recover::recover_dead(&self.site, None)?,
            ..Reclaimed::default()
        };
        for recovered in &done.recovered {
            done.left.extend(recovered.report.left.clone());
        }
        let now = self.site.clock.now();
        for record in self.book().records()? {
            if self.site.state.run_dir(&record.run).exists() {
                continue;
            }
            let age = ended_at(&record).map(|ended| now.duration_since(ended));
            let kept_long_enough =
                age.is_none_or(|age| Duration::try_from(age).unwrap_or_default() >= older);
            if !kept_long_enough {
                let refs = record
                    .agents
                    .iter()
                    .filter_map(|agent| agent.result.reference.clone());
                done.kept.extend(refs);
                continue;
            }
            match self.forget(&record) {
                Ok(refs) => {
                    done.refs.extend(refs);
                    done.runs.push(record.run);
                }
                Err(error) => done.left.push(LeftOver {
                    what: record.run.to_string(),
                    why: error.to_string(),
                }),
            }
        }
        if let Some(repo) = repo {
            self.reclaim_strays(repo, &mut done)?;
        }
        Ok(done)
    }

    /// Deletes the results and the record of a run that is over.
    fn forget(&self, record: &RunRecord) -> Result<Vec<String>, Error> {
        let mut refs = Vec::new();
        // A repository that is gone took its refs along.
        if let Ok(repo) = self.repository(std::path::Path::new(&record.repo))
            && repo.common_dir().to_string_lossy() == record.common_dir.as_str()
        {
            let found = repo
                .refs_under(&format!("refs/cofferdam/{}/", record.run))
                .map_err(|error| Error::at(Stage::Cleanup, error))?;
            for (name, commit) in found {
                repo.delete_ref(&name, &commit)
                    .map_err(|error| Error::at(Stage::Cleanup, error))?;
                refs.push(name);
            }
        }
        let trash = self.site.state.trash_dir();
        for directory in [
            self.site.state.kept_root(&record.run),
            self.site.state.outputs_dir(&record.run),
        ] {
            cleanup::discard_directory(&directory, &trash)
                .map_err(|error| Error::at(Stage::Cleanup, error))?;
        }
        std::fs::remove_file(self.site.state.record_path(&record.run))
            .map_err(|error| Error::at(Stage::Cleanup, error))?;
        Ok(refs)
    }

    /// Refs and registrations of ours that belong to no run that is known:
    /// their state directory was deleted by hand.
    fn reclaim_strays(&self, repo: &Repository, done: &mut Reclaimed) -> Result<(), Error> {
        let fault = |error: crate::git::Error| Error::at(Stage::Cleanup, error);
        for (agent, worktree) in Registration::ours(repo).map_err(fault)? {
            if !worktree.exists() && Registration::unregister(repo, &agent).map_err(fault)? {
                done.refs.push(format!("worktrees/{agent}"));
            }
        }
        Ok(())
    }
}

fn ended_at(record: &RunRecord) -> Option<jiff::Timestamp> {
    let times = record.agents.iter().filter_map(|agent| {
        agent
            .times
            .ended_at
            .as_ref()
            .or(agent.times.requested_at.as_ref())
    });
    times.filter_map(|text| text.parse().ok()).max()
}

fn delete_if_there(repo: &Repository, name: &str) -> Result<(), Error> {
    let fault = |error: crate::git::Error| Error::at(Stage::Cleanup, error);
    for (found, commit) in repo.refs_under(name).map_err(fault)? {
        if found == name {
            repo.delete_ref(&found, &commit).map_err(fault)?;
        }
    }
    Ok(())
}

fn nothing_to_apply(agent: &AgentRecord) -> Error {
    let message = format!(
        "apply `{}`: it has no result that waits (status {:?})",
        agent.id, agent.integration.status
    );
    Error::at(
        Stage::Integration,
        Fault::new(ExitCode::Usage, message).hint("`cofferdam ls` lists results that wait"),
    )
}
