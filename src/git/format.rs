//! Which hash names a repository's objects.
//!
//! Owns the two formats that git has and what follows from each: how long an
//! id is, what ends an index, what a configuration has to say. Everything else
//! asks here or goes by the length of an id.

use std::fmt;

use sha2::Digest as _;

use crate::model::ObjectId;

/// Which hash names the repository's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 40 hexadecimal digits.
    Sha1,
    /// 64 hexadecimal digits.
    Sha256,
}

impl ObjectFormat {
    /// The format of the repository that an id comes from.
    #[must_use]
    pub fn of(id: &ObjectId) -> Self {
        match id.as_str().len() {
            64 => Self::Sha256,
            _ => Self::Sha1,
        }
    }

    /// The format by git's name for it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            _ => None,
        }
    }

    /// How many bytes an id has.
    #[must_use]
    pub fn id_length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// The id of the tree without entries, which is in every repository.
    #[must_use]
    pub fn empty_tree(self) -> &'static str {
        match self {
            Self::Sha1 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            Self::Sha256 => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
        }
    }

    /// What a repository's configuration says of it, in the section `core`
    /// and, where it has to, another.
    #[must_use]
    pub fn sections(self) -> (&'static str, &'static str) {
        match self {
            Self::Sha1 => ("repositoryformatversion = 0", ""),
            Self::Sha256 => (
                "repositoryformatversion = 1",
                "[extensions]\n\tobjectformat = sha256\n",
            ),
        }
    }

    /// The configuration of a bare repository of it.
    pub(super) fn bare_config(self) -> String {
        let (version, more) = self.sections();
        format!("[core]\n\t{version}\n\tbare = true\n{more}")
    }

    /// The hash of bytes, as git has it at the end of an index.
    pub(super) fn checksum(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => sha1::Sha1::digest(bytes).to_vec(),
            Self::Sha256 => sha2::Sha256::digest(bytes).to_vec(),
        }
    }

    /// The library's word for it.
    #[must_use]
    pub fn library(self) -> git2::ObjectFormat {
        match self {
            Self::Sha1 => git2::ObjectFormat::Sha1,
            Self::Sha256 => git2::ObjectFormat::Sha256,
        }
    }
}

impl fmt::Display for ObjectFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        })
    }
}
