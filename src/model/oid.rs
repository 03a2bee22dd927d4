//! Object ids and tree modes as data.
//!
//! Owns their textual form only (hexadecimal, SHA-1 or SHA-256 length); what
//! an id names is the business of `git/`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The text is not an object id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an object id (40 or 64 hexadecimal digits)")]
pub struct OidError(String);

/// The id of a git object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectId(String);

impl ObjectId {
    /// The id in hexadecimal.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the all-zero id, git's word for "nothing".
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.bytes().all(|b| b == b'0')
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ObjectId {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Self, OidError> {
        let right = (text.len() == 40 || text.len() == 64)
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if right {
            Ok(Self(text.to_owned()))
        } else {
            Err(OidError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for ObjectId {
    type Error = OidError;

    fn try_from(text: String) -> Result<Self, OidError> {
        text.parse()
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> Self {
        id.0
    }
}

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TreeMode {
    /// A regular file.
    #[serde(rename = "100644")]
    File,
    /// A regular file with the execute bit.
    #[serde(rename = "100755")]
    Executable,
    /// A symbolic link; its blob is the link's text.
    #[serde(rename = "120000")]
    Symlink,
    /// A commit of another repository (a submodule); never entered.
    #[serde(rename = "160000")]
    Gitlink,
}

impl TreeMode {
    /// The mode as git writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Gitlink => "160000",
        }
    }

    /// Reads a mode of a tree or index entry; `None` for a tree or an unknown one.
    ///
    /// Old repositories hold `100664` and the like: git treats any regular
    /// mode by its execute bit alone, and so does this.
    #[must_use]
    pub fn from_bits(bits: u32) -> Option<Self> {
        match bits & 0o170_000 {
            0o100_000 if bits & 0o111 != 0 => Some(Self::Executable),
            0o100_000 => Some(Self::File),
            0o120_000 => Some(Self::Symlink),
            0o160_000 => Some(Self::Gitlink),
            _ => None,
        }
    }

    /// The mode's bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::File => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Symlink => 0o120_000,
            Self::Gitlink => 0o160_000,
        }
    }
}
