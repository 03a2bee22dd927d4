//! Owns paths that keep every byte on their way through JSON.
//!
//! Used by all of the policy; knows nothing about what a path leads to.

use std::ffi::OsString;
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path as the host names it.
///
/// Serialised as a string where it is UTF-8 and as a list of bytes where it is
/// not, so that every file name survives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPath(pub PathBuf);

impl From<PathBuf> for HostPath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl From<&Path> for HostPath {
    fn from(path: &Path) -> Self {
        Self(path.to_path_buf())
    }
}

impl AsRef<Path> for HostPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Deref for HostPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.display())
    }
}

/// The two spellings of a name in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Spelling {
    Text(String),
    Bytes(Vec<u8>),
}

impl Serialize for HostPath {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => out.serialize_str(text),
            None => Spelling::Bytes(self.0.as_os_str().as_bytes().to_vec()).serialize(out),
        }
    }
}

impl<'de> Deserialize<'de> for HostPath {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Ok(Self(match Spelling::deserialize(input)? {
            Spelling::Text(text) => PathBuf::from(text),
            Spelling::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        }))
    }
}
