//! What a person approved, known again by its content.
//!
//! Owns the files that say so: one for each repository, kind and content, in
//! the state directory, which no agent reaches. An approval is of exactly one
//! text in exactly one repository: another text is another question. It
//! decides nothing about what has to be approved, and asks nobody.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Error, StateDir, read_json, replace_json};

const SCHEMA: &str = "cofferdam.approval/1";

/// The approvals of one repository.
#[derive(Debug, Clone)]
pub struct Approvals {
    directory: PathBuf,
    common_dir: PathBuf,
}

/// What one file says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Approval {
    schema: String,
    /// Lossy, for people: the name of the file binds the true one.
    repository: String,
    kind: String,
    hash: String,
    text: String,
    approved_at: String,
}

/// The hash by which content is known again, as `sha256:…`.
#[must_use]
pub fn content_hash(content: impl AsRef<[u8]>) -> String {
    format!("sha256:{}", hex(&[content.as_ref()]))
}

impl Approvals {
    /// Those of the repository with this common git directory.
    #[must_use]
    pub fn of(state: &StateDir, common_dir: &Path) -> Self {
        Self {
            directory: state.approvals_dir(),
            common_dir: common_dir.to_owned(),
        }
    }

    /// Whether exactly this text was approved.
    ///
    /// # Errors
    /// The file is there and cannot be read: that is no approval, and no
    /// refusal either.
    pub fn hold(&self, kind: &str, text: &str) -> Result<bool, Error> {
        let found: Option<Approval> = read_json(&self.path(kind, text))?;
        Ok(found.is_some_and(|found| {
            found.schema == SCHEMA && found.kind == kind && found.text == text
        }))
    }

    /// Writes down that a person approved exactly this text.
    ///
    /// # Errors
    /// It could not be written.
    pub fn approve(&self, kind: &str, text: &str, at: Timestamp) -> Result<(), Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(Error::io("create", &self.directory))?;
        let approval = Approval {
            schema: SCHEMA.to_owned(),
            repository: self.common_dir.to_string_lossy().into_owned(),
            kind: kind.to_owned(),
            hash: content_hash(text),
            text: text.to_owned(),
            approved_at: at.to_string(),
        };
        replace_json(&self.path(kind, text), &approval)
    }

    fn path(&self, kind: &str, text: &str) -> PathBuf {
        let repository: &OsStr = self.common_dir.as_os_str();
        let name = hex(&[repository.as_bytes(), kind.as_bytes(), text.as_bytes()]);
        self.directory.join(format!("{name}.json"))
    }
}

/// The hash of parts, each with its length before it where there are several,
/// so that no two lists of parts read the same.
fn hex(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        if parts.len() > 1 {
            hash.update((part.len() as u64).to_le_bytes());
        }
        hash.update(part);
    }
    hash.finalize()
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("because a string takes everything");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_is_of_one_text_in_one_repository() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let state = StateDir::open(dir.path()).expect("because it is ours");
        let here = Approvals::of(&state, Path::new("/here/.git"));
        let there = Approvals::of(&state, Path::new("/there/.git"));
        let holds = |one: &Approvals, kind: &str, text: &str| {
            one.hold(kind, text).expect("because it can be read")
        };
        assert!(!holds(&here, "setup", "npm ci"));
        here.approve("setup", "npm ci", Timestamp::UNIX_EPOCH)
            .expect("because the directory is ours");

        assert!(holds(&here, "setup", "npm ci"));
        assert!(!holds(&here, "setup", "npm ci "));
        assert!(!holds(&here, "roles", "npm ci"));
        assert!(!holds(&there, "setup", "npm ci"));
    }

    #[test]
    fn a_file_that_says_something_else_approves_nothing() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let state = StateDir::open(dir.path()).expect("because it is ours");
        let here = Approvals::of(&state, Path::new("/here/.git"));
        here.approve("setup", "true", Timestamp::UNIX_EPOCH)
            .expect("because the directory is ours");
        std::fs::rename(here.path("setup", "true"), here.path("setup", "evil"))
            .expect("because both are ours");
        assert!(!here.hold("setup", "evil").expect("because it is JSON"));
        std::fs::write(here.path("setup", "cut"), "{").expect("because it is ours");
        assert!(here.hold("setup", "cut").is_err());
    }

    #[test]
    fn the_hash_is_the_one_that_everybody_computes() {
        assert_eq!(
            content_hash("abc"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
