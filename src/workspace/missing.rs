//! Objects that a repository does not have.
//!
//! Owns telling of them: a partial clone leaves objects with its remote, and
//! what borrows or was damaged may lack some too. Nothing is fetched on the
//! person's account, from inside or outside, so a snapshot that needs such an
//! object is refused with the path and with how to get it.

use std::fs;

use super::Error;
use super::snapshot::Snapshot;
use crate::git::{self, Repository};
use crate::model::{ObjectId, RepoPath, TreeMode};

/// What of the parent is unusual and worth telling, in words of the record.
#[must_use]
pub fn states(repo: &Repository, snapshot: &Snapshot) -> Vec<String> {
    let shallow = snapshot.mirror.shallow.is_some();
    let told = [
        (snapshot.operation.is_some(), snapshot.operation),
        (shallow, Some("shallow")),
        (is_partial(repo), Some("partial_clone")),
        (!snapshot.absent.is_empty(), Some("sparse_checkout")),
        (snapshot.mirror.links_are_files(), Some("links_as_files")),
    ];
    let told = told.iter().filter(|(holds, _)| *holds);
    told.filter_map(|(_, word)| word.map(str::to_owned))
        .collect()
}

/// Whether objects are left with a remote: git marks the packs that it got
/// from one.
pub(super) fn is_partial(repo: &Repository) -> bool {
    let packs = fs::read_dir(repo.objects_dir().join("pack"));
    let mut names = packs.into_iter().flatten().flatten();
    names.any(|entry| {
        let name = entry.file_name();
        name.as_encoded_bytes().ends_with(b".promisor")
    })
}

/// Refuses a snapshot of a partial clone whose files are not all there.
///
/// Costs a look at every entry, and nothing in any other repository: there
/// what is missing is damage, and whoever meets it tells.
pub(super) fn require_all(repo: &Repository, snapshot: &Snapshot) -> Result<(), Error> {
    if !is_partial(repo) {
        return Ok(());
    }
    let objects = repo.objects()?;
    let missing_tree = |source| absent(format!("a directory of {}", snapshot.tree), source);
    for entry in objects.entries(&snapshot.tree).map_err(missing_tree)? {
        let needed = entry.mode != TreeMode::Gitlink && !snapshot.absent.contains(&entry.path);
        if needed && let Err(source) = objects.blob_size(&entry.oid) {
            return Err(of_object((&entry.path, &entry.oid), source));
        }
    }
    Ok(())
}

/// Tells of an object that is not there by its path; other errors stay.
pub(super) fn of_object((path, oid): (&RepoPath, &ObjectId), source: git::Error) -> Error {
    let shown = String::from_utf8_lossy(path.as_bytes()).into_owned();
    absent(format!("`{shown}` ({oid})"), source)
}

fn absent(what: String, source: git::Error) -> Error {
    match &source {
        git::Error::Object { source: said, .. } if said.code() == git2::ErrorCode::NotFound => {
            Error::MissingObject { what, source }
        }
        _ => Error::Git(source),
    }
}

/// Tells of git that stumbled over what a partial clone does not have.
pub(super) fn of_look(repo: &Repository, error: Error) -> Error {
    match error {
        Error::Git(source @ git::Error::Failed { .. }) if is_partial(repo) => {
            let what = "objects that the look at the working tree needs".to_owned();
            Error::MissingObject { what, source }
        }
        other => other,
    }
}
