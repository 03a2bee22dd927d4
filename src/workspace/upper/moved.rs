//! What shows through a directory that was renamed.
//!
//! Owns finding out which directory that is, and sorting what it holds: files
//! of the tree whose bytes nobody has to read, and files carried along, which
//! lie in a layer below. What belongs to something that is put aside is noted
//! for it, since moving the agent's own directory would leave it behind.

use std::path::PathBuf;

use super::super::Error;
use super::super::error::file;
use super::super::findings::{Content, Elsewhere, Name, beneath, mode_of, path_of};
use super::super::lowers::{Attributes, Below, Mark, Shown};
use super::files::same;
use super::walk::{Fate, Here, Open, Through, Walk};
use crate::git::Node;
use crate::model::{RepoPath, TreeMode};

impl Walk<'_> {
    /// What shows through a directory of the agent's; `base` is what it was
    /// given in the same place.
    pub(super) fn through(&self, here: &Here, name: &[u8], base: &Below) -> Result<Through, Error> {
        let path = beneath(&here.open.path, name);
        let at = self.upper.join(path_of(&path));
        let failed = || file("read the attributes of", &at);
        let attributes = self.lowers.attributes;
        if attributes.is_opaque(&at).map_err(failed())? {
            return Ok(Through::Nothing);
        }
        // The kernel follows one only where nobody else can have set it.
        let redirect = match attributes {
            Attributes::Trusted => attributes.read(&at, Mark::Redirect).map_err(failed())?,
            Attributes::User => None,
        };
        let parent = match &here.open.through {
            Through::Nothing => None,
            Through::Unmoved => Some(&here.open.base),
            Through::Moved(below) => Some(below),
        };
        let shown = match (redirect, parent) {
            (Some(redirect), _) if redirect.starts_with(b"/") => {
                self.lowers.shown_at(&self.top, &redirect)?
            }
            (_, None) => Shown::Nothing,
            (None, Some(_)) if here.open.through == Through::Unmoved => match base.exists() {
                true => return Ok(Through::Unmoved),
                false => Shown::Nothing,
            },
            (redirect, Some(parent)) => {
                let name = redirect.as_deref().unwrap_or(name);
                self.lowers
                    .shown(parent, &self.lowers.level(parent)?, name)?
            }
        };
        Ok(match shown {
            Shown::Directory(below) if below.path == path => Through::Unmoved,
            Shown::Directory(below) => Through::Moved(below),
            Shown::Nothing | Shown::Leaf(..) | Shown::Carried(_) => Through::Nothing,
        })
    }

    /// Sorts a name that shows through from another directory.
    pub(super) fn below(&mut self, here: &Here, name: &[u8], shown: Shown) -> Result<(), Error> {
        let path = beneath(&here.open.path, name);
        if here.open.fate == Fate::Aside {
            return self.take_along(path, shown);
        }
        let in_tree = matches!(here.level.node(name), Some(Node::Leaf(..)));
        let plain = match self.findings.name(&path, |_| in_tree) {
            Name::Git => return Ok(()),
            Name::Aside => {
                let before = self.before(here, name)?;
                self.remove(&path, &before)?;
                return self.take_along(path, shown);
            }
            Name::Plain(plain) => plain,
        };
        let before = self.before(here, name)?;
        if let Shown::Leaf(TreeMode::Gitlink, _) = before {
            match &shown {
                Shown::Directory(below) if !self.lowers.list(below)?.is_empty() => {
                    self.findings.in_submodule(path.clone());
                    return self.take_along(path, shown);
                }
                // The directory of another submodule looks like this one's.
                Shown::Directory(_) | Shown::Leaf(TreeMode::Gitlink, _) => return Ok(()),
                Shown::Nothing | Shown::Leaf(..) | Shown::Carried(_) => {}
            }
        }
        let through = match shown {
            Shown::Nothing => return Ok(()),
            Shown::Leaf(mode @ TreeMode::Gitlink, oid) => {
                // An empty directory, which may lie in something ignored.
                self.findings.aside.elsewhere.push(Elsewhere {
                    path: path.clone(),
                    mode,
                    content: Content::Object(oid),
                });
                Through::Nothing
            }
            Shown::Directory(below) => Through::Moved(below),
            Shown::Leaf(mode, oid) => {
                return self.file(plain, (mode, Content::Object(oid)), before);
            }
            Shown::Carried(lower) => return self.carried(plain, lower, before),
        };
        let base = self.directory_at(&plain, before)?;
        self.open.push(Open {
            path,
            own: false,
            base,
            through,
            fate: Fate::Judged,
        });
        Ok(())
    }

    /// A carried file that shows in another place.
    fn carried(&mut self, path: RepoPath, lower: PathBuf, before: Shown) -> Result<(), Error> {
        let failed = || file("look at", &lower);
        let metadata = lower.symlink_metadata().map_err(failed())?;
        let Some(mode) = mode_of(&metadata) else {
            return Ok(());
        };
        if let Shown::Carried(other) = &before {
            if !same(other, &lower, &metadata).map_err(failed())? {
                self.findings.aside.elsewhere.push(Elsewhere {
                    path: path.as_bytes().to_vec(),
                    mode,
                    content: Content::Below(lower),
                });
                self.findings.carried.push(path);
            }
            return Ok(());
        }
        self.file(path, (mode, Content::Below(lower)), before)
    }

    /// Goes through a directory that is put aside, for what does not lie in
    /// it but shows through.
    pub(super) fn enter_aside(
        &mut self,
        here: &Here,
        name: &[u8],
        path: Vec<u8>,
    ) -> Result<(), Error> {
        // Only the superuser's mounts rename directories.
        if self.lowers.attributes == Attributes::User {
            return Ok(());
        }
        let through = self.through(here, name, &Below::default())?;
        self.open.push(Open {
            path,
            own: true,
            base: Below::default(),
            through,
            fate: Fate::Aside,
        });
        Ok(())
    }

    /// Notes what shows through a directory that is put aside.
    fn take_along(&mut self, path: Vec<u8>, shown: Shown) -> Result<(), Error> {
        let (mode, content) = match shown {
            Shown::Nothing => return Ok(()),
            Shown::Leaf(mode, oid) => (mode, Content::Object(oid)),
            Shown::Carried(lower) => {
                let metadata = lower.symlink_metadata().map_err(file("look at", &lower))?;
                let Some(mode) = mode_of(&metadata) else {
                    return Ok(());
                };
                (mode, Content::Below(lower))
            }
            Shown::Directory(below) => {
                self.open.push(Open {
                    path,
                    own: false,
                    base: Below::default(),
                    through: Through::Moved(below),
                    fate: Fate::Aside,
                });
                return Ok(());
            }
        };
        self.findings.aside.elsewhere.push(Elsewhere {
            path,
            mode,
            content,
        });
        Ok(())
    }
}
