//! Removes a directory of ours in two moves: rename to trash, then delete.
//!
//! The rename is one step of the file system, so whoever looks sees the
//! directory whole or not at all; a deletion that is cut short leaves only
//! trash, which the next command empties. Paths come from our own layout,
//! never from a registry entry that somebody could have edited.

use std::fs;
use std::io;
use std::path::Path;

use super::Error;
use crate::workspace;

/// Moves a directory into the trash and deletes it there; a missing one is fine.
///
/// # Errors
/// It cannot be moved or not be deleted whole.
pub fn discard_directory(directory: &Path, trash: &Path) -> Result<(), Error> {
    let failed = |source| Error::Remove {
        path: directory.to_owned(),
        source,
    };
    let Some(name) = directory.file_name() else {
        return Err(failed(io::Error::from(io::ErrorKind::InvalidInput)));
    };
    fs::create_dir_all(trash).map_err(failed)?;
    let place = trash.join(name);
    remove(&place)?;
    match fs::rename(directory, &place) {
        Ok(()) => remove(&place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Deletes what earlier removals left in the trash.
///
/// # Errors
/// Something in it cannot be deleted.
pub fn empty_trash(trash: &Path) -> Result<(), Error> {
    let failed = |source| Error::Remove {
        path: trash.to_owned(),
        source,
    };
    let entries = match fs::read_dir(trash) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        remove(&entry.map_err(failed)?.path())?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), Error> {
    Ok(workspace::remove_beneath(path)?)
}
