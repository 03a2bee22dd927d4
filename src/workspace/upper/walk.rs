//! The walk over an upper directory and a tree, side by side.
//!
//! Owns sorting each name of the agent's own directory by what the tree has in
//! its place, and noticing what of the tree is gone. Directories without
//! permissions are opened up on the way; no link is followed.

use std::collections::HashSet;
use std::fs::Metadata;
use std::io;
use std::path::Path;

use super::super::Error;
use super::super::error::file;
use super::super::findings::{Content, Findings, Found, Name, beneath, mode_of, path_of};
use super::super::lowers::{Below, Lowers, Mark, Shown};
use super::files::{list, readable, same};
use crate::git::{Level, Node};
use crate::model::{ObjectId, RepoPath, TreeMode, WarningKind};

/// What of the layers below shows through a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Through {
    /// Nothing.
    Nothing,
    /// What always was there.
    Unmoved,
    /// Another directory of theirs.
    Moved(Below),
}

/// What becomes of the files in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// They are judged.
    Judged,
    /// They go with the directory, which is put aside.
    Aside,
}

/// A directory still to be gone through.
pub(super) struct Open {
    pub(super) path: Vec<u8>,
    /// Whether the upper directory has it.
    pub(super) own: bool,
    /// What the agent was given there.
    pub(super) base: Below,
    pub(super) through: Through,
    pub(super) fate: Fate,
}

/// A directory that is being gone through.
pub(super) struct Here {
    pub(super) open: Open,
    /// The names that the tree has in it.
    pub(super) level: Level,
}

pub(super) struct Walk<'a> {
    pub(super) lowers: &'a Lowers<'a>,
    pub(super) upper: &'a Path,
    pub(super) top: Below,
    pub(super) findings: Findings,
    pub(super) open: Vec<Open>,
}

/// Finds what differs from a tree that lies in the layers below `upper`.
pub(in super::super) fn find(
    lowers: &Lowers<'_>,
    tree: &ObjectId,
    upper: &Path,
) -> Result<Findings, Error> {
    let top = lowers.top(tree);
    let mut walk = Walk {
        lowers,
        upper,
        findings: Findings::default(),
        open: vec![Open {
            path: Vec::new(),
            own: true,
            base: top.clone(),
            through: Through::Unmoved,
            fate: Fate::Judged,
        }],
        top,
    };
    while let Some(open) = walk.open.pop() {
        walk.directory(open)?;
    }
    Ok(walk.findings)
}

impl Walk<'_> {
    fn directory(&mut self, open: Open) -> Result<(), Error> {
        let at = self.upper.join(path_of(&open.path));
        let names = match (open.own, open.own.then(|| list(&at))) {
            (_, None) => Vec::new(),
            (_, Some(Ok(names))) => names,
            // Only the top must be readable: what a tree cannot reach (a path
            // too long for the kernel) is put aside and told.
            (_, Some(Err(error))) if open.path.is_empty() => return Err(file("list", &at)(error)),
            (_, Some(Err(_))) => {
                if open.fate == Fate::Judged {
                    self.remove_beneath(&open.base)?;
                    self.findings.set_aside(open.path, WarningKind::Unreadable);
                }
                return Ok(());
            }
        };
        let level = self.lowers.level(&open.base)?;
        let here = Here { open, level };
        // Whatever stands for itself here, and so is not what was here before.
        let mut named: HashSet<Vec<u8>> = HashSet::new();
        let mut empty = true;
        for (name, metadata) in names {
            empty &= !self.own(&here, &name, metadata)?;
            if here.open.through != Through::Unmoved {
                named.insert(name);
            }
        }
        if let Through::Moved(below) = &here.open.through {
            self.findings
                .aside
                .see_through
                .insert(here.open.path.clone());
            for (name, shown) in self.lowers.list(below)? {
                if !named.contains(&name) {
                    empty = false;
                    self.below(&here, &name, shown)?;
                    named.insert(name);
                }
            }
        }
        if here.open.fate == Fate::Aside || here.open.through == Through::Unmoved {
            return Ok(());
        }
        for (name, _) in here.level.nodes() {
            if !named.contains(name) {
                let before = self.before(&here, name)?;
                self.remove(&beneath(&here.open.path, name), &before)?;
            }
        }
        if empty
            && !here.open.base.exists()
            && let Ok(path) = RepoPath::from_bytes(&here.open.path)
        {
            self.findings.empty_directories.push(path);
        }
        Ok(())
    }

    /// Sorts a name of the upper directory; whether it is one to the agent.
    fn own(
        &mut self,
        here: &Here,
        name: &[u8],
        metadata: io::Result<Metadata>,
    ) -> Result<bool, Error> {
        let path = beneath(&here.open.path, name);
        let at = self.upper.join(path_of(&path));
        let Ok(metadata) = metadata else {
            if here.open.fate == Fate::Judged {
                self.findings.set_aside(path, WarningKind::Unreadable);
            }
            return Ok(true);
        };
        let look = || -> io::Result<bool> {
            let attributes = self.lowers.attributes;
            readable(attributes, &at, &metadata)?;
            if metadata.is_file() && attributes.read(&at, Mark::Metacopy)?.is_some() {
                return Err(io::Error::other(
                    "it is a copy without its bytes, which are in another layer",
                ));
            }
            attributes.is_whiteout(&at, &metadata)
        };
        let whiteout = look().map_err(file("look at", &at))?;
        if whiteout {
            if here.open.fate == Fate::Judged {
                let before = self.before(here, name)?;
                self.remove(&path, &before)?;
            }
            self.findings.aside.whiteouts.push(path);
            return Ok(false);
        }
        if here.open.fate == Fate::Aside {
            if metadata.is_dir() {
                self.enter_aside(here, name, path)?;
            }
            return Ok(true);
        }
        self.judged(here, name, (path, &metadata))?;
        Ok(true)
    }

    fn judged(
        &mut self,
        here: &Here,
        name: &[u8],
        (path, metadata): (Vec<u8>, &Metadata),
    ) -> Result<(), Error> {
        let in_tree = matches!(here.level.node(name), Some(Node::Leaf(..)));
        let plain = match self.findings.name(&path, |_| in_tree) {
            Name::Git => return Ok(()),
            Name::Aside => {
                let before = self.before(here, name)?;
                self.remove(&path, &before)?;
                if metadata.is_dir() {
                    self.enter_aside(here, name, path)?;
                }
                return Ok(());
            }
            Name::Plain(plain) => plain,
        };
        let before = self.before(here, name)?;
        if metadata.is_dir() {
            if let Shown::Leaf(TreeMode::Gitlink, _) = before {
                return self.submodule(here, name, path);
            }
            let base = self.directory_at(&plain, before)?;
            let through = self.through(here, name, &base)?;
            self.open.push(Open {
                path,
                own: true,
                base,
                through,
                fate: Fate::Judged,
            });
            return Ok(());
        }
        let Some(mode) = mode_of(metadata) else {
            self.findings.special(&plain);
            return self.remove(&path, &before);
        };
        if let Shown::Carried(lower) = &before {
            let at = self.upper.join(path_of(&path));
            if !same(lower, &at, metadata).map_err(file("compare", &at))? {
                self.findings.carried.push(plain);
            }
            return Ok(());
        }
        self.file(plain, (mode, Content::Own), before)
    }

    /// Notes a file that takes the place of what was there.
    pub(super) fn file(
        &mut self,
        path: RepoPath,
        (mode, content): (TreeMode, Content),
        before: Shown,
    ) -> Result<(), Error> {
        let before = match before {
            Shown::Leaf(mode, oid) => Some((mode, oid)),
            Shown::Directory(_) => {
                self.remove(path.as_bytes(), &before)?;
                None
            }
            Shown::Nothing | Shown::Carried(_) => None,
        };
        self.findings.file(Found {
            path,
            mode,
            before,
            content,
        });
        Ok(())
    }

    /// Notes a directory in place of what was there; gives what it was.
    pub(super) fn directory_at(&mut self, path: &RepoPath, before: Shown) -> Result<Below, Error> {
        if let Shown::Directory(below) = before {
            return Ok(below);
        }
        self.remove(path.as_bytes(), &before)?;
        self.findings.fresh_directories.push(path.clone());
        Ok(Below::default())
    }

    /// What the agent was given under a name.
    pub(super) fn before(&self, here: &Here, name: &[u8]) -> Result<Shown, Error> {
        self.lowers.shown(&here.open.base, &here.level, name)
    }

    /// Notes that what the tree has at a path is gone.
    pub(super) fn remove(&mut self, path: &[u8], before: &Shown) -> Result<(), Error> {
        match before {
            Shown::Nothing | Shown::Carried(_) => {}
            Shown::Leaf(..) => {
                if !self.lowers.is_absent(path)
                    && let Ok(path) = RepoPath::from_bytes(path)
                {
                    self.findings.removed.push(path);
                }
            }
            Shown::Directory(below) => self.remove_beneath(below)?,
        }
        Ok(())
    }

    fn remove_beneath(&mut self, below: &Below) -> Result<(), Error> {
        let (Some(tree), Ok(path)) = (&below.tree, RepoPath::from_bytes(&below.path)) else {
            return Ok(());
        };
        let entries = self.lowers.objects.entries_in(tree, &path)?;
        let gone = entries
            .into_iter()
            .filter(|one| !self.lowers.absent.contains(&one.path));
        self.findings.removed.extend(gone.map(|one| one.path));
        Ok(())
    }

    /// A directory in a submodule's place: as it was, or with what no tree
    /// holds there.
    fn submodule(&mut self, here: &Here, name: &[u8], path: Vec<u8>) -> Result<(), Error> {
        let at = self.upper.join(path_of(&path));
        let shows = match self.through(here, name, &Below::default())? {
            Through::Moved(below) => !self.lowers.list(&below)?.is_empty(),
            Through::Nothing | Through::Unmoved => false,
        };
        // Asked of the names alone; what cannot be listed counts.
        let holds = || {
            list(&at).map_or(true, |names| {
                names.iter().any(|(name, metadata)| match metadata {
                    Ok(metadata) => !self
                        .lowers
                        .attributes
                        .is_whiteout(&at.join(path_of(name)), metadata)
                        .unwrap_or(false),
                    Err(_) => true,
                })
            })
        };
        if shows || holds() {
            self.findings.in_submodule(path.clone());
            self.enter_aside(here, name, path)?;
        }
        Ok(())
    }
}
