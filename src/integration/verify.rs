//! Looks at a merge a second time, by other means.
//!
//! Owns three checks that trust no engine. The path rule: where one side left
//! a path alone, the other side's version must stand; whatever does not
//! follow was routed by a guessed rename. The second opinion on every file
//! that lines were merged in. Names that some file systems cannot tell apart.
//! They flag and never change; whether a flag holds is the caller's setting.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::read;
use super::{Difference, Entry, Error, ObjectError, ObjectStore, second};
use crate::model::{ObjectId, RepoPath, TreeMode};

/// Longer versions are not merged a second time: the plain algorithm takes
/// the square of the changed lines.
const LONGEST: usize = 1 << 20;

/// How the base differs from each side and from what the merge made.
pub(super) struct Deltas {
    pub(super) ours: BTreeMap<RepoPath, Difference>,
    pub(super) theirs: BTreeMap<RepoPath, Difference>,
    pub(super) merged: BTreeMap<RepoPath, Difference>,
}

/// Keys differences by their path.
pub(super) fn by_path(found: Vec<Difference>) -> BTreeMap<RepoPath, Difference> {
    found.into_iter().map(|d| (d.path.clone(), d)).collect()
}

/// The four versions of one path.
#[derive(Clone, Copy)]
struct Four<'a> {
    base: Option<&'a Entry>,
    ours: Option<&'a Entry>,
    theirs: Option<&'a Entry>,
    merged: Option<&'a Entry>,
}

impl Deltas {
    /// The versions of a path that differs somewhere.
    fn versions(&self, path: &RepoPath) -> Four<'_> {
        let found = [&self.ours, &self.theirs, &self.merged].map(|delta| delta.get(path));
        let base = found.iter().flatten().next().and_then(|d| d.old.as_ref());
        let [ours, theirs, merged] = found.map(|side| match side {
            Some(change) => change.new.as_ref(),
            None => base,
        });
        Four {
            base,
            ours,
            theirs,
            merged,
        }
    }

    fn paths(&self) -> BTreeSet<&RepoPath> {
        let all = [&self.ours, &self.theirs, &self.merged];
        all.into_iter().flat_map(BTreeMap::keys).collect()
    }
}

/// The paths, conflicted ones aside, of which the merge is doubtful.
pub(super) fn doubtful(
    objects: &impl ObjectStore,
    deltas: &Deltas,
    conflicted: &BTreeSet<RepoPath>,
) -> Result<BTreeSet<RepoPath>, Error> {
    let mut found = BTreeSet::new();
    for path in deltas.paths() {
        if !conflicted.contains(path) && !is_explained(objects, deltas.versions(path))? {
            found.insert(path.clone());
        }
    }
    Ok(found)
}

fn is_explained(objects: &impl ObjectStore, four: Four<'_>) -> Result<bool, Error> {
    let Four {
        base,
        ours,
        theirs,
        merged,
    } = four;
    if ours == base || ours == theirs {
        return Ok(merged == theirs);
    }
    if theirs == base {
        return Ok(merged == ours);
    }
    let (Some(ours), Some(theirs), Some(merged)) = (ours, theirs, merged) else {
        return Ok(false);
    };
    Ok(is_mode_explained(base, ours, theirs, merged)
        && is_text_explained(objects, base, [ours, theirs, merged])?)
}

/// The mode by the rule of paths, for itself.
fn is_mode_explained(base: Option<&Entry>, ours: &Entry, theirs: &Entry, merged: &Entry) -> bool {
    let base = base.map(|entry| entry.mode);
    let expected = if base == Some(ours.mode) {
        theirs.mode
    } else {
        ours.mode
    };
    merged.mode == expected && (base.is_some() || ours.mode == theirs.mode)
}

fn is_text_explained(
    objects: &impl ObjectStore,
    base: Option<&Entry>,
    [ours, theirs, merged]: [&Entry; 3],
) -> Result<bool, Error> {
    // A mode from one side and the bytes from the other need no lines.
    let base_id = base.map(|entry| &entry.oid);
    if Some(&ours.oid) == base_id || ours.oid == theirs.oid {
        return Ok(merged.oid == theirs.oid);
    }
    if Some(&theirs.oid) == base_id {
        return Ok(merged.oid == ours.oid);
    }
    let regular = |entry: &Entry| matches!(entry.mode, TreeMode::File | TreeMode::Executable);
    if ![ours, theirs, merged].into_iter().all(regular) {
        return Ok(false);
    }
    let base = match base {
        Some(entry) => read(objects, &entry.oid)?,
        None => Vec::new(),
    };
    let [ours, theirs, merged] = [ours, theirs, merged].map(|entry| read(objects, &entry.oid));
    let (ours, theirs, merged) = (ours?, theirs?, merged?);
    if [&base, &ours, &theirs]
        .into_iter()
        .any(|text| text.len() > LONGEST)
    {
        return Ok(true);
    }
    Ok(second::merge_lines(&base, &ours, &theirs).as_ref() == Some(&merged))
}

/// The paths that the result adds and that some file systems take for another
/// path of the merged tree.
pub(super) fn collisions(
    objects: &impl ObjectStore,
    tree: &ObjectId,
    added: &BTreeSet<RepoPath>,
) -> Result<BTreeSet<RepoPath>, ObjectError> {
    let mut found = BTreeSet::new();
    if added.is_empty() {
        return Ok(found);
    }
    let mut sought: BTreeMap<Vec<u8>, Vec<(&[u8], &RepoPath)>> = BTreeMap::new();
    for path in added {
        for name in prefixes(path) {
            sought.entry(folded(name)).or_default().push((name, path));
        }
    }
    for (path, _) in objects.entries(tree)? {
        for name in prefixes(&path) {
            let Some(same) = sought.get(&folded(name)) else {
                continue;
            };
            found.extend(
                same.iter()
                    .filter(|(other, _)| *other != name)
                    .map(|(_, p)| (*p).clone()),
            );
        }
    }
    Ok(found)
}

/// The path and every directory above it.
fn prefixes(path: &RepoPath) -> impl Iterator<Item = &[u8]> {
    let bytes = path.as_bytes();
    let slashes = bytes.iter().enumerate().filter(|(_, b)| **b == b'/');
    slashes.map(|(at, _)| &bytes[..at]).chain([bytes])
}

/// One spelling for names that differ only by case, or by how an accented
/// Latin letter is composed. Other scripts compare by case alone.
fn folded(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let Ok(text) = std::str::from_utf8(name) else {
        return name.to_vec();
    };
    let mut spelled = String::with_capacity(text.len());
    for letter in text.chars().flat_map(char::to_lowercase) {
        match COMPOSED.iter().find(|(composed, _)| *composed == letter) {
            Some((_, parts)) => spelled.push_str(parts),
            None => spelled.push(letter),
        }
    }
    spelled.into_bytes()
}

/// The accented letters of Latin-1, taken apart.
const COMPOSED: [(char, &str); 27] = [
    ('à', "a\u{300}"),
    ('á', "a\u{301}"),
    ('â', "a\u{302}"),
    ('ã', "a\u{303}"),
    ('ä', "a\u{308}"),
    ('å', "a\u{30a}"),
    ('ç', "c\u{327}"),
    ('è', "e\u{300}"),
    ('é', "e\u{301}"),
    ('ê', "e\u{302}"),
    ('ë', "e\u{308}"),
    ('ì', "i\u{300}"),
    ('í', "i\u{301}"),
    ('î', "i\u{302}"),
    ('ï', "i\u{308}"),
    ('ñ', "n\u{303}"),
    ('ò', "o\u{300}"),
    ('ó', "o\u{301}"),
    ('ô', "o\u{302}"),
    ('õ', "o\u{303}"),
    ('ö', "o\u{308}"),
    ('ù', "u\u{300}"),
    ('ú', "u\u{301}"),
    ('û', "u\u{302}"),
    ('ü', "u\u{308}"),
    ('ý', "y\u{301}"),
    ('ÿ', "y\u{308}"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_fold_together_and_others_do_not() {
        assert_eq!(
            folded("Straße/CAFÉ".as_bytes()),
            folded("straße/cafe\u{301}".as_bytes())
        );
        assert_eq!(folded(b"README"), folded(b"ReadMe"));
        assert_ne!(folded("cafe".as_bytes()), folded("café".as_bytes()));
        assert_ne!(folded(b"caf\xe9"), folded(b"caf\xc9"));
    }
}
