//! Asks whether the tree is still what the merge was computed from.
//!
//! Owns the look at every target before the first write. Whatever stands
//! where nothing should, ignored files included, blocks; whatever differs
//! from the snapshot means that the person went on working. Touches nothing.

use std::collections::BTreeSet;

use super::lines::Act;
use super::plan::{Plan, above};
use crate::integration::Error;
use crate::model::{Conflict, ConflictKind, PathText, RepoPath};
use crate::store::{self, Kind, Root};

use super::content::Content;

/// What stands in the way.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    /// Paths that are not as the snapshot says.
    pub(super) moved: BTreeSet<RepoPath>,
    /// Things that no snapshot holds and that the landing would overwrite.
    pub(super) blocked: Vec<Conflict>,
}

/// The look.
pub(super) struct Preflight<'a> {
    pub(super) root: &'a Root,
    pub(super) staging: &'a Root,
    pub(super) plan: &'a Plan,
    /// Whether the repository's rules ignore a path.
    pub(super) ignored: &'a dyn Fn(&RepoPath) -> bool,
}

impl Preflight<'_> {
    /// Looks at every target.
    pub(super) fn look(&self) -> Result<Obstacles, Error> {
        let mut found = Obstacles::default();
        for (path, act) in &self.plan.steps {
            match act {
                Act::Delete { old } | Act::Replace { old, .. } => {
                    if !self.is_still(path, old)? {
                        found.moved.insert(path.clone());
                    }
                }
                Act::Create { .. } | Act::MakeDirectory => self.is_free(path, act, &mut found)?,
                Act::RemoveDirectory { .. } => {}
            }
        }
        Ok(found)
    }

    fn is_still(&self, path: &RepoPath, old: &Content) -> Result<bool, Error> {
        let Some(place) = self.root.place(path).map_err(|e| self.land(e))? else {
            return Ok(false);
        };
        if place.device().map_err(|e| self.land(e))? != self.staging.device() {
            return Err(self.elsewhere(path));
        }
        old.stands_at(&place).map_err(|e| self.land(e))
    }

    /// Nothing may stand at the path but what the plan takes away first.
    fn is_free(&self, path: &RepoPath, act: &Act, found: &mut Obstacles) -> Result<(), Error> {
        for directory in above(path).iter().rev() {
            let stands = self.root.stat(directory).map_err(|e| self.land(e))?;
            match stands.map(|stat| (stat.kind, stat.device)) {
                None => return Ok(()),
                Some((Kind::Directory, device)) if device == self.staging.device() => {}
                Some((Kind::Directory, _)) => return Err(self.elsewhere(directory)),
                Some((kind, _)) => {
                    self.obstacle(directory, kind, found);
                    return Ok(());
                }
            }
        }
        match self.root.stat(path).map_err(|e| self.land(e))? {
            None => Ok(()),
            Some(stat) if stat.kind == Kind::Directory => match act {
                Act::MakeDirectory => Ok(()),
                Act::Create { .. }
                | Act::Delete { .. }
                | Act::Replace { .. }
                | Act::RemoveDirectory { .. } => self.is_emptied(path, found),
            },
            Some(stat) => {
                self.obstacle(path, stat.kind, found);
                Ok(())
            }
        }
    }

    /// Everything in the directory must be something that the plan deletes.
    fn is_emptied(&self, directory: &RepoPath, found: &mut Obstacles) -> Result<(), Error> {
        if !self.plan.emptied.contains(directory) {
            self.block(directory, found);
            return Ok(());
        }
        for name in self.root.list(Some(directory)).map_err(|e| self.land(e))? {
            let inner = [directory.as_bytes(), b"/", &name].concat();
            // A name that no tree can hold: a repository of its own.
            let Ok(inner) = RepoPath::from_bytes(&inner) else {
                self.block(directory, found);
                continue;
            };
            match self.root.stat(&inner).map_err(|e| self.land(e))? {
                None => {}
                Some(stat) if stat.kind == Kind::Directory => self.is_emptied(&inner, found)?,
                Some(stat) => self.obstacle(&inner, stat.kind, found),
            }
        }
        Ok(())
    }

    fn obstacle(&self, path: &RepoPath, kind: Kind, found: &mut Obstacles) {
        let is_deleted = self.plan.deleted.contains(path);
        match kind {
            Kind::File | Kind::Symlink if is_deleted => {}
            Kind::Special | Kind::Directory => self.block(path, found),
            Kind::File | Kind::Symlink if (self.ignored)(path) => self.block(path, found),
            // It was made after the snapshot: the next one will hold it.
            Kind::File | Kind::Symlink => {
                found.moved.insert(path.clone());
            }
        }
    }

    fn block(&self, path: &RepoPath, found: &mut Obstacles) {
        let kind = if (self.ignored)(path) {
            ConflictKind::WouldOverwriteIgnored
        } else {
            ConflictKind::WouldOverwriteUntracked
        };
        let theirs = self
            .plan
            .staged
            .iter()
            .find(|(staged, _)| path.is_within(staged) || staged.is_within(path));
        let conflict = Conflict {
            path: PathText::from(path),
            kind,
            base: None,
            ours: None,
            theirs: theirs.map(|(_, entry)| entry.oid.clone()),
            hunks: Vec::new(),
        };
        if !found.blocked.contains(&conflict) {
            found.blocked.push(conflict);
        }
    }

    fn land(&self, source: store::Error) -> Error {
        Error::Land {
            tree: self.root.path().to_owned(),
            source,
        }
    }

    fn elsewhere(&self, path: &RepoPath) -> Error {
        Error::OtherFileSystem {
            tree: self.root.path().to_owned(),
            path: self.root.shown(path),
            staging: self.staging.path().to_owned(),
        }
    }
}
