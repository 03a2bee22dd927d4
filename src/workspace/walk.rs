//! The walk over what an agent left.
//!
//! Owns finding every file of a workspace and sorting it: unchanged beyond
//! doubt, to be read, new, to be put aside. Believes what `lstat` says and
//! nothing else. Directories without permissions are opened up on the way;
//! no link is followed. The cage is empty, so nothing moves meanwhile.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::identity::Identities;
use super::look::warning;
use crate::git::TreeEntry;
use crate::model::{ObjectId, PathText, RepoPath, TreeMode, Warning, WarningKind};

/// As many empty directories are told one by one.
const EMPTY_DIRECTORIES: usize = 100;

/// Longer paths cannot be reached by name beneath the state directory, nor
/// by the person's git beneath the repository; the kernel's limit is 4096
/// bytes for the whole of a path.
const LONGEST: usize = 3500;

/// An entry of the tree that the agent started from.
pub(super) struct BaseEntry {
    pub(super) mode: TreeMode,
    pub(super) oid: ObjectId,
    /// Whether it is still there, or never was on disk.
    pub(super) accounted: bool,
}

/// A file or link whose bytes have to be read.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: RepoPath,
    pub(super) mode: TreeMode,
}

/// What the walk sorts everything into.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) base: HashMap<RepoPath, BaseEntry>,
    /// Paths of the tree whose bytes may differ.
    pub(super) touched: Vec<Found>,
    /// Paths that the tree does not have.
    pub(super) fresh: Vec<Found>,
    /// Directories in which the tree has nothing.
    pub(super) fresh_directories: Vec<RepoPath>,
    pub(super) empty_directories: Vec<RepoPath>,
    /// Carried files that are not what was carried.
    pub(super) carried: Vec<RepoPath>,
    /// Paths to be moved to the keep directory, as raw bytes.
    pub(super) aside: Vec<Vec<u8>>,
    pub(super) warnings: Vec<Warning>,
    known_directories: HashSet<Vec<u8>>,
}

impl Walk {
    /// Prepares for a tree's entries and the files carried along.
    pub(super) fn over(entries: Vec<TreeEntry>, identities: &Identities) -> Self {
        let mut walk = Self::default();
        for path in identities.carried_paths() {
            walk.know_parents(path);
        }
        for entry in entries {
            walk.know_parents(&entry.path);
            let base = BaseEntry {
                // A submodule is nothing that a capture changes.
                accounted: entry.mode == TreeMode::Gitlink,
                mode: entry.mode,
                oid: entry.oid,
            };
            walk.base.insert(entry.path, base);
        }
        walk
    }

    fn know_parents(&mut self, path: &RepoPath) {
        let mut parent = path.parent();
        while let Some(directory) = parent {
            parent = directory.parent();
            if !self.known_directories.insert(directory.as_bytes().to_vec()) {
                break;
            }
        }
    }

    /// Walks.
    pub(super) fn run(&mut self, tree: &Path, identities: &Identities) -> io::Result<()> {
        let mut open: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(directory) = open.pop() {
            let at = tree.join(path_of(&directory));
            let listing = match open_up(&at) {
                Ok(listing) => listing,
                // Only the top must be readable: what a tree cannot reach
                // (a path too long for the kernel) is put aside and told.
                Err(error) if directory.is_empty() => return Err(error),
                Err(_) => {
                    self.set_aside(directory, WarningKind::Unreadable);
                    continue;
                }
            };
            let mut empty = true;
            for entry in listing {
                let entry = entry?;
                empty = false;
                let name = entry.file_name().into_vec();
                let path = match directory.is_empty() {
                    true => name.clone(),
                    false => [directory.as_slice(), b"/", &name].concat(),
                };
                match entry.metadata() {
                    Ok(metadata) => {
                        let at = entry.path();
                        self.sort(path, (&at, &metadata), (identities, &mut open));
                    }
                    Err(_) => self.set_aside(path, WarningKind::Unreadable),
                }
            }
            if empty && let Ok(path) = RepoPath::from_bytes(&directory) {
                let known = self.known_directories.contains(&directory);
                if !known && self.empty_directories.len() < EMPTY_DIRECTORIES {
                    self.empty_directories.push(path);
                }
            }
        }
        Ok(())
    }

    fn set_aside(&mut self, path: Vec<u8>, kind: WarningKind) {
        self.warnings.push(Warning {
            path: PathText::from_raw(&path),
            kind,
        });
        self.aside.push(path);
    }

    fn sort(
        &mut self,
        path: Vec<u8>,
        (at, metadata): (&Path, &Metadata),
        (identities, open): (&Identities, &mut Vec<Vec<u8>>),
    ) {
        if path == b".git" {
            return;
        }
        if let Some(directory) = path.strip_suffix(b"/.git") {
            // Its history stays behind; its files are plain files here.
            self.warnings.push(Warning {
                path: PathText::from_raw(directory),
                kind: WarningKind::NestedRepository,
            });
            self.aside.push(path);
            return;
        }
        let Ok(plain) = RepoPath::from_bytes(&path) else {
            return self.set_aside(path, WarningKind::GitName);
        };
        if path.len() > LONGEST && !self.base.contains_key(&plain) {
            return self.set_aside(path, WarningKind::Unreadable);
        }
        if let Some(entry) = self.base.get(&plain)
            && entry.mode == TreeMode::Gitlink
        {
            return self.submodule(path, at, metadata);
        }
        if metadata.is_dir() {
            if !self.known_directories.contains(&path) {
                self.fresh_directories.push(plain);
            }
            open.push(path);
            return;
        }
        let Some(mode) = mode_of(metadata) else {
            self.warnings
                .push(warning(&plain, WarningKind::SpecialFile));
            return;
        };
        if let Some(entry) = self.base.get_mut(&plain) {
            entry.accounted = true;
            if !identities.is_unchanged(&plain, metadata) {
                self.touched.push(Found { path: plain, mode });
            }
            return;
        }
        match identities.carried(&plain, metadata) {
            Some(true) => {}
            Some(false) => self.carried.push(plain),
            None => self.fresh.push(Found { path: plain, mode }),
        }
    }

    /// What stands in a submodule's place: nothing, or what cannot land.
    fn submodule(&mut self, path: Vec<u8>, at: &Path, metadata: &Metadata) {
        // Asked of the names alone; a directory that cannot be listed counts.
        let holds =
            !metadata.is_dir() || open_up(at).map_or(true, |mut list| list.next().is_some());
        if holds {
            self.set_aside(path, WarningKind::SubmoduleChanged);
        }
    }
}

/// Lists a directory, given back to its owner first if need be.
fn open_up(directory: &Path) -> io::Result<fs::ReadDir> {
    let mode = directory.symlink_metadata()?.permissions().mode();
    if mode & 0o700 != 0o700 {
        // Whoever made it is this user too, and nobody is inside any more.
        fs::set_permissions(directory, fs::Permissions::from_mode(mode & 0o777 | 0o700))?;
    }
    fs::read_dir(directory)
}

pub(super) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

fn mode_of(metadata: &Metadata) -> Option<TreeMode> {
    match metadata.file_type() {
        kind if kind.is_symlink() => Some(TreeMode::Symlink),
        // Set-user-id and every other bit than the owner's execute bit is
        // nothing that a tree holds.
        kind if kind.is_file() => TreeMode::from_bits(0o100_000 | (metadata.mode() & 0o100)),
        _ => None,
    }
}
