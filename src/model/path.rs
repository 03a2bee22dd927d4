//! Paths inside a repository.
//!
//! Owns the one type in which such a path travels: bytes, relative, every
//! component ordinary. What could leave the tree or reach git's own files
//! does not parse. Compares by component, never by text prefix, and touches
//! no file system.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Why some bytes are not a path inside a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing was given.
    #[error("an empty path names nothing in the repository")]
    Empty,
    /// It starts at the root of the file system.
    #[error("`{0}` is absolute; give a path relative to the repository")]
    Absolute(String),
    /// It has an empty, `.` or `..` component or a NUL byte.
    #[error("`{0}` has an empty, `.` or `..` component or a NUL byte")]
    NotPlain(String),
    /// It reaches git's own files.
    #[error("`{0}` has a component that git reads as `.git`")]
    GitDirectory(String),
}

/// A path inside a repository: bytes, relative, made of ordinary names.
///
/// No component is empty, `.`, `..` or one that git on any platform takes
/// for `.git`; see [`RepoPath::is_git_name`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    /// Parses bytes as they stand in a tree, an index or a directory walk.
    ///
    /// # Errors
    /// Says which rule the bytes break.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PathError> {
        let text = || String::from_utf8_lossy(bytes).into_owned();
        if bytes.is_empty() {
            return Err(PathError::Empty);
        }
        if bytes.starts_with(b"/") {
            return Err(PathError::Absolute(text()));
        }
        for part in bytes.split(|b| *b == b'/') {
            if part.is_empty() || part == b"." || part == b".." || part.contains(&0) {
                return Err(PathError::NotPlain(text()));
            }
            if Self::is_git_name(part) {
                return Err(PathError::GitDirectory(text()));
            }
        }
        Ok(Self(bytes.to_vec()))
    }

    /// Whether git takes this file name for `.git`: the name itself in any
    /// case, and the short name that Windows file systems give it.
    ///
    /// The rule is git's `verify_path` with `core.protectNTFS`, which git
    /// turns on everywhere; the invisible characters that HFS+ ignores are
    /// covered too.
    #[must_use]
    pub fn is_git_name(name: &[u8]) -> bool {
        let visible: String = String::from_utf8_lossy(name)
            .chars()
            .filter(|c| !matches!(*c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'))
            .collect();
        let end = visible.split(':').next().unwrap_or_default();
        let trimmed = end.trim_end_matches([' ', '.']);
        trimmed.eq_ignore_ascii_case(".git") || trimmed.eq_ignore_ascii_case("git~1")
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path for the file system, relative to the tree's root.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Its names, outermost first.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/')
    }

    /// The directory that holds it; `None` at the top.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let slash = self.0.iter().rposition(|b| *b == b'/')?;
        Some(Self(self.0[..slash].to_vec()))
    }

    /// Whether it is `directory` itself or lies beneath it, by component.
    #[must_use]
    pub fn is_within(&self, directory: &Self) -> bool {
        self.0
            .strip_prefix(directory.0.as_slice())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// Whether the bytes are UTF-8.
    #[must_use]
    pub fn is_text(&self) -> bool {
        std::str::from_utf8(&self.0).is_ok()
    }
}

impl fmt::Display for RepoPath {
    /// Lossy text: for people, never to be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// A path in JSON: `path` is lossy text, and `path_b64` stands beside it
/// where the text lost something. Flatten it into the object that it names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PathText {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_b64: Option<String>,
}

impl PathText {
    /// The text alone.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.path
    }

    /// The path that was written down, exactly.
    ///
    /// # Errors
    /// A record that was edited by hand may hold what is no path.
    pub fn to_path(&self) -> Result<RepoPath, PathError> {
        match &self.path_b64 {
            None => RepoPath::from_bytes(self.path.as_bytes()),
            Some(encoded) => {
                let bytes = STANDARD
                    .decode(encoded)
                    .map_err(|_| PathError::NotPlain(encoded.clone()))?;
                RepoPath::from_bytes(&bytes)
            }
        }
    }

    /// Writes down any bytes, also those that are no [`RepoPath`].
    #[must_use]
    pub fn from_raw(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self {
                path: text.to_owned(),
                path_b64: None,
            },
            Err(_) => Self {
                path: String::from_utf8_lossy(bytes).into_owned(),
                path_b64: Some(STANDARD.encode(bytes)),
            },
        }
    }
}

impl From<&RepoPath> for PathText {
    fn from(path: &RepoPath) -> Self {
        Self::from_raw(path.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_could_leave_the_tree_or_reach_git() {
        for wrong in [
            "",
            "/etc/passwd",
            "a/../b",
            "..",
            "a//b",
            "./a",
            "a/.",
            ".git",
            ".git/config",
            "sub/.GIT/x",
            "git~1",
            "a/GIT~1/b",
            ".git./x",
            ".git ",
            ".git::$INDEX_ALLOCATION/x",
            ".g\u{200c}it/config",
        ] {
            assert!(RepoPath::from_bytes(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        for right in [
            "a",
            "a/b",
            ".gitignore",
            ".gitattributes",
            "git",
            "-rf",
            "a b\nc",
            "日本",
            "..a",
            "a.git",
        ] {
            assert!(RepoPath::from_bytes(right.as_bytes()).is_ok(), "{right:?}");
        }
    }

    #[test]
    fn compares_by_component() {
        let path =
            |text: &str| RepoPath::from_bytes(text.as_bytes()).expect("because it is a plain path");
        assert!(path("home/x").is_within(&path("home")));
        assert!(path("home").is_within(&path("home")));
        assert!(!path("homeevil/x").is_within(&path("home")));
        assert_eq!(path("a/b/c").parent(), Some(path("a/b")));
        assert_eq!(path("a").parent(), None);
    }

    #[test]
    fn names_that_are_not_text_survive_json() {
        let path =
            RepoPath::from_bytes(b"caf\xe9/x").expect("because any byte is allowed in a name");
        let text = PathText::from(&path);
        let json = serde_json::to_string(&text).expect("because it is text");
        let back: PathText = serde_json::from_str(&json).expect("because it was just written");
        assert_eq!(back.to_path(), Ok(path));
    }
}
