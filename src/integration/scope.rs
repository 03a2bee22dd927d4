//! Which paths a result may change.
//!
//! Owns the questions about a whole delta that need no merge: outside the scope, the launcher's own settings, mass deletion.
//! Decides on data and touches nothing; the capture has already measured what
//! changed.

use super::Difference;
use crate::config::Scope;

/// More deletions than this, and more than half of all files, are held.
const MANY_DELETED: usize = 20;

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
        let first = names.next();
        let is = |name: &[u8]| first.is_some_and(|first| first.eq_ignore_ascii_case(name));
        // The second says which ignored files the next agent is handed.
        is(b".cofferdam") || (is(b".worktreeinclude") && names.next().is_none())
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

    #[test]
    fn mass_deletion_needs_both_many_and_most() {
        assert!(!is_mass_deletion(20, 20));
        assert!(is_mass_deletion(21, 21));
        assert!(is_mass_deletion(21, 41));
        assert!(!is_mass_deletion(21, 42));
    }
}
