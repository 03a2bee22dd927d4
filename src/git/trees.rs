//! Trees: listed, looked into and edited.
//!
//! Owns the raw form of a tree object, so that listing or editing one costs
//! what it touches: unchanged subtrees are neither read nor written. Entries
//! whose name is no [`RepoPath`] (git itself refuses to check them out) are
//! never listed, and stay untouched by edits.

use std::collections::BTreeMap;

use git2::{ObjectType, Oid};

use super::objects::from_raw;
use super::{Error, Objects};
use crate::model::{ObjectId, RepoPath, TreeMode};

const TREE_BITS: u32 = 0o040_000;

/// One entry that is not a tree itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// From the root of the tree that was asked.
    pub path: RepoPath,
    /// What it is.
    pub mode: TreeMode,
    /// Its blob, or its commit for a submodule.
    pub oid: ObjectId,
}

/// One change to a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEdit {
    /// This stands at the path, whatever stood there before.
    Put {
        /// Where.
        path: RepoPath,
        /// What it is.
        mode: TreeMode,
        /// Its object.
        oid: ObjectId,
    },
    /// Nothing stands at the path any more.
    Remove {
        /// Where.
        path: RepoPath,
    },
}

/// One entry as a tree object holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawEntry {
    pub(super) name: Vec<u8>,
    pub(super) bits: u32,
    pub(super) oid: Oid,
}

impl RawEntry {
    pub(super) fn is_tree(&self) -> bool {
        self.bits & 0o170_000 == TREE_BITS
    }
}

#[derive(Debug, Clone, Copy)]
enum Leaf {
    Put(TreeMode, Oid),
    Remove,
}

#[derive(Debug, Default)]
struct Edits {
    here: BTreeMap<Vec<u8>, Leaf>,
    below: BTreeMap<Vec<u8>, Edits>,
}

impl Edits {
    fn insert(&mut self, path: &RepoPath, leaf: Leaf) {
        let mut parts: Vec<&[u8]> = path.components().collect();
        let name = parts.pop().expect("because a path has a component");
        let mut node = self;
        for part in parts {
            node = node.below.entry(part.to_vec()).or_default();
        }
        node.here.insert(name.to_vec(), leaf);
    }

    fn puts(&self) -> bool {
        self.here.values().any(|leaf| matches!(leaf, Leaf::Put(..)))
            || self.below.values().any(Self::puts)
    }
}

impl Objects {
    /// Every entry of a tree, at any depth, sorted by path.
    ///
    /// # Errors
    /// A tree is missing or damaged.
    pub fn entries(&self, tree: &ObjectId) -> Result<Vec<TreeEntry>, Error> {
        self.entries_from(tree, Vec::new())
    }

    /// Every entry of a directory, given its tree and its path, at any depth,
    /// sorted by path.
    ///
    /// # Errors
    /// A tree is missing or damaged.
    pub fn entries_in(
        &self,
        tree: &ObjectId,
        directory: &RepoPath,
    ) -> Result<Vec<TreeEntry>, Error> {
        self.entries_from(tree, directory.as_bytes().to_vec())
    }

    fn entries_from(&self, tree: &ObjectId, start: Vec<u8>) -> Result<Vec<TreeEntry>, Error> {
        let mut found = Vec::new();
        let mut open = vec![(start, self.to_raw(tree)?)];
        while let Some((prefix, oid)) = open.pop() {
            for entry in self.raw_tree(oid)? {
                // It would stand for another directory's file.
                if entry.name.contains(&b'/') {
                    continue;
                }
                let path = joined(&prefix, &entry.name);
                if entry.is_tree() {
                    open.push((path, entry.oid));
                } else if let (Ok(path), Some(mode)) =
                    (RepoPath::from_bytes(&path), TreeMode::from_bits(entry.bits))
                {
                    found.push(TreeEntry {
                        path,
                        mode,
                        oid: from_raw(entry.oid),
                    });
                }
            }
        }
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// The tree at one path; `None` when something else or nothing is there.
    ///
    /// # Errors
    /// A tree is missing or damaged.
    pub fn subtree(&self, tree: &ObjectId, path: &RepoPath) -> Result<Option<ObjectId>, Error> {
        let mut oid = self.to_raw(tree)?;
        for part in path.components() {
            let entries = self.raw_tree(oid)?;
            let found = entries.into_iter().find(|entry| entry.name == part);
            match found.filter(RawEntry::is_tree) {
                Some(entry) => oid = entry.oid,
                None => return Ok(None),
            }
        }
        Ok(Some(from_raw(oid)))
    }

    /// The entry at one path; `None` when nothing or a directory is there.
    ///
    /// # Errors
    /// A tree is missing or damaged.
    pub fn entry(&self, tree: &ObjectId, path: &RepoPath) -> Result<Option<TreeEntry>, Error> {
        let parts: Vec<&[u8]> = path.components().collect();
        let mut oid = self.to_raw(tree)?;
        for (depth, part) in parts.iter().enumerate() {
            let Some(entry) = self.raw_tree(oid)?.into_iter().find(|e| e.name == *part) else {
                return Ok(None);
            };
            if entry.is_tree() {
                oid = entry.oid;
            } else if depth + 1 == parts.len() {
                return Ok(TreeMode::from_bits(entry.bits).map(|mode| TreeEntry {
                    path: path.clone(),
                    mode,
                    oid: from_raw(entry.oid),
                }));
            } else {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The tree that `base` becomes by the edits.
    ///
    /// Removals come first, so a file may become a directory and the other
    /// way round. Only trees that change are written; directories left empty
    /// vanish.
    ///
    /// # Errors
    /// Two edits make a path a file and a directory; or an object cannot be
    /// read or written.
    pub fn edit_tree(&self, base: &ObjectId, edits: &[TreeEdit]) -> Result<ObjectId, Error> {
        let mut root = Edits::default();
        for edit in edits {
            match edit {
                TreeEdit::Put { path, mode, oid } => {
                    root.insert(path, Leaf::Put(*mode, self.to_raw(oid)?));
                }
                TreeEdit::Remove { path } => root.insert(path, Leaf::Remove),
            }
        }
        match self.apply(Some(self.to_raw(base)?), &root)? {
            Some(tree) => Ok(from_raw(tree)),
            None => self.empty_tree(),
        }
    }

    fn apply(&self, base: Option<Oid>, edits: &Edits) -> Result<Option<Oid>, Error> {
        let before = base.map(|oid| self.raw_tree(oid)).transpose()?;
        let mut entries: BTreeMap<Vec<u8>, RawEntry> = before
            .iter()
            .flatten()
            .map(|entry| (entry.name.clone(), entry.clone()))
            .collect();
        for (name, leaf) in &edits.here {
            match leaf {
                Leaf::Remove => drop(entries.remove(name)),
                Leaf::Put(mode, oid) => put(&mut entries, name, mode.bits(), *oid),
            }
        }
        for (name, below) in &edits.below {
            if let Some(Leaf::Put(..)) = edits.here.get(name) {
                if below.puts() {
                    return Err(Error::Contradiction {
                        path: String::from_utf8_lossy(name).into_owned(),
                    });
                }
                continue;
            }
            let under = entries.get(name).filter(|entry| entry.is_tree());
            let was_tree = under.is_some();
            match self.apply(under.map(|entry| entry.oid), below)? {
                Some(oid) => put(&mut entries, name, TREE_BITS, oid),
                None if was_tree => drop(entries.remove(name)),
                None => {}
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let mut after: Vec<RawEntry> = entries.into_values().collect();
        after.sort_unstable_by(|a, b| sort_key(a).cmp(sort_key(b)));
        if before.as_ref() == Some(&after) {
            return Ok(base);
        }
        self.write_raw(ObjectType::Tree, &encode(&after)).map(Some)
    }

    /// The entries of a tree's bytes.
    pub(super) fn parse(&self, bytes: &[u8]) -> Option<Vec<RawEntry>> {
        parse(bytes, self.format.id_length())
    }

    pub(super) fn raw_tree(&self, oid: Oid) -> Result<Vec<RawEntry>, Error> {
        self.with_bytes(oid, ObjectType::Tree, |bytes| self.parse(bytes))?
            .ok_or_else(|| Error::Malformed {
                what: format!("the tree {oid}"),
            })
    }
}

pub(super) fn joined(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    if prefix.is_empty() {
        return name.to_vec();
    }
    [prefix, b"/", name].concat()
}

fn put(entries: &mut BTreeMap<Vec<u8>, RawEntry>, name: &[u8], bits: u32, oid: Oid) {
    let entry = RawEntry {
        name: name.to_vec(),
        bits,
        oid,
    };
    entries.insert(name.to_vec(), entry);
}

/// Git sorts a directory as if its name ended with a slash.
fn sort_key(entry: &RawEntry) -> impl Iterator<Item = &u8> {
    let tail: &[u8] = if entry.is_tree() { b"/" } else { b"" };
    entry.name.iter().chain(tail)
}

/// Tries the parser on any bytes: what it understands is written as it was
/// read.
#[cfg(fuzzing)]
pub fn try_tree(bytes: &[u8]) {
    for length in [20, 32] {
        let Some(entries) = parse(bytes, length) else {
            continue;
        };
        assert_eq!(parse(&encode(&entries), length).as_ref(), Some(&entries));
        let names = entries.iter().map(|entry| &entry.name);
        assert!(names.filter(|name| is_listable(name)).all(|name| {
            RepoPath::from_bytes(name).is_ok_and(|path| path.components().count() == 1)
        }));
    }
}

/// Whether git would check out a name.
pub(super) fn is_listable(name: &[u8]) -> bool {
    !name.contains(&b'/') && RepoPath::from_bytes(name).is_ok()
}

/// Ids have `length` bytes.
fn parse(mut data: &[u8], length: usize) -> Option<Vec<RawEntry>> {
    let mut entries = Vec::new();
    while !data.is_empty() {
        let space = data.iter().position(|b| *b == b' ')?;
        let nul = data.iter().position(|b| *b == 0)?;
        let bits = std::str::from_utf8(&data[..space]).ok()?;
        entries.push(RawEntry {
            bits: u32::from_str_radix(bits, 8).ok()?,
            name: data.get(space + 1..nul)?.to_vec(),
            oid: Oid::from_bytes(data.get(nul + 1..=nul + length)?).ok()?,
        });
        data = &data[nul + 1 + length..];
    }
    Some(entries)
}

fn encode(entries: &[RawEntry]) -> Vec<u8> {
    let mut data = Vec::new();
    for entry in entries {
        data.extend_from_slice(format!("{:o} ", entry.bits).as_bytes());
        data.extend_from_slice(&entry.name);
        data.push(0);
        data.extend_from_slice(entry.oid.as_bytes());
    }
    data
}
