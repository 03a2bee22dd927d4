//! Which of the new files the repository ignores.
//!
//! Owns judging them by the rules of the tree that the agent started from: a
//! directory of ours holds that tree's ignore files and nothing else, so no
//! ignore file that the agent wrote hides a file or brings one in. The
//! repository's own exclude file and the person's apply as they do for the
//! person.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use super::Error;
use super::error::file;
use super::findings::{Content, Elsewhere, Findings, Found};
use crate::git::{Descent, Node, Objects, Repository};
use crate::model::{Ignored, ObjectId, PathText, RepoPath, TreeMode};

/// Something ignored: a whole directory, or one file.
#[derive(Debug, Default)]
struct Top {
    directory: bool,
    files: u64,
}

/// Takes the ignored files out of the new ones; what they are goes to the
/// paths that are put aside.
pub(super) fn judge(
    repo: &Repository,
    (objects, tree): (&Objects, &ObjectId),
    findings: &mut Findings,
    scratch: &Path,
) -> Result<Vec<Ignored>, Error> {
    if findings.fresh.is_empty() && findings.fresh_directories.is_empty() {
        return Ok(Vec::new());
    }
    let rules = tempfile::Builder::new()
        .prefix("rules-")
        .tempdir_in(scratch)
        .map_err(file("make a directory in", scratch))?;
    lay_out((objects, tree), findings, rules.path())?;
    let directories = std::mem::take(&mut findings.fresh_directories);
    let paths: Vec<&[u8]> = directories
        .iter()
        .chain(findings.fresh.iter().map(|found| &found.path))
        .map(RepoPath::as_bytes)
        .collect();
    let verdicts = repo.ignored(rules.path(), &paths)?;
    let (of_directories, of_files) = verdicts.split_at(directories.len());
    let mut tops: BTreeMap<RepoPath, Top> = BTreeMap::new();
    for (path, _) in directories.iter().zip(of_directories).filter(|(_, v)| **v) {
        tops.entry(path.clone()).or_default().directory = true;
    }
    // Only the outermost of nested ones stands for them all.
    let all: Vec<RepoPath> = tops.keys().cloned().collect();
    tops.retain(|path, _| above(path, |parent| all.binary_search(parent).is_ok()).is_none());
    let mut kept = Vec::new();
    for (found, ignored) in std::mem::take(&mut findings.fresh)
        .into_iter()
        .zip(of_files)
    {
        match above(&found.path, |parent| tops.contains_key(parent)) {
            Some(top) => tops.entry(top).or_default().files += 1,
            None if *ignored => tops.entry(found.path.clone()).or_default().files += 1,
            None => {
                kept.push(found);
                continue;
            }
        }
        take_along(found, findings);
    }
    findings.fresh = kept;
    let inside = |path: &RepoPath| {
        tops.contains_key(path) || above(path, |parent| tops.contains_key(parent)).is_some()
    };
    findings.empty_directories.retain(|path| !inside(path));
    findings.warnings.retain(|warning| {
        // What lies in an ignored directory is not part of the result.
        warning.path.to_path().map_or(true, |path| !inside(&path))
    });
    Ok(listed(&tops, findings))
}

/// A file that moves and does not lie where the agent wrote.
fn take_along(found: Found, findings: &mut Findings) {
    if found.content != Content::Own {
        findings.aside.elsewhere.push(Elsewhere {
            path: found.path.as_bytes().to_vec(),
            mode: found.mode,
            content: found.content,
        });
    }
}

fn listed(tops: &BTreeMap<RepoPath, Top>, findings: &mut Findings) -> Vec<Ignored> {
    let mut list = Vec::new();
    for (path, top) in tops {
        findings.aside.paths.push(path.as_bytes().to_vec());
        let slash: &[u8] = if top.directory { b"/" } else { b"" };
        list.push(Ignored {
            path: PathText::from_raw(&[path.as_bytes(), slash].concat()),
            files: top.files,
            kept_until: None,
        });
    }
    list
}

/// The nearest directory above a path that a question agrees to.
fn above(path: &RepoPath, agrees: impl Fn(&RepoPath) -> bool) -> Option<RepoPath> {
    let mut parent = path.parent();
    while let Some(directory) = parent {
        if agrees(&directory) {
            return Some(directory);
        }
        parent = directory.parent();
    }
    None
}

/// Makes the baseline's ignore files above the new paths and the agent's new
/// directories, empty: a rule for directories must see that they are some.
fn lay_out(
    (objects, tree): (&Objects, &ObjectId),
    findings: &Findings,
    rules: &Path,
) -> Result<(), Error> {
    let fresh = findings.fresh.iter().map(|found| &found.path);
    let mut above: BTreeSet<RepoPath> = BTreeSet::new();
    for path in findings.fresh_directories.iter().chain(fresh) {
        let mut parent = path.parent();
        while let Some(directory) = parent {
            parent = directory.parent();
            if !above.insert(directory) {
                break;
            }
        }
    }
    let mut above: Vec<Option<RepoPath>> = above.into_iter().map(Some).chain([None]).collect();
    above.sort_by(|a, b| {
        let parts = |path: &Option<RepoPath>| -> Vec<Vec<u8>> {
            let parts = path.iter().flat_map(RepoPath::components);
            parts.map(<[u8]>::to_vec).collect()
        };
        parts(a).cmp(&parts(b))
    });
    let mut descent = Descent::begin(objects, tree)?;
    for directory in &above {
        let level = descent.level(directory.as_ref())?;
        // Git reads no ignore file through a link.
        let Some(Node::Leaf(TreeMode::File | TreeMode::Executable, oid)) =
            level.and_then(|level| level.node(b".gitignore"))
        else {
            continue;
        };
        let place = directory
            .as_ref()
            .map_or(rules.to_owned(), |path| rules.join(path.as_path()));
        fs::create_dir_all(&place).map_err(file("make", &place))?;
        let target = place.join(".gitignore");
        fs::write(&target, objects.read_blob(&oid)?).map_err(file("write", &target))?;
    }
    for path in &findings.fresh_directories {
        let target = rules.join(path.as_path());
        match fs::create_dir_all(&target) {
            Ok(()) => {}
            // The agent made a directory of an ignore file; the file counts.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory
                ) => {}
            Err(error) => return Err(file("make", &target)(error)),
        }
    }
    Ok(())
}
