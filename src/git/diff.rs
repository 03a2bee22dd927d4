//! What differs between two trees.
//!
//! Owns the list of changed paths and their kinds. A plain difference is
//! found by walking both trees; git itself pairs renames, and is asked only
//! where a path came and another went. No attribute, textconv or external
//! diff takes part.

use git2::Oid;

use super::objects::from_raw;
use super::trees::{RawEntry, joined};
use super::{Configuration, Error, Objects, Repository};
use crate::model::{Change, ChangeKind, ObjectId, PathText, RepoPath, TreeMode};

/// Whether a path that went and one that came are paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renames {
    /// As `git diff -M50%` pairs them.
    Find,
    /// Never.
    None,
}

/// One path at which two trees differ, with what stands there in each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeDifference {
    /// From the root of the trees.
    pub path: RepoPath,
    /// What stands there in the first.
    pub old: Option<(TreeMode, ObjectId)>,
    /// What stands there in the second.
    pub new: Option<(TreeMode, ObjectId)>,
}

impl Repository {
    /// The difference between two trees or commits as a patch that `git apply`
    /// takes: binaries, modes and renames included.
    ///
    /// # Errors
    /// An object is missing, or git could not be run.
    pub fn patch(&self, from: &ObjectId, to: &ObjectId) -> Result<Vec<u8>, Error> {
        let call = self.git().at(self.git_dir(), Configuration::Hermetic);
        call.args([
            "diff-tree",
            "-r",
            "-p",
            "--binary",
            "--full-index",
            "-M50%",
            "--no-color",
        ])
        .args(["--no-ext-diff", "--no-textconv", "--end-of-options"])
        .arg(from.as_str())
        .arg(to.as_str())
        .output()
    }
}

impl TreeDifference {
    fn change(&self) -> Option<(RepoPath, Change)> {
        let (kind, mode) = kind_of(self.old.as_ref(), self.new.as_ref())?;
        let change = Change {
            path: PathText::from(&self.path),
            kind,
            from: None,
            mode,
        };
        Some((self.path.clone(), change))
    }
}

impl Objects {
    /// The changed paths between two trees, sorted by path.
    ///
    /// # Errors
    /// A tree is missing or damaged, or git could not be run.
    pub fn diff(
        &self,
        base: &ObjectId,
        tree: &ObjectId,
        renames: Renames,
    ) -> Result<Vec<Change>, Error> {
        let found: Vec<_> = self
            .differences(base, tree)?
            .iter()
            .filter_map(TreeDifference::change)
            .collect();
        let has = |kind| found.iter().any(|(_, change)| change.kind == kind);
        if renames == Renames::Find && has(ChangeKind::Added) && has(ChangeKind::Deleted) {
            return self.diff_by_git(base, tree);
        }
        Ok(found.into_iter().map(|(_, change)| change).collect())
    }

    /// The paths at which two trees differ, renames not paired, sorted by path.
    ///
    /// Equal subtrees are not entered: it costs what differs.
    ///
    /// # Errors
    /// A tree is missing or damaged.
    pub fn differences(
        &self,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<Vec<TreeDifference>, Error> {
        let mut found = Vec::new();
        self.walk_pair(
            &[],
            Some(self.to_raw(base)?),
            Some(self.to_raw(tree)?),
            &mut found,
        )?;
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn walk_pair(
        &self,
        prefix: &[u8],
        old: Option<Oid>,
        new: Option<Oid>,
        found: &mut Vec<TreeDifference>,
    ) -> Result<(), Error> {
        if old == new {
            return Ok(());
        }
        let list = |oid: Option<Oid>| oid.map_or(Ok(Vec::new()), |oid| self.raw_tree(oid));
        let (before, after) = (list(old)?, list(new)?);
        let mut pairs: std::collections::BTreeMap<&[u8], [Option<&RawEntry>; 2]> =
            std::collections::BTreeMap::new();
        for entry in &before {
            pairs.entry(&entry.name).or_default()[0] = Some(entry);
        }
        for entry in &after {
            pairs.entry(&entry.name).or_default()[1] = Some(entry);
        }
        for (name, [one, other]) in pairs {
            let path = joined(prefix, name);
            let subtree =
                |entry: Option<&RawEntry>| entry.filter(|e| e.is_tree()).map(|entry| entry.oid);
            self.walk_pair(&path, subtree(one), subtree(other), found)?;
            let leaf = |entry: Option<&RawEntry>| {
                let entry = entry.filter(|e| !e.is_tree())?;
                TreeMode::from_bits(entry.bits).map(|mode| (mode, from_raw(entry.oid)))
            };
            let (old, new) = (leaf(one), leaf(other));
            if old != new
                && let Ok(path) = RepoPath::from_bytes(&path)
            {
                found.push(TreeDifference { path, old, new });
            }
        }
        Ok(())
    }

    fn diff_by_git(&self, base: &ObjectId, tree: &ObjectId) -> Result<Vec<Change>, Error> {
        let output = self
            .git
            .at(&self.handle, Configuration::Hermetic)
            .args(["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M50%"])
            .args(["--no-ext-diff", "--no-textconv", "--end-of-options"])
            .arg(base.as_str())
            .arg(tree.as_str())
            .output()?;
        let mut fields = output.split(|b| *b == 0);
        let mut found = Vec::new();
        while let Some(head) = fields.next().filter(|head| !head.is_empty()) {
            let malformed = || Error::Malformed {
                what: "the answer of `git diff-tree`".to_owned(),
            };
            let head = std::str::from_utf8(head).map_err(|_| malformed())?;
            let words: Vec<&str> = head.split(' ').collect();
            let [_, mode, one, other, status] = words[..] else {
                return Err(malformed());
            };
            let first = fields.next().ok_or_else(malformed)?;
            let renamed = status.starts_with('R');
            let last = match renamed {
                true => fields.next().ok_or_else(malformed)?,
                false => first,
            };
            let kind = match status.as_bytes().first() {
                Some(b'A') => ChangeKind::Added,
                Some(b'D') => ChangeKind::Deleted,
                Some(b'R') => ChangeKind::Renamed,
                Some(b'T') => ChangeKind::Type,
                Some(b'M') if one == other => ChangeKind::Mode,
                Some(b'M') => ChangeKind::Modified,
                _ => return Err(malformed()),
            };
            let bits = u32::from_str_radix(mode, 8).map_err(|_| malformed())?;
            if let Ok(path) = RepoPath::from_bytes(last) {
                let change = Change {
                    path: PathText::from(&path),
                    kind,
                    from: renamed.then(|| String::from_utf8_lossy(first).into_owned()),
                    mode: TreeMode::from_bits(bits),
                };
                found.push((path, change));
            }
        }
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found.into_iter().map(|(_, change)| change).collect())
    }
}

/// The kind of a difference and the mode now; `None` where nothing differs.
fn kind_of(
    old: Option<&(TreeMode, ObjectId)>,
    new: Option<&(TreeMode, ObjectId)>,
) -> Option<(ChangeKind, Option<TreeMode>)> {
    let regular = |mode| matches!(mode, TreeMode::File | TreeMode::Executable);
    match (old, new) {
        (None, None) => None,
        (None, Some((mode, _))) => Some((ChangeKind::Added, Some(*mode))),
        (Some(_), None) => Some((ChangeKind::Deleted, None)),
        (Some(before), Some(after)) if before == after => None,
        (Some((before, one)), Some((after, other))) => {
            let kind = if before != after && !(regular(*before) && regular(*after)) {
                ChangeKind::Type
            } else if one == other {
                ChangeKind::Mode
            } else {
                ChangeKind::Modified
            };
            Some((kind, Some(*after)))
        }
    }
}
