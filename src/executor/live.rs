//! The record of a run that is on.
//!
//! Owns what changes of its agents after the record was written whole: one
//! line each in a journal in the run's own directory, so that a step of one
//! agent costs the same beside a thousand others. Whoever reads a record gets
//! both. What stands in a record is the business of those who change it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::model::{AgentRecord, RunId, RunRecord};
use crate::store::{self, Error, Journal, StateDir, Sync, content_hash};

/// The journal, in the run's directory: it goes with it.
const JOURNAL: &str = "agents.live";

/// One line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    /// First: the hash of the file that it continues. One that was written
    /// whole since holds more than the journal does.
    Continues(String),
    /// How an agent stands now.
    Agent(usize, Box<AgentRecord>),
}

/// Takes the changes of one run's agents, many at a time.
#[derive(Debug)]
pub(super) struct Live {
    record: PathBuf,
    journal: PathBuf,
    /// Who changed since the last write.
    changed: Mutex<BTreeSet<usize>>,
    /// How many changes were told.
    told: AtomicU64,
    state: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    journal: Option<Journal<Entry>>,
    /// How many of the changes that were told are on the disk.
    changes: u64,
}

impl Live {
    /// For a run whose record is not on the disk yet.
    pub(super) fn new(state: &StateDir, run: &RunId) -> Self {
        Self {
            record: state.record_path(run),
            journal: state.run_dir(run).join(JOURNAL),
            changed: Mutex::default(),
            told: AtomicU64::new(0),
            state: Mutex::new(Written {
                journal: None,
                changes: 0,
            }),
        }
    }

    /// Writes the record whole; the journal starts afresh behind it.
    pub(super) fn write_whole(&self, record: &RunRecord) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.restart(&mut state, record)
    }

    fn restart(&self, state: &mut Written, record: &RunRecord) -> Result<(), Error> {
        let bytes = store::to_json(&self.record, record)?;
        // Until there is another the record has to be written whole.
        state.journal = None;
        store::replace_file(&self.record, &bytes)?;
        let mut journal = Journal::afresh(&self.journal)?;
        journal.append(&Entry::Continues(content_hash(&bytes)), Sync::Later)?;
        state.journal = Some(journal);
        Ok(())
    }

    /// Brings a change of an agent to the disk.
    ///
    /// `record` is asked for how an agent stands, or for all of it, where the
    /// journal cannot be gone on with. Whoever waits for another's write is
    /// served by the next one: of a thousand agents that end together few wait
    /// for the disk.
    ///
    /// # Errors
    /// Neither the line nor the whole record can be written.
    pub(super) fn write(&self, at: usize, record: &Mutex<RunRecord>) -> Result<(), Error> {
        let look = || record.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = || self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed().insert(at);
        let mine = self.told.fetch_add(1, Ordering::SeqCst) + 1;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.changes >= mine {
            return Ok(());
        }
        let told = self.told.load(Ordering::SeqCst);
        let changed = std::mem::take(&mut *changed());
        let entries: Vec<Entry> = {
            let record = look();
            let entry = |at: usize| Entry::Agent(at, Box::new(record.agents[at].clone()));
            changed.into_iter().map(entry).collect()
        };
        let appended = state.journal.as_mut().map(|journal| {
            for entry in &entries {
                journal.append(entry, Sync::Later)?;
            }
            journal.sync()
        });
        match appended {
            Some(Ok(())) => {}
            // What came after half a line would be damaged; the whole says all.
            Some(Err(_)) | None => {
                let whole = look().clone();
                self.restart(&mut state, &whole)?;
            }
        }
        state.changes = told;
        Ok(())
    }
}

/// The record of a run as it stands on the disk; `None` where there is none.
///
/// # Errors
/// The record cannot be read or is none. A journal that is damaged says what it
/// says up to there: each line is all of an agent.
pub(super) fn read(state: &StateDir, run: &RunId) -> Result<Option<RunRecord>, Error> {
    let path = state.record_path(run);
    let Some(bytes) = store::read_file(&path)? else {
        return Ok(None);
    };
    let mut record: RunRecord = store::from_json(&path, &bytes)?;
    let journal = state.run_dir(run).join(JOURNAL);
    if journal.exists() {
        match store::read_journal_prefix::<Entry>(&journal) {
            Ok((entries, whole)) => {
                replay(&mut record, &bytes, entries);
                if !whole {
                    tracing::debug!(%run, "the last of what a run noted cannot be read");
                }
            }
            Err(error) => tracing::warn!(%run, %error, "what a run noted last cannot be read"),
        }
    }
    Ok(Some(record))
}

fn replay(record: &mut RunRecord, bytes: &[u8], entries: Vec<Entry>) {
    let mut entries = entries.into_iter();
    let continues =
        matches!(entries.next(), Some(Entry::Continues(of)) if of == content_hash(bytes));
    if !continues {
        return;
    }
    for entry in entries {
        if let Entry::Agent(at, agent) = entry
            && let Some(stands) = record.agents.get_mut(at)
        {
            *stands = *agent;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;
    use crate::model::{AgentState, BaseRecord, CleanupReport, ObjectId, RunLedger};

    /// A run of two agents, its state directory, and what takes their changes.
    struct Fixture {
        dir: tempfile::TempDir,
        record: Mutex<RunRecord>,
        live: Live,
    }

    impl Fixture {
        fn begun() -> Self {
            let dir = tempfile::tempdir().expect("because /tmp is writable");
            let run = RunId::from_bits(7);
            let state = StateDir::open(dir.path()).expect("because it is the test's");
            fs::create_dir_all(state.run_dir(&run)).expect("because it is the test's");
            let record = Mutex::new(record(&run));
            let live = Live::new(&state, &run);
            live.write_whole(&record.lock().expect("because nothing panics"))
                .expect("because there is room");
            Self { dir, record, live }
        }

        fn state(&self) -> StateDir {
            StateDir::open(self.dir.path()).expect("because it is the test's")
        }

        fn enters(&self, at: usize, state: AgentState) {
            self.record.lock().expect("because nothing panics").agents[at].state = state;
            let written = self.live.write(at, &self.record);
            written.expect("because there is room");
        }

        fn states_on_disk(&self) -> Vec<AgentState> {
            let read = read(&self.state(), &RunId::from_bits(7));
            let record = read.expect("because it can be read");
            let agents = record.expect("because it was written").agents;
            agents.iter().map(|agent| agent.state).collect()
        }
    }

    fn record(run: &RunId) -> RunRecord {
        let tree: ObjectId = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
            .parse()
            .expect("because it is an id");
        RunRecord {
            schema: RunRecord::SCHEMA.to_owned(),
            run: run.clone(),
            repo: "/r".to_owned(),
            common_dir: "/r/.git".to_owned(),
            exit_code: 70,
            base: BaseRecord {
                head: None,
                tree,
                dirty: false,
                states: Vec::new(),
                warnings: Vec::new(),
            },
            agents: (0..2).map(super::super::close::example_record).collect(),
            ledger: RunLedger::default(),
            cleanup: CleanupReport::clean(),
        }
    }

    #[test]
    fn what_an_agent_came_to_is_read_back_beside_the_others() {
        let run = Fixture::begun();
        run.enters(1, AgentState::Running);
        assert_eq!(
            run.states_on_disk(),
            [AgentState::Requested, AgentState::Running]
        );
        run.enters(0, AgentState::Running);
        run.enters(1, AgentState::Captured);
        assert_eq!(
            run.states_on_disk(),
            [AgentState::Running, AgentState::Captured]
        );
    }

    #[test]
    fn a_record_that_was_written_whole_since_is_the_truth() {
        let run = Fixture::begun();
        run.enters(0, AgentState::Running);
        let state = run.state();
        let mut record = read(&state, &RunId::from_bits(7))
            .expect("because it can be read")
            .expect("because it was written");
        record.agents[0].state = AgentState::Cleaned;
        store::replace_json(&state.record_path(&record.run), &record)
            .expect("because there is room");
        assert_eq!(
            run.states_on_disk(),
            [AgentState::Cleaned, AgentState::Requested]
        );
    }

    #[test]
    fn half_a_line_at_the_end_was_never_written() {
        let run = Fixture::begun();
        run.enters(0, AgentState::Running);
        let journal = run.state().run_dir(&RunId::from_bits(7)).join(JOURNAL);
        let mut file = OpenOptions::new()
            .append(true)
            .open(journal)
            .expect("because it is there");
        file.write_all(b"00000000 {\"agent\":[0,")
            .expect("because there is room");
        assert_eq!(
            run.states_on_disk(),
            [AgentState::Running, AgentState::Requested]
        );
    }

    #[test]
    fn what_stands_before_a_damaged_line_holds() {
        let run = Fixture::begun();
        run.enters(0, AgentState::Running);
        let journal = run.state().run_dir(&RunId::from_bits(7)).join(JOURNAL);
        let good = fs::read(&journal).expect("because it is there");
        run.enters(1, AgentState::Running);
        let mut all = fs::read(&journal).expect("because it is there");
        all[good.len() + 20] ^= 1;
        all.extend(&good[..good.len() / 2]);
        fs::write(&journal, all).expect("because it is ours");
        assert_eq!(
            run.states_on_disk(),
            [AgentState::Running, AgentState::Requested]
        );
    }

    #[test]
    fn a_journal_that_cannot_be_gone_on_with_loses_nothing() {
        let run = Fixture::begun();
        run.enters(0, AgentState::Running);
        run.live
            .state
            .lock()
            .expect("because nothing panics")
            .journal = None;
        run.enters(1, AgentState::Running);
        run.enters(1, AgentState::Captured);
        assert_eq!(
            run.states_on_disk(),
            [AgentState::Running, AgentState::Captured]
        );
    }
}
