//! `ls`, `show`, `diff` and `log`: looking at what ran.
//!
//! Owns nothing but the way from an id to text or JSON. Nothing is changed.

use serde::Serialize;

use super::args::{IdArgs, LogArgs, LsArgs};
use super::failure::Failure;
use super::{print, surroundings};
use crate::audit;
use crate::executor::{Executor, FoundAgent};
use crate::git::Repository;
use crate::integration;
use crate::model::{AgentRecord, Conflict, Event, ExitCode, IntegrationStatus, RunRecord};
use crate::report;
use crate::store::{self, Measure};

#[derive(Serialize)]
struct Listing<'a> {
    schema: &'static str,
    runs: Vec<&'a str>,
    agents: Vec<Listed<'a>>,
    refs: Vec<Ref>,
    kept: Vec<Kept>,
}

/// Files that no tree holds, kept for a while.
#[derive(Serialize)]
struct Kept {
    run: String,
    path: String,
    #[serde(flatten)]
    measure: Measure,
}

#[derive(Serialize)]
struct Listed<'a> {
    run: &'a str,
    repo: &'a str,
    #[serde(flatten)]
    agent: &'a AgentRecord,
}

#[derive(Serialize)]
struct Ref {
    name: String,
    oid: String,
}

/// Lists the newest run and whatever of older ones waits or lives; with `--all`
/// everything on record, with every ref and directory that is kept.
pub(super) fn list(args: &LsArgs) -> Result<ExitCode, Failure> {
    let executor = surroundings::recovered_executor()?;
    let repo = surroundings::repository_if_any(&executor, args.repo.as_deref())?;
    let mut records = match &repo {
        Some(repo) => executor.book().records_of(repo)?,
        None => executor.book().records()?,
    };
    if !args.all {
        // The newest run is shown whole: who has just run something asks for it.
        for record in records.iter_mut().rev().skip(1) {
            record.agents.retain(waits_or_lives);
        }
        records.retain(|record| !record.agents.is_empty());
    }
    let refs = match (&repo, args.all) {
        (Some(repo), true) => refs(repo)?,
        (Some(_) | None, _) => Vec::new(),
    };
    let kept = if args.all {
        kept(&executor, &records)
    } else {
        Vec::new()
    };
    if args.json {
        let agents = records.iter().flat_map(|record| {
            record.agents.iter().map(|agent| Listed {
                run: record.run.as_str(),
                repo: &record.repo,
                agent,
            })
        });
        print::document(&Listing {
            schema: "cofferdam.ls/1",
            runs: records.iter().map(|record| record.run.as_str()).collect(),
            agents: agents.collect(),
            refs,
            kept,
        });
        return Ok(ExitCode::Success);
    }
    print::out(&report::list(&records));
    for reference in refs {
        print::out_line(&format!("{}  {}", reference.oid, reference.name));
    }
    for kept in kept {
        let Measure { files, bytes } = kept.measure;
        print::out_line(&format!(
            "{}  {files} file(s), {bytes} bytes  {}",
            kept.run,
            report::plain(&kept.path)
        ));
    }
    Ok(ExitCode::Success)
}

fn kept(executor: &Executor, records: &[RunRecord]) -> Vec<Kept> {
    let places = records.iter().map(|record| {
        (
            record.run.to_string(),
            executor.state().kept_root(&record.run),
        )
    });
    let there = places.filter(|(_, path)| path.exists());
    there
        .map(|(run, path)| Kept {
            run,
            measure: store::measure(&path),
            path: path.to_string_lossy().into_owned(),
        })
        .collect()
}

fn waits_or_lives(agent: &AgentRecord) -> bool {
    let waits = matches!(
        agent.integration.status,
        IntegrationStatus::Held | IntegrationStatus::NotRequested
    );
    (waits && agent.result.reference.is_some()) || !agent.state.is_final()
}

fn refs(repo: &Repository) -> Result<Vec<Ref>, Failure> {
    let found = repo
        .refs_under("refs/cofferdam/")
        .map_err(|error| Failure::new(ExitCode::Internal, format!("failed to {error}")))?;
    Ok(found
        .into_iter()
        .map(|(name, oid)| Ref {
            name,
            oid: oid.to_string(),
        })
        .collect())
}

/// Shows an agent, or every agent of a run.
pub(super) fn show(args: &IdArgs) -> Result<ExitCode, Failure> {
    let executor = surroundings::recovered_executor()?;
    match find(&executor, &args.id)? {
        Found::Agent(found) if args.json => print::document(&of_agent(&found)),
        Found::Agent(found) => print::out(&report::agent_detail(&found.record, found.agent())),
        Found::Run(record) if args.json => print::document(&record),
        Found::Run(record) => {
            for agent in &record.agents {
                print::out_line(&report::agent_detail(&record, agent));
            }
        }
    }
    Ok(ExitCode::Success)
}

/// What an id or a prefix of one names.
enum Found {
    Agent(Box<FoundAgent>),
    Run(Box<RunRecord>),
}

/// Finds an agent, or else a run; where the text names neither, the failure
/// says whether nothing or too much begins with it.
fn find(executor: &Executor, text: &str) -> Result<Found, Failure> {
    let book = executor.book();
    if let Ok(found) = book.find_agent(text) {
        return Ok(Found::Agent(Box::new(found)));
    }
    if let Ok(record) = book.find_run(text) {
        return Ok(Found::Run(Box::new(record)));
    }
    let records = book.records()?;
    let ids = records.iter().flat_map(|record| {
        let agents = record.agents.iter().map(|agent| agent.id.as_str());
        agents.chain([record.run.as_str()])
    });
    let begin_like_it = ids.filter(|id| begins(id, text)).count();
    Err(match begin_like_it {
        0 => Failure::usage(format!(
            "failed to find `{text}`: no agent and no run has an id that begins like this"
        ))
        .hint("`cofferdam ls --all` lists every id"),
        1 => Failure::usage(format!(
            "failed to find `{text}`: it is too short to name anything"
        ))
        .hint("give more characters of the id"),
        _ => Failure::usage(format!(
            "failed to find `{text}`: {begin_like_it} ids begin like this"
        ))
        .hint("give more characters of the id"),
    })
}

fn begins(id: &str, text: &str) -> bool {
    let rest = id.split_once('-').map_or(id, |(_, rest)| rest);
    id.starts_with(text) || rest.starts_with(text)
}

/// The run's document with this agent alone.
fn of_agent(found: &FoundAgent) -> RunRecord {
    let mut record = found.record.clone();
    record.agents = vec![found.agent().clone()];
    record
}

/// Shows what an agent changed, against what it started from.
pub(super) fn diff(args: &IdArgs) -> Result<ExitCode, Failure> {
    let executor = surroundings::recovered_executor()?;
    let found = executor.book().find_agent(&args.id)?;
    let agent = found.agent();
    if args.json {
        print::document(&of_agent(&found));
        return Ok(ExitCode::Success);
    }
    let (Some(base), Some(tree), Some(_)) =
        (&agent.base, &agent.result.tree, &agent.result.reference)
    else {
        print::out_line("nothing was changed, or the result is gone");
        return Ok(ExitCode::Success);
    };
    let repo = executor.repository(std::path::Path::new(&found.record.repo))?;
    let internal = |error: &dyn std::error::Error| {
        Failure::new(ExitCode::Internal, format!("failed to {error}"))
    };
    if !print::is_terminal() {
        // A program reads it: a patch that git applies, binaries and modes included.
        let patch = repo.patch(base, tree).map_err(|error| internal(&error))?;
        print::out_bytes(&patch);
        return Ok(ExitCode::Success);
    }
    let objects = repo.objects().map_err(|error| internal(&error))?;
    let base = objects.tree_of(base).map_err(|error| internal(&error))?;
    let text = integration::render_diff(&objects, &base, tree).map_err(|error| internal(&error))?;
    print::out(&text);
    for conflict in &agent.integration.conflicts {
        print::out_line("");
        print::out(&conflict_text(&repo, agent, conflict)?);
    }
    Ok(ExitCode::Success)
}

/// One conflict with its versions, readable.
pub(super) fn conflict_text(
    repo: &Repository,
    agent: &AgentRecord,
    conflict: &Conflict,
) -> Result<String, Failure> {
    let objects = repo
        .objects()
        .map_err(|error| Failure::new(ExitCode::Internal, format!("failed to {error}")))?;
    // Where there is no merge with markers, the sides are compared with the base.
    let marked = agent
        .integration
        .marked
        .as_ref()
        .or(agent.result.tree.as_ref());
    let Some(marked) = marked else {
        return Ok(String::new());
    };
    integration::render_conflict(&objects, marked, conflict)
        .map_err(|error| Failure::new(ExitCode::Internal, format!("failed to {error}")))
}

#[derive(Serialize)]
struct History {
    schema: &'static str,
    events: Vec<Event>,
}

/// Shows what happened, event by event.
pub(super) fn log(args: &LogArgs) -> Result<ExitCode, Failure> {
    let executor = surroundings::recovered_executor()?;
    let mut events = audit::load_events(&executor.state().audit_path())
        .map_err(|error| Failure::new(ExitCode::Internal, format!("failed to {error}")))?;
    if let Some(id) = &args.id {
        match find(&executor, id)? {
            // An agent that was found by the id of its run stands for it.
            Found::Agent(found) if !begins(found.agent().id.as_str(), id) => {
                events.retain(|event| event.run == found.record.run);
            }
            Found::Agent(found) => {
                events.retain(|event| event.agent.as_ref() == Some(&found.agent().id));
            }
            Found::Run(record) => events.retain(|event| event.run == record.run),
        }
    }
    if args.json {
        print::document(&History {
            schema: "cofferdam.log/1",
            events,
        });
        return Ok(ExitCode::Success);
    }
    for event in events {
        let who = event
            .agent
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let name = event.name.as_deref().unwrap_or("");
        let what = serde_json::to_string(&event.kind).unwrap_or_default();
        print::out_line(&format!(
            "{}  {}  {who}  {}  {}",
            event.at,
            event.run,
            report::plain(name),
            report::plain(&what)
        ));
    }
    Ok(ExitCode::Success)
}
