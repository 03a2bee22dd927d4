//! Finding by a walk over everything that an agent left.
//!
//! Owns telling every file of a plain copy apart: unchanged beyond doubt, to
//! be read, new. Believes what `lstat` says and nothing else. Directories
//! without permissions are opened up on the way; no link is followed. The
//! cage is empty, so nothing moves meanwhile. Costs a look at every file; see
//! `upper` for the way that costs what changed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use super::findings::{Content, Findings, Found, Name, beneath, mode_of, open_up, path_of};
use super::identity::Identities;
use crate::git::TreeEntry;
use crate::model::{ObjectId, RepoPath, TreeMode, WarningKind};

/// An entry of the tree that the agent started from.
struct BaseEntry {
    mode: TreeMode,
    oid: ObjectId,
    /// Whether it is still there, or never was on disk.
    accounted: bool,
}

struct Walk<'a> {
    base: HashMap<RepoPath, BaseEntry>,
    known_directories: HashSet<Vec<u8>>,
    identities: &'a Identities,
    findings: Findings,
    open: Vec<Vec<u8>>,
}

/// Finds what differs from a tree's entries and the files carried along;
/// `absent` entries were never written.
pub(super) fn find(
    entries: Vec<TreeEntry>,
    absent: &BTreeSet<RepoPath>,
    identities: &Identities,
    tree: &Path,
) -> io::Result<Findings> {
    let mut walk = Walk {
        base: HashMap::with_capacity(entries.len()),
        known_directories: HashSet::new(),
        identities,
        findings: Findings::default(),
        open: vec![Vec::new()],
    };
    for path in identities.carried_paths() {
        walk.know_parents(path);
    }
    for entry in entries {
        walk.know_parents(&entry.path);
        let base = BaseEntry {
            accounted: absent.contains(&entry.path),
            mode: entry.mode,
            oid: entry.oid,
        };
        walk.base.insert(entry.path, base);
    }
    walk.run(tree)?;
    let mut findings = walk.findings;
    let gone = walk.base.into_iter().filter(|(_, entry)| !entry.accounted);
    findings.removed.extend(gone.map(|(path, _)| path));
    Ok(findings)
}

impl Walk<'_> {
    fn know_parents(&mut self, path: &RepoPath) {
        let mut parent = path.parent();
        while let Some(directory) = parent {
            parent = directory.parent();
            if !self.known_directories.insert(directory.as_bytes().to_vec()) {
                break;
            }
        }
    }

    fn run(&mut self, tree: &Path) -> io::Result<()> {
        while let Some(directory) = self.open.pop() {
            let listing = match open_up(&tree.join(path_of(&directory))) {
                Ok(listing) => listing,
                // Only the top must be readable: what a tree cannot reach
                // (a path too long for the kernel) is put aside and told.
                Err(error) if directory.is_empty() => return Err(error),
                Err(_) => {
                    self.findings.set_aside(directory, WarningKind::Unreadable);
                    continue;
                }
            };
            let mut empty = true;
            for entry in listing {
                let entry = entry?;
                empty = false;
                let path = beneath(&directory, &entry.file_name().into_vec());
                match entry.metadata() {
                    Ok(metadata) => self.sort(path, &entry.path(), &metadata),
                    Err(_) => self.findings.set_aside(path, WarningKind::Unreadable),
                }
            }
            if empty
                && !self.known_directories.contains(&directory)
                && let Ok(path) = RepoPath::from_bytes(&directory)
            {
                self.findings.empty_directories.push(path);
            }
        }
        Ok(())
    }

    fn sort(&mut self, path: Vec<u8>, at: &Path, metadata: &Metadata) {
        let Name::Plain(plain) = self
            .findings
            .name(&path, |plain| self.base.contains_key(plain))
        else {
            return;
        };
        if metadata.is_dir() {
            if let Some(entry) = self.base.get_mut(&plain)
                && entry.mode == TreeMode::Gitlink
            {
                entry.accounted = true;
                return self.submodule(path, at);
            }
            if !self.known_directories.contains(&path) {
                self.findings.fresh_directories.push(plain);
            }
            self.open.push(path);
            return;
        }
        let Some(mode) = mode_of(metadata) else {
            return self.findings.special(&plain);
        };
        let mut before = None;
        if let Some(entry) = self.base.get_mut(&plain) {
            entry.accounted = true;
            if self.identities.is_unchanged(&plain, metadata) {
                return;
            }
            before = Some((entry.mode, entry.oid.clone()));
        } else if let Some(unchanged) = self.identities.carried(&plain, metadata) {
            if !unchanged {
                self.findings.carried.push(plain);
            }
            return;
        }
        self.findings.file(Found {
            path: plain,
            mode,
            before,
            content: Content::Own,
        });
    }

    /// A directory in a submodule's place: as it was, or with what no tree
    /// holds there.
    fn submodule(&mut self, path: Vec<u8>, at: &Path) {
        // Asked of the names alone; a directory that cannot be listed counts.
        if open_up(at).map_or(true, |mut list| list.next().is_some()) {
            self.findings.in_submodule(path);
        }
    }
}
