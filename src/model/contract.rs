//! The contract of a role: what an agent of that role may do.
//!
//! Plain data. An empty or missing list means nothing is allowed. Reading the
//! role file is the business of `config/`, turning the contract into a kernel
//! policy that of `confinement/`.

use serde::{Deserialize, Serialize};

use super::{Label, Setup};

/// How much of the parent's conversation an agent receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextMode {
    /// Its brief alone.
    Brief,
    /// The parent's conversation, one level.
    Fork,
}

/// What an agent may reach over the network; later is wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// Nothing but its own loopback.
    None,
    /// The launcher's model gateway.
    Gateway,
    /// Everything the host reaches.
    Open,
}

/// What a failed agent means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailurePolicy {
    /// Its siblings are cancelled.
    FailRun,
    /// Its siblings go on; the run says so.
    Partial,
    /// Its failure does not count.
    Ignore,
}

/// Who has to agree before a result lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approve {
    /// Nobody.
    None,
    /// A person.
    Human,
}

/// Caps of an agent's own; the run's shared ledger applies besides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Tokens, in and out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Wall time, as people write it; becomes an instant at admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<String>,
}

/// Limits on the machine's resources; `None` leaves the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes at once.
    pub processes: Option<u64>,
    /// Disk in the workspace and private directories, in bytes.
    pub disk_bytes: Option<u64>,
    /// What is printed, in bytes.
    pub output_bytes: Option<u64>,
}

/// What changes once an agent's input is untrusted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tainted {
    /// Tools that are refused then.
    #[serde(default)]
    pub deny: Vec<String>,
    /// `hold`: its result waits for a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrate: Option<String>,
}

/// Which model an agent is to use, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelChoice {
    /// Its name at the provider.
    pub name: String,
    /// The longest answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

/// What an agent of one role may do, said once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// The role's name.
    pub role: String,
    /// What of the parent's conversation it receives.
    pub context: ContextMode,
    /// Instructions that it inherits, by name.
    pub instructions: Vec<String>,
    /// Tools that it may call.
    pub tools: Vec<String>,
    /// Paths in the repository that it may change, as globs.
    pub write: Vec<String>,
    /// Paths in the repository that it may read, as globs.
    pub read: Vec<String>,
    /// Whether it may run programs.
    pub execute: bool,
    /// What it may reach.
    pub network: NetworkAccess,
    /// Secrets that it is granted, by name.
    pub credentials: Vec<String>,
    /// Roles that it may start.
    pub spawn: Vec<String>,
    /// Caps of its own.
    pub budget: Budget,
    /// Limits on the machine's resources.
    pub limits: ResourceLimits,
    /// The label of what it returns.
    pub trust_out: Label,
    /// What its failure means for the run.
    pub on_failure: FailurePolicy,
    /// Who has to agree before its result lands.
    pub approve: Approve,
    /// What changes once its input is untrusted.
    pub when_tainted: Tainted,
    /// Which model it is to use.
    pub model: Option<ModelChoice>,
    /// Whether a result without `--verify` may be asked for at all.
    pub needs_verify: bool,
    /// What makes its workspace ready; it grants nothing that the role lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
}

impl Contract {
    /// Whether its result waits because its input is untrusted: it reads the
    /// open network, and the contract holds what that has touched.
    #[must_use]
    pub fn holds_when_tainted(&self) -> bool {
        let tainted = match self.network {
            NetworkAccess::None | NetworkAccess::Gateway => false,
            NetworkAccess::Open => true,
        };
        tainted && self.when_tainted.integrate.as_deref() == Some("hold")
    }

    /// Whether it may change anything in the repository: such an agent is a
    /// writer and gets a workspace; any other sees the snapshot read-only.
    #[must_use]
    pub fn is_writer(&self) -> bool {
        !self.write.is_empty()
    }
}
