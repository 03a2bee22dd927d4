//! Opaque names of runs and agents.
//!
//! Owns their form: a letter, a hyphen and 16 lower-case hexadecimal digits.
//! No user text ever becomes an id, a directory name or a ref name: labels
//! are metadata. Uniqueness is proven by whoever creates the directory that
//! carries the id (it must not exist yet), not by the randomness alone.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The text is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id of the form `{prefix}-` and 16 hexadecimal digits")]
pub struct IdError {
    text: String,
    prefix: &'static str,
}

const DIGITS: usize = 16;

fn parse(text: &str, prefix: &'static str) -> Result<String, IdError> {
    let digits = text
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('-'))
        .filter(|digits| {
            digits.len() == DIGITS
                && digits
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
    match digits {
        Some(_) => Ok(text.to_owned()),
        None => Err(IdError {
            text: text.to_owned(),
            prefix,
        }),
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Makes an id from 64 random bits.
            #[must_use]
            pub fn from_bits(bits: u64) -> Self {
                Self(format!("{}-{bits:016x}", $prefix))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse(text, $prefix).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

id!(
    /// Names one run of the launcher: everything that one request started.
    RunId,
    "r"
);
id!(
    /// Names one agent, over all runs.
    AgentId,
    "a"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_refuse_anything_else() {
        let id = RunId::from_bits(0xfeed);
        assert_eq!(id.as_str(), "r-000000000000feed");
        assert_eq!(id.as_str().parse::<RunId>(), Ok(id.clone()));
        for wrong in [
            "",
            "r-",
            "a-000000000000feed",
            "r-000000000000FEED",
            "../../x",
            "r-000000000000feed0",
        ] {
            assert!(wrong.parse::<RunId>().is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<AgentId>("\"r-000000000000feed\"").is_err());
    }
}
