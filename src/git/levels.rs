//! One directory of a tree at a time.
//!
//! Owns going down through a tree along with something else that has
//! directories, so that the cost is what is looked at and never the whole
//! tree. Names that git refuses to check out are not shown, as in a listing.

use git2::ObjectType;

use super::objects::from_raw;
use super::trees::{RawEntry, is_listable};
use super::{Error, Objects};
use crate::model::{ObjectId, RepoPath, TreeMode};

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A directory, by its tree.
    Directory(ObjectId),
    /// A file, a link or a submodule.
    Leaf(TreeMode, ObjectId),
}

/// The names of one directory.
#[derive(Debug, Clone, Default)]
pub struct Level(Vec<RawEntry>);

impl Level {
    /// What stands under a name; `None` when nothing does.
    #[must_use]
    pub fn node(&self, name: &[u8]) -> Option<Node> {
        let at = self.0.binary_search_by(|entry| (*entry.name).cmp(name));
        node(&self.0[at.ok()?])
    }

    /// Everything in it, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&[u8], Node)> {
        self.0
            .iter()
            .filter_map(|entry| Some((entry.name.as_slice(), node(entry)?)))
    }
}

fn node(entry: &RawEntry) -> Option<Node> {
    if !is_listable(&entry.name) {
        return None;
    }
    let oid = || from_raw(entry.oid);
    if entry.is_tree() {
        return Some(Node::Directory(oid()));
    }
    TreeMode::from_bits(entry.bits).map(|mode| Node::Leaf(mode, oid()))
}

impl Objects {
    /// The names of one directory, given its tree.
    ///
    /// # Errors
    /// The tree is missing or damaged.
    pub fn level(&self, tree: &ObjectId) -> Result<Level, Error> {
        let mut entries = self
            .with_bytes(self.to_raw(tree)?, ObjectType::Tree, |bytes| {
                self.parse(bytes)
            })?
            .ok_or_else(|| Error::Malformed {
                what: format!("the tree {tree}"),
            })?;
        // Git's own order takes a directory's name to end with a slash.
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Level(entries))
    }
}

/// The way down through one tree to one directory after another.
///
/// The directories above the last one asked for are remembered: asked in the
/// order of the components, each is read once.
pub struct Descent<'a> {
    objects: &'a Objects,
    root: Level,
    way: Vec<(Vec<u8>, Level)>,
}

impl std::fmt::Debug for Descent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.way.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl<'a> Descent<'a> {
    /// Begins at the top.
    ///
    /// # Errors
    /// The tree is missing or damaged.
    pub fn begin(objects: &'a Objects, tree: &ObjectId) -> Result<Self, Error> {
        Ok(Self {
            objects,
            root: objects.level(tree)?,
            way: Vec::new(),
        })
    }

    /// A directory's names (`None` asks for the top); `None` when the tree
    /// has no such directory.
    ///
    /// # Errors
    /// A tree is missing or damaged.
    pub fn level(&mut self, directory: Option<&RepoPath>) -> Result<Option<&Level>, Error> {
        let parts: Vec<&[u8]> = directory.map_or_else(Vec::new, |path| path.components().collect());
        let same = self
            .way
            .iter()
            .zip(&parts)
            .take_while(|((name, _), part)| name == *part)
            .count();
        self.way.truncate(same);
        for part in &parts[same..] {
            let last = self.way.last().map_or(&self.root, |(_, level)| level);
            let Some(Node::Directory(tree)) = last.node(part) else {
                return Ok(None);
            };
            let level = self.objects.level(&tree)?;
            self.way.push((part.to_vec(), level));
        }
        Ok(Some(self.way.last().map_or(&self.root, |(_, level)| level)))
    }
}
