//! Contracts and policies in words.
//!
//! Owns the sentences that `roles show`, `roles explain` and `doctor` print.
//! They are made from the same values that are enforced, so they cannot say
//! something else. Printing is the business of the faces.

use cofferdam_sandbox::{Access, Mount, Network, Policy, Rights, ViewMode};

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
    match contract.approve {
        Approve::None => {}
        Approve::Human => lines.push("lands: only after a person agreed".to_owned()),
    }
    if contract.needs_verify {
        lines.push("lands: only what `--verify` accepted".to_owned());
    }
    lines
}

/// A kernel policy in words, a line each.
#[must_use]
pub fn explain_policy(policy: &Policy) -> Vec<String> {
    let mut lines = Vec::new();
    for (rights, words) in [
        (Rights::ReadWriteExecute, "reads, changes and executes"),
        (Rights::ReadWrite, "reads and changes"),
        (Rights::ReadExecute, "reads and executes"),
        (Rights::Read, "reads"),
        (Rights::Device, "uses the devices"),
    ] {
        let paths = policy.files.iter().filter(|rule| rule.rights == rights);
        let paths: Vec<String> = paths.map(|rule| rule.path.to_string()).collect();
        if !paths.is_empty() {
            lines.push(format!("{words} {}", paths.join(" ")));
        }
    }
    lines.push(match policy.view.mode {
        ViewMode::Mounted => "sees everything else read-only or not at all".to_owned(),
        ViewMode::InPlace => "sees the host's own directories; nothing is mounted".to_owned(),
    });
    let hidden: Vec<String> = policy.view.mounts.iter().filter_map(hidden).collect();
    if !hidden.is_empty() {
        lines.push(format!("finds empty {}", hidden.join(" ")));
    }
    lines.push(match policy.network {
        Network::None => "has no network".to_owned(),
        Network::Open => "has the host's network".to_owned(),
    });
    let names: Vec<String> = policy
        .command
        .env
        .iter()
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .collect();
    lines.push(format!("has the variables {}", names.join(" ")));
    let limits: Vec<String> = policy
        .limits
        .values()
        .into_iter()
        .map(|(limit, value)| format!("{limit} {}", limit.amount(value)))
        .collect();
    lines.push(format!("uses at most {}", limits.join(", ")));
    let required: Vec<&str> = policy.required.iter().map(|layer| layer.word()).collect();
    lines.push(format!(
        "starts only with {} in full force",
        required.join(" ")
    ));
    let waived: Vec<&str> = policy.waived.iter().map(|layer| layer.word()).collect();
    if !waived.is_empty() {
        lines.push(format!("goes without {}", waived.join(" ")));
    }
    lines
}

fn hidden(mount: &Mount) -> Option<String> {
    match mount {
        Mount::Tmpfs {
            target,
            access: Access::ReadOnly,
            ..
        } => Some(target.to_string()),
        Mount::Tmpfs { .. } | Mount::Bind { .. } => None,
    }
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
