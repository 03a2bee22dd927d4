//! The person's caches of packages, made ready for one agent.
//!
//! Owns finding what of the table in `confinement` there is, and the private
//! directories that take what the agent changes. They lie in the agent's own
//! directory and go with it. Nothing of the person's is changed here.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::host::HostFacts;
use super::site::Site;
use crate::confinement::{CACHES, CacheMount, PLAIN_FILES, may_be_read, may_hold_packages};
use crate::model::ViewMode;
use crate::workspace::Workspace;

/// A file that chooses versions is a few lines; whatever is longer is something else.
const PLAIN_FILE_BYTES: u64 = 64 << 10;

/// The caches that there are, each with directories for what is changed in it.
///
/// Where nothing is mounted the private home gets a link, through which the
/// cache can be read.
pub(super) fn caches(
    site: &Site,
    workspace: &Workspace,
    host: &HostFacts,
) -> io::Result<Vec<CacheMount>> {
    let home = &host.home;
    let variable = |name: &str| {
        site.variables
            .get(name.as_ref() as &std::ffi::OsStr)
            .map(PathBuf::from)
    };
    // An overlay shows what is covered elsewhere, so there must be none of it.
    let covered = [host.private_settings.as_slice(), &host.login_files].concat();
    // Other agents' files and the person's checkout are no caches, whatever
    // a variable says.
    let apart = [site.state.path(), workspace.original()];
    let mut found = Vec::new();
    for (number, cache) in CACHES.iter().enumerate() {
        let Some(lower) = resolved(home, &cache.place(home, &variable)) else {
            continue;
        };
        let overlaps = |path: &&Path| lower.starts_with(path) || path.starts_with(&lower);
        let allowed = may_hold_packages(&lower, &covered) && !apart.iter().any(overlaps);
        if !allowed || !holds_something(&lower) {
            continue;
        }
        let own = workspace.dir.join("caches").join(number.to_string());
        let cache = CacheMount {
            lower,
            upper: own.join("upper"),
            work: own.join("work"),
            target: workspace.view.home.join(cache.directory),
        };
        match workspace.view.mode {
            ViewMode::Mounted => {
                for path in [&cache.upper, &cache.work, &cache.target] {
                    fs::create_dir_all(path)?;
                }
            }
            ViewMode::InPlace => link(&cache)?,
        }
        found.push(cache);
    }
    Ok(found)
}

/// Copies the files that choose versions of tools into the private home.
pub(super) fn copy_plain_files(home: &Path, private: &Path) -> io::Result<()> {
    for name in PLAIN_FILES {
        let Some(file) = resolved(home, &home.join(name)) else {
            continue;
        };
        // One that cannot be read tells the agent nothing either.
        let Ok(text) = File::open(&file) else {
            continue;
        };
        let facts = text.metadata()?;
        if facts.is_file() && facts.len() <= PLAIN_FILE_BYTES {
            io::copy(
                &mut text.take(PLAIN_FILE_BYTES),
                &mut File::create(private.join(name))?,
            )?;
        }
    }
    Ok(())
}

/// A path without links, if there is something that may be shown.
fn resolved(home: &Path, path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    (may_be_read(home, path) && may_be_read(home, &real)).then_some(real)
}

fn holds_something(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

fn link(cache: &CacheMount) -> io::Result<()> {
    // An empty directory may have been made for the tool.
    drop(fs::remove_dir(&cache.target));
    if let Some(parent) = cache.target.parent() {
        fs::create_dir_all(parent)?;
    }
    match symlink(&cache.lower, &cache.target) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
