//! Finding by an overlay's upper directory alone.
//!
//! Owns reading what the kernel wrote there: files copied up or made,
//! whiteouts, opaque directories, and directories that were renamed and
//! through which another one of the layers below shows. The upper directory
//! and the tree object are gone through side by side, so the cost is what
//! changed and never the size of the repository. A file that is a copy
//! without its bytes is an error: it would read as zeros.
//!
//! ```text
//! upper/x        base tree at x     what shows through at x
//! ──────────     ──────────────     ───────────────────────────────────
//! (whiteout)     removed
//! file           before, or removed
//! directory      goes on            the same, nothing, or another (moved)
//! ```

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::Error;
use super::error::file;
use super::findings::{
    Content, Elsewhere, Findings, Found, Name, beneath, mode_of, open_up, path_of,
};
use super::lowers::{Attributes, Below, Lowers, Mark, Shown};
use crate::git::{Level, Node};
use crate::model::{ObjectId, RepoPath, TreeMode, WarningKind};

/// What of the layers below shows through a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Through {
    /// Nothing.
    Nothing,
    /// What always was there.
    Unmoved,
    /// Another directory of theirs.
    Moved(Below),
}

/// What becomes of the files in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// They are judged.
    Judged,
    /// They go with the directory, which is put aside.
    Aside,
}

/// A directory still to be gone through.
struct Open {
    path: Vec<u8>,
    /// Whether the upper directory has it.
    own: bool,
    /// What the agent was given there.
    base: Below,
    through: Through,
    fate: Fate,
}

/// A directory that is being gone through.
struct Here {
    open: Open,
    /// The names that the tree has in it.
    level: Level,
}

struct Walk<'a> {
    lowers: &'a Lowers<'a>,
    upper: &'a Path,
    top: Below,
    findings: Findings,
    open: Vec<Open>,
}

/// Finds what differs from a tree that lies in the layers below `upper`.
pub(super) fn find(lowers: &Lowers<'_>, tree: &ObjectId, upper: &Path) -> Result<Findings, Error> {
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
        if let Shown::Leaf(TreeMode::Gitlink, _) = before {
            return self.submodule(here, name, (path, metadata));
        }
        if metadata.is_dir() {
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

    /// Sorts a name that shows through from another directory.
    fn below(&mut self, here: &Here, name: &[u8], shown: Shown) -> Result<(), Error> {
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
            let holds = match &shown {
                Shown::Directory(below) => !self.lowers.list(below)?.is_empty(),
                Shown::Leaf(mode, _) => *mode != TreeMode::Gitlink,
                Shown::Carried(_) | Shown::Nothing => true,
            };
            if holds {
                self.findings
                    .set_aside(path.clone(), WarningKind::SubmoduleChanged);
                self.take_along(path, shown)?;
            }
            return Ok(());
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

    /// Notes a file that takes the place of what was there.
    fn file(
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
    fn directory_at(&mut self, path: &RepoPath, before: Shown) -> Result<Below, Error> {
        if let Shown::Directory(below) = before {
            return Ok(below);
        }
        self.remove(path.as_bytes(), &before)?;
        self.findings.fresh_directories.push(path.clone());
        Ok(Below::default())
    }

    /// What the agent was given under a name.
    fn before(&self, here: &Here, name: &[u8]) -> Result<Shown, Error> {
        self.lowers.shown(&here.open.base, &here.level, name)
    }

    /// Notes that what the tree has at a path is gone.
    fn remove(&mut self, path: &[u8], before: &Shown) -> Result<(), Error> {
        match before {
            Shown::Nothing | Shown::Carried(_) | Shown::Leaf(TreeMode::Gitlink, _) => {}
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
            .filter(|one| one.mode != TreeMode::Gitlink && !self.lowers.absent.contains(&one.path));
        self.findings.removed.extend(gone.map(|one| one.path));
        Ok(())
    }

    /// What shows through a directory of the agent's; `base` is what it was
    /// given in the same place.
    fn through(&self, here: &Here, name: &[u8], base: &Below) -> Result<Through, Error> {
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

    /// What stands in a submodule's place: nothing, or what cannot land.
    fn submodule(
        &mut self,
        here: &Here,
        name: &[u8],
        (path, metadata): (Vec<u8>, &Metadata),
    ) -> Result<(), Error> {
        let holds = metadata.is_dir() && {
            let at = self.upper.join(path_of(&path));
            let shows = match self.through(here, name, &Below::default())? {
                Through::Moved(below) => !self.lowers.list(&below)?.is_empty(),
                Through::Nothing | Through::Unmoved => false,
            };
            // Asked of the names alone; what cannot be listed counts.
            shows
                || list(&at).map_or(true, |names| {
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
        if holds || !metadata.is_dir() {
            self.findings
                .set_aside(path.clone(), WarningKind::SubmoduleChanged);
            if metadata.is_dir() {
                self.enter_aside(here, name, path)?;
            }
        }
        Ok(())
    }

    /// Goes through a directory that is put aside, for what does not lie in
    /// it but shows through.
    fn enter_aside(&mut self, here: &Here, name: &[u8], path: Vec<u8>) -> Result<(), Error> {
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

type Listing = Vec<(Vec<u8>, io::Result<Metadata>)>;

fn list(directory: &Path) -> io::Result<Listing> {
    open_up(directory)?
        .map(|entry| {
            let entry = entry?;
            Ok((entry.file_name().into_vec(), entry.metadata()))
        })
        .collect()
}

/// Sees to it that the marks of a file or directory can be read: those of the
/// user are for whom the modes allow to read.
fn readable(attributes: Attributes, path: &Path, metadata: &Metadata) -> io::Result<()> {
    let mode = metadata.permissions().mode();
    let wanted = if metadata.is_dir() { 0o700 } else { 0o400 };
    if attributes == Attributes::Trusted
        || !(metadata.is_dir() || metadata.is_file())
        || mode & wanted == wanted
    {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o777 | wanted))
}

/// Whether a carried file is what was carried: a copy that the kernel made
/// keeps all but the time at which it was made.
fn same(lower: &Path, own: &Path, now: &Metadata) -> io::Result<bool> {
    let was = lower.symlink_metadata()?;
    let sides = [&was, now].map(|one| (one.mode(), one.size(), one.mtime(), one.mtime_nsec()));
    if sides[0] != sides[1] {
        return Ok(false);
    }
    if now.is_symlink() {
        return Ok(fs::read_link(lower)? == fs::read_link(own)?);
    }
    let (mut lower, mut own) = (File::open(lower)?, File::open(own)?);
    let (mut one, mut other) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let length = lower.read(&mut one)?;
        if length == 0 {
            return Ok(own.read(&mut other)? == 0);
        }
        match own.read_exact(&mut other[..length]) {
            Ok(()) if one[..length] == other[..length] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
