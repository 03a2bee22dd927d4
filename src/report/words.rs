//! The words for states, outcomes and kinds.
//!
//! One spelling for each, the same as in JSON, so that what a person reads
//! can be searched for in the record.

use serde::Serialize;

use crate::model::{AgentRecord, HeldFor, IntegrationStatus, Outcome, Warning, WarningKind};

/// The JSON spelling of a plain enum.
#[must_use]
pub fn kind_word(kind: &impl Serialize) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => "?".to_owned(),
    }
}

/// Text on which a terminal acts in no way but by moving to the next stop of
/// a tab: control characters of an agent's output or of a file name are
/// shown, not obeyed.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\t' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Where an agent's result stands, in two words at most.
#[must_use]
pub fn status_word(agent: &AgentRecord) -> String {
    match (agent.outcome, agent.integration.status) {
        (None, _) => kind_word(&agent.state),
        (Some(Outcome::Succeeded), IntegrationStatus::Landed) => "landed".to_owned(),
        (Some(Outcome::Succeeded), IntegrationStatus::NoChange) => "no change".to_owned(),
        (Some(Outcome::Succeeded), IntegrationStatus::Held) => {
            match agent.integration.held_for.first() {
                Some(cause) => format!("held: {}", kind_word(cause)),
                None => "held".to_owned(),
            }
        }
        (Some(_), IntegrationStatus::Landed) => "landed".to_owned(),
        (Some(_), IntegrationStatus::Rejected) => "discarded".to_owned(),
        (Some(Outcome::Succeeded), IntegrationStatus::NotRequested) => "kept".to_owned(),
        (Some(outcome), _) => kind_word(&outcome),
    }
}

/// Why a result waits, and what that means, a line each.
#[must_use]
pub(super) fn held_lines(agent: &AgentRecord) -> Vec<String> {
    let why = |cause: &HeldFor| match cause {
        // The paths say it themselves.
        HeldFor::Conflict => None,
        HeldFor::Verify => Some("the check of the merged tree said no"),
        HeldFor::Scope => Some("it changes paths outside what it may or claimed"),
        HeldFor::Review => Some(
            "a person has to look first: its role asks for it, or it changes what later agents are given or allowed",
        ),
        HeldFor::Taint => Some("what it received may not land by itself"),
        HeldFor::MassDelete => Some("it deletes more than half of all files"),
    };
    let causes = agent.integration.held_for.iter();
    causes.filter_map(why).map(str::to_owned).collect()
}

/// A warning, and what it means where its name does not say.
#[must_use]
pub(super) fn warning_line(warning: &Warning) -> String {
    let more = match warning.kind {
        WarningKind::SubmoduleMoved => " (your checkout and your index of it are as they were)",
        _ => "",
    };
    format!(
        "{} at {}{more}",
        kind_word(&warning.kind),
        plain(warning.path.text())
    )
}

/// What an agent went without because the caller gave it up by name: said
/// wherever its result is shown.
#[must_use]
pub(super) fn went_without(agent: &AgentRecord) -> Option<String> {
    let waived = &agent.waived;
    (!waived.is_empty()).then(|| format!("confined without {}", plain(&waived.join(", "))))
}
