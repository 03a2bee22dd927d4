//! Owns the honest report: what each layer achieved, and what nothing covers.
//!
//! Filled in by the stage, read by the launcher. It never guesses: a status is
//! set by the code that tried the thing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::guarantees::{Feature, Guarantee};
use crate::limits::{Limit, Mechanism};
use crate::policy::Layer;

/// What was enforced for one command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enforcement {
    /// What each layer achieved; every layer is listed.
    pub layers: BTreeMap<Layer, Status>,
    /// What of the kernel is in force; decides who holds which guarantee.
    pub features: BTreeSet<Feature>,
    /// What was attempted from inside, without success, before the command.
    pub tried: Vec<Tried>,
    /// The version of Landlock that the kernel has.
    pub landlock_abi: Option<u32>,
    /// How user ids look from inside.
    pub uid_map: UidMap,
    /// What proves that every process has ended.
    pub proof: Proof,
    /// By what each limit of the policy is held.
    #[serde(default)]
    pub limits: BTreeMap<Limit, Mechanism>,
    /// Known holes that no layer of this run covers.
    pub holes: Vec<String>,
    /// What of the view is another than the policy's first choice, and why.
    #[serde(default)]
    pub view_notes: Vec<String>,
    /// Layers whose refusals could be recorded and are not, each with the reason.
    #[serde(default)]
    pub unrecorded: BTreeMap<Layer, String>,
}

impl Enforcement {
    /// What a layer achieved.
    #[must_use]
    pub fn status(&self, layer: Layer) -> Option<&Status> {
        self.layers.get(&layer)
    }
}

/// An attempt to break a guarantee that failed, as it must.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// What would have been broken.
    pub guarantee: Guarantee,
    /// What was attempted, as an imperative.
    pub attempt: String,
}

/// How user ids look from inside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UidMap {
    /// No user namespace: ids are the host's.
    #[default]
    Host,
    /// A user namespace that knows the launcher's own id only.
    Itself,
}

/// What proves that every process of a cage has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// The kernel ended the PID namespace: nothing can be left.
    PidNamespace,
    /// A sub-reaper killed descendants until it had none; weaker, because the
    /// reaper is a process like any other.
    #[default]
    SubreaperSwept,
}

/// What a layer achieved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase", deny_unknown_fields)]
pub enum Status {
    /// Everything the policy asks of it.
    Full,
    /// Some of it.
    Partial {
        /// What is missing.
        missing: Vec<String>,
    },
    /// Nothing.
    Absent {
        /// Why.
        reason: String,
    },
    /// Nothing, as the caller wished.
    Waived,
}

impl Status {
    /// The status in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial { .. } => "partial",
            Self::Absent { .. } => "absent",
            Self::Waived => "waived",
        }
    }

    /// Full if nothing is missing, else partial.
    pub(crate) fn unless(missing: Vec<String>) -> Self {
        if missing.is_empty() {
            Self::Full
        } else {
            Self::Partial { missing }
        }
    }

    /// Why this is not full; empty if it is.
    #[must_use]
    pub fn shortfall(&self) -> String {
        match self {
            Self::Full => String::new(),
            Self::Partial { missing } => format!("missing: {}", missing.join("; ")),
            Self::Absent { reason } => reason.clone(),
            Self::Waived => "it was waived".into(),
        }
    }
}
