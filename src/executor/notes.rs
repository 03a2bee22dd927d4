//! What is written down of an agent while its command starts and runs.
//!
//! Owns what its cage achieved, the name of its first process for whoever
//! finds it later, and what it prints. Decides nothing.

use std::fs::{self, File};
use std::sync::Arc;

use cofferdam_sandbox::{Enforcement, Status};

use super::error::{Error, Stage};
use super::pipeline::Halt;
use super::run::{Run, Seat};
use crate::cleanup::INIT;
use crate::confinement;
use crate::process::{LineSink, OutputLog, Stream};
use crate::store;

impl Run {
    /// What each layer achieved, and who holds which promise.
    pub(super) fn note_enforcement(&self, seat: &Seat, enforcement: &Enforcement) {
        let guarantees = confinement::held(enforcement);
        self.amend(seat, |agent| {
            for (layer, status) in &enforcement.layers {
                agent
                    .enforcement
                    .insert(layer.to_string(), status.word().to_owned());
                let missing = match status {
                    Status::Full | Status::Waived => continue,
                    Status::Partial { missing } => missing.clone(),
                    Status::Absent { reason } => vec![reason.clone()],
                };
                agent.enforcement_missing.insert(layer.to_string(), missing);
            }
            let held = enforcement.limits.iter();
            agent.limits = held
                .map(|(limit, by)| (limit.to_string(), by.to_string()))
                .collect();
            agent.guarantees = guarantees;
            agent.holes.clone_from(&enforcement.holes);
            for note in &enforcement.view_notes {
                if !agent.view_notes.contains(note) {
                    agent.view_notes.push(note.clone());
                }
            }
            agent.denials_missing = confinement::unrecorded(enforcement);
        });
    }

    /// Writes down which process is the cage's first, so that a later start
    /// can prove that it is gone before it looks at what it wrote.
    pub(super) fn note_init(
        &self,
        seat: &Seat,
        confined: &cofferdam_sandbox::Confined,
    ) -> Result<(), Halt> {
        let Some(identity) = confined.identity() else {
            return Ok(());
        };
        let text =
            serde_json::to_vec(&identity).expect("because an identity holds only text and numbers");
        store::replace_file(&self.agent_directory(seat).join(INIT), &text)
            .map_err(|error| Halt::Failed(Error::at(Stage::Process, error)))
    }

    /// The file of this name that keeps what something of an agent prints.
    pub(super) fn output_log(&self, name: &str) -> Option<OutputLog> {
        let directory = self.site.state.outputs_dir(&self.errand.id);
        let made = fs::create_dir_all(&directory)
            .and_then(|()| File::create(directory.join(format!("{name}.log"))));
        match made {
            Ok(file) => Some(OutputLog::new(file)),
            Err(error) => {
                tracing::warn!(%error, name, "the output of an agent is not kept");
                None
            }
        }
    }
}

/// Puts an agent's name in front of its lines.
pub(super) struct NamedLines {
    pub(super) name: String,
    pub(super) listener: Arc<dyn super::Listener>,
}

impl LineSink for NamedLines {
    fn line(&self, stream: Stream, line: &[u8]) {
        self.listener.line(&self.name, stream, line);
    }
}
