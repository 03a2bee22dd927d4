//! Which paths a result may change.
//!
//! Owns the file scope and the questions about a whole delta that need no
//! merge: outside the scope, the launcher's own settings, mass deletion.
//! Decides on data and touches nothing; the capture has already measured what
//! changed.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::{Difference, Error};
use crate::model::RepoPath;

/// More deletions than this, and more than half of all files, are held.
const MANY_DELETED: usize = 20;

/// The paths that an agent may change.
#[derive(Debug, Clone)]
pub struct Scope(Vec<GlobSet>);

impl Scope {
    /// Reads globs relative to the repository: `*` and `?` stay within one
    /// name, `**` crosses directories, `docs/` means everything beneath it.
    /// No glob at all allows nothing.
    ///
    /// # Errors
    /// A glob cannot be read; it is named.
    pub fn new<S: AsRef<str>>(globs: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let bad = |glob: &str| {
            let glob = glob.to_owned();
            move |source| Error::Glob { glob, source }
        };
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            let glob = glob.as_ref();
            let whole = match glob.strip_suffix('/') {
                Some(directory) => format!("{directory}/**"),
                None => glob.to_owned(),
            };
            let read = GlobBuilder::new(&whole)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(bad(glob))?;
            set.add(read);
        }
        let set = set.build().map_err(bad("all of them together"))?;
        Ok(Self(vec![set]))
    }

    /// The scope that holds what both hold.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The scope that holds every path.
    ///
    /// # Errors
    /// Never in practice: the one glob is fixed.
    pub fn everything() -> Result<Self, Error> {
        Self::new(["**"])
    }

    /// Whether the path lies in the scope.
    #[must_use]
    pub fn holds(&self, path: &RepoPath) -> bool {
        self.0.iter().all(|set| set.is_match(path.as_path()))
    }
}

/// The changed paths that lie outside the scope.
pub(super) fn outside<'a>(
    scope: &'a Scope,
    changed: &'a [Difference],
) -> impl Iterator<Item = &'a Difference> {
    changed.iter().filter(|change| !scope.holds(&change.path))
}

/// Whether a change reaches the launcher's own settings in the repository,
/// which a person has to look at: what they allow, the next run does.
pub(super) fn touches_settings(changed: &[Difference]) -> bool {
    changed.iter().any(|change| {
        let mut names = change.path.components();
        names
            .next()
            .is_some_and(|first| first.eq_ignore_ascii_case(b".cofferdam"))
    })
}

/// How many paths a change deletes.
pub(super) fn deletions(changed: &[Difference]) -> usize {
    changed.iter().filter(|change| change.new.is_none()).count()
}

/// Whether so many deletions are worth counting all files for.
pub(super) fn is_worth_counting(deleted: usize) -> bool {
    deleted > MANY_DELETED
}

/// Whether a change deletes a large part of the repository.
pub(super) fn is_mass_deletion(deleted: usize, files: usize) -> bool {
    deleted > MANY_DELETED && deleted.saturating_mul(2) > files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(globs: &[&str], path: &[u8]) -> bool {
        let path = RepoPath::from_bytes(path).expect("because it is a plain path");
        Scope::new(globs)
            .expect("because the globs are right")
            .holds(&path)
    }

    #[test]
    fn globs_mean_what_they_say() {
        assert!(holds(&["**"], b"a/b/.c"));
        assert!(holds(&["**"], b"caf\xe9\n"));
        assert!(holds(&["docs/**"], b"docs/a/b.md"));
        assert!(holds(&["docs/"], b"docs/a/b.md"));
        assert!(!holds(&["docs/**"], b"docsx/a"));
        assert!(!holds(&["docs/*"], b"docs/a/b"));
        assert!(holds(&["*.md", "src/*.rs"], b"src/x.rs"));
        assert!(!holds(&[], b"a"));
        assert!(Scope::new(["a{"]).is_err());
    }

    #[test]
    fn mass_deletion_needs_both_many_and_most() {
        assert!(!is_mass_deletion(20, 20));
        assert!(is_mass_deletion(21, 21));
        assert!(is_mass_deletion(21, 41));
        assert!(!is_mass_deletion(21, 42));
    }
}
