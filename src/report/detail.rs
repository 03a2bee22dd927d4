//! Everything about one agent, as text.
//!
//! Owns the layout of `show`: what was asked, under which contract, what held
//! it, what it changed and what waits for a decision.

use super::words::{held_lines, kind_word, plain, status_word, warning_line, went_without};
use crate::model::{AgentRecord, BaseRecord, Change, Conflict, Denial, HistoryRecord, RunRecord};

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

/// One denial, without how often.
#[must_use]
pub fn denial_line(denial: &Denial) -> String {
    let detail = denial.detail.iter().map(|detail| format!(" {detail}"));
    let path = denial.path.iter().map(|path| format!(" at {path}"));
    let exe = denial.exe.iter().map(|exe| format!(" by {exe}"));
    let grant = denial
        .grant
        .iter()
        .map(|line| format!("; `{line}` would allow it"));
    let parts: String = detail.chain(path).chain(exe).chain(grant).collect();
    plain(&format!("{} {}{parts}", denial.layer, denial.operation))
}

/// One agent, whole.
#[must_use]
pub fn agent_detail(record: &RunRecord, agent: &AgentRecord) -> String {
    let mut rows = asked(record, agent);
    rows.extend(held(agent));
    rows.extend(came_of_it(agent));
    let lines = rows
        .into_iter()
        .map(|(name, text)| format!("{name:<11} {text}\n"));
    lines.collect()
}

type Row = (&'static str, String);

/// What was asked, and how it ended.
fn asked(record: &RunRecord, agent: &AgentRecord) -> Vec<Row> {
    let mut rows = vec![
        ("agent", format!("{}  ({})", agent.id, plain(&agent.name))),
        ("run", format!("{}  in {}", record.run, plain(&record.repo))),
        ("role", format!("{}, depth {}", agent.role, agent.depth)),
        ("from", started_from(&record.base)),
        (
            "status",
            format!("{} (state {})", status_word(agent), kind_word(&agent.state)),
        ),
    ];
    rows.extend(agent.reason.iter().map(|reason| ("reason", plain(reason))));
    rows.push(("command", plain(&agent.command.join(" "))));
    rows.extend(agent.setup.iter().map(|setup| {
        let how = match (setup.exit.code, setup.running_ms) {
            (Some(code), Some(took)) => format!("exit code {code} after {took} ms"),
            (None, Some(took)) => format!("ended after {took} ms"),
            (_, None) => "did not end".to_owned(),
        };
        let author = kind_word(&setup.author);
        let said = plain(&setup.command);
        (
            "set-up",
            format!("{said}  ({how}; by the {author}, {})", setup.hash),
        )
    }));
    rows.extend(agent.verify.iter().map(|check| ("check", plain(check))));
    rows.extend(agent.task.iter().map(|task| ("task", plain(task))));
    if let (Some(started), Some(running)) = (&agent.times.started_at, agent.times.running_ms) {
        let queued = agent.times.queued_ms.unwrap_or(0);
        rows.push((
            "time",
            format!("started {started}, ran {running} ms, queued {queued} ms"),
        ));
    }
    rows
}

/// What the run started from.
fn started_from(base: &BaseRecord) -> String {
    let short: String = base.tree.as_str().chars().take(10).collect();
    let dirty = if base.dirty { ", uncommitted" } else { "" };
    let states = base.states.iter().map(|state| format!(", {state}"));
    let warnings = base.warnings.iter();
    let warnings = warnings.map(|one| format!("; {} at {}", kind_word(&one.kind), one.path.text()));
    let told: String = states.chain(warnings).collect();
    plain(&format!("snapshot {short}{dirty}{told}"))
}

/// What it was allowed, and who held it to that.
fn held(agent: &AgentRecord) -> Vec<Row> {
    let labels = (kind_word(&agent.label_in), kind_word(&agent.label_out));
    let mut rows = vec![(
        "trust",
        format!("received {}, returns {}", labels.0, labels.1),
    )];
    if let Some(contract) = &agent.contract {
        rows.push(("may write", list_or_nothing(&contract.write)));
        if !agent.paths.is_empty() {
            rows.push(("claimed", agent.paths.join(", ")));
        }
        rows.push(("may spawn", list_or_nothing(&contract.spawn)));
        rows.push(("network", kind_word(&contract.network)));
    }
    rows.extend(
        agent
            .workspace
            .iter()
            .map(|workspace| ("workspace", plain(workspace))),
    );
    for (layer, status) in &agent.enforcement {
        let missing = agent.enforcement_missing.get(layer);
        let missing = missing
            .map(|all| format!(": {}", all.join("; ")))
            .unwrap_or_default();
        rows.push(("enforced", format!("{layer} {status}{}", plain(&missing))));
    }
    rows.extend(went_without(agent).map(|words| ("waived", words)));
    rows.extend(agent.holes.iter().map(|hole| ("not covered", plain(hole))));
    rows.extend(agent.view_notes.iter().map(|note| ("saw", plain(note))));
    rows
}

/// What it changed, and what waits.
fn came_of_it(agent: &AgentRecord) -> Vec<Row> {
    let integration = &agent.integration;
    let mut rows: Vec<Row> = agent
        .result
        .reference
        .iter()
        .map(|name| ("result", name.clone()))
        .collect();
    rows.extend(
        agent
            .changes
            .iter()
            .map(|change| ("change", change_line(change))),
    );
    rows.extend(
        integration
            .conflicts
            .iter()
            .map(|conflict| ("conflict", conflict_line(conflict))),
    );
    rows.extend(held_lines(agent).into_iter().map(|line| ("held", line)));
    let warnings = integration.warnings.iter();
    rows.extend(warnings.map(|one| ("note", warning_line(one))));
    let ignored = agent.ignored.iter();
    rows.extend(ignored.map(|one| {
        (
            "ignored",
            format!("{} ({} file(s))", plain(one.path.text()), one.files),
        )
    }));
    rows.extend(history_line(agent).map(|line| ("history", line)));
    rows.extend(kept_line(agent).map(|line| ("kept", line)));
    let denials = agent.denials.iter();
    rows.extend(denials.map(|one| ("denied", format!("{} ×{}", denial_line(one), one.count))));
    let missing = agent.denials_missing.iter();
    rows.extend(missing.map(|one| ("unrecorded", plain(one))));
    rows
}

/// What became of the agent's own commits.
fn history_line(agent: &AgentRecord) -> Option<String> {
    Some(match agent.result.history.as_ref()? {
        HistoryRecord::Kept {
            reference,
            commits,
            left_out,
            ..
        } => {
            let mut line = format!("{commits} commit(s) under {reference}");
            if !left_out.is_empty() {
                line.push_str("; not kept: ");
                line.push_str(&plain(&left_out.join("; ")));
            }
            line
        }
        HistoryRecord::LeftOut { why } => format!("not kept: {}", plain(why)),
    })
}

/// What no tree holds, and where it lies.
pub(super) fn kept_line(agent: &AgentRecord) -> Option<String> {
    let kept = agent.result.kept.as_ref()?;
    let paths: Vec<String> = kept.paths.iter().map(|path| plain(path.text())).collect();
    let (paths, directory) = (paths.join(", "), plain(&kept.directory));
    Some(format!("{paths} in {directory}, until {}", kept.until))
}

fn list_or_nothing(items: &[String]) -> String {
    if items.is_empty() {
        "nothing".to_owned()
    } else {
        items.join(", ")
    }
}
