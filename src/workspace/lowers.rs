//! What the layers below an agent's own show.
//!
//! Owns looking up a path in them, the way the kernel merges them: the tree
//! says which files of the repository there are, and the layers on disk are
//! asked only for what the tree cannot say, the files carried along. Also owns
//! the kernel's marks in a directory of a layer. Writes nothing.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::Error;
use super::error::file;
use super::findings::{beneath, path_of};
use crate::git::{Level, Node, Objects};
use crate::model::{ObjectId, RepoPath, TreeMode};

/// The longest value that the kernel keeps in an attribute.
const LONGEST_VALUE: usize = 1 << 16;

/// Where the kernel keeps what it must remember of an upper directory.
///
/// It follows from who mounted the layers. The other kind can be set by the
/// agent on its own files and means nothing then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Attributes {
    /// In attributes that only the machine's superuser can set.
    Trusted,
    /// In attributes of the user; what a user namespace is left with. The
    /// kernel sets such an attribute under another name when it is asked to
    /// through the mount.
    User,
}

impl Attributes {
    /// What this process uses when it mounts over a directory: found out as
    /// the mount itself does, by setting one and removing it.
    pub(super) fn here(upper: &Path) -> Self {
        let probe = "trusted.cofferdam.probe";
        let set = rustix::fs::setxattr(upper, probe, b"y", XattrFlags::empty());
        match set.and_then(|()| rustix::fs::removexattr(upper, probe)) {
            Ok(()) => Self::Trusted,
            Err(_) => Self::User,
        }
    }

    /// The value of one of the kernel's marks.
    pub(super) fn read(self, path: &Path, mark: Mark) -> io::Result<Option<Vec<u8>>> {
        let prefix = match self {
            Self::Trusted => "trusted",
            Self::User => "user",
        };
        let name = match mark {
            Mark::Opaque => "opaque",
            Mark::Redirect => "redirect",
            Mark::Whiteout => "whiteout",
            Mark::Metacopy => "metacopy",
        };
        let name = format!("{prefix}.overlay.{name}");
        let mut value = vec![0; 256];
        loop {
            match rustix::fs::lgetxattr(path, name.as_str(), value.as_mut_slice()) {
                Ok(length) => {
                    value.truncate(length);
                    return Ok(Some(value));
                }
                Err(Errno::RANGE) if value.len() < LONGEST_VALUE => {
                    value.resize(LONGEST_VALUE, 0);
                }
                // Deeper than any path reaches the kernel has set none either.
                Err(Errno::NODATA | Errno::NOTSUP | Errno::NAMETOOLONG) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Whether a file is no file but the mark of one that was removed.
    pub(super) fn is_whiteout(self, path: &Path, metadata: &Metadata) -> io::Result<bool> {
        if metadata.file_type().is_char_device() {
            return Ok(metadata.rdev() == 0);
        }
        if metadata.is_file() && metadata.len() == 0 {
            return self.read(path, Mark::Whiteout).map(|mark| mark.is_some());
        }
        Ok(false)
    }

    /// Whether a directory hides what lies below it. The kernel's other value
    /// (`x`) only says that there are whiteouts of the second kind in it.
    pub(super) fn is_opaque(self, path: &Path) -> io::Result<bool> {
        let value = self.read(path, Mark::Opaque)?;
        Ok(value.is_some_and(|value| value == b"y"))
    }
}

/// One of the kernel's marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// On a directory: nothing below shows through.
    Opaque,
    /// On a directory: where the one lies that shows through.
    Redirect,
    /// On an empty file: it stands for none.
    Whiteout,
    /// On a file: its bytes are elsewhere.
    Metacopy,
}

/// A directory as the layers show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Below {
    pub(super) path: Vec<u8>,
    /// Its part of the tree.
    pub(super) tree: Option<ObjectId>,
    /// The layers that take part in it, topmost first.
    layers: Vec<usize>,
}

impl Below {
    /// Whether there is such a directory at all.
    pub(super) fn exists(&self) -> bool {
        self.tree.is_some() || !self.layers.is_empty()
    }
}

/// What stands under a name in such a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shown {
    /// Nothing.
    Nothing,
    /// A file, a link or a submodule of the tree.
    Leaf(TreeMode, ObjectId),
    /// A file that was carried along, at this path on the host.
    Carried(PathBuf),
    /// A directory.
    Directory(Below),
}

/// The layers below an agent's own.
#[derive(Debug)]
pub(super) struct Lowers<'a> {
    pub(super) objects: &'a Objects,
    pub(super) layers: &'a [PathBuf],
    pub(super) attributes: Attributes,
    /// Entries of the tree that were never written.
    pub(super) absent: &'a BTreeSet<RepoPath>,
}

impl Lowers<'_> {
    /// The top of the tree.
    pub(super) fn top(&self, tree: &ObjectId) -> Below {
        Below {
            path: Vec::new(),
            tree: Some(tree.clone()),
            layers: (0..self.layers.len()).collect(),
        }
    }

    /// The names that the tree has in a directory.
    pub(super) fn level(&self, below: &Below) -> Result<Level, Error> {
        Ok(match &below.tree {
            Some(tree) => self.objects.level(tree)?,
            None => Level::default(),
        })
    }

    /// What stands under a name; `level` is the directory's own.
    pub(super) fn shown(&self, of: &Below, level: &Level, name: &[u8]) -> Result<Shown, Error> {
        let path = beneath(&of.path, name);
        let tree = match level.node(name) {
            Some(Node::Leaf(mode, oid)) => return Ok(Shown::Leaf(mode, oid)),
            Some(Node::Directory(tree)) => Some(tree),
            None => None,
        };
        let mut layers = Vec::new();
        for index in &of.layers {
            let at = self.layers[*index].join(path_of(&path));
            let failed = || file("look at", &at);
            let Some(metadata) = look(&at).map_err(failed())? else {
                continue;
            };
            if !metadata.is_dir() {
                let hides = self.attributes.is_whiteout(&at, &metadata);
                if layers.is_empty() && tree.is_none() && !hides.map_err(failed())? {
                    return Ok(Shown::Carried(at));
                }
                break;
            }
            layers.push(*index);
            if self.attributes.is_opaque(&at).map_err(failed())? {
                break;
            }
        }
        let below = Below { path, tree, layers };
        Ok(match below.exists() {
            true => Shown::Directory(below),
            false => Shown::Nothing,
        })
    }

    /// What stands at a path, from the top of the tree.
    pub(super) fn shown_at(&self, top: &Below, path: &[u8]) -> Result<Shown, Error> {
        let mut at = top.clone();
        for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
            let level = self.level(&at)?;
            match self.shown(&at, &level, name)? {
                Shown::Directory(below) => at = below,
                Shown::Nothing | Shown::Leaf(..) | Shown::Carried(_) => return Ok(Shown::Nothing),
            }
        }
        Ok(Shown::Directory(at))
    }

    /// Everything in a directory.
    pub(super) fn list(&self, of: &Below) -> Result<Vec<(Vec<u8>, Shown)>, Error> {
        let level = self.level(of)?;
        let mut names = BTreeSet::new();
        for (name, node) in level.nodes() {
            let there = match node {
                Node::Leaf(..) => !self.is_absent(&beneath(&of.path, name)),
                Node::Directory(tree) => self.was_written(&tree, &beneath(&of.path, name))?,
            };
            if there {
                names.insert(name.to_vec());
            }
        }
        for index in &of.layers {
            let at = self.layers[*index].join(path_of(&of.path));
            let failed = || file("list", &at);
            for entry in fs::read_dir(&at).map_err(failed())? {
                let name = entry.map_err(failed())?.file_name().into_vec();
                // What the tree has is there or was never written; the other
                // names are carried files and the directories above them.
                if level.node(&name).is_none() {
                    names.insert(name);
                }
            }
        }
        let mut list = Vec::with_capacity(names.len());
        for name in names {
            match self.shown(of, &level, &name)? {
                Shown::Nothing => {}
                shown => list.push((name, shown)),
            }
        }
        Ok(list)
    }

    /// Whether an entry of the tree was never written.
    pub(super) fn is_absent(&self, path: &[u8]) -> bool {
        !self.absent.is_empty()
            && RepoPath::from_bytes(path).is_ok_and(|path| self.absent.contains(&path))
    }

    /// Whether anything of a directory was written.
    fn was_written(&self, tree: &ObjectId, path: &[u8]) -> Result<bool, Error> {
        let Ok(path) = RepoPath::from_bytes(path) else {
            return Ok(false);
        };
        if self.absent.is_empty() {
            return Ok(true);
        }
        let entries = self.objects.entries_in(tree, &path)?;
        Ok(entries.iter().any(|one| !self.absent.contains(&one.path)))
    }
}

/// What lies at a path; `None` when nothing does or could.
fn look(path: &Path) -> io::Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::InvalidFilename
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
