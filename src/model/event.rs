//! Events of a run, one a line as they happen.
//!
//! Additive: a new kind or field is free, a changed one is not. The board,
//! `--events` and the audit log are all made from these.

use serde::{Deserialize, Serialize};

use super::{AgentId, AgentState, Outcome, Refusal, RunId};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// `cofferdam.event/1`.
    pub schema: String,
    /// When, as an RFC 3339 instant.
    pub at: String,
    /// In which run.
    pub run: RunId,
    /// Of which agent; `None` for the run itself.
    pub agent: Option<AgentId>,
    /// The agent's label.
    pub name: Option<String>,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl Event {
    /// The schema's name and version.
    pub const SCHEMA: &'static str = "cofferdam.event/1";

    /// Something that happened to a run as a whole.
    #[must_use]
    pub fn of_run(run: &RunId, at: &str, kind: EventKind) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            at: at.to_owned(),
            run: run.clone(),
            agent: None,
            name: None,
            kind,
        }
    }

    /// The same, to one of its agents.
    #[must_use]
    pub fn of_agent(mut self, agent: &AgentId, name: &str) -> Self {
        self.agent = Some(agent.clone());
        self.name = Some(name.to_owned());
        self
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The snapshot is taken; agents may start.
    RunStarted {
        /// The snapshot's tree.
        tree: String,
        /// How many agents were asked for.
        agents: usize,
    },
    /// An agent was admitted, with its contract.
    Admitted {
        /// The role.
        role: String,
        /// Its depth.
        depth: u32,
        /// Its contract as JSON.
        contract: serde_json::Value,
    },
    /// A gate refused an agent.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// An agent moved on.
    State {
        /// To where.
        state: AgentState,
    },
    /// An agent was refused something for the first time; how often is in the
    /// record.
    Denied {
        /// What.
        denial: super::Denial,
    },
    /// The command that makes an agent's workspace ready ended; unless it
    /// succeeded, the agent's own does not begin.
    SetUp {
        /// How.
        outcome: Outcome,
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal, if one ended it.
        signal: Option<i32>,
    },
    /// An agent's command ended.
    Ended {
        /// How.
        outcome: Outcome,
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal, if one ended it.
        signal: Option<i32>,
    },
    /// An agent's result was decided on.
    Integrated {
        /// Where it stands.
        status: super::IntegrationStatus,
        /// How many paths changed.
        paths: usize,
        /// How many conflict.
        conflicts: usize,
    },
    /// The run is over.
    RunEnded {
        /// What the program ends with.
        exit_code: u8,
    },
    /// A result was applied, discarded or reclaimed by a later command.
    Decided {
        /// `apply`, `discard`, `gc` or `recover`.
        command: String,
        /// Where the result stands now.
        status: super::IntegrationStatus,
    },
}
