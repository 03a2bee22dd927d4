//! Owns the list of guarantees and their names.
//!
//! Used in policies, reports and messages, and as what can be given up by
//! name; a new promise starts here, and its row in `table`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! guarantees {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal,)+) => {
        /// One thing that a confined command cannot do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Guarantee {
            $($(#[doc = $doc])+ #[serde(rename = $word)] $name,)+
        }

        impl Guarantee {
            /// Every guarantee, in the order in which they are told.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its name in policies, reports and messages.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// What it says, as a sentence without its end.
            #[must_use]
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc,)+).trim_ascii(),)+ }
            }
        }
    };
}

guarantees! {
    /// Nothing without a writable rule is created, changed, renamed or removed.
    NoWriteOutside = "no_write_outside",
    /// No file without a writable rule is cut short.
    NoTruncateOutside = "no_truncate_outside",
    /// No mode, owner, time or attribute of a file without a writable rule changes.
    NoMetadataChangeOutside = "no_metadata_change_outside",
    /// Nothing without a rule is opened: no secret, no other agent, not the launcher's files, not the real checkout.
    NoReadOfSecrets = "no_read_of_secrets",
    /// No process outside is signalled.
    NoSignalOutside = "no_signal_outside",
    /// No process outside is traced, and no memory or descriptor of one is read.
    NoTraceOutside = "no_trace_outside",
    /// No priority, affinity or limit of a process outside changes.
    NoPriorityChangeOutside = "no_priority_change_outside",
    /// No network beyond what the policy says.
    NoNetwork = "no_network",
    /// No socket of the host is reached by path, abstract name, vsock or netlink.
    NoHostSockets = "no_host_sockets",
    /// No device is reached or made but those that belong to nobody.
    NoHostDevices = "no_host_devices",
    /// No namespace is made or entered.
    NoNewNamespaces = "no_new_namespaces",
    /// No mount is made, moved, changed or removed.
    NoNewMounts = "no_new_mounts",
    /// No capability is held or gained, by no program.
    NoNewPrivileges = "no_new_privileges",
    /// No descriptor is inherited but the three standard ones.
    NoInheritedDescriptors = "no_inherited_descriptors",
    /// No variable is inherited but those of the policy.
    NoInheritedEnvironment = "no_inherited_environment",
    /// Memory and processes of the whole tree are bounded.
    BoundedResources = "bounded_resources",
    /// No process is left when the command has ended or its launcher has died.
    NothingSurvives = "nothing_survives",
}

impl fmt::Display for Guarantee {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// A word that names no guarantee.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("know a guarantee `{word}`; there are {}", list())]
pub struct UnknownGuarantee {
    /// The word.
    pub word: String,
}

fn list() -> String {
    let words: Vec<&str> = Guarantee::ALL.iter().map(|one| one.word()).collect();
    words.join(", ")
}

impl FromStr for Guarantee {
    type Err = UnknownGuarantee;

    fn from_str(word: &str) -> Result<Self, UnknownGuarantee> {
        Self::ALL
            .iter()
            .copied()
            .find(|guarantee| guarantee.word() == word)
            .ok_or_else(|| UnknownGuarantee {
                word: word.to_owned(),
            })
    }
}
