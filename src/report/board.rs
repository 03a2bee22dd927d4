//! Progress lines and the summary of a run.
//!
//! Owns the few lines a person sees while a run is on and when it is over,
//! the last of which says what to do about whatever waits.

use super::detail::conflict_line;
use super::words::{kind_word, plain, status_word};
use crate::model::{Event, EventKind, ExitCode, IntegrationStatus, RunRecord};

/// A line for an event that a person wants to see as it happens.
#[must_use]
pub fn event_line(event: &Event) -> Option<String> {
    let name = plain(event.name.as_deref().unwrap_or(""));
    match &event.kind {
        EventKind::RunStarted { tree, agents } => {
            let short: String = tree.chars().take(10).collect();
            Some(format!(
                "run {} · {agents} agent(s) from snapshot {short}",
                event.run
            ))
        }
        EventKind::Refused { refusal } => Some(format!("{name}: {refusal}")),
        EventKind::State {
            state: crate::model::AgentState::Running,
        } => Some(format!("{name}: running")),
        EventKind::Ended {
            outcome,
            code,
            signal,
        } => {
            let how = match (code, signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "unknown".to_owned(),
            };
            Some(format!("{name}: {} ({how})", kind_word(outcome)))
        }
        EventKind::Integrated {
            status,
            paths,
            conflicts,
        } => {
            let conflicts = if *conflicts == 0 {
                String::new()
            } else {
                format!(", {conflicts} conflict(s)")
            };
            Some(format!(
                "{name}: {} ({paths} path(s){conflicts})",
                kind_word(status)
            ))
        }
        EventKind::Admitted { .. }
        | EventKind::State { .. }
        | EventKind::RunEnded { .. }
        | EventKind::Decided { .. } => None,
    }
}

/// What a run came to, an agent a line, with the next step for what waits.
#[must_use]
pub fn summary(record: &RunRecord) -> String {
    let mut lines = Vec::new();
    let width = record
        .agents
        .iter()
        .map(|agent| agent.name.chars().count())
        .max()
        .unwrap_or(0)
        .min(40);
    for agent in &record.agents {
        let paths = agent.changes.len();
        lines.push(format!(
            "{:<width$}  {:<16}  {paths:>4} path(s)  {}",
            plain(&agent.name),
            status_word(agent),
            agent.id,
        ));
        if let Some(reason) = &agent.reason {
            lines.push(format!("{:<width$}  {}", "", plain(reason)));
        }
        for conflict in &agent.integration.conflicts {
            lines.push(format!(
                "{:<width$}  conflict: {}",
                "",
                conflict_line(conflict)
            ));
        }
        for warning in &agent.integration.warnings {
            lines.push(format!(
                "{:<width$}  note: {} at {}",
                "",
                kind_word(&warning.kind),
                plain(warning.path.text())
            ));
        }
        for ignored in &agent.ignored {
            let until = ignored.kept_until.as_deref().unwrap_or("the next gc");
            lines.push(format!(
                "{:<width$}  ignored: {} ({} file(s)), kept until {until}",
                "",
                plain(ignored.path.text()),
                ignored.files
            ));
        }
        let waits = agent.result.reference.is_some()
            && matches!(
                agent.integration.status,
                IntegrationStatus::Held | IntegrationStatus::NotRequested
            );
        if waits {
            lines.push(format!("{:<width$}  look: cofferdam diff {id} · land: cofferdam apply {id} · drop: cofferdam discard {id}", "", id = agent.id));
        }
    }
    for left in &record.cleanup.left {
        lines.push(format!(
            "left over: {}: {}",
            plain(&left.what),
            plain(&left.why)
        ));
    }
    let end = if record.exit_code == ExitCode::Success.number() {
        "done"
    } else {
        "ended"
    };
    lines.push(format!(
        "run {} {end} with exit code {}",
        record.run, record.exit_code
    ));
    lines.push(String::new());
    lines.join("\n")
}
