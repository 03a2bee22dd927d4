//! Contracts in words.
//!
//! Owns the sentences that `roles show` and `roles explain` print. They are
//! made from the same values that are enforced, so they cannot say something
//! else; a kernel policy tells itself (`cofferdam_sandbox::Policy::words`).
//! Printing is the business of the faces.

use crate::model::{Approve, Contract, NetworkAccess};

/// The worst that an agent of a role can do, a line each.
#[must_use]
pub fn explain_contract(contract: &Contract) -> Vec<String> {
    let mut lines = vec![
        format!(
            "reads: {}",
            globs(&contract.read, "nothing of the repository")
        ),
        format!(
            "changes: {}",
            globs(
                &contract.write,
                "nothing but its private home and temporary directory"
            )
        ),
        format!(
            "runs programs: {}",
            if contract.execute {
                "any that it can read; each is confined with it"
            } else {
                "none"
            }
        ),
        format!("reaches: {}", reach(contract.network)),
        format!("starts: {}", list(&contract.spawn, "no other agent")),
        format!("secrets: {}", list(&contract.credentials, "none")),
        format!("tools: {}", list(&contract.tools, "none")),
        format!("spends: {}", spending(contract)),
        format!("limits: {}", limits(contract)),
    ];
    if let Some(setup) = &contract.setup {
        lines.push(format!(
            "made ready: by `{}`, confined as the agent",
            setup.command
        ));
    }
    match contract.approve {
        Approve::None => {}
        Approve::Human => lines.push("lands: only after a person agreed".to_owned()),
    }
    if contract.needs_verify {
        lines.push("lands: only what `--verify` accepted".to_owned());
    }
    lines
}

fn reach(network: NetworkAccess) -> &'static str {
    match network {
        NetworkAccess::None => "nothing over the network",
        NetworkAccess::Gateway => "the model gateway and nothing else",
        NetworkAccess::Open => "everything that the host reaches",
    }
}

fn list(entries: &[String], none: &str) -> String {
    if entries.is_empty() {
        none.to_owned()
    } else {
        entries.join(" ")
    }
}

fn globs(globs: &[String], none: &str) -> String {
    if globs.iter().any(|glob| glob == "**") {
        "the whole repository".to_owned()
    } else {
        list(globs, none)
    }
}

fn spending(contract: &Contract) -> String {
    let budget = &contract.budget;
    let caps: Vec<String> = [
        budget.turns.map(|turns| format!("{turns} turns")),
        budget.tokens.map(|tokens| format!("{tokens} tokens")),
        budget.usd.map(|usd| format!("{usd} dollars")),
        budget.wall.as_ref().map(|wall| format!("{wall} of time")),
    ]
    .into_iter()
    .flatten()
    .collect();
    list(&caps, "no caps of its own; those of the run apply")
}

fn limits(contract: &Contract) -> String {
    let limits = &contract.limits;
    let set: Vec<String> = [
        limits
            .memory_bytes
            .map(|bytes| format!("{bytes} bytes of memory")),
        limits.processes.map(|count| format!("{count} processes")),
        limits
            .disk_bytes
            .map(|bytes| format!("{bytes} bytes on disk")),
        limits
            .output_bytes
            .map(|bytes| format!("{bytes} bytes printed")),
    ]
    .into_iter()
    .flatten()
    .collect();
    list(&set, "the defaults")
}
