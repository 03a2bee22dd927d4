//! Owns the list of layers and their names.
//!
//! Used in policies, reports and messages; a new layer starts here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One thing that confines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Which files may be opened.
    Landlock,
    /// Which files are there, and which of them can change in any way.
    Mounts,
    /// Processes, users, host name and shared memory of one's own.
    Namespaces,
    /// Which system calls there are.
    Seccomp,
    /// No capability, now or later.
    Capabilities,
    /// No network.
    Network,
    /// Resource limits.
    Limits,
}

impl Layer {
    /// Every layer.
    pub const ALL: [Self; 7] = [
        Self::Landlock,
        Self::Mounts,
        Self::Namespaces,
        Self::Seccomp,
        Self::Capabilities,
        Self::Network,
        Self::Limits,
    ];

    /// The layer's name in policies, reports and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Mounts => "mounts",
            Self::Namespaces => "namespaces",
            Self::Seccomp => "seccomp",
            Self::Capabilities => "capabilities",
            Self::Network => "network",
            Self::Limits => "limits",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// A word that names no layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "know a layer `{word}`; there are landlock, mounts, namespaces, seccomp, capabilities, network, limits"
)]
pub struct UnknownLayer {
    /// The word.
    pub word: String,
}

impl FromStr for Layer {
    type Err = UnknownLayer;

    fn from_str(word: &str) -> Result<Self, UnknownLayer> {
        Self::ALL
            .into_iter()
            .find(|layer| layer.word() == word)
            .ok_or_else(|| UnknownLayer {
                word: word.to_owned(),
            })
    }
}
