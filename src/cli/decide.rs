//! `apply`, `discard` and `gc`: deciding about results.
//!
//! Owns the question before something is dropped, and the answer's text.

use std::io::{self, BufRead as _, IsTerminal as _};

use serde::Serialize;

use super::args::{ApplyArgs, DiscardArgs, GcArgs};
use super::failure::Failure;
use super::{print, signals, surroundings};
use crate::config::{self, ConfigError, PartialSettings, Setting};
use crate::executor::{ApplyOrder, Decided, KEEP};
use crate::model::{AgentRecord, ExitCode, Land, LeftOver, OnConflict};
use crate::report;

#[derive(Serialize)]
struct Answer {
    schema: &'static str,
    exit_code: u8,
    agents: Vec<AgentRecord>,
}

fn answer(schema: &'static str, decided: Decided, json: bool) -> ExitCode {
    let code = decided.exit_code;
    if json {
        print::document(&Answer {
            schema,
            exit_code: code.number(),
            agents: decided.agents,
        });
        return code;
    }
    for agent in &decided.agents {
        print::out_line(&format!(
            "{}  {}  {}",
            agent.id,
            report::status_word(agent),
            report::plain(&agent.name)
        ));
        for conflict in &agent.integration.conflicts {
            print::out_line(&format!("  conflict: {}", report::conflict_line(conflict)));
        }
    }
    code
}

/// Lands a result that waits.
pub(super) fn apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    surroundings::require_outside("land a result")?;
    let mut how = PartialSettings::default();
    for (setting, value) in [
        (Setting::OnConflict, &args.on_conflict),
        (Setting::Land, &args.land),
    ] {
        if let Some(text) = value {
            how.set(setting, &setting.option(), text)
                .map_err(ConfigError::from)?;
        }
    }
    let executor = surroundings::recovered_executor()?;
    let found = executor.book().find_agent(&args.id)?;
    let how = ApplyOrder {
        on_conflict: how.on_conflict.unwrap_or(OnConflict::Hold),
        land: how.land.unwrap_or(Land::Worktree),
        verify: args.verify.clone(),
    };
    let decided = signals::under(|control| executor.apply(found, how, control))?;
    Ok(answer("cofferdam.apply/1", decided, args.json))
}

/// Drops a result, after a word from the person.
pub(super) fn discard(args: &DiscardArgs) -> Result<ExitCode, Failure> {
    surroundings::require_outside("drop a result")?;
    let executor = surroundings::recovered_executor()?;
    let found = executor.book().find_agent(&args.id)?;
    if !args.yes
        && !confirmed(&format!(
            "drop the result of {} ({})?",
            found.agent().id,
            report::plain(&found.agent().name)
        ))?
    {
        return Err(Failure::usage("failed to discard: not confirmed")
            .hint("give `--yes` to do it without a question"));
    }
    let decided = executor.discard(&found)?;
    Ok(answer("cofferdam.discard/1", decided, args.json))
}

fn confirmed(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    print::err_line(&format!("{question} [y/N]"));
    print::settle();
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Failure::usage(format!("failed to read an answer: {error}")))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

#[derive(Serialize)]
struct Collected {
    schema: &'static str,
    exit_code: u8,
    recovered: Vec<String>,
    runs: Vec<String>,
    refs: Vec<String>,
    kept: Vec<String>,
    left: Vec<LeftOver>,
}

/// Reclaims what dead runs left and results past their keep time.
pub(super) fn reclaim(args: &GcArgs) -> Result<ExitCode, Failure> {
    surroundings::require_outside("reclaim what runs left")?;
    let older = match &args.older {
        Some(text) => config::values::parse_age("--older", text).map_err(ConfigError::from)?,
        None => KEEP,
    };
    let executor = surroundings::executor()?;
    let repo = surroundings::repository_if_any(&executor, args.repo.as_deref())?;
    let done = executor.reclaim(repo.as_ref(), older)?;
    let code = if done.left.is_empty() {
        ExitCode::Success
    } else {
        ExitCode::Cleanup
    };
    if args.json {
        print::document(&Collected {
            schema: "cofferdam.gc/1",
            exit_code: code.number(),
            recovered: done
                .recovered
                .iter()
                .map(|found| found.run.to_string())
                .collect(),
            runs: done.runs.iter().map(ToString::to_string).collect(),
            refs: done.refs,
            kept: done.kept,
            left: done.left,
        });
        return Ok(code);
    }
    for recovered in &done.recovered {
        print::out_line(&format!(
            "recovered {}: {} result(s) pinned",
            recovered.run, recovered.pinned
        ));
    }
    print::out_line(&format!(
        "forgot {} run(s) and {} ref(s); {} result(s) are kept",
        done.runs.len(),
        done.refs.len(),
        done.kept.len()
    ));
    for left in &done.left {
        print::out_line(&format!(
            "left over: {}: {}",
            report::plain(&left.what),
            report::plain(&left.why)
        ));
    }
    Ok(code)
}
