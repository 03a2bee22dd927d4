//! The records on disk.
//!
//! Owns finding a run or an agent by a prefix of its id, and writing a record
//! back. A record is replaced whole and atomically; the agents' live state is
//! not here but in the run that owns it.

use crate::git::Repository;
use crate::model::{AgentId, AgentRecord, ExitCode, IntegrationStatus, RunId, RunRecord};
use crate::store::{self, Lease, Lock, StateDir};

use super::error::{Error, Fault, Stage};
use super::live;

/// Reads and writes records.
#[derive(Debug, Clone, Copy)]
pub struct Book<'a> {
    state: &'a StateDir,
}

/// An agent's record within its run's.
#[derive(Debug, Clone)]
pub struct FoundAgent {
    /// The whole run.
    pub record: RunRecord,
    /// The agent's place in it.
    pub at: usize,
}

impl FoundAgent {
    /// The agent.
    #[must_use]
    pub fn agent(&self) -> &AgentRecord {
        &self.record.agents[self.at]
    }
}

impl<'a> Book<'a> {
    pub(super) fn new(state: &'a StateDir) -> Self {
        Self { state }
    }

    /// Every record, oldest first.
    ///
    /// # Errors
    /// The directory cannot be read. A record that cannot be parsed is named
    /// in the log and left out: one damaged file must not hide the rest.
    pub fn records(&self) -> Result<Vec<RunRecord>, Error> {
        let runs = self
            .state
            .list_records()
            .map_err(|error| Error::at(Stage::Record, error))?;
        let mut records = Vec::new();
        for run in runs {
            match self.load(&run) {
                Ok(record) => records.push(record),
                Err(error) => tracing::warn!(%run, %error, "a record cannot be read"),
            }
        }
        records.sort_by(|a, b| started(a).cmp(&started(b)));
        Ok(records)
    }

    /// The records of one repository.
    ///
    /// # Errors
    /// As [`Book::records`].
    pub fn records_of(&self, repo: &Repository) -> Result<Vec<RunRecord>, Error> {
        let place = repo.common_dir().to_string_lossy().into_owned();
        Ok(self
            .records()?
            .into_iter()
            .filter(|record| record.common_dir == place)
            .collect())
    }

    /// The record of one run.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn load(&self, run: &RunId) -> Result<RunRecord, Error> {
        self.find(run)?.ok_or_else(|| unknown(run.as_str(), "run"))
    }

    /// The record of one run, if there is one.
    pub(super) fn find(&self, run: &RunId) -> Result<Option<RunRecord>, Error> {
        live::read(self.state, run).map_err(|error| Error::at(Stage::Record, error))
    }

    /// Replaces the record of a run.
    ///
    /// # Errors
    /// It cannot be written; the old one stands.
    pub fn save(&self, record: &RunRecord) -> Result<(), Error> {
        store::replace_json(&self.state.record_path(&record.run), record)
            .map_err(|error| Error::at(Stage::Record, error))
    }

    /// The run with this id or unique prefix of it.
    ///
    /// # Errors
    /// No run or more than one matches.
    pub fn find_run(&self, text: &str) -> Result<RunRecord, Error> {
        let mut found = self
            .records()?
            .into_iter()
            .filter(|record| matches(record.run.as_str(), text));
        match (found.next(), found.next()) {
            (Some(record), None) => Ok(record),
            (None, _) => Err(unknown(text, "run")),
            (Some(_), Some(_)) => Err(ambiguous(text)),
        }
    }

    /// The agent with this id or unique prefix of it, or the one agent of the
    /// run that the text names.
    ///
    /// # Errors
    /// No agent or more than one matches.
    pub fn find_agent(&self, text: &str) -> Result<FoundAgent, Error> {
        let mut found = Vec::new();
        for record in self.records()? {
            let whole = matches(record.run.as_str(), text) && record.agents.len() == 1;
            for at in 0..record.agents.len() {
                if whole || matches(record.agents[at].id.as_str(), text) {
                    found.push(FoundAgent {
                        record: record.clone(),
                        at,
                    });
                }
            }
        }
        match found.len() {
            0 => Err(unknown(text, "agent")),
            1 => Ok(found.remove(0)),
            _ => Err(ambiguous(text)),
        }
    }

    /// Makes sure that nobody answers for a run any more: a live one holds its
    /// record in memory and would write over what is decided meanwhile.
    ///
    /// # Errors
    /// The run is still on.
    pub fn require_over(&self, run: &RunId) -> Result<(), Error> {
        let lease = self.state.run_dir(run).join("lease");
        if !lease.exists() || matches!(Lease::try_take(&lease), Ok(Some(_))) {
            return Ok(());
        }
        let message = format!("decide about a result of `{run}`: the run is still on");
        Err(Error::at(
            Stage::Record,
            Fault::new(ExitCode::Usage, message).hint("wait until it has ended, or end it"),
        ))
    }

    /// Makes sure that a result has not landed yet.
    pub(super) fn require_waiting(&self, run: &RunId, agent: &AgentId) -> Result<(), Error> {
        let record = self.load(run)?;
        let landed = |one: &AgentRecord| {
            one.id == *agent && one.integration.status == IntegrationStatus::Landed
        };
        if !record.agents.iter().any(landed) {
            return Ok(());
        }
        let message = format!("apply `{agent}`: it has landed already");
        Err(Error::at(
            Stage::Integration,
            Fault::new(ExitCode::Usage, message),
        ))
    }

    /// Changes one agent's record where it lies.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn amend(
        &self,
        run: &RunId,
        agent: &AgentId,
        change: impl FnOnce(&mut AgentRecord),
    ) -> Result<RunRecord, Error> {
        // Decisions of two commands on one record must not undo each other.
        let lock = self.state.path().join("records.lock");
        let _amending =
            Lock::wait(&lock, &mut || false).map_err(|error| Error::at(Stage::Record, error))?;
        let mut record = self.load(run)?;
        if let Some(found) = record.agents.iter_mut().find(|one| one.id == *agent) {
            change(found);
        }
        self.save(&record)?;
        Ok(record)
    }
}

fn started(record: &RunRecord) -> (Option<&str>, &str) {
    let first = record
        .agents
        .first()
        .and_then(|agent| agent.times.requested_at.as_deref());
    (first, record.run.as_str())
}

/// Ids match from their start, with or without the letter in front.
fn matches(id: &str, text: &str) -> bool {
    const SHORTEST: usize = 3;
    let digits = id.split_once('-').map_or(id, |(_, digits)| digits);
    text.len() >= SHORTEST && (id.starts_with(text) || digits.starts_with(text))
}

fn unknown(text: &str, what: &str) -> Error {
    let message = format!("find `{text}`: no {what} has this id or prefix of an id");
    Error::at(
        Stage::Record,
        Fault::new(ExitCode::Usage, message).hint("`cofferdam ls --all` lists every id"),
    )
}

fn ambiguous(text: &str) -> Error {
    let message = format!("find `{text}`: more than one id starts like this");
    Error::at(
        Stage::Record,
        Fault::new(ExitCode::Usage, message)
            .hint("give more characters, or an agent's id instead of its run's"),
    )
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn an_id_is_found_by_a_prefix_with_or_without_its_letter() {
        assert!(matches("a-0123456789abcdef", "a-0123"));
        assert!(matches("a-0123456789abcdef", "0123"));
        assert!(!matches("a-0123456789abcdef", "1234"));
        assert!(!matches("a-0123456789abcdef", "a-"));
    }
}
