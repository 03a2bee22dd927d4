//! What an agent changed, measured from its files alone.
//!
//! Owns the capture: walk, judge, read, write the tree, then put aside what
//! the tree cannot hold. Runs when the cage is empty. Neither the agent's git
//! directory nor its index, ignore, attribute or configuration files are
//! read, and no git runs there. Until the last step nothing in the workspace
//! moves, so a capture that fails can be tried again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::error::file;
use super::host::runs_on_host;
use super::ignored::judge;
use super::look::warning;
use super::walk::{Found, Walk, path_of};
use super::{Access, Capture, Error, Harvest, Workspace};
use crate::git::{Objects, Renames, TreeEdit};
use crate::model::{
    ChangeKind, ChangeSet, Ignored, ObjectId, PathText, RepoPath, TreeMode, Warning, WarningKind,
};

/// A file whose bytes are an object now.
struct Read {
    found: Found,
    /// `None` when nobody can read it.
    oid: Option<ObjectId>,
    escapes: bool,
}

/// Takes what the agent changed, once its cage is empty.
///
/// Believes nothing that the agent could write but the files themselves. What
/// no tree holds is moved to `harvest.keep`, never dropped. A reader has
/// changed nothing.
///
/// # Errors
/// The tree could not be read or the objects not written; the workspace stays
/// as it was, and another capture may follow.
pub fn capture(workspace: &Workspace, harvest: &Harvest<'_>) -> Result<Capture, Error> {
    let basis = &workspace.basis;
    if basis.access == Access::Reader {
        return Ok(nothing(&basis.tree));
    }
    let objects = workspace.repo.objects()?;
    let mut walk = Walk::over(objects.entries(&basis.tree)?, &workspace.identities);
    for path in basis.absent() {
        if let Some(entry) = walk.base.get_mut(&path) {
            entry.accounted = true;
        }
    }
    walk.run(&workspace.tree, &workspace.identities)
        .map_err(file("list", &workspace.tree))?;
    unfinished(&workspace.tree, &mut walk.warnings);
    let mut ignored = judge(&workspace.repo, &objects, &mut walk, &workspace.dir)?;
    for path in std::mem::take(&mut walk.carried) {
        ignored.push(Ignored {
            path: PathText::from(&path),
            files: 1,
            kept_until: None,
        });
        walk.aside.push(path.as_bytes().to_vec());
    }
    let edits = edits(workspace, &mut walk)?;
    let tree = objects.edit_tree(&basis.tree, &edits)?;
    let changes = objects.diff(&basis.tree, &tree, Renames::Find)?;
    for change in &changes {
        if change.kind != ChangeKind::Deleted
            && change.path.to_path().is_ok_and(|path| runs_on_host(&path))
        {
            let path = change.path.clone();
            let kind = WarningKind::RunsOnHost;
            walk.warnings.push(Warning { path, kind });
        }
    }
    let empty = walk.empty_directories.iter();
    walk.warnings
        .extend(empty.map(|path| warning(path, WarningKind::EmptyDirectory)));
    walk.warnings
        .sort_by(|a, b| (&a.path, a.kind).cmp(&(&b.path, b.kind)));
    walk.warnings.dedup();
    let commit = match tree == basis.tree {
        true => None,
        false => {
            let parents = [basis.commit.clone()];
            Some(objects.commit(&tree, &parents, harvest.message, harvest.at)?)
        }
    };
    let kept = put_aside(&workspace.tree, harvest.keep, walk.aside)?;
    Ok(Capture {
        changes: ChangeSet {
            base: basis.tree.clone(),
            tree,
            changes,
            ignored,
            warnings: walk.warnings,
        },
        kept,
        commit,
    })
}

fn nothing(tree: &ObjectId) -> Capture {
    Capture {
        changes: ChangeSet {
            base: tree.clone(),
            tree: tree.clone(),
            changes: Vec::new(),
            ignored: Vec::new(),
            warnings: Vec::new(),
        },
        kept: Vec::new(),
        commit: None,
    }
}

/// A merge or rebase that the agent left open, by file names alone.
fn unfinished(tree: &Path, warnings: &mut Vec<Warning>) {
    let git = tree.join(".git");
    // Through a link the names would be somebody else's.
    if !git
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_dir())
    {
        return;
    }
    for name in [
        "MERGE_HEAD",
        "rebase-merge",
        "rebase-apply",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
    ] {
        if git.join(name).symlink_metadata().is_ok() {
            warnings.push(Warning {
                path: PathText::from_raw(format!(".git/{name}").as_bytes()),
                kind: WarningKind::UnfinishedOperation,
            });
        }
    }
}

/// Reads what has to be read and says what becomes of the tree.
fn edits(workspace: &Workspace, walk: &mut Walk) -> Result<Vec<TreeEdit>, Error> {
    let work: Vec<Found> = walk.touched.drain(..).chain(walk.fresh.drain(..)).collect();
    let mut edits = Vec::new();
    for read in read_all(workspace, work)? {
        let Read {
            found: Found { path, mode },
            oid,
            escapes,
        } = read;
        let Some(oid) = oid else {
            walk.warnings.push(warning(&path, WarningKind::Unreadable));
            walk.aside.push(path.as_bytes().to_vec());
            continue;
        };
        let before = walk.base.get(&path);
        if before.is_some_and(|before| before.mode == mode && before.oid == oid) {
            continue;
        }
        if escapes {
            walk.warnings
                .push(warning(&path, WarningKind::EscapingLink));
        }
        edits.push(TreeEdit::Put { path, mode, oid });
    }
    for (path, entry) in &walk.base {
        if !entry.accounted {
            let path = path.clone();
            edits.push(TreeEdit::Remove { path });
        }
    }
    Ok(edits)
}

fn read_all(workspace: &Workspace, work: Vec<Found>) -> Result<Vec<Read>, Error> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = work.len().div_ceil(threads).max(16);
    let mut parts: Vec<Vec<Found>> = Vec::new();
    let mut work = work.into_iter().peekable();
    while work.peek().is_some() {
        parts.push(work.by_ref().take(share).collect());
    }
    let read: Vec<Result<Vec<Read>, Error>> = std::thread::scope(|scope| {
        let running: Vec<_> = parts
            .into_iter()
            .map(|part| {
                scope.spawn(|| {
                    let objects = workspace.repo.objects()?;
                    part.into_iter()
                        .map(|found| read(&objects, &workspace.tree, found))
                        .collect()
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("because reading a file cannot panic"))
            .collect()
    });
    let parts: Vec<Vec<Read>> = read.into_iter().collect::<Result<_, _>>()?;
    Ok(parts.into_iter().flatten().collect())
}

fn read(objects: &Objects, tree: &Path, found: Found) -> Result<Read, Error> {
    let path = tree.join(found.path.as_path());
    let (oid, escapes) = if found.mode == TreeMode::Symlink {
        let text = fs::read_link(&path).map_err(file("read the link", &path))?;
        let text = text.as_os_str().as_bytes();
        (Some(objects.write_blob(text)?), escapes(&found.path, text))
    } else {
        let oid = match open(&path) {
            Ok(mut open) => Some(objects.write_blob_from(&mut open, &path)?),
            // Anything else is the machine's trouble and may pass: the file
            // must not be missing from the result because of it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => return Err(file("open", &path)(error)),
        };
        (oid, false)
    };
    Ok(Read {
        found,
        oid,
        escapes,
    })
}

/// Opens a regular file, given back to its owner first if need be.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = || -> io::Result<File> { Ok(rustix::fs::open(path, flags, Mode::empty())?.into()) };
    match open() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mode = path.symlink_metadata()?.permissions().mode();
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o777 | 0o400))?;
            open()
        }
        other => other,
    }
}

/// Whether a link leads out of the repository.
fn escapes(path: &RepoPath, text: &[u8]) -> bool {
    if text.starts_with(b"/") {
        return true;
    }
    let mut depth = path.components().count() - 1;
    for part in text.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// Moves what no tree holds to the keep directory.
fn put_aside(tree: &Path, keep: &Path, aside: Vec<Vec<u8>>) -> Result<Vec<PathBuf>, Error> {
    let sorted: BTreeSet<Vec<u8>> = aside.into_iter().collect();
    let mut kept = Vec::new();
    for path in &sorted {
        let within = |end: usize| path[end] == b'/' && sorted.contains(&path[..end]);
        // What lies in something that moves goes with it.
        if (0..path.len()).any(within) {
            continue;
        }
        let source = tree.join(path_of(path));
        let (relative, target) = place(keep, path_of(path));
        if let Some(directory) = target.parent() {
            fs::create_dir_all(directory).map_err(file("make", directory))?;
        }
        give_back(&source);
        fs::rename(&source, &target).map_err(file("keep", &source))?;
        kept.push(relative);
    }
    Ok(kept)
}

/// A place in the keep directory at which nothing stands.
fn place(keep: &Path, path: &Path) -> (PathBuf, PathBuf) {
    let mut relative = path.to_owned();
    let mut number = 0_u32;
    while keep.join(&relative).symlink_metadata().is_ok() {
        number += 1;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        relative = PathBuf::from(name);
    }
    let target = keep.join(&relative);
    (relative, target)
}

/// A directory can be moved only by who may write it.
fn give_back(path: &Path) {
    if let Ok(metadata) = path.symlink_metadata()
        && metadata.is_dir()
        && metadata.permissions().mode() & 0o700 != 0o700
    {
        let mode = metadata.permissions().mode() & 0o777 | 0o700;
        // If it fails, the move says why.
        drop(fs::set_permissions(path, fs::Permissions::from_mode(mode)));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_file_that_the_machine_cannot_open_fails_the_capture() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        git2::Repository::init(dir.path()).expect("because it is ours");
        let git = crate::git::Git::require().expect("because the tests need git");
        let repo = crate::git::Repository::discover(&git, dir.path()).expect("because it is one");
        let objects = repo.objects().expect("because it was just made");
        let look = |name: &str| {
            let path = RepoPath::from_bytes(name.as_bytes()).expect("because it is plain");
            let mode = TreeMode::File;
            read(&objects, dir.path(), Found { path, mode })
        };
        // No such device, no such file, too many links: none is about permission.
        let _socket = UnixListener::bind(dir.path().join("socket")).expect("because it is new");
        std::os::unix::fs::symlink("x", dir.path().join("link")).expect("because it is new");
        for name in ["socket", "gone", "link"] {
            assert!(matches!(look(name), Err(Error::File { .. })), "{name}");
        }
        fs::write(dir.path().join("plain"), "x").expect("because it is new");
        assert!(look("plain").is_ok_and(|read| read.oid.is_some()));
    }
}
