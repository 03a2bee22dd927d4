//! File scopes: lists of globs over paths of the repository.
//!
//! Owns what a glob means, the same for roles, options, plans, landing and
//! files that are carried along: `*` and `?` stay within one name, `**` crosses
//! names, `dir/` and `dir/**` mean everything beneath. An empty list matches
//! nothing. Containment is decided
//! conservatively: what cannot be shown to lie within is not within. Touches
//! no file.

use std::borrow::Cow;
use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::ValueError;
use crate::model::RepoPath;

/// The paths that lists of globs mean.
#[derive(Debug, Clone)]
pub struct Scope(Vec<GlobSet>);

impl Scope {
    /// Reads a list of globs; `key` is where it stands, for the message.
    ///
    /// # Errors
    /// Names the glob that does not parse or could leave the repository.
    pub fn parse<S: AsRef<str>>(
        key: &str,
        globs: impl IntoIterator<Item = S>,
    ) -> Result<Self, ValueError> {
        let mut builder = GlobSetBuilder::new();
        for glob in globs {
            builder.add(compile(key, glob.as_ref())?);
        }
        let set = builder
            .build()
            .map_err(|_| ValueError::new(key, EXPECTED, "all of them together"))?;
        Ok(Self(vec![set]))
    }

    /// The scope that holds every path.
    ///
    /// # Errors
    /// Never in practice: the one glob is fixed.
    pub fn everything() -> Result<Self, ValueError> {
        Self::parse("scope", ["**"])
    }

    /// The scope that holds what both hold.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Whether the path lies in the scope.
    #[must_use]
    pub fn holds(&self, path: &RepoPath) -> bool {
        self.0.iter().all(|set| set.is_match(path.as_path()))
    }
}

const EXPECTED: &str =
    "a glob relative to the repository, such as `docs/**` or `src/*.rs`, without `..`";

fn compile(key: &str, glob: &str) -> Result<Glob, ValueError> {
    let leaves = glob.is_empty()
        || glob.starts_with('/')
        || glob.contains('\0')
        || glob.split('/').any(|part| part == ".." || part == ".");
    if leaves {
        return Err(ValueError::new(key, EXPECTED, glob));
    }
    GlobBuilder::new(&whole(glob))
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|_| ValueError::new(key, EXPECTED, glob))
}

/// The glob with nothing left unsaid: a directory means all beneath it.
fn whole(glob: &str) -> Cow<'_, str> {
    match glob.strip_suffix('/') {
        Some(directory) => Cow::Owned(format!("{directory}/**")),
        None => Cow::Borrowed(glob),
    }
}

/// Checks that every entry is a glob, without keeping it.
///
/// # Errors
/// Names the first that is not.
pub(super) fn check_globs(key: &str, globs: &[String]) -> Result<(), ValueError> {
    Scope::parse(key, globs).map(|_| ())
}

/// Whether everything that `glob` can match is matched by one of `outer`.
///
/// Conservative: `true` is certain, `false` means that it cannot be shown.
#[must_use]
pub fn is_glob_within(glob: &str, outer: &[String]) -> bool {
    outer.iter().any(|wider| covers(wider, glob))
}

/// The globs of both lists that lie within the other; what cannot be shown to
/// lie in both is left out.
#[must_use]
pub(super) fn intersection(one: &[String], other: &[String]) -> Vec<String> {
    let from_one = one.iter().filter(|glob| is_glob_within(glob, other));
    let from_other = other
        .iter()
        .filter(|glob| is_glob_within(glob, one) && !one.contains(glob));
    from_one.chain(from_other).cloned().collect()
}

/// Whether two globs may match the same path; `false` is certain.
#[must_use]
pub fn may_overlap(one: &str, other: &str) -> bool {
    let (one, other) = (&*whole(one), &*whole(other));
    let (first, second) = (literal_names(one), literal_names(other));
    let shared = first.len().min(second.len());
    if first[..shared] != second[..shared] {
        return false;
    }
    // A glob without any pattern names one path, so the other must match it.
    match (is_literal(one), is_literal(other)) {
        (true, true) => one == other,
        (true, false) => matches(other, one),
        (false, true) => matches(one, other),
        (false, false) => true,
    }
}

fn covers(wider: &str, glob: &str) -> bool {
    let (wider, glob) = (&*whole(wider), &*whole(glob));
    if wider == "**" || wider == "**/*" || wider == glob {
        return true;
    }
    if is_literal(glob) {
        return matches(wider, glob);
    }
    // `a/b/**` covers whatever starts with the literal names `a/b/`.
    wider.strip_suffix("/**").is_some_and(|directory| {
        let names: Vec<&str> = directory.split('/').collect();
        let within = literal_names(glob);
        is_literal(directory) && within.len() >= names.len() && within[..names.len()] == names
    })
}

fn matches(glob: &str, path: &str) -> bool {
    compile("glob", glob).is_ok_and(|glob| glob.compile_matcher().is_match(Path::new(path)))
}

fn is_literal(glob: &str) -> bool {
    !glob.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// The directory names that a glob starts with; the last component is one of
/// them only where it is no pattern.
fn literal_names(glob: &str) -> Vec<&str> {
    glob.split('/')
        .take_while(|part| is_literal(part))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(globs: &[&str]) -> Vec<String> {
        globs.iter().map(|glob| (*glob).to_owned()).collect()
    }

    fn holds(globs: &[&str], path: &[u8]) -> bool {
        let path = RepoPath::from_bytes(path).expect("because it is a plain path");
        let scope = Scope::parse("paths", globs).expect("because the globs are right");
        scope.holds(&path)
    }

    #[test]
    fn globs_mean_what_they_say() {
        assert!(holds(&["**"], b"a/b/.c"));
        assert!(holds(&["**"], b"caf\xe9\n"));
        assert!(holds(&["docs/**"], b"docs/a/b.md"));
        assert!(holds(&["docs/"], b"docs/a/b.md"));
        assert!(!holds(&["docs/"], b"docs"));
        assert!(!holds(&["docs/**"], b"docsx/a"));
        assert!(!holds(&["docs/*"], b"docs/a/b"));
        assert!(!holds(&["*.md"], b"src/x.md"));
        assert!(holds(&["*.md", "src/*.rs"], b"src/x.rs"));
        assert!(!holds(&[], b"a"));
    }

    #[test]
    fn a_directory_means_the_same_to_every_question() {
        for glob in ["docs/", "docs/**"] {
            assert!(holds(&[glob], b"docs/a/b"));
            assert!(is_glob_within(glob, &list(&["docs/**"])), "{glob}");
            assert!(is_glob_within(glob, &list(&["docs/"])), "{glob}");
            assert!(is_glob_within("docs/a/*.md", &list(&[glob])), "{glob}");
            assert!(!is_glob_within(glob, &list(&["docs"])), "{glob}");
            assert!(may_overlap(glob, "docs/a/b"), "{glob}");
            assert!(!may_overlap(glob, "src/"), "{glob}");
        }
    }

    #[test]
    fn globs_that_leave_the_repository_or_do_not_parse_are_refused() {
        for glob in ["", "/etc/**", "../x", "a/../b", "./a", "[", "a{b"] {
            assert!(check_globs("paths", &list(&[glob])).is_err(), "{glob:?}");
        }
    }

    #[test]
    fn containment_is_by_component_and_never_guessed() {
        for (glob, outer, within) in [
            ("docs/**", "**", true),
            ("docs/a/*.md", "docs/**", true),
            ("docs/x.md", "docs/*.md", true),
            ("docs/**", "docs/**", true),
            ("docsevil/**", "docs/**", false),
            ("**", "docs/**", false),
            ("*.md", "docs/**", false),
            ("d*/x", "docs/**", false),
            ("docs/a/b.md", "docs/*.md", false),
        ] {
            assert_eq!(
                is_glob_within(glob, &list(&[outer])),
                within,
                "{glob} in {outer}"
            );
        }
        assert_eq!(
            intersection(
                &list(&["docs/**", "src/*.rs"]),
                &list(&["docs/a/**", "src/**"])
            ),
            list(&["src/*.rs", "docs/a/**"])
        );
    }

    #[test]
    fn overlap_is_reported_unless_it_is_impossible() {
        for (one, other, overlap) in [
            ("docs/**", "src/**", false),
            ("docs/**", "docs/a/*.md", true),
            ("**", "src/**", true),
            ("a.txt", "a.txt", true),
            ("a.txt", "b.txt", false),
            ("*.md", "README.md", true),
            ("*.md", "README.rs", false),
            ("src/*.rs", "src/*.md", true),
        ] {
            assert_eq!(may_overlap(one, other), overlap, "{one} {other}");
        }
    }
}
