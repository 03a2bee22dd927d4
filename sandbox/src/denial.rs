//! Owns denials as facts: what is recorded, and from which source.
//!
//! A denial is a fact only where the kernel hands it over, or where the
//! launcher refuses itself. Nothing is guessed from output, exit codes or words, so
//! the list is never complete: [`SOURCES`] says what is in it.

use serde::{Deserialize, Serialize};

use crate::policy::Layer;

/// Something that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// Tells denials of one command apart; a later report with the same number
    /// replaces an earlier one.
    pub number: u32,
    /// The layer that refused.
    pub layer: Layer,
    /// What was tried: the name of the system call.
    pub operation: String,
    /// What was asked of it, as far as its arguments say.
    pub detail: Option<String>,
    /// The path that it named, as it was spelt; the beginning of a long one.
    pub path: Option<String>,
    /// The process that tried it first, as the cage numbers processes.
    pub pid: Option<u32>,
    /// The file name of that process's program.
    pub exe: Option<String>,
    /// How often.
    pub count: u64,
}

/// Where a record of a denial comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The layer that refuses.
    pub layer: Layer,
    /// What it refuses.
    pub operations: &'static str,
    /// Who says so; `None` where nobody does, and nothing is recorded.
    pub source: Option<&'static str>,
}

/// Which operation yields a record, and from which exact source.
///
/// Landlock has one for kernels whose audit is on: the agents' own rules ask
/// for it (`LOG_NEW_EXEC`, version 7), so an administrator finds refusals in
/// the audit log (types 1423 and 1424). Reading them from here would take a
/// capability in the first user namespace, and switching audit on changes the
/// machine, so neither is done.
pub const SOURCES: [Source; 9] = [
    Source {
        layer: Layer::Seccomp,
        operations: "system calls that no ordinary program makes",
        source: Some("the kernel's seccomp listener (Linux 5.19), answered by the cage's init"),
    },
    Source {
        layer: Layer::Seccomp,
        operations: "system calls that ordinary programs try and go on without (io_uring, personality, kcmp, ...)",
        source: None,
    },
    Source {
        layer: Layer::Network,
        operations: "internet sockets where no namespace takes them away",
        source: Some("the kernel's seccomp listener (Linux 5.19), answered by the cage's init"),
    },
    Source {
        layer: Layer::Network,
        operations: "addresses that a network namespace does not have",
        source: None,
    },
    Source {
        layer: Layer::Landlock,
        operations: "opening, changing and executing files without a rule",
        source: None,
    },
    Source {
        layer: Layer::Mounts,
        operations: "changes in a read-only view, and paths that it does not have",
        source: None,
    },
    Source {
        layer: Layer::Namespaces,
        operations: "processes, users and queues that are not there",
        source: None,
    },
    Source {
        layer: Layer::Capabilities,
        operations: "what needs a capability",
        source: None,
    },
    Source {
        layer: Layer::Limits,
        operations: "what would use up more than a limit",
        source: None,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_of_every_layer_what_is_recorded() {
        for layer in Layer::ALL {
            assert!(SOURCES.iter().any(|row| row.layer == layer), "{layer}");
        }
    }
}
