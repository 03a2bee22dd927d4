//! The gates in their order.
//!
//! Owns the table: each gate looks at the same situation under the same lock
//! and either lets pass or refuses, and the first refusal wins. A gate changes
//! nothing. Children and writers of one agent are bounded as total and live
//! are, so they have no gate of their own.

use jiff::Timestamp;

use super::registry::{Agent, Ask, State};
use crate::config::authority::is_within;
use crate::config::values::parse_duration;
use crate::model::{Deadline, Gate, LaunchLimits, Refusal};

/// What every gate looks at.
pub(super) struct Situation<'a> {
    pub(super) limits: &'a LaunchLimits,
    pub(super) state: &'a State,
    pub(super) ask: &'a Ask<'a>,
    pub(super) parent: Option<&'a Agent>,
    pub(super) now: Timestamp,
}

/// A gate: lets pass or refuses.
type Check = fn(&Situation<'_>) -> Option<Refusal>;

/// The gates with their names, in the order in which they are asked.
pub const GATES: [&str; 8] = [
    "cancelled",
    "identity",
    "depth",
    "authority",
    "total",
    "live",
    "budget",
    "deadline",
];

const CHECKS: [Check; GATES.len()] = [
    cancelled, identity, depth, authority, total, live, budget, deadline,
];

const OWN_TOOLS: &str = "complete the task with your own tools";

/// The first refusal, if any.
pub(super) fn first_refusal(situation: &Situation<'_>) -> Option<Refusal> {
    CHECKS.iter().find_map(|check| check(situation))
}

/// The depth of a child of an agent at `caller` depth; `None` where that is
/// deeper than `max_depth` or cannot be counted.
pub(super) fn child_depth(caller: u32, max_depth: u32) -> Option<u32> {
    caller.checked_add(1).filter(|depth| *depth <= max_depth)
}

/// The earliest of the run's, the parent's and the agent's own deadline, the
/// wall time of its role counted from now.
pub(super) fn earliest(situation: &Situation<'_>) -> Option<Deadline> {
    let parent = situation.parent.and_then(|parent| parent.deadline);
    let wall = situation.ask.contract.budget.wall.as_deref();
    let wall = wall
        .and_then(|text| parse_duration("wall", text).ok())
        .and_then(|duration| situation.now.checked_add(duration).ok())
        .map(Deadline::at);
    [
        situation.limits.deadline,
        parent,
        situation.ask.deadline,
        wall,
    ]
    .into_iter()
    .fold(None, Deadline::earliest)
}

fn refusal(gate: Gate, have: String, limit: String, setting: &str) -> Option<Refusal> {
    Some(Refusal {
        gate,
        have,
        limit,
        setting: setting.to_owned(),
        advice: OWN_TOOLS.to_owned(),
    })
}

fn cancelled(situation: &Situation<'_>) -> Option<Refusal> {
    let parent = situation
        .parent
        .is_some_and(|parent| parent.token.is_cancelled());
    if !situation.state.cancelled && !parent {
        return None;
    }
    refusal(
        Gate::Cancelled,
        "the run is cancelled".to_owned(),
        "none is started after that".to_owned(),
        "cofferdam cancel",
    )
}

fn identity(situation: &Situation<'_>) -> Option<Refusal> {
    let state = situation.state;
    let (id, parent) = (&situation.ask.id, situation.ask.parent);
    let have = match (parent, situation.parent) {
        _ if state.agents.contains_key(id) => format!("the id `{id}` is taken"),
        (Some(parent), None) => format!("the agent `{parent}`, which asks, is not known"),
        (Some(parent), Some(agent)) if agent.ended => {
            format!("the agent `{parent}`, which asks, has ended")
        }
        (Some(_), Some(_)) | (None, _) => return None,
    };
    refusal(
        Gate::Authority,
        have,
        "agents that the launcher started".to_owned(),
        "the channel",
    )
}

fn depth(situation: &Situation<'_>) -> Option<Refusal> {
    let caller = situation.parent?.depth;
    let max_depth = situation.limits.max_depth;
    if child_depth(caller, max_depth).is_some() {
        return None;
    }
    refusal(
        Gate::Depth,
        format!("an agent at depth {caller} asks for a deeper one"),
        max_depth.to_string(),
        "--max-depth",
    )
}

fn authority(situation: &Situation<'_>) -> Option<Refusal> {
    let parent = situation.parent?;
    let (child, holder) = (situation.ask.contract, &parent.contract);
    if !holder.spawn.contains(&child.role) {
        return refusal(
            Gate::Authority,
            format!("the role `{}` is asked for", child.role),
            format!("roles that `{}` may start: {:?}", holder.role, holder.spawn),
            "`spawn` of the role",
        );
    }
    let excess = is_within(child, holder).err()?;
    refusal(
        Gate::Authority,
        format!("`{}` {} is asked for", excess.component, excess.asked),
        format!("{} of the agent that asks", excess.allowed),
        "the role",
    )
}

fn total(situation: &Situation<'_>) -> Option<Refusal> {
    let (total, max) = (situation.state.total, situation.limits.max_total);
    if total < max {
        return None;
    }
    refusal(
        Gate::Total,
        format!("{total} agents were started over the life of this run"),
        max.to_string(),
        "--max-total",
    )
}

fn live(situation: &Situation<'_>) -> Option<Refusal> {
    let limits = situation.limits;
    let pending = situation.state.pending();
    let free = limits.max_live.saturating_sub(situation.state.live);
    if pending < free.saturating_add(limits.queue_len) {
        return None;
    }
    refusal(
        Gate::Live,
        format!(
            "{} agents run and {pending} wait for a place",
            situation.state.live
        ),
        format!("{} and {}", limits.max_live, limits.queue_len),
        "--max-live",
    )
}

/// A cap that leaves nothing to begin with. What is spent while an agent runs
/// is the ledger's business.
fn budget(situation: &Situation<'_>) -> Option<Refusal> {
    let budget = &situation.ask.contract.budget;
    let (what, setting) = match (budget.turns, budget.tokens, budget.usd) {
        (Some(0), _, _) => ("turns", "--turns"),
        (_, Some(0), _) => ("tokens", "--tokens"),
        (_, _, Some(usd)) if usd.is_nan() || usd <= 0.0 => ("money", "--usd"),
        _ => return None,
    };
    refusal(
        Gate::Budget,
        format!("no {what} are left to begin with"),
        "0".to_owned(),
        setting,
    )
}

/// The refusal of an agent whose deadline passed between its admission and its
/// start; `have` says where.
#[must_use]
pub fn deadline_passed(deadline: Deadline, have: &str) -> Refusal {
    Refusal {
        gate: Gate::Deadline,
        have: have.to_owned(),
        limit: deadline.instant().to_string(),
        setting: "--deadline".to_owned(),
        advice: "complete the task with your own tools".to_owned(),
    }
}

fn deadline(situation: &Situation<'_>) -> Option<Refusal> {
    let wall = situation.ask.contract.budget.wall.as_deref();
    if let Some(error) = wall.and_then(|text| parse_duration("wall", text).err()) {
        return refusal(
            Gate::Deadline,
            format!("the role's wall time is {}", error.found),
            error.expected,
            "`budget.wall` of the role",
        );
    }
    let earliest = earliest(situation)?;
    if !earliest.has_passed(situation.now) {
        return None;
    }
    refusal(
        Gate::Deadline,
        format!("it is {}", situation.now),
        earliest.instant().to_string(),
        "--deadline",
    )
}
