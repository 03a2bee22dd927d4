//! Removal of shared checkouts that are of no use any more.
//!
//! Owns taking one away, and the sweep over those of all repositories. One that
//! anybody holds stays, and so does the directory of a repository for which
//! one is just being made. Decides nothing about agents' own directories.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::super::Error;
use super::super::dispose::remove_beneath;
use super::super::error::file;
use super::base::{BUILDING, is_current, is_gone};
use crate::store::Alone;

/// Removes a base and its lock file; `false` when somebody holds it.
pub(super) fn remove_unless_held(dir: &Path, lock: &Path) -> Result<bool, Error> {
    let Some(alone) = Alone::try_take(lock)? else {
        return Ok(false);
    };
    // Renamed first: what is cut short is found as something unfinished.
    let gone = dir.with_extension("gone");
    match fs::rename(dir, &gone) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(file("remove", dir)(error)),
    }
    remove_beneath(&gone)?;
    alone.forget()?;
    Ok(true)
}

/// Takes away the bases that nobody has used for a while, and all of
/// earlier starts of the machine.
///
/// # Errors
/// The directory cannot be listed, or something in it not be removed.
pub fn sweep_bases(all: &Path, older: Duration) -> Result<(), Error> {
    sweep_all(all, Which::Idle(older))
}

/// Takes away what was left half made or half removed by whoever was killed.
///
/// # Errors
/// The directory cannot be listed, or something in it not be removed.
pub fn sweep_half_made(all: &Path) -> Result<(), Error> {
    sweep_all(all, Which::HalfMade)
}

/// What is to be taken away.
#[derive(Debug, Clone, Copy)]
enum Which {
    HalfMade,
    /// That too, and what nobody has used for so long, or can use any more.
    Idle(Duration),
}

fn sweep_all(all: &Path, which: Which) -> Result<(), Error> {
    let listing = match fs::read_dir(all) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(file("list", all)(error)),
    };
    for entry in listing {
        let dir = entry.map_err(file("list", all))?.path();
        sweep_repository(&dir, which)?;
    }
    // Whatever is left belongs to somebody; then this fails, as it should.
    drop(fs::remove_dir(all));
    Ok(())
}

fn sweep_repository(dir: &Path, which: Which) -> Result<(), Error> {
    let building = match Alone::try_take(&dir.join(BUILDING)) {
        Ok(Some(building)) => building,
        Ok(None) => return Ok(()),
        // Another sweep was here first.
        Err(error) if is_gone(&error) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in fs::read_dir(dir).map_err(file("list", dir))? {
        let path = entry.map_err(file("list", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.extension().is_some_and(|ending| ending == "lock") {
            continue;
        }
        let lock = dir.join(format!("{name}.lock"));
        if name.starts_with("new-") || name.ends_with(".gone") {
            remove_beneath(&path)?;
            continue;
        }
        let used = fs::metadata(&lock).and_then(|one| one.modified());
        let older = match which {
            Which::HalfMade => continue,
            Which::Idle(older) => older,
        };
        // A clock that was set back makes it just used.
        let idle = used.map(|used| used.elapsed().unwrap_or_default());
        let of_use = is_current(&path) && idle.is_ok_and(|idle| idle < older);
        if !of_use {
            remove_unless_held(&path, &lock)?;
        }
    }
    remove_if_empty(dir, building)
}

/// Removes a repository's directory when nothing but locks that nobody holds
/// is left in it.
fn remove_if_empty(dir: &Path, building: Alone) -> Result<(), Error> {
    let mut locks = Vec::new();
    for entry in fs::read_dir(dir).map_err(file("list", dir))? {
        let path = entry.map_err(file("list", dir))?.path();
        match path.extension().is_some_and(|ending| ending == "lock") {
            true => locks.push(path),
            false => return Ok(()),
        }
    }
    for lock in locks.iter().filter(|lock| !lock.ends_with(BUILDING)) {
        fs::remove_file(lock).map_err(file("remove", lock))?;
    }
    building.forget()?;
    drop(fs::remove_dir(dir));
    Ok(())
}
