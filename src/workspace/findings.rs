//! What an agent left, found but not yet judged.
//!
//! Owns the one list that every way of finding fills and that everything
//! after it reads, and the rules on names and kinds that all of them share.
//! Reads no file's bytes, and asks the repository nothing.
//!
//! A submodule is an empty directory to an agent. As long as a directory
//! stands there the tree keeps the submodule's commit, and files in it are put
//! aside: git takes none into a tree beneath a submodule. Once it is gone, or
//! a file or link stands in its place, so does the tree.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::look::warning;
use crate::model::{ObjectId, PathText, RepoPath, TreeMode, Warning, WarningKind};

/// As many empty directories are told one by one.
const EMPTY_DIRECTORIES: usize = 100;

/// Longer paths cannot be reached by name beneath the state directory, nor
/// by the person's git beneath the repository; the kernel's limit is 4096
/// bytes for the whole of a path.
const LONGEST: usize = 3500;

/// Where the bytes of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// Beneath the directory that the agent wrote, at the file's own path.
    Own,
    /// In a file of a lower layer, at this path on the host.
    Below(PathBuf),
    /// In an object: the agent moved a directory and left this file alone.
    Object(ObjectId),
}

/// A file or link whose bytes count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: RepoPath,
    pub(super) mode: TreeMode,
    /// What the tree has there.
    pub(super) before: Option<(TreeMode, ObjectId)>,
    pub(super) content: Content,
}

/// What goes to the keep directory without lying where the agent wrote, if
/// what it lies in goes there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elsewhere {
    pub(super) path: Vec<u8>,
    pub(super) mode: TreeMode,
    pub(super) content: Content,
}

/// Everything that differs from what the agent was given, or may.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Files where the tree has some, too.
    pub(super) touched: Vec<Found>,
    /// Files where the tree has none.
    pub(super) fresh: Vec<Found>,
    /// Paths of the tree at which nothing of their kind stands any more.
    pub(super) removed: Vec<RepoPath>,
    /// Directories in which the tree has nothing.
    pub(super) fresh_directories: Vec<RepoPath>,
    /// Those of them that hold nothing.
    pub(super) empty_directories: Vec<RepoPath>,
    /// Carried files that are not what was carried.
    pub(super) carried: Vec<RepoPath>,
    pub(super) warnings: Vec<Warning>,
    pub(super) aside: Aside,
}

/// What is to be moved to the keep directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Aside {
    /// Paths as raw bytes: no tree could hold some of them.
    pub(super) paths: Vec<Vec<u8>>,
    /// Files that may belong to these paths and lie elsewhere.
    pub(super) elsewhere: Vec<Elsewhere>,
    /// The kernel's marks among the agent's files, which are no files.
    pub(super) whiteouts: Vec<Vec<u8>>,
    /// Those of the paths that are a submodule's: an empty directory stays.
    pub(super) submodules: HashSet<Vec<u8>>,
    /// Directories through which another one of a lower layer shows: what
    /// leaves them has to be hidden there.
    pub(super) see_through: HashSet<Vec<u8>>,
}

/// What a name is, before anything of the tree is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// The repository's own git directory.
    Git,
    /// Nothing that a tree holds; it is put aside and told already.
    Aside,
    /// An ordinary path.
    Plain(RepoPath),
}

impl Findings {
    /// Sorts a name; `in_tree` is asked whether the tree has a file there.
    pub(super) fn name(&mut self, path: &[u8], in_tree: impl FnOnce(&RepoPath) -> bool) -> Name {
        if path == b".git" {
            return Name::Git;
        }
        if let Some(directory) = path.strip_suffix(b"/.git") {
            // Its history stays behind; its files are plain files here.
            self.warnings.push(Warning {
                path: PathText::from_raw(directory),
                kind: WarningKind::NestedRepository,
            });
            self.aside.paths.push(path.to_vec());
            return Name::Aside;
        }
        let Ok(plain) = RepoPath::from_bytes(path) else {
            self.set_aside(path.to_vec(), WarningKind::GitName);
            return Name::Aside;
        };
        if path.len() > LONGEST && !in_tree(&plain) {
            self.set_aside(path.to_vec(), WarningKind::Unreadable);
            return Name::Aside;
        }
        Name::Plain(plain)
    }

    /// Puts a path aside and says why.
    pub(super) fn set_aside(&mut self, path: Vec<u8>, kind: WarningKind) {
        self.warnings.push(Warning {
            path: PathText::from_raw(&path),
            kind,
        });
        self.aside.paths.push(path);
    }

    /// Puts aside what lies in a submodule's directory.
    pub(super) fn in_submodule(&mut self, path: Vec<u8>) {
        self.aside.submodules.insert(path.clone());
        self.set_aside(path, WarningKind::SubmoduleChanged);
    }

    /// Notes a file that is no file to a tree.
    pub(super) fn special(&mut self, path: &RepoPath) {
        self.warnings.push(warning(path, WarningKind::SpecialFile));
    }

    /// Notes a file, by whether the tree has one there.
    pub(super) fn file(&mut self, found: Found) {
        match found.before {
            Some(_) => self.touched.push(found),
            None => self.fresh.push(found),
        }
    }

    /// Tells of the empty directories that are left.
    pub(super) fn tell_empty(&mut self) {
        self.empty_directories.sort();
        let told = self.empty_directories.iter().take(EMPTY_DIRECTORIES);
        self.warnings
            .extend(told.map(|path| warning(path, WarningKind::EmptyDirectory)));
    }
}

/// Lists a directory, given back to its owner first if need be.
pub(super) fn open_up(directory: &Path) -> io::Result<fs::ReadDir> {
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

pub(super) fn beneath(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory.is_empty() {
        true => name.to_vec(),
        false => [directory, b"/", name].concat(),
    }
}

/// What a tree would hold for a file; `None` when it could not.
pub(super) fn mode_of(metadata: &Metadata) -> Option<TreeMode> {
    match metadata.file_type() {
        kind if kind.is_symlink() => Some(TreeMode::Symlink),
        // Set-user-id and every other bit than the owner's execute bit is
        // nothing that a tree holds.
        kind if kind.is_file() => TreeMode::from_bits(0o100_000 | (metadata.mode() & 0o100)),
        _ => None,
    }
}
