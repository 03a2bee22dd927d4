//! The list of runs and what they left.

use super::words::{plain, status_word, went_without};
use crate::model::{IntegrationStatus, RunRecord};

/// One line for each agent of these records.
#[must_use]
pub fn list(records: &[RunRecord]) -> String {
    let mut lines = Vec::new();
    for record in records {
        for agent in &record.agents {
            let waits = match (&agent.result.reference, agent.integration.status) {
                (Some(_), IntegrationStatus::Held | IntegrationStatus::NotRequested) => "waits",
                (Some(_), _) => "kept",
                (None, _) => "",
            };
            let since = agent
                .times
                .requested_at
                .as_deref()
                .unwrap_or("")
                .split('.')
                .next()
                .unwrap_or("");
            let without = went_without(agent)
                .map(|words| format!("  ({words})"))
                .unwrap_or_default();
            lines.push(format!(
                "{}  {:<16}  {:<6}  {:>4} path(s)  {since}  {}  {}{without}",
                agent.id,
                status_word(agent),
                waits,
                agent.changes.len(),
                record.run,
                plain(&agent.name),
            ));
        }
    }
    if lines.is_empty() {
        lines.push("no run is on record here".to_owned());
    }
    lines.push(String::new());
    lines.join("\n")
}
