//! Everything about one agent, as text.
//!
//! Owns the layout of `show`: what was asked, under which contract, what held
//! it, what it changed and what waits for a decision.

use super::words::{kind_word, plain, status_word};
use crate::model::{AgentRecord, Change, Conflict, RunRecord};

/// One changed path.
#[must_use]
pub fn change_line(change: &Change) -> String {
    let from = change
        .from
        .as_ref()
        .map(|from| format!("  (from {})", plain(from)))
        .unwrap_or_default();
    format!(
        "{:<8}  {}{from}",
        kind_word(&change.kind),
        plain(change.path.text())
    )
}

/// One conflict.
#[must_use]
pub fn conflict_line(conflict: &Conflict) -> String {
    let hunks: Vec<String> = conflict
        .hunks
        .iter()
        .map(|[first, last]| format!("{first}-{last}"))
        .collect();
    let lines = if hunks.is_empty() {
        String::new()
    } else {
        format!(", lines {}", hunks.join(", "))
    };
    format!(
        "{} ({}{lines})",
        plain(conflict.path.text()),
        kind_word(&conflict.kind)
    )
}

/// One agent, whole.
#[must_use]
pub fn agent_detail(record: &RunRecord, agent: &AgentRecord) -> String {
    let mut lines = vec![
        format!("agent       {}  ({})", agent.id, plain(&agent.name)),
        format!("run         {}  in {}", record.run, plain(&record.repo)),
        format!("role        {}, depth {}", agent.role, agent.depth),
        format!(
            "status      {} (state {})",
            status_word(agent),
            kind_word(&agent.state)
        ),
    ];
    let mut line = |name: &str, text: String| lines.push(format!("{name:<11} {text}"));
    if let Some(reason) = &agent.reason {
        line("reason", plain(reason));
    }
    line("command", plain(&agent.command.join(" ")));
    if let Some(task) = &agent.task {
        line("task", plain(task));
    }
    line(
        "trust",
        format!(
            "received {}, returns {}",
            kind_word(&agent.label_in),
            kind_word(&agent.label_out)
        ),
    );
    if let Some(contract) = &agent.contract {
        line("may write", list_or_nothing(&contract.write));
        line("may spawn", list_or_nothing(&contract.spawn));
        line("network", kind_word(&contract.network));
    }
    if let Some(workspace) = &agent.workspace {
        line("workspace", plain(workspace));
    }
    for (layer, status) in &agent.enforcement {
        let missing = agent
            .enforcement_missing
            .get(layer)
            .map(|all| format!(": {}", all.join("; ")))
            .unwrap_or_default();
        line("enforced", format!("{layer} {status}{}", plain(&missing)));
    }
    if let (Some(started), Some(running)) = (&agent.times.started_at, agent.times.running_ms) {
        line(
            "time",
            format!(
                "started {started}, ran {running} ms, queued {} ms",
                agent.times.queued_ms.unwrap_or(0)
            ),
        );
    }
    if let Some(reference) = &agent.result.reference {
        line("result", reference.clone());
    }
    for change in &agent.changes {
        line("change", change_line(change));
    }
    for conflict in &agent.integration.conflicts {
        line("conflict", conflict_line(conflict));
    }
    for warning in &agent.integration.warnings {
        line(
            "note",
            format!(
                "{} at {}",
                kind_word(&warning.kind),
                plain(warning.path.text())
            ),
        );
    }
    for ignored in &agent.ignored {
        line(
            "ignored",
            format!("{} ({} file(s))", plain(ignored.path.text()), ignored.files),
        );
    }
    for denial in &agent.denials {
        line(
            "denied",
            format!("{} {} ×{}", denial.layer, denial.operation, denial.count),
        );
    }
    lines.push(String::new());
    lines.join("\n")
}

fn list_or_nothing(items: &[String]) -> String {
    if items.is_empty() {
        "nothing".to_owned()
    } else {
        items.join(", ")
    }
}
