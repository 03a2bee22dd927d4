//! `cofferdam demo`: the whole job on a throw-away repository.
//!
//! Owns the story and its telling. Nothing in it is staged: the agents are
//! real processes in real cages, and each claim that is printed is checked
//! against the state of the host first; one that does not hold fails the demo.
//!
//! - `sample`: the repository and the agents
//! - `claims`: what is checked, and how

mod claims;
mod sample;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::args::DemoArgs;
use super::failure::Failure;
use super::{print, run};
use crate::executor::{Executor, Listener};
use crate::model::{ConflictKind, Event, ExitCode, IntegrationStatus, RunRecord};
use crate::process::Stream;
use crate::report;
use claims::Claims;
use sample::Sample;

/// Tells the story and checks it.
pub(super) fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    super::surroundings::require_outside("start the demo")?;
    let mut sample = Sample::create()?;
    print::out_line("cofferdam demo · eight agents, one repository, nothing installed, no network");
    print::out_line("");
    print::out_line(&format!("repository   {}", sample.repository().display()));
    print::out_line(
        "parent       README.md edited and notes.txt untracked: not committed, and every agent starts with both",
    );
    print::out_line("");
    let executor = Executor::open(super::surroundings::options(
        &sample.state(),
        sample.environment(),
    )?)?;
    let heard = Arc::new(Heard::default());
    let repo = executor.repository(&sample.repository())?;
    let request = sample.request(repo.top())?;
    let record = run::start(&executor, (repo, request), heard.clone())?;
    if record.exit_code > 128 {
        return Ok(ExitCode::Signal(i32::from(record.exit_code) - 128));
    }
    print::settle();
    print::out(&indented(&report::outcome(&record)));
    tell_conflict(&executor, &record)?;
    let mut claims = Claims::default();
    claims.merged(&sample, &record, &heard.text());
    claims.alone(&sample, &heard.text());
    tell("What was landed, read back from the files", claims.take());
    claims.escapes(&mut sample, &heard.text());
    tell(
        "What the intruder tried, judged by the state of the host",
        claims.take(),
    );
    claims.left(&sample, &executor)?;
    tell("What is left", claims.take());
    let failed = claims.failed();
    if args.keep {
        print::out_line(&format!("kept in {}", sample.keep().display()));
    }
    if failed > 0 {
        return Err(Failure::new(
            ExitCode::Failed,
            format!("failed to keep {failed} of the demo's claims"),
        ));
    }
    print::out_line(
        "every claim above was checked · try it: cofferdam run -- sh -c 'echo hello > hello.txt'",
    );
    Ok(ExitCode::Success)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Prints claims under a heading, kept ones and broken ones alike.
fn tell(heading: &str, claims: Vec<claims::Claim>) {
    print::out_line("");
    print::out_line(heading);
    for claim in claims {
        let mark = if claim.holds {
            "✓"
        } else {
            "✗ DOES NOT HOLD:"
        };
        print::out_line(&format!("  {mark} {}", claim.text));
    }
}

/// Prints the conflict the way `diff` would show it.
fn tell_conflict(executor: &Executor, record: &RunRecord) -> Result<(), Failure> {
    let held = record
        .agents
        .iter()
        .find(|agent| agent.integration.status == IntegrationStatus::Held);
    let Some(agent) = held else { return Ok(()) };
    print::out_line("");
    print::out_line(&format!(
        "The conflict, held: nothing of `{}` has landed, and its work is kept",
        agent.name
    ));
    let repo = executor.repository(Path::new(&record.repo))?;
    for conflict in agent
        .integration
        .conflicts
        .iter()
        .filter(|conflict| conflict.kind == ConflictKind::Content)
    {
        print::out(&indented(&super::inspect::conflict_text(
            &repo, agent, conflict,
        )?));
    }
    Ok(())
}

/// Keeps what agents print, to look for what must never be in it.
#[derive(Default)]
struct Heard(Mutex<String>);

impl Heard {
    fn text(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Listener for Heard {
    fn event(&self, event: &Event) {
        if let Some(line) = report::event_line(event) {
            print::err_line(&format!("  {line}"));
        }
    }

    fn line(&self, agent: &str, _stream: Stream, line: &[u8]) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push_str(agent);
        heard.push('|');
        heard.push_str(&String::from_utf8_lossy(line));
        heard.push('\n');
    }
}
