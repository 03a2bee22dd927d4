//! What agents were denied, as it happens and in the record.
//!
//! Owns the file by which an agent learns of it, and the event. Only what the
//! cage hands over as a fact is told; nothing is concluded from output.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use cofferdam_sandbox::Denial as Fact;
use serde::Serialize;

use super::cage::DENIALS;
use super::run::{Run, Seat};
use crate::confinement;
use crate::model::{Denial, EventKind};
use crate::process::Ended;

/// Everything that the record lists as denied.
///
/// Refusals of the network's gateway, of gates and of tools join here, each from
/// its own source.
pub(super) fn of(ended: &Ended) -> Vec<Denial> {
    let refused = ended.denials.iter().map(confinement::denial);
    let limited = ended.hits.iter().map(confinement::limit_denial);
    refused.chain(limited).collect()
}

/// One line of the agent's file. A later line with the same number replaces an
/// earlier one, and a line without its end is not whole yet.
#[derive(Serialize)]
struct Line {
    number: u32,
    #[serde(flatten)]
    denial: Denial,
}

/// Tells of denials while an agent runs.
pub(super) struct Telling {
    run: Arc<Run>,
    seat: Arc<Seat>,
    file: Option<File>,
    /// The count that the file last had of each.
    written: BTreeMap<u32, u64>,
}

impl Telling {
    pub(super) fn new(run: &Arc<Run>, seat: &Arc<Seat>, directory: &Path) -> Self {
        let opened = OpenOptions::new()
            .append(true)
            .open(directory.join(DENIALS));
        if let Err(error) = &opened {
            tracing::warn!(%error, agent = %seat.agent, "the agent is not told what it is denied");
        }
        Self {
            run: run.clone(),
            seat: seat.clone(),
            file: opened.ok(),
            written: BTreeMap::new(),
        }
    }

    /// Takes a fact. A count that grows gives a line each time it has doubled:
    /// the file stays short whatever the agent does.
    pub(super) fn hear(&mut self, fact: &Fact) {
        let before = self.written.get(&fact.number).copied();
        if before.is_some_and(|before| fact.count < before.saturating_mul(2)) {
            return;
        }
        self.written.insert(fact.number, fact.count);
        let denial = confinement::denial(fact);
        self.append(&Line {
            number: fact.number,
            denial: denial.clone(),
        });
        if before.is_none() {
            let seat = &self.seat;
            self.run
                .bus
                .agent(&seat.agent, &seat.task.name, EventKind::Denied { denial });
        }
    }

    fn append(&mut self, line: &Line) {
        let Some(file) = &mut self.file else {
            return;
        };
        let mut text = serde_json::to_vec(line).expect("because a denial is text and numbers");
        text.push(b'\n');
        if let Err(error) = file.write_all(&text) {
            tracing::warn!(%error, agent = %self.seat.agent, "the agent is not told of a denial");
        }
    }
}
