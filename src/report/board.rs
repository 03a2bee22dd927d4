//! Progress lines and the summary of a run.
//!
//! Owns the few lines a person sees while a run is on and when it is over,
//! the last of which says what to do about whatever waits.

use super::detail::{conflict_line, denial_line, kept_line};
use super::words::{held_lines, kind_word, plain, status_word, warning_line, went_without};
use crate::model::{AgentRecord, Event, EventKind, ExitCode, IntegrationStatus, RunRecord};

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
        EventKind::Denied { denial } => Some(format!("{name}: denied: {}", denial_line(denial))),
        EventKind::SetUp {
            outcome,
            code,
            signal,
        } => {
            let how = how_it_ended(*code, *signal);
            Some(format!("{name}: set-up {} ({how})", kind_word(outcome)))
        }
        EventKind::Ended {
            outcome,
            code,
            signal,
        } => {
            let how = how_it_ended(*code, *signal);
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

fn how_it_ended(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// What a run came to, an agent a line, with the next step for what waits.
#[must_use]
pub fn summary(record: &RunRecord) -> String {
    lines_of(record, next_step)
}

/// As [`summary`], for a run whose results nobody can decide about any more.
#[must_use]
pub fn outcome(record: &RunRecord) -> String {
    lines_of(record, |_| None)
}

fn lines_of(record: &RunRecord, step: impl Fn(&AgentRecord) -> Option<String>) -> String {
    const WIDEST: usize = 40;
    let names = record.agents.iter().map(|agent| agent.name.chars().count());
    let width = names.max().unwrap_or(0).min(WIDEST);
    let mut lines: Vec<String> = Vec::new();
    for agent in &record.agents {
        lines.push(format!(
            "{:<width$}  {:<16}  {:>4} path(s)  {}",
            plain(&agent.name),
            status_word(agent),
            agent.changes.len(),
            agent.id,
        ));
        let details = details(agent).into_iter().chain(step(agent));
        lines.extend(details.map(|text| format!("{:<width$}  {text}", "")));
    }
    if !record.base.states.is_empty() {
        let states = record.base.states.join(", ");
        lines.push(format!("note: the repository is, or is in, {states}"));
    }
    for one in &record.base.warnings {
        let kind = kind_word(&one.kind);
        lines.push(format!("note: {kind} at {}", plain(one.path.text())));
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

/// What a person should know about one agent besides its status.
fn details(agent: &AgentRecord) -> Vec<String> {
    let mut lines: Vec<String> = agent.reason.iter().map(|reason| plain(reason)).collect();
    lines.extend(went_without(agent));
    let notes = agent.view_notes.iter();
    lines.extend(notes.map(|note| format!("saw: {}", plain(note))));
    lines.extend(held_lines(agent));
    let integration = &agent.integration;
    lines.extend(
        integration
            .conflicts
            .iter()
            .map(|one| format!("conflict: {}", conflict_line(one))),
    );
    let warnings = integration.warnings.iter();
    lines.extend(warnings.map(|one| format!("note: {}", warning_line(one))));
    for ignored in &agent.ignored {
        let until = ignored.kept_until.as_deref().unwrap_or("the next gc");
        let path = plain(ignored.path.text());
        lines.push(format!(
            "ignored: {path} ({} file(s)), kept until {until}",
            ignored.files
        ));
    }
    lines.extend(kept_line(agent).map(|line| format!("kept: {line}")));
    lines
}

/// What to do about a result that waits.
fn next_step(agent: &AgentRecord) -> Option<String> {
    let waits = matches!(
        agent.integration.status,
        IntegrationStatus::Held | IntegrationStatus::NotRequested
    );
    let id = &agent.id;
    (waits && agent.result.reference.is_some()).then(|| {
        format!(
            "look: cofferdam diff {id} · land: cofferdam apply {id} · drop: cofferdam discard {id}"
        )
    })
}
