//! Opens and closes the record of an agent, and sums up a run.
//!
//! Owns the words for how an agent ended and the exit code that a set of
//! endings makes.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::error::Error;
use super::pipeline::Halt;
use super::run::{Run, Seat};
use crate::cleanup::history_ref;
use crate::model::{
    AgentLedger, AgentRecord, AgentState, CleanupReport, EventKind, ExitCode, ExitStatus,
    FailurePolicy, HeldFor, HistoryRecord, Integrate, Integration, IntegrationStatus, KeptRecord,
    Label, OnConflict, Outcome, PathText, ResultRecord, RunRecord, Times,
};
use crate::process::{Ended, StopReason};
use crate::workspace::{Capture, History};

/// The record of an agent that nobody has looked at yet.
pub(super) fn first_agent_record(seat: &Seat, now: &str) -> AgentRecord {
    let task = &seat.task;
    AgentRecord {
        id: seat.agent.clone(),
        name: task.name.clone(),
        role: task.contract.role.clone(),
        parent: None,
        depth: 0,
        label_in: Label::User,
        label_out: task.contract.trust_out,
        state: AgentState::Requested,
        outcome: None,
        reason: None,
        refusal: None,
        exit: ExitStatus::default(),
        command: task
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        task: Some(task.brief.task.clone()).filter(|text| !text.is_empty()),
        contract: Some(task.contract.clone()),
        workspace: None,
        base: None,
        result: ResultRecord::default(),
        changes: Vec::new(),
        ignored: Vec::new(),
        integration: Integration::not_requested(),
        enforcement: BTreeMap::new(),
        enforcement_missing: BTreeMap::new(),
        waived: Vec::new(),
        limits: BTreeMap::new(),
        holes: Vec::new(),
        view_notes: Vec::new(),
        paths: task.paths.clone(),
        setup: None,
        verify: task.verify.clone(),
        guarantees: BTreeMap::new(),
        denials: Vec::new(),
        denials_complete: false,
        denials_missing: Vec::new(),
        ledger: AgentLedger::default(),
        times: Times {
            requested_at: Some(now.to_owned()),
            ..Times::default()
        },
        model: Vec::new(),
    }
}

/// How an agent ended, from how its command did.
///
/// A limit that cut it short is the reason, however its command took that.
/// One that only made calls fail is told beside a failure.
pub(super) fn outcome(ended: &Ended) -> (Outcome, Option<String>) {
    let failed = |text: String| {
        let told = ended.hits.iter().map(|hit| format!("; {hit}"));
        Some(text + &told.collect::<String>())
    };
    if let (None, Some(limit)) = (ended.stopped, &ended.limit) {
        return (Outcome::Partial, Some(limit.to_string()));
    }
    match (ended.stopped, ended.exit.code, ended.exit.signal) {
        (Some(StopReason::Deadline), _, _) => {
            (Outcome::TimedOut, Some("the deadline passed".to_owned()))
        }
        (Some(StopReason::Cancelled), _, _) => (Outcome::Cancelled, Some("cancelled".to_owned())),
        (None, Some(0), _) => (Outcome::Succeeded, None),
        (None, Some(code), _) => (
            Outcome::Failed,
            failed(format!("the command ended with exit code {code}")),
        ),
        (None, None, Some(signal)) => (
            Outcome::Crashed,
            failed(format!("signal {signal} ended the command")),
        ),
        (None, None, None) => (
            Outcome::Unknown,
            Some("how the command ended is not known".to_owned()),
        ),
    }
}

/// Writes down what was captured.
pub(super) fn note_capture(
    agent: &mut AgentRecord,
    capture: &Capture,
    (result_ref, keep, kept_until): (&str, &Path, &str),
) {
    agent.result.tree = Some(capture.changes.tree.clone());
    agent.result.reference = capture.commit.as_ref().map(|_| result_ref.to_owned());
    agent.result.history = capture.history.as_ref().map(|history| match history {
        History::Taken {
            tip,
            commits,
            tips,
            left_out,
        } => {
            let by_head = tips.iter().all(|one| one.reference == "HEAD");
            HistoryRecord::Kept {
                reference: history_ref(result_ref),
                tip: tip.clone(),
                commits: *commits,
                tips: if by_head { Vec::new() } else { tips.clone() },
                left_out: left_out.clone(),
            }
        }
        History::LeftOut { why } => HistoryRecord::LeftOut { why: why.clone() },
    });
    agent.changes = capture.changes.changes.clone();
    agent.ignored = capture.changes.ignored.clone();
    for ignored in &mut agent.ignored {
        ignored
            .kept_until
            .get_or_insert_with(|| kept_until.to_owned());
    }
    agent.integration.warnings = capture.changes.warnings.clone();
    let names = capture.kept.iter();
    let paths: Vec<_> = names
        .map(|path| PathText::from_raw(path.as_os_str().as_bytes()))
        .collect();
    agent.result.kept = (!paths.is_empty()).then(|| KeptRecord {
        directory: keep.to_string_lossy().into_owned(),
        paths,
        until: kept_until.to_owned(),
    });
}

/// Writes down that the deadline or a cancellation came before the landing.
pub(super) fn note_stopped(agent: &mut AgentRecord, reason: StopReason) {
    let (outcome, text) = match reason {
        StopReason::Deadline => (
            Outcome::TimedOut,
            "the deadline passed before its result could land",
        ),
        StopReason::Cancelled => (Outcome::Cancelled, "cancelled before its result could land"),
    };
    agent.outcome = Some(outcome);
    agent.reason = Some(text.to_owned());
}

/// Writes down how a result was integrated; the warnings of the capture stay.
///
/// `log` has what the check printed, if there was one.
pub(super) fn note_integration(agent: &mut AgentRecord, integration: Integration, log: &Path) {
    if agent.outcome == Some(Outcome::Succeeded) {
        let refused = integration.held_for.contains(&HeldFor::Verify);
        let reason = || {
            format!(
                "its check failed; what it printed is in `{}`",
                log.display()
            )
        };
        agent.reason = refused.then(reason);
    }
    let mut warnings = std::mem::take(&mut agent.integration.warnings);
    for warning in &integration.warnings {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    agent.integration = Integration {
        warnings,
        ..integration
    };
}

impl Run {
    /// Closes the record of one agent; the flow's last step on every path.
    pub(super) async fn record(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        halted: Option<Halt>,
        left: CleanupReport,
    ) {
        if let Some(Halt::Refused(refusal)) = &halted {
            let refusal = refusal.clone();
            self.bus
                .agent(&seat.agent, &seat.task.name, EventKind::Refused { refusal });
        }
        let now = self.site.clock.now().to_string();
        let refused = matches!(halted, Some(Halt::Refused(_)));
        self.amend(seat, |agent| {
            match halted {
                None => {}
                Some(Halt::Refused(refusal)) => {
                    agent.outcome = Some(Outcome::Refused);
                    agent.reason = Some(refusal.to_string());
                    agent.refusal = Some(refusal);
                }
                Some(Halt::Cancelled) => {
                    agent.outcome = Some(Outcome::Cancelled);
                    agent.reason = Some("cancelled before it started".to_owned());
                }
                Some(Halt::Failed(error)) => {
                    self.note_fault(code_of_fault(agent, &error));
                    let text = match error.hint() {
                        Some(hint) => format!("{error}; {hint}"),
                        None => error.to_string(),
                    };
                    if agent.outcome.is_none() {
                        agent.outcome = Some(Outcome::SpawnFailed);
                    }
                    agent.reason = Some(text);
                }
            }
            agent.times.ended_at.get_or_insert(now);
        });
        let state = match (refused, left.complete) {
            (true, _) => AgentState::Refused,
            (false, true) => AgentState::Cleaned,
            (false, false) => AgentState::Quarantined,
        };
        self.enter(seat, state);
        let (landed, failed) = {
            let record = self
                .record
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let agent = &record.agents[seat.at];
            let landed = matches!(
                agent.integration.status,
                IntegrationStatus::Landed | IntegrationStatus::NoChange
            ) && agent.outcome == Some(Outcome::Succeeded);
            (landed, agent.outcome != Some(Outcome::Succeeded))
        };
        self.saved(seat).await;
        self.schedule.decide(seat.at, landed);
        if failed && seat.task.contract.on_failure == FailurePolicy::FailRun {
            self.cancel_siblings();
        }
    }

    /// Tells how an agent's command ended.
    pub(super) fn note_ended(&self, seat: &Seat, ended: &Ended) {
        let now = self.site.clock.now();
        let (outcome, reason) = outcome(ended);
        self.amend(seat, |agent| {
            agent.outcome = Some(outcome);
            agent.reason = reason;
            agent.exit = ended.exit;
            agent.denials.extend(super::denials::of(ended));
            agent.times.ended_at = Some(now.to_string());
            let started = agent
                .times
                .started_at
                .as_ref()
                .and_then(|text| text.parse::<jiff::Timestamp>().ok());
            agent.times.running_ms = started
                .and_then(|started| u64::try_from(now.duration_since(started).as_millis()).ok());
            agent.ledger.wall_ms = agent.times.running_ms;
            agent.ledger.cpu_ms = Some(ended.cpu_ms);
            agent.ledger.metered_by = Some("launcher".to_owned());
        });
        self.bus.agent(
            &seat.agent,
            &seat.task.name,
            EventKind::Ended {
                outcome,
                code: ended.exit.code,
                signal: ended.exit.signal,
            },
        );
    }
}

/// What a step that could not be done makes the program end with.
///
/// The codes for "nothing was started" are true only where nothing was: once
/// a command has run, what it left is what matters.
fn code_of_fault(agent: &AgentRecord, error: &Error) -> ExitCode {
    match error.exit_code() {
        ExitCode::Usage | ExitCode::Isolation if agent.times.started_at.is_some() => {
            ExitCode::Cleanup
        }
        code => code,
    }
}

/// What a run's agents make the program end with.
pub(super) fn exit_code(record: &RunRecord, seats: &[Arc<Seat>]) -> ExitCode {
    let mut worst = ExitCode::Success;
    for (agent, seat) in record.agents.iter().zip(seats) {
        worst = worst.worst(agent_code(agent, seat));
    }
    worst
}

fn agent_code(agent: &AgentRecord, seat: &Seat) -> ExitCode {
    let ignored = seat.task.contract.on_failure == FailurePolicy::Ignore;
    let by_outcome = match agent.outcome {
        Some(Outcome::Succeeded) => ExitCode::Success,
        Some(Outcome::Failed | Outcome::Crashed) if ignored => ExitCode::Success,
        Some(Outcome::Failed | Outcome::Crashed) => ExitCode::Failed,
        Some(Outcome::Partial | Outcome::Cancelled | Outcome::TimedOut) => ExitCode::Partial,
        Some(Outcome::Refused) => ExitCode::Refused,
        // The fault itself was noted with the code that it calls for.
        Some(Outcome::SpawnFailed) => ExitCode::Success,
        Some(Outcome::Unknown) | None => ExitCode::Internal,
    };
    let asked = seat.task.integrate == Integrate::Auto;
    let for_a_reason = !agent.integration.held_for.is_empty();
    let held = agent.integration.status == IntegrationStatus::Held && (asked || for_a_reason);
    let marked =
        seat.task.on_conflict == OnConflict::Markers && !agent.integration.conflicts.is_empty();
    if held || marked {
        by_outcome.worst(ExitCode::Held)
    } else {
        by_outcome
    }
}

/// An agent's record for tests of what is done with records.
#[cfg(test)]
pub(super) fn example_record(at: usize) -> AgentRecord {
    let roles = crate::config::RoleSet::built_in();
    let contract = roles.require("writer").expect("because it is built in");
    let task = crate::model::TaskRequest {
        name: format!("n{at}"),
        brief: crate::model::Brief::default(),
        command: vec!["true".into()],
        after: Vec::new(),
        paths: Vec::new(),
        exclusive: false,
        env: Vec::new(),
        integrate: crate::model::Integrate::Never,
        land: crate::model::Land::Worktree,
        on_conflict: crate::model::OnConflict::Hold,
        setup: None,
        verify: None,
        deadline: None,
        limits: contract.limits,
        carry: Vec::new(),
        contract: contract.clone(),
    };
    let seat = Seat {
        at,
        agent: super::site::Site::new_agent_id(),
        task,
        cancel: tokio_util::sync::CancellationToken::new(),
    };
    first_agent_record(&seat, "2026-01-01T00:00:00Z")
}
