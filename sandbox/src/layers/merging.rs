//! Owns the question whether directories of one place can be merged.
//!
//! Answered by doing what a command would do, through a mount that is attached
//! nowhere. Called by the keeper of a rehearsal, before its view is made; the
//! directories were made by `probe`, which removes them.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::overlay::{self, Attributes, Layers};

/// What a merged directory can do in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Merging {
    /// Where the kernel remembers what was changed.
    pub(crate) attributes: Attributes,
    /// Whether it renames directories that lie beneath.
    pub(crate) renames: bool,
}

/// What lies beneath, as [`try_out`] expects it: files with their own names in
/// them, and one in a directory.
pub(crate) const CHANGED: &str = "changed";
pub(crate) const REMOVED: &str = "removed";
pub(crate) const REPLACED: &str = "replaced";
pub(crate) const INNER: &str = "replaced/inner";
pub(crate) const MOVED: &str = "moved";

/// Merges, and changes what is merged in every way that the kernel must
/// remember: a changed file, a removed one, a directory that was replaced, and
/// one that was renamed.
///
/// # Errors
/// Says what did not work, and why.
pub(crate) fn try_out(layers: &Layers) -> Result<Merging, String> {
    let (mount, attributes) = overlay::make(layers).map_err(|error| error.to_string())?;
    let failed = |what: &'static str| move |errno: Errno| format!("{what} failed ({errno})");
    change(&mount).map_err(failed("to change a file in a merged directory"))?;
    unlinkat(&mount, REMOVED, AtFlags::empty())
        .and_then(|()| gone(&mount, REMOVED))
        .map_err(failed("to remove a file from a merged directory"))?;
    replace(&mount).map_err(failed("to replace a directory in a merged one"))?;
    let renames = match renameat(&mount, MOVED, &mount, "renamed") {
        Ok(()) => true,
        Err(Errno::XDEV) => false,
        Err(errno) => return Err(failed("to rename a directory in a merged one")(errno)),
    };
    Ok(Merging {
        attributes,
        renames,
    })
}

fn change(mount: &OwnedFd) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = openat(mount, CHANGED, flags, Mode::empty())?;
    rustix::io::write(&file, b"other")?;
    renameat(mount, CHANGED, mount, "elsewhere")?;
    gone(mount, CHANGED)
}

/// What was in a directory must not come back with its name.
fn replace(mount: &OwnedFd) -> rustix::io::Result<()> {
    unlinkat(mount, INNER, AtFlags::empty())?;
    unlinkat(mount, REPLACED, AtFlags::REMOVEDIR)?;
    mkdirat(mount, REPLACED, Mode::RWXU)?;
    gone(mount, INNER)
}

fn gone(mount: &OwnedFd, path: &str) -> rustix::io::Result<()> {
    match statat(mount, path, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Ok(_) => Err(Errno::EXIST),
        Err(errno) => Err(errno),
    }
}
