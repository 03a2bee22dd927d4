//! `cofferdam run`: one agent or a plan of many.
//!
//! Owns the way from arguments to a request and from a record to what a
//! person reads. Standard output carries the answer; progress and the agents'
//! own output go to standard error.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::args::RunArgs;
use super::failure::Failure;
use super::request::{self, Faces, Parts, Work};
use super::{print, signals, surroundings};
use crate::executor::{Executor, Listener};
use crate::git::Repository;
use crate::model::{Event, ExitCode, Outcome, RunRecord, RunRequest};
use crate::process::Stream;
use crate::report;

/// Runs what the arguments ask for.
pub(super) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    surroundings::require_outside("start an agent")?;
    let executor = surroundings::executor()?;
    let Asked {
        repo,
        request,
        faces,
    } = asked(&executor, &args)?;
    let listener = Arc::new(Progress::new(&faces)?);
    let record = start(&executor, (repo, request), listener)?;
    let only_failed_to_start = nothing_started(&record);
    if faces.json && !only_failed_to_start {
        print::document(&record);
    }
    let code = code_of(&record);
    if only_failed_to_start {
        let reason = record.agents[0].reason.clone();
        let reason = reason.unwrap_or_else(|| "the agent could not be started".to_owned());
        return Err(Failure::new(code, reason));
    }
    if faces.quiet || faces.json {
        tell_errors(&record, code);
    } else if faces.events.as_deref() != Some(Path::new("-")) {
        print::settle();
        print::out(&report::summary(&record));
    }
    Ok(code)
}

/// Says on standard error why a run that shows nothing else did not succeed.
fn tell_errors(record: &RunRecord, code: ExitCode) {
    if code == ExitCode::Success {
        return;
    }
    for agent in &record.agents {
        if let Some(reason) = &agent.reason {
            print::err_line(&format!(
                "{}: {}",
                report::plain(&agent.name),
                report::plain(reason)
            ));
        }
    }
    for left in &record.cleanup.left {
        print::err_line(&format!(
            "left over: {}: {}",
            report::plain(&left.what),
            report::plain(&left.why)
        ));
    }
}

/// Carries a request out under the person's signals.
pub(super) fn start(
    executor: &Executor,
    (repo, request): (Repository, RunRequest),
    listener: Arc<dyn Listener>,
) -> Result<RunRecord, Failure> {
    signals::under(|control| executor.run(repo, request, control, listener))
}

/// Whether the run is one agent that could not even be started: then the
/// answer is an error, as it is for a request that was wrong.
fn nothing_started(record: &RunRecord) -> bool {
    matches!(record.agents.as_slice(), [only] if matches!(only.outcome, Some(Outcome::SpawnFailed | Outcome::Refused)))
}

fn code_of(record: &RunRecord) -> ExitCode {
    let known = [
        ExitCode::Success,
        ExitCode::Failed,
        ExitCode::Usage,
        ExitCode::Refused,
        ExitCode::Isolation,
        ExitCode::Held,
        ExitCode::Partial,
        ExitCode::Cleanup,
    ];
    match known
        .into_iter()
        .find(|code| code.number() == record.exit_code)
    {
        Some(code) => code,
        None if record.exit_code > 128 => ExitCode::Signal(i32::from(record.exit_code) - 128),
        None => ExitCode::Internal,
    }
}

/// What the arguments and every other layer ask for.
struct Asked {
    repo: Repository,
    request: RunRequest,
    faces: Faces,
}

/// Turns the arguments into a request.
fn asked(executor: &Executor, args: &RunArgs) -> Result<Asked, Failure> {
    let cwd = surroundings::current_directory()?;
    let work = match (&args.plan, args.command.as_slice()) {
        (None, []) => {
            return Err(Failure::usage("failed to find a command or a plan to run")
                .hint("cofferdam run -- CMD [ARG]…, or cofferdam run PLAN.toml"));
        }
        (Some(_), [_, ..]) => {
            return Err(Failure::usage(
                "failed to choose between a plan and a command: both were given",
            )
            .hint("give the plan alone, or the command after `--` alone"));
        }
        (Some(plan), []) => Work::Plan(plan.clone()),
        (None, command) => Work::Command(command.to_vec()),
    };
    let options = request::options(args)?;
    let repo = executor.repository(args.repo.as_deref().unwrap_or(&cwd))?;
    let variables = std::env::vars_os().collect();
    let (mut assembled, faces) = request::assemble(Parts {
        top: repo.top(),
        cwd: &cwd,
        variables,
        options,
        work,
    })?;
    if faces.json && faces.events.as_deref() == Some(Path::new("-")) {
        return Err(Failure::usage(
            "failed to write both `--json` and `--events -` to standard output",
        )
        .hint("give `--events` a file"));
    }
    assembled
        .request
        .approve_setup
        .clone_from(&args.approve_setup);
    if !faces.quiet {
        for notice in &assembled.notices {
            print::err_line(&format!("note: {}", report::plain(notice)));
        }
    }
    Ok(Asked {
        repo,
        request: assembled.request,
        faces,
    })
}

/// Shows a run as it happens.
struct Progress {
    quiet: bool,
    events: Mutex<Option<EventSink>>,
}

enum EventSink {
    Output,
    File(File),
}

impl Progress {
    fn new(faces: &Faces) -> Result<Self, Failure> {
        let events = match faces.events.as_deref() {
            None => None,
            Some(path) if path == Path::new("-") => Some(EventSink::Output),
            Some(path) => {
                let file = File::create(path).map_err(|error| {
                    Failure::usage(format!(
                        "failed to write events to `{}`: {error}",
                        path.display()
                    ))
                })?;
                Some(EventSink::File(file))
            }
        };
        Ok(Self {
            quiet: faces.quiet,
            events: Mutex::new(events),
        })
    }
}

impl Listener for Progress {
    fn event(&self, event: &Event) {
        let mut sink = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sink) = sink.as_mut() {
            let line = serde_json::to_string(event)
                .expect("because an event holds only text, numbers and JSON");
            match sink {
                EventSink::Output => print::out_line(&line),
                EventSink::File(file) => {
                    if let Err(error) = writeln!(file, "{line}") {
                        tracing::error!(%error, "an event is missing from the events file");
                    }
                }
            }
        }
        drop(sink);
        if let (false, Some(line)) = (self.quiet, report::event_line(event)) {
            print::err_line(&line);
        }
    }

    fn line(&self, agent: &str, _stream: Stream, line: &[u8]) {
        // The name marks the line as an agent's own, so its text can never
        // pass for the program's.
        let (agent, text) = (report::plain(agent), String::from_utf8_lossy(line));
        print::err_line(&format!("{agent} │ {}", report::plain(&text)));
    }
}
