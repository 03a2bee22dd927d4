//! File scopes: lists of globs over paths of the repository.
//!
//! Owns what a glob means, the same for roles, options and plans: `*` and `?`
//! stay within one name, `**` crosses names, a directory is meant with
//! `dir/**`. An empty list matches nothing. Containment is decided
//! conservatively: what cannot be shown to lie within is not within. Touches
//! no file.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::ValueError;
use crate::model::RepoPath;

/// A compiled list of globs.
#[derive(Debug, Clone)]
pub struct Scope {
    set: GlobSet,
}

impl Scope {
    /// Compiles a list.
    ///
    /// # Errors
    /// Names the glob that does not parse or could leave the repository.
    pub fn parse(key: &str, globs: &[String]) -> Result<Self, ValueError> {
        let wrong = |glob: &str, _: globset::Error| ValueError::new(key, EXPECTED, glob);
        let mut builder = GlobSetBuilder::new();
        for glob in globs {
            builder.add(compile(key, glob)?);
        }
        let set = builder
            .build()
            .map_err(|error| wrong(&globs.join(" "), error))?;
        Ok(Self { set })
    }

    /// Whether a path lies in the scope.
    #[must_use]
    pub fn matches(&self, path: &RepoPath) -> bool {
        self.set.is_match(path.as_path())
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
    GlobBuilder::new(glob)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|_| ValueError::new(key, EXPECTED, glob))
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

    #[test]
    fn a_star_stays_within_one_name() {
        let scope =
            Scope::parse("paths", &list(&["docs/**", "*.md"])).expect("because both are globs");
        let path = |text: &str| RepoPath::from_bytes(text.as_bytes()).expect("because it is plain");
        assert!(scope.matches(&path("docs/a/b.txt")));
        assert!(scope.matches(&path("README.md")));
        assert!(!scope.matches(&path("src/README.md")));
        assert!(!scope.matches(&path("docsevil/x")));
        let nothing = Scope::parse("paths", &[]).expect("because an empty list is legal");
        assert!(!nothing.matches(&path("a")));
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
