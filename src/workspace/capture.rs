//! What an agent changed, measured from its files alone.
//!
//! Owns the capture: find (`walk` or `upper`), judge, read, write the tree,
//! then put aside what the tree cannot hold. Runs when the cage is empty.
//! Neither the agent's git directory nor its index, ignore, attribute or
//! configuration files are read, and no git runs there. Until the last step nothing in the workspace
//! moves, so a capture that fails can be tried again.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::error::file;
use super::findings::{Content, Findings, Found};
use super::host::runs_on_host;
use super::ignored::judge;
use super::keep::put_aside;
use super::look::warning;
use super::lowers::{Attributes, Lowers};
use super::{Access, Capture, Error, Harvest, Workspace, submodules, upper, walk};
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
    let mut findings = find(workspace, &objects)?;
    unfinished(&workspace.tree, &mut findings.warnings);
    let from = (&objects, &basis.tree);
    let mut ignored = judge(&workspace.repo, from, &mut findings, &workspace.dir)?;
    for path in std::mem::take(&mut findings.carried) {
        ignored.push(Ignored {
            path: PathText::from(&path),
            files: 1,
            kept_until: None,
        });
        findings.aside.paths.push(path.as_bytes().to_vec());
    }
    ignored.sort_by(|a, b| a.path.cmp(&b.path));
    let edits = edits(workspace, &mut findings)?;
    let mut tree = objects.edit_tree(&basis.tree, &edits)?;
    let trees = (&basis.tree, &tree);
    let moved = submodules::moved(&workspace.repo, &objects, trees, &mut findings)?;
    if !moved.is_empty() {
        tree = objects.edit_tree(&tree, &moved)?;
    }
    let changes = objects.diff(&basis.tree, &tree, Renames::Find)?;
    for change in &changes {
        if change.kind != ChangeKind::Deleted
            && change.path.to_path().is_ok_and(|path| runs_on_host(&path))
        {
            let path = change.path.clone();
            let kind = WarningKind::RunsOnHost;
            findings.warnings.push(Warning { path, kind });
        }
    }
    findings.tell_empty();
    let mut warnings = findings.warnings;
    warnings.sort_by(|a, b| (&a.path, a.kind).cmp(&(&b.path, b.kind)));
    warnings.dedup();
    let commit = match tree == basis.tree {
        true => None,
        false => {
            let parents = [basis.commit.clone()];
            Some(objects.commit(&tree, &parents, harvest.message, harvest.at)?)
        }
    };
    let kept = put_aside((&workspace.tree, harvest.keep), findings.aside, &objects)?;
    Ok(Capture {
        changes: ChangeSet {
            base: basis.tree.clone(),
            tree,
            changes,
            ignored,
            warnings,
        },
        kept,
        commit,
        history: None,
    })
}

/// Finds what differs, in the way that the workspace's files allow.
fn find(workspace: &Workspace, objects: &Objects) -> Result<Findings, Error> {
    let Workspace { basis, tree, .. } = workspace;
    let absent = basis.absent();
    let layers = basis.lower();
    if layers.is_empty() {
        let entries = objects.entries(&basis.tree)?;
        return walk::find(entries, &absent, &workspace.identities, tree)
            .map_err(file("list", tree));
    }
    let lowers = Lowers {
        objects,
        layers: &layers,
        attributes: basis.marks.unwrap_or_else(|| Attributes::here(tree)),
        absent: &absent,
    };
    upper::find(&lowers, &basis.tree, tree)
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
        history: None,
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
fn edits(workspace: &Workspace, findings: &mut Findings) -> Result<Vec<TreeEdit>, Error> {
    let touched = findings.touched.drain(..);
    let work: Vec<Found> = touched.chain(findings.fresh.drain(..)).collect();
    let mut edits = Vec::new();
    for read in read_all(workspace, work)? {
        let Read {
            found: Found {
                path, mode, before, ..
            },
            oid,
            escapes,
        } = read;
        let Some(oid) = oid else {
            findings
                .warnings
                .push(warning(&path, WarningKind::Unreadable));
            findings.aside.paths.push(path.as_bytes().to_vec());
            continue;
        };
        if before.is_some_and(|before| before == (mode, oid.clone())) {
            continue;
        }
        if escapes {
            findings
                .warnings
                .push(warning(&path, WarningKind::EscapingLink));
        }
        edits.push(TreeEdit::Put { path, mode, oid });
    }
    let removed = findings.removed.drain(..);
    edits.extend(removed.map(|path| TreeEdit::Remove { path }));
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
    let path = match &found.content {
        Content::Own => tree.join(found.path.as_path()),
        Content::Below(lower) => lower.clone(),
        Content::Object(oid) => {
            let escapes =
                found.mode == TreeMode::Symlink && escapes(&found.path, &objects.read_blob(oid)?);
            let oid = Some(oid.clone());
            return Ok(Read {
                found,
                oid,
                escapes,
            });
        }
    };
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
            let found = Found {
                path,
                mode: TreeMode::File,
                before: None,
                content: Content::Own,
            };
            read(&objects, dir.path(), found)
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
