//! The set-up command of a workspace, before its agent's own.
//!
//! Owns the question whether it may run, running it and what the record keeps
//! of it. It runs in a cage of the agent's own policy, with a time of its own,
//! and its work is the agent's: the capture is against the snapshot, so a
//! tracked file that it changes is a change, and an ignored one that it makes
//! is there for the agent and no result. One that fails ends the agent before
//! it has begun. A script that the command calls is not part of what was
//! approved; the cage holds that as it holds the agent.

use std::ffi::OsString;
use std::sync::Arc;

use cofferdam_sandbox::{Input, Policy};

use super::denials::Telling;
use super::error::{Error, Fault, Stage};
use super::notes::NamedLines;
use super::pipeline::Halt;
use super::run::{Run, Seat};
use super::site::Site;
use crate::admission::Live;
use crate::git::Repository;
use crate::model::{
    Deadline, EventKind, ExitCode, ExitStatus, Outcome, RunRequest, Setup, SetupAuthor, SetupRecord,
};
use crate::process::{Ended, StopReason, supervise};
use crate::store::{Approvals, content_hash};

/// What approvals of set-up commands are filed under.
const KIND: &str = "setup";

/// Makes sure that a person has approved every set-up command that comes from
/// the repository; what the request itself approves is written down.
///
/// # Errors
/// One is not approved, with the command, its hash and how to approve it.
pub(super) fn require_approved(
    site: &Site,
    repo: &Repository,
    request: &RunRequest,
) -> Result<(), Error> {
    let approvals = Approvals::of(&site.state, repo.common_dir());
    let fault = |error| Error::at(Stage::Admission, error);
    for setup in request.tasks.iter().filter_map(|task| task.setup.as_ref()) {
        match setup.author {
            SetupAuthor::Person => continue,
            SetupAuthor::Repository => {}
        }
        let command = &setup.command;
        if approvals.hold(KIND, command).map_err(fault)? {
            continue;
        }
        let hash = content_hash(command);
        if !request.approve_setup.contains(&hash) {
            let message = format!(
                "run the set-up command of the repository, which nobody has approved here: `{command}` ({hash})"
            );
            let hint = format!(
                "approve exactly this command with `--approve-setup {hash}`, or run none with `--setup ''`"
            );
            let fault = Fault::new(ExitCode::Refused, message).hint(hint);
            return Err(Error::at(Stage::Admission, fault));
        }
        let now = site.clock.now();
        approvals.approve(KIND, command, now).map_err(fault)?;
    }
    Ok(())
}

/// What is executed.
pub(super) fn argv(setup: &Setup) -> [OsString; 3] {
    ["sh", "-c", &setup.command].map(OsString::from)
}

impl Run {
    /// Runs the set-up command, if there is one; `Some` is how it ended where
    /// it did not succeed.
    pub(super) async fn set_up(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        live: &mut Live,
        policy: Option<Policy>,
    ) -> Result<Option<Ended>, Halt> {
        let (Some(setup), Some(policy)) = (&seat.task.setup, policy) else {
            return Ok(None);
        };
        let confined = self.spawn(seat, policy, Input::Null).await?;
        live.started();
        self.note_enforcement(seat, confined.enforcement());
        self.note_init(seat, &confined)?;
        let began = self.site.clock.now();
        let record = SetupRecord {
            command: setup.command.clone(),
            author: setup.author,
            hash: content_hash(&setup.command),
            exit: ExitStatus::default(),
            running_ms: None,
            cpu_ms: None,
        };
        self.amend(seat, |agent| agent.setup = Some(record));
        self.saved(seat).await;
        let own = began.checked_add(setup.wall()).ok().map(Deadline::at);
        let watch = self.watch(seat, Deadline::earliest(own, live.admitted().deadline()));
        let sink = Arc::new(NamedLines {
            name: format!("{} setup", seat.task.name),
            listener: self.bus.listener(),
        });
        let mut telling = Telling::new(self, seat, &self.agent_directory(seat));
        let denied = move |denial: &_| telling.hear(denial);
        let log = self.output_log(&format!("{}-setup", seat.agent));
        let ended = supervise(confined, &watch, sink, log, denied)
            .await
            .map_err(|error| Error::at(Stage::Process, error))?;
        Ok(self.note_set_up(seat, (setup, began), ended))
    }

    /// Writes down how it ended, and says whether that ends the agent.
    fn note_set_up(
        &self,
        seat: &Seat,
        (setup, began): (&Setup, jiff::Timestamp),
        ended: Ended,
    ) -> Option<Ended> {
        let now = self.site.clock.now();
        let (outcome, reason) = super::close::outcome(&ended);
        let succeeded = outcome == Outcome::Succeeded;
        let took = u64::try_from(now.duration_since(began).as_millis()).ok();
        self.amend(seat, |agent| {
            agent.denials.extend(super::denials::of(&ended));
            if let Some(record) = &mut agent.setup {
                record.exit = ended.exit;
                record.running_ms = took;
                record.cpu_ms = Some(ended.cpu_ms);
            }
            if !succeeded {
                agent.outcome = Some(outcome);
                agent.reason = Some(why(setup, &ended, took, reason.as_deref()));
                agent.times.ended_at = Some(now.to_string());
            }
        });
        let event = EventKind::SetUp {
            outcome,
            code: ended.exit.code,
            signal: ended.exit.signal,
        };
        self.bus.agent(&seat.agent, &seat.task.name, event);
        (!succeeded).then_some(ended)
    }
}

/// Why an agent was not started, naming the command.
fn why(setup: &Setup, ended: &Ended, took: Option<u64>, reason: Option<&str>) -> String {
    let overran = took.is_some_and(|took| took >= setup.wall_ms);
    let what = match (ended.stopped, ended.exit.code) {
        (Some(StopReason::Deadline), _) if overran => {
            format!("it did not end within {} s", setup.wall().as_secs_f64())
        }
        (None, Some(code)) if code != 0 && ended.limit.is_none() => {
            format!("it ended with exit code {code}")
        }
        (Some(StopReason::Deadline | StopReason::Cancelled) | None, _) => {
            reason.unwrap_or("it failed").to_owned()
        }
    };
    format!(
        "the set-up command `{}` failed and the agent was not started: {what}",
        setup.command
    )
}
