//! Owns how a directory is moved that the kernel only copies.
//!
//! In a merged directory the kernel renames files, and directories that lie in
//! the upper part alone; one that lies beneath it answers `EXDEV`. Here such a
//! one is made anew under its new name and what is in it is moved there, one by
//! one, by the kernel. Every step goes by a descriptor and one name. Whatever
//! others do meanwhile, nothing is done but what the calling process may do.
//! Called by `mover` and by nobody else.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Stat, StatxFlags, Timespec, Timestamps,
    XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat, fstatfs, futimens,
    mkdirat, openat, renameat_with, statat, statx, unlinkat,
};
use rustix::io::{Errno, Result};

/// What `statfs` says of a merged directory.
const MERGED: u32 = 0x794C_7630;
/// Directories within each other that are moved so; each holds descriptors.
const DEEPEST: usize = 256;
/// Names that are remembered at once, to move them back.
const NAMES: usize = 1 << 20;
/// How often a directory is emptied into which others put something meanwhile.
const ROUNDS: usize = 8;
/// Attributes of a directory, and bytes of one, that are taken along.
const ATTRIBUTES: usize = 16 << 10;

/// A name in a directory.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) parent: BorrowedFd<'a>,
    /// One component; with slashes behind it, it can only be a directory's.
    pub(super) name: &'a CStr,
}

/// Renames as `renameat2` does, and directories that lie beneath as well.
///
/// A move that fails half-way is taken back as far as it can be.
///
/// # Errors
/// The kernel's. `EXDEV` where it is no merged directory, or too much in it.
pub(super) fn rename(old: Place<'_>, new: Place<'_>, flags: RenameFlags) -> Result<()> {
    // Every rule about names, kinds and permissions is the kernel's to apply.
    match renameat_with(old.parent, old.name, new.parent, new.name, flags) {
        Err(Errno::XDEV) => {}
        other => return other,
    }
    if !merged_as_one(old.parent, new.parent)? {
        return Err(Errno::XDEV);
    }
    let (old_name, new_name) = (bare(old.name), bare(new.name));
    let old = Place {
        name: &old_name,
        ..old
    };
    let new = Place {
        name: &new_name,
        ..new
    };
    let mut mover = Mover { names: NAMES };
    let result = if flags.contains(RenameFlags::EXCHANGE) {
        mover.exchange(old, new)
    } else {
        let free = match flags.contains(RenameFlags::NOREPLACE) {
            true => Target::MustBeFree,
            false => Target::MayBeEmpty,
        };
        mover.directory(old, new, free, 0)
    };
    result.map_err(|errno| match errno {
        // No rename needs descriptors.
        Errno::MFILE | Errno::NFILE => Errno::XDEV,
        other => other,
    })
}

/// Whether both are of one mount, and that is of merged directories.
fn merged_as_one(old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> Result<bool> {
    let mount = |directory| {
        let found = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        Ok::<_, Errno>((found.stx_mnt_id, found.stx_mask & StatxFlags::MNT_ID.bits()))
    };
    let (old_mount, new_mount) = (mount(old)?, mount(new)?);
    let kind = fstatfs(old)?.f_type;
    Ok(old_mount == new_mount
        && old_mount.1 != 0
        && u32::try_from(kind).is_ok_and(|kind| kind == MERGED))
}

/// A name without the slashes behind it.
fn bare(name: &CStr) -> CString {
    let bytes = name.to_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/');
    CString::new(&bytes[..end.map_or(0, |at| at + 1)])
        .expect("because it is part of a name without NUL")
}

/// What may stand where a directory goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    MustBeFree,
    MayBeEmpty,
}

struct Mover {
    /// How many names may still be remembered.
    names: usize,
}

/// A directory on its way.
struct Moving {
    source: OwnedFd,
    target: OwnedFd,
    /// What the source was at first.
    facts: Stat,
    /// What has gone over.
    moved: Vec<CString>,
}

impl Mover {
    /// Moves what cannot be renamed by the kernel at once.
    fn directory(
        &mut self,
        old: Place<'_>,
        new: Place<'_>,
        free: Target,
        depth: usize,
    ) -> Result<()> {
        if depth == DEEPEST {
            return Err(Errno::XDEV);
        }
        let source = open(old).map_err(|errno| match errno {
            // It can be renamed and not looked into.
            Errno::ACCESS => Errno::XDEV,
            other => other,
        })?;
        let facts = fstat(&source)?;
        let replaced = make(new, free)?;
        let result = open(new).and_then(|target| {
            let mut moving = Moving {
                source,
                target,
                facts,
                moved: Vec::new(),
            };
            let result = self.fill(&mut moving, old, depth);
            if result.is_err() {
                self.take_back(&moving, depth);
            }
            self.names += moving.moved.len();
            result
        });
        if result.is_err() {
            // Fails if somebody else has put something there, whose it then is.
            let removed = unlinkat(new.parent, new.name, AtFlags::REMOVEDIR);
            if let (Ok(()), Some(mode)) = (removed, replaced) {
                let _ = mkdirat(new.parent, new.name, mode);
            }
        }
        result
    }

    /// Moves all of what is in the source, then the source's properties, then
    /// removes it.
    fn fill(&mut self, moving: &mut Moving, old: Place<'_>, depth: usize) -> Result<()> {
        widen(&moving.source, &moving.facts)?;
        for _ in 0..ROUNDS {
            self.empty(moving, depth)?;
            dress(moving)?;
            match unlinkat(old.parent, old.name, AtFlags::REMOVEDIR) {
                // Somebody has put something there since it was listed.
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                other => return other,
            }
        }
        Err(Errno::XDEV)
    }

    fn empty(&mut self, moving: &mut Moving, depth: usize) -> Result<()> {
        let listed = list(&moving.source, self.names)?;
        self.names -= listed.len();
        let mut rest = listed.into_iter();
        while let Some(name) = rest.next() {
            let (from, to) = ends(&moving.source, &moving.target, &name);
            match self.entry(from, to, depth + 1) {
                Ok(()) => moving.moved.push(name),
                // Somebody has removed it since it was listed.
                Err(Errno::NOENT) => self.names += 1,
                Err(errno) => {
                    self.names += 1 + rest.len();
                    return Err(errno);
                }
            }
        }
        Ok(())
    }

    /// Moves one thing to a name that is free.
    fn entry(&mut self, from: Place<'_>, to: Place<'_>, depth: usize) -> Result<()> {
        let free = RenameFlags::NOREPLACE;
        match renameat_with(from.parent, from.name, to.parent, to.name, free) {
            // A directory that may not be written to keeps its parent, says the
            // kernel; here it is the one above that goes elsewhere.
            Err(errno @ (Errno::XDEV | Errno::ACCESS)) if is_directory(from) => {
                match self.directory(from, to, Target::MustBeFree, depth) {
                    Err(Errno::XDEV) => Err(errno),
                    other => other,
                }
            }
            other => other,
        }
    }

    /// Undoes a move that failed, as far as others let it.
    fn take_back(&mut self, moving: &Moving, depth: usize) {
        let _ = fchmod(&moving.target, Mode::RWXU);
        for name in moving.moved.iter().rev() {
            let (from, to) = ends(&moving.target, &moving.source, name);
            let _ = self.entry(from, to, depth + 1);
        }
        let _ = fchmod(&moving.source, mode(&moving.facts));
        let _ = futimens(&moving.source, &times(&moving.facts));
    }

    /// Exchanges two names over a third one.
    fn exchange(&mut self, old: Place<'_>, new: Place<'_>) -> Result<()> {
        let spare = spare(old.parent)?;
        let spare = Place {
            parent: old.parent,
            name: &spare,
        };
        self.entry(old, spare, 0)?;
        if let Err(errno) = self.entry(new, old, 0) {
            let _ = self.entry(spare, old, 0);
            return Err(errno);
        }
        if let Err(errno) = self.entry(spare, new, 0) {
            let _ = self.entry(old, new, 0);
            let _ = self.entry(spare, old, 0);
            return Err(errno);
        }
        Ok(())
    }
}

fn ends<'a>(from: &'a OwnedFd, to: &'a OwnedFd, name: &'a CStr) -> (Place<'a>, Place<'a>) {
    let place = |parent: &'a OwnedFd| Place {
        parent: parent.as_fd(),
        name,
    };
    (place(from), place(to))
}

fn open(place: Place<'_>) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(place.parent, place.name, flags, Mode::empty())
}

/// The names in a directory; an error if there are too many.
fn list(directory: &OwnedFd, most: usize) -> Result<Vec<CString>> {
    let mut listed = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if listed.len() == most {
            return Err(Errno::XDEV);
        }
        listed.push(name.to_owned());
    }
    Ok(listed)
}

fn is_directory(place: Place<'_>) -> bool {
    statat(place.parent, place.name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Directory)
}

/// Makes a directory, in the place of an empty one if it may; that one's mode.
fn make(new: Place<'_>, free: Target) -> Result<Option<Mode>> {
    match mkdirat(new.parent, new.name, Mode::RWXU) {
        Err(Errno::EXIST) if free == Target::MayBeEmpty => {}
        other => return other.map(|()| None),
    }
    let facts = statat(new.parent, new.name, AtFlags::SYMLINK_NOFOLLOW)?;
    unlinkat(new.parent, new.name, AtFlags::REMOVEDIR)?;
    mkdirat(new.parent, new.name, Mode::RWXU)?;
    Ok(Some(mode(&facts)))
}

/// A name that nothing has.
fn spare(parent: BorrowedFd<'_>) -> Result<CString> {
    for number in 0..u16::MAX {
        let name = CString::new(format!(".exchanged-{number}"))
            .expect("because the name is made of text and a number");
        match statat(parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(name),
            Ok(_) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::XDEV)
}

/// Lets the owner take things out of a directory whose mode forbids it: the
/// kernel asks no such thing of one that is renamed.
fn widen(source: &OwnedFd, facts: &Stat) -> Result<()> {
    let mode = mode(facts);
    if mode.contains(Mode::RWXU) {
        return Ok(());
    }
    fchmod(source, mode | Mode::RWXU)
}

/// Gives the target what the source was: its group, attributes, mode and times.
/// Attributes and groups that this process may not give stay behind.
fn dress(moving: &Moving) -> Result<()> {
    let Moving {
        source,
        target,
        facts,
        ..
    } = moving;
    if fstat(target)?.st_gid != facts.st_gid {
        let _ = fchown(target, None, Some(Gid::from_raw(facts.st_gid)));
    }
    copy_attributes(source, target);
    fchmod(target, mode(facts))?;
    futimens(target, &times(facts))
}

fn copy_attributes(source: &OwnedFd, target: &OwnedFd) {
    let mut names = vec![0; ATTRIBUTES];
    let mut value = vec![0; ATTRIBUTES];
    let Ok(length) = flistxattr(source, &mut names[..]) else {
        return;
    };
    for name in names[..length].split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        if let Ok(length) = fgetxattr(source, name, &mut value[..]) {
            let _ = fsetxattr(target, name, &value[..length], XattrFlags::empty());
        }
    }
}

/// The bits of a mode that a directory can be given: set-user-id means nothing
/// on one, and the filter refuses it.
fn mode(facts: &Stat) -> Mode {
    Mode::from_raw_mode(facts.st_mode).difference(Mode::SUID)
}

fn times(facts: &Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let nanoseconds = |value: u64| i64::try_from(value).unwrap_or(0);
    Timestamps {
        last_access: time(facts.st_atime, nanoseconds(facts.st_atime_nsec)),
        last_modification: time(facts.st_mtime, nanoseconds(facts.st_mtime_nsec)),
    }
}
