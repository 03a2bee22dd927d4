//! What a person decides about results later: apply, discard, reclaim.
//!
//! Owns the three verbs and nothing of how they are done: applying is the
//! landing of a run once more, discarding deletes a ref that we made, and
//! reclaiming never touches a live run or work that is not pinned.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_sandbox::Enforcement;

use super::book::FoundAgent;
use super::cage::Machine;
use super::errand::Errand;
use super::error::{Error, Fault, Stage};
use super::land::{self, Fared, LandOrder, OnLanded};
use super::recover::{self, Recovered};
use super::site::blocking;
use super::verify;
use super::{Control, Executor};
use crate::cleanup;
use crate::confinement::Waivers;
use crate::git::{Objects, Registration, Repository};
use crate::integration::Authority;
use crate::model::{
    AgentId, AgentRecord, Event, EventKind, ExitCode, HeldFor, HistoryRecord, IntegrationStatus,
    Land, LeftOver, ObjectId, OnConflict, RunId, RunRecord,
};
use crate::workspace;

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
    /// Registrations of worktrees that are gone.
    pub registrations: Vec<AgentId>,
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
    pub async fn apply(
        &self,
        found: FoundAgent,
        how: ApplyOrder,
        control: Control,
    ) -> Result<Decided, Error> {
        self.book().require_over(&found.record.run)?;
        let repo = self.repository(std::path::Path::new(&found.record.repo))?;
        let on_conflict = how.on_conflict;
        let (executor, around, waiting) = (self.clone(), repo.clone(), found.clone());
        let (errand, order) =
            blocking(move || executor.prepare(&waiting, how, (&around, &control))).await??;
        let landed = match order {
            Ok(order) => land::land_result(order).await,
            Err(error) => Err(error),
        };
        let site = self.site.clone();
        blocking(move || errand.abandon(&site, &repo)).await?;
        let integration = match landed? {
            Fared::Decided(integration) => integration,
            Fared::Blocked(error) => return Err(error),
            Fared::Stopped(_) => {
                let message = "land the result: it was cancelled; nothing of it has landed";
                return Err(Error::at(
                    Stage::Integration,
                    Fault::new(ExitCode::Partial, message),
                ));
            }
        };
        let marked = on_conflict == OnConflict::Markers && !integration.conflicts.is_empty();
        let exit_code = match integration.status {
            IntegrationStatus::Landed | IntegrationStatus::NoChange if !marked => ExitCode::Success,
            IntegrationStatus::Landed
            | IntegrationStatus::NoChange
            | IntegrationStatus::Held
            | IntegrationStatus::Rejected
            | IntegrationStatus::NotRequested => ExitCode::Held,
        };
        let log = verify::log_of(&self.site, &found.record.run, &found.agent().id);
        self.decided(&found, "apply", exit_code, |agent| {
            super::close::note_integration(agent, integration, &log)
        })
    }

    /// Takes a place for a landing and makes its order.
    fn prepare(
        &self,
        found: &FoundAgent,
        how: ApplyOrder,
        (repo, control): (&Repository, &Control),
    ) -> Result<(Arc<Errand>, Result<LandOrder, Error>), Error> {
        recover::recover_dead(&self.site, Some(repo))?;
        super::preflight::branch(repo, &how.land)?;
        let errand = Arc::new(Errand::begin(&self.site, repo)?);
        let order = self.order(found, how, (repo, &errand, control));
        Ok((errand, order))
    }

    /// Changes the record, tells the trail, and answers.
    fn decided(
        &self,
        found: &FoundAgent,
        command: &str,
        exit_code: ExitCode,
        change: impl FnOnce(&mut AgentRecord),
    ) -> Result<Decided, Error> {
        let (run, agent) = (&found.record.run, &found.agent().id);
        let record = self.book().amend(run, agent, change)?;
        let agents: Vec<_> = record
            .agents
            .into_iter()
            .filter(|one| one.id == *agent)
            .collect();
        for agent in &agents {
            let kind = EventKind::Decided {
                command: command.to_owned(),
                status: agent.integration.status,
            };
            let event = Event::of_run(run, &self.site.clock.now().to_string(), kind);
            self.site.note(&event.of_agent(&agent.id, &agent.name));
        }
        Ok(Decided { agents, exit_code })
    }

    /// The way of a result that waits; an error where it does not wait.
    fn order(
        &self,
        found: &FoundAgent,
        how: ApplyOrder,
        (repo, errand, control): (&Repository, &Arc<Errand>, &Control),
    ) -> Result<LandOrder, Error> {
        let agent = found.agent();
        let waits = agent.result.reference.is_some()
            && agent.integration.status != IntegrationStatus::Landed;
        let (true, Some(tree), Some(base), Some(contract)) =
            (waits, &agent.result.tree, &agent.base, &agent.contract)
        else {
            return Err(nothing_to_apply(agent, "apply"));
        };
        // The check that the run was given holds here too, unless it has said
        // no already and the person lands the result all the same.
        let refused = agent.integration.held_for.contains(&HeldFor::Verify);
        let verify = how
            .verify
            .or_else(|| agent.verify.clone().filter(|_| !refused));
        Ok(LandOrder {
            site: self.site.clone(),
            repo: repo.clone(),
            errand: errand.clone(),
            machine: self.machine_for(errand, verify.as_deref())?,
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
            cancel: control.cancel.clone(),
            kill: control.kill.clone(),
            deadline: None,
            authority: Authority::Person,
            on_conflict: how.on_conflict,
            land: how.land,
            branch: land::branch_name(&found.record.run, &agent.name, &agent.id),
            verify,
        })
    }

    /// What the machine enforces, for a check; without one nobody asks.
    fn machine_for(&self, errand: &Errand, verify: Option<&str>) -> Result<Machine, Error> {
        match verify {
            Some(_) => Machine::try_in(&self.site, &errand.directory, Waivers::default()),
            None => Ok(Machine {
                enforcement: Enforcement::default(),
                waivers: Waivers::default(),
                merges: Err("nothing is executed".to_owned()),
            }),
        }
    }

    /// Drops a result: its ref is deleted, its record says so.
    ///
    /// # Errors
    /// The ref cannot be deleted or the record not be written.
    pub fn discard(&self, found: &FoundAgent) -> Result<Decided, Error> {
        self.book().require_over(&found.record.run)?;
        let agent = found.agent();
        let holds = agent.result.reference.is_some()
            || agent.result.kept.is_some()
            || matches!(agent.result.history, Some(HistoryRecord::Kept { .. }));
        if !holds {
            return Err(nothing_to_apply(agent, "discard"));
        }
        let repo = self.repository(std::path::Path::new(&found.record.repo))?;
        if let Some(name) = &agent.result.reference {
            delete_if_there(&repo, name)?;
        }
        if let Some(HistoryRecord::Kept { reference, .. }) = &agent.result.history {
            delete_if_there(&repo, reference)?;
        }
        let kept = self.site.state.kept_dir(&found.record.run, &agent.id);
        cleanup::discard_directory(&kept, &self.site.state.trash_dir())
            .map_err(|error| Error::at(Stage::Cleanup, error))?;
        self.decided(found, "discard", ExitCode::Success, |agent| {
            agent.result.reference = None;
            agent.result.history = None;
            agent.result.kept = None;
            agent.ignored.clear();
            if agent.integration.status != IntegrationStatus::Landed {
                agent.integration.status = IntegrationStatus::Rejected;
                agent.integration.held_for.clear();
            }
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
        let records = match repo {
            Some(repo) => self.book().records_of(repo)?,
            None => self.book().records()?,
        };
        for record in records {
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
            self.reclaim_strays(repo, older, &mut done)?;
        }
        let bases = self.site.state.bases_dir();
        workspace::sweep_bases(&bases, older).map_err(|error| Error::at(Stage::Cleanup, error))?;
        Ok(done)
    }

    /// Deletes the results and the record of a run that is over.
    fn forget(&self, record: &RunRecord) -> Result<Vec<String>, Error> {
        let mut refs = Vec::new();
        // A repository that is gone took its refs along. One that is there and
        // cannot be opened keeps its record: else its refs would stay for ever.
        if std::path::Path::new(&record.common_dir).exists() {
            let repo = self.repository(std::path::Path::new(&record.repo))?;
            if repo.common_dir().to_string_lossy() == record.common_dir.as_str() {
                refs = delete_refs_under(&repo, &format!("refs/cofferdam/{}/", record.run))?;
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

    /// Refs and registrations of ours that belong to no run that is known
    /// here: the state directory that knew them was deleted by hand, or is
    /// another one. Their age decides as for any result; what a live run of
    /// another state directory pins its snapshot with is left alone.
    fn reclaim_strays(
        &self,
        repo: &Repository,
        older: Duration,
        done: &mut Reclaimed,
    ) -> Result<(), Error> {
        let fault = |error: crate::git::Error| Error::at(Stage::Cleanup, error);
        let objects = repo.objects().map_err(fault)?;
        let refs = repo.refs_under("refs/cofferdam/").map_err(fault)?;
        for (name, commit) in &refs {
            let mut parts = name.split('/').skip(2);
            let (Some(run), Some(leaf)) = (parts.next(), parts.next()) else {
                continue;
            };
            let Ok(run) = run.parse::<RunId>() else {
                continue;
            };
            let known = self.site.state.run_dir(&run).exists() || self.book().find(&run)?.is_some();
            if known || leaf.starts_with("base") {
                continue;
            }
            let made = made_at(&objects, &refs, (name, commit));
            let age = made.map(|made| self.site.clock.now().duration_since(made));
            if age.is_some_and(|age| Duration::try_from(age).unwrap_or_default() < older) {
                done.kept.push(name.clone());
                continue;
            }
            repo.delete_ref(name, commit).map_err(fault)?;
            done.refs.push(name.clone());
        }
        for (agent, worktree) in Registration::ours(repo).map_err(fault)? {
            if !worktree.exists() && Registration::unregister(repo, &agent).map_err(fault)? {
                done.registrations.push(agent);
            }
        }
        Ok(())
    }
}

/// When a result was made, by the date of its commit; of what has no date that
/// can be read nobody knows.
///
/// The dates of its own commits an agent chose: where there is a result beside
/// them that one's counts, which is ours.
fn made_at(
    objects: &Objects,
    refs: &[(String, ObjectId)],
    (name, commit): (&str, &ObjectId),
) -> Option<jiff::Timestamp> {
    let result = cleanup::result_of_history(name)
        .and_then(|result| refs.iter().find(|(other, _)| other == result));
    let dated = result.map_or(commit, |(_, commit)| commit);
    objects.commit_time(dated).ok()
}

fn delete_refs_under(repo: &Repository, prefix: &str) -> Result<Vec<String>, Error> {
    let fault = |error: crate::git::Error| Error::at(Stage::Cleanup, error);
    let found = repo.refs_under(prefix).map_err(fault)?;
    repo.delete_refs(&found).map_err(fault)?;
    Ok(found.into_iter().map(|(name, _)| name).collect())
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

fn nothing_to_apply(agent: &AgentRecord, verb: &str) -> Error {
    let why = match agent.integration.status {
        IntegrationStatus::Landed => "it has landed",
        IntegrationStatus::NoChange => "it changed nothing",
        IntegrationStatus::Rejected => "it was discarded",
        IntegrationStatus::Held | IntegrationStatus::NotRequested => "there is none",
    };
    let message = format!("{verb} `{}`: it has no result that waits: {why}", agent.id);
    Error::at(
        Stage::Integration,
        Fault::new(ExitCode::Usage, message).hint("`cofferdam ls` lists results that wait"),
    )
}
