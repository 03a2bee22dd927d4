//! What lies within what: the order on contracts.
//!
//! Owns the one answer to "is this contract within that one", component by
//! component, and the narrowing of one by another. Authority is what an agent
//! may touch and start; its budget and deadline are not part of it, since each
//! agent has its own turns and the ledger and the clock bound them together.
//! What cannot be shown to lie within does not. Pure.

use super::scope;
use crate::model::{Approve, ContextMode, Contract, ResourceLimits, Tainted};

/// A component in which a contract is wider than another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{component}` is wider: {asked} is not within {allowed}")]
pub struct Excess {
    /// The key of the role file.
    pub component: &'static str,
    /// What the contract asks for.
    pub asked: String,
    /// What the other one allows.
    pub allowed: String,
}

impl Excess {
    fn new(component: &'static str, asked: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self {
            component,
            asked: asked.into(),
            allowed: allowed.into(),
        }
    }
}

/// Whether `child` lies within `parent` in every component.
///
/// # Errors
/// Names the first component in which it does not.
pub fn is_within(child: &Contract, parent: &Contract) -> Result<(), Excess> {
    subset("tools", &child.tools, &parent.tools)?;
    globs("write", &child.write, &parent.write)?;
    globs("read", &child.read, &parent.read)?;
    ordered(
        "execute",
        child.execute <= parent.execute,
        child.execute,
        parent.execute,
    )?;
    ordered(
        "network",
        child.network <= parent.network,
        super::words::network(child.network),
        super::words::network(parent.network),
    )?;
    subset("credentials", &child.credentials, &parent.credentials)?;
    subset("spawn", &child.spawn, &parent.spawn)?;
    limits(child.limits, parent.limits)?;
    tainted(&child.when_tainted, &parent.when_tainted)?;
    ordered(
        "context",
        context_rank(child.context) <= context_rank(parent.context),
        format!("{:?}", child.context).to_lowercase(),
        format!("{:?}", parent.context).to_lowercase(),
    )?;
    ordered(
        "approve",
        approve_rank(child.approve) >= approve_rank(parent.approve),
        "none",
        "human",
    )?;
    ordered(
        "trust_out",
        child.trust_out >= parent.trust_out,
        format!("{:?}", child.trust_out).to_lowercase(),
        format!("{:?}", parent.trust_out).to_lowercase(),
    )?;
    ordered(
        "verify",
        child.needs_verify >= parent.needs_verify,
        "no verification",
        "a verification",
    )
}

/// The contract of `role` narrowed to what `holder` itself may do.
///
/// Everything else of the role stays. The result lies within both: a glob
/// that cannot be shown to lie within the other list is left out.
#[must_use]
pub fn narrowed(role: &Contract, holder: &Contract) -> Contract {
    Contract {
        tools: common(&role.tools, &holder.tools),
        write: scope::intersection(&role.write, &holder.write),
        read: scope::intersection(&role.read, &holder.read),
        execute: role.execute && holder.execute,
        network: role.network.min(holder.network),
        credentials: common(&role.credentials, &holder.credentials),
        spawn: common(&role.spawn, &holder.spawn),
        limits: tighter(role.limits, holder.limits),
        when_tainted: stricter(&role.when_tainted, &holder.when_tainted),
        context: match (role.context, holder.context) {
            (ContextMode::Fork, ContextMode::Fork) => ContextMode::Fork,
            (ContextMode::Brief, _) | (_, ContextMode::Brief) => ContextMode::Brief,
        },
        approve: match (role.approve, holder.approve) {
            (Approve::None, Approve::None) => Approve::None,
            (Approve::Human, _) | (_, Approve::Human) => Approve::Human,
        },
        trust_out: role.trust_out.join(holder.trust_out),
        needs_verify: role.needs_verify || holder.needs_verify,
        ..role.clone()
    }
}

/// The smaller of two limits; `None` is no limit of its own.
#[must_use]
pub fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The tighter of two sets of limits.
#[must_use]
pub fn tighter(one: ResourceLimits, other: ResourceLimits) -> ResourceLimits {
    ResourceLimits {
        memory_bytes: least(one.memory_bytes, other.memory_bytes),
        processes: least(one.processes, other.processes),
        disk_bytes: least(one.disk_bytes, other.disk_bytes),
        output_bytes: least(one.output_bytes, other.output_bytes),
    }
}

fn context_rank(mode: ContextMode) -> u8 {
    match mode {
        ContextMode::Brief => 0,
        ContextMode::Fork => 1,
    }
}

fn approve_rank(approve: Approve) -> u8 {
    match approve {
        Approve::None => 0,
        Approve::Human => 1,
    }
}

fn ordered(
    component: &'static str,
    within: bool,
    asked: impl ToString,
    allowed: impl ToString,
) -> Result<(), Excess> {
    if within {
        return Ok(());
    }
    Err(Excess::new(
        component,
        format!("`{}`", asked.to_string()),
        format!("`{}`", allowed.to_string()),
    ))
}

fn shown(list: &[String]) -> String {
    if list.is_empty() {
        return "nothing".to_owned();
    }
    let quoted: Vec<String> = list.iter().map(|entry| format!("`{entry}`")).collect();
    quoted.join(", ")
}

fn subset(component: &'static str, child: &[String], parent: &[String]) -> Result<(), Excess> {
    match child.iter().find(|entry| !parent.contains(entry)) {
        None => Ok(()),
        Some(excess) => Err(Excess::new(component, format!("`{excess}`"), shown(parent))),
    }
}

fn globs(component: &'static str, child: &[String], parent: &[String]) -> Result<(), Excess> {
    match child
        .iter()
        .find(|glob| !scope::is_glob_within(glob, parent))
    {
        None => Ok(()),
        Some(excess) => Err(Excess::new(component, format!("`{excess}`"), shown(parent))),
    }
}

fn limits(child: ResourceLimits, parent: ResourceLimits) -> Result<(), Excess> {
    let named = [
        ("limits.memory", child.memory_bytes, parent.memory_bytes),
        ("limits.processes", child.processes, parent.processes),
        ("limits.disk", child.disk_bytes, parent.disk_bytes),
        ("limits.output", child.output_bytes, parent.output_bytes),
    ];
    for (component, asked, allowed) in named {
        let Some(limit) = allowed else { continue };
        if asked.is_none_or(|asked| asked > limit) {
            let asked = asked.map_or_else(|| "no limit".to_owned(), |asked| asked.to_string());
            return Err(Excess::new(component, asked, limit.to_string()));
        }
    }
    Ok(())
}

fn tainted(child: &Tainted, parent: &Tainted) -> Result<(), Excess> {
    subset("when_tainted.deny", &parent.deny, &child.deny)
        .map_err(|excess| Excess::new(excess.component, shown(&child.deny), shown(&parent.deny)))?;
    ordered(
        "when_tainted.integrate",
        child.integrate.is_some() || parent.integrate.is_none(),
        "auto",
        "hold",
    )
}

fn common(one: &[String], other: &[String]) -> Vec<String> {
    one.iter()
        .filter(|entry| other.contains(entry))
        .cloned()
        .collect()
}

fn stricter(one: &Tainted, other: &Tainted) -> Tainted {
    let mut deny = one.deny.clone();
    deny.extend(
        other
            .deny
            .iter()
            .filter(|tool| !one.deny.contains(tool))
            .cloned(),
    );
    Tainted {
        deny,
        integrate: one.integrate.clone().or_else(|| other.integrate.clone()),
    }
}
