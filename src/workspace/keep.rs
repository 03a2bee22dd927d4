//! Putting aside what no tree holds.
//!
//! Owns moving it from where the agent wrote to the keep directory, with what
//! belongs to it and lies elsewhere: in an object or in a layer below, where a
//! renamed directory showed it. Nothing that is in the way is overwritten.
//! The last step of a capture, and the only one that changes a workspace.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};

use super::Error;
use super::error::file;
use super::findings::{Aside, Content, Elsewhere, path_of};
use crate::git::Objects;
use crate::model::TreeMode;

/// Moves what is put aside from `own` to the keep directory and gives its
/// names there.
pub(super) fn put_aside(
    (own, keep): (&Path, &Path),
    aside: Aside,
    objects: &Objects,
) -> Result<Vec<PathBuf>, Error> {
    let sorted: BTreeSet<Vec<u8>> = aside.paths.into_iter().collect();
    let mut elsewhere = grouped(&sorted, aside.elsewhere, |one| &one.path);
    let mut whiteouts = grouped(&sorted, aside.whiteouts, |one| one);
    let mut kept = Vec::new();
    for top in &sorted {
        // What lies in something that moves goes with it.
        if outermost(&sorted, top) != Some(top) {
            continue;
        }
        let source = own.join(path_of(top));
        let (relative, target) = place(keep, path_of(top));
        if let Some(directory) = target.parent() {
            fs::create_dir_all(directory).map_err(file("make", directory))?;
        }
        let above = top.iter().rposition(|b| *b == b'/').unwrap_or(0);
        let shows = aside.see_through.contains(&top[..above]);
        let behind = match (aside.submodules.contains(top), shows) {
            (true, shows) => Behind::Empty { hides: shows },
            (false, true) => Behind::Whiteout,
            (false, false) => Behind::Nothing,
        };
        match source.symlink_metadata().is_ok() {
            true => {
                give_back(&source);
                behind.take(&source, &target)?;
            }
            false => behind.make(&source)?,
        }
        let inside = |path: &[u8]| match path.len() == top.len() {
            true => target.clone(),
            false => target.join(path_of(&path[top.len() + 1..])),
        };
        for path in whiteouts.remove(top).into_iter().flatten() {
            let mark = inside(&path);
            fs::remove_file(&mark).map_err(file("remove", &mark))?;
        }
        for one in elsewhere.remove(top).into_iter().flatten() {
            write(objects, &one, &inside(&one.path))?;
        }
        if target.symlink_metadata().is_err() {
            // A directory of which nothing but its being there was new.
            fs::create_dir(&target).map_err(file("keep", &target))?;
        }
        kept.push(relative);
    }
    Ok(kept)
}

/// What stands in the workspace once something was taken out of it.
#[derive(Debug, Clone, Copy)]
enum Behind {
    Nothing,
    /// A mark, so that what lies below does not show.
    Whiteout,
    /// The directory of a submodule.
    Empty {
        hides: bool,
    },
}

impl Behind {
    fn make(self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Nothing => Ok(()),
            Self::Whiteout => hide(path),
            Self::Empty { hides } => empty(path, hides),
        }
    }

    /// Moves `source` to `target` and leaves this behind, in one step: whoever
    /// looks between two would take a submodule for one that was removed.
    fn take(self, source: &Path, target: &Path) -> Result<(), Error> {
        let flags = match self {
            Self::Nothing => rustix::fs::RenameFlags::NOREPLACE,
            Self::Whiteout | Self::Empty { .. } => rustix::fs::RenameFlags::EXCHANGE,
        };
        self.make(target)?;
        rustix::fs::renameat_with(CWD, source, CWD, target, flags)
            .map_err(|errno| file("keep", source)(errno.into()))
    }
}

/// The outermost of the paths in which a path lies, itself included.
fn outermost<'a>(sorted: &'a BTreeSet<Vec<u8>>, path: &[u8]) -> Option<&'a Vec<u8>> {
    let slashes = (0..path.len()).filter(|at| path[*at] == b'/');
    let mut ends = slashes.chain([path.len()]);
    ends.find_map(|end| sorted.get(&path[..end]))
}

type Groups<T> = std::collections::HashMap<Vec<u8>, Vec<T>>;

fn grouped<T>(sorted: &BTreeSet<Vec<u8>>, list: Vec<T>, path: fn(&T) -> &Vec<u8>) -> Groups<T> {
    let mut groups = Groups::new();
    for one in list {
        // A mark that lies in nothing that moves stays where it is.
        if let Some(top) = outermost(sorted, path(&one)) {
            groups.entry(top.clone()).or_default().push(one);
        }
    }
    groups
}

/// Writes what lies elsewhere.
fn write(objects: &Objects, one: &Elsewhere, target: &Path) -> Result<(), Error> {
    let failed = || file("keep", target);
    if let Some(directory) = target.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(directory)
            .map_err(file("make", directory))?;
    }
    let bits = match one.mode {
        TreeMode::Executable => 0o755,
        TreeMode::File | TreeMode::Symlink | TreeMode::Gitlink => 0o644,
    };
    let make = || {
        let mut options = fs::File::options();
        options.write(true).create_new(true).mode(bits).open(target)
    };
    match (&one.content, one.mode) {
        (Content::Own, _) => Ok(()),
        // A submodule is an empty directory in every workspace.
        (_, TreeMode::Gitlink) => fs::create_dir(target).map_err(failed()),
        (Content::Object(oid), TreeMode::Symlink) => {
            let text = objects.read_blob(oid)?;
            symlink(path_of(&text), target).map_err(failed())
        }
        (Content::Object(oid), _) => {
            let mut out = make().map_err(failed())?;
            Ok(objects.copy_blob(oid, None, (&mut out, target))?)
        }
        (Content::Below(lower), TreeMode::Symlink) => {
            let text = fs::read_link(lower).map_err(file("read the link", lower))?;
            symlink(text, target).map_err(failed())
        }
        (Content::Below(lower), _) => {
            let mut source = fs::File::open(lower).map_err(file("open", lower))?;
            let mut out = make().map_err(failed())?;
            std::io::copy(&mut source, &mut out)
                .map(drop)
                .map_err(failed())
        }
    }
}

/// Marks a path as removed, as the kernel does: otherwise what lies below
/// would show in its place.
fn hide(path: &Path) -> Result<(), Error> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(file("make", directory))?;
    }
    let nothing = rustix::fs::makedev(0, 0);
    rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), nothing)
        .map_err(|errno| file("hide", path)(errno.into()))
}

/// Makes the directory of a submodule again; one that lies where others show
/// through hides them, as the kernel marks it for the superuser.
fn empty(path: &Path, hides: bool) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(file("make", path))?;
    if hides {
        let none = rustix::fs::XattrFlags::empty();
        rustix::fs::lsetxattr(path, "trusted.overlay.opaque", b"y", none)
            .map_err(|errno| file("mark", path)(errno.into()))?;
    }
    Ok(())
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
    use super::*;

    #[test]
    fn the_outermost_is_found_by_component() {
        let sorted: BTreeSet<Vec<u8>> = ["a/b", "a/b/c", "x"]
            .map(|path| path.as_bytes().to_vec())
            .into();
        let of = |path: &str| outermost(&sorted, path.as_bytes()).map(|top| path_of(top));
        assert_eq!(of("a/b/c/d"), Some(Path::new("a/b")));
        assert_eq!(of("a/b"), Some(Path::new("a/b")));
        assert_eq!(of("a/bc"), None);
        assert_eq!(of("a"), None);
    }
}
