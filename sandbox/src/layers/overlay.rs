//! Owns merged directories: what changes in them lands in a private one.
//!
//! The directories are opened without following a single link, and the kernel
//! is told of them through the descriptors, so that no character of a path
//! means anything to it and nothing can be swapped meanwhile. What the kernel
//! or a file system does not allow is told with the path that it is about;
//! `mounts` decides what becomes of it.

use std::fmt::Write as _;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, XattrFlags, openat2, removexattr, setxattr,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};

use serde::{Deserialize, Serialize};

use crate::policy::{Directories, PolicyError};

/// The longest value that the kernel takes, its end not counted.
const LONGEST_VALUE: usize = 255;

/// The directories of a merged one, topmost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layers {
    pub(crate) lower: Vec<PathBuf>,
    pub(crate) upper: PathBuf,
    pub(crate) work: PathBuf,
    pub(crate) directories: Directories,
}

impl Layers {
    /// One lower directory and what belongs to it, all in one place.
    pub(crate) fn in_directory(place: &Path) -> Self {
        Self {
            lower: vec![place.join("lower")],
            upper: place.join("upper"),
            work: place.join("work"),
            directories: Directories::Renamed,
        }
    }
}

/// A detached mount that shows the layers as one directory, and where the
/// kernel keeps what it must remember.
///
/// With attributes of the user, directories that lie below cannot be renamed,
/// only copied (`EXDEV`), and files of users that the cage does not know cannot
/// be changed: both are how the kernel merges without trusting attributes that
/// others may have set.
pub(super) fn make(layers: &Layers) -> Result<(OwnedFd, Attributes), PolicyError> {
    let lower = layers
        .lower
        .iter()
        .map(|path| open_directory(path))
        .collect::<Result<Vec<_>, _>>()?;
    let upper = open_directory(&layers.upper)?;
    let work = open_directory(&layers.work)?;
    allow_again(&work);
    let attributes = attributes(&upper).map_err(|errno| {
        refused(
            &layers.upper,
            format!("its file system keeps no attributes to merge with ({errno})"),
        )
    })?;
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| {
        refused(
            &layers.upper,
            format!("the kernel merges no directories here ({errno})"),
        )
    })?;
    configure(
        &context,
        &lower,
        (&upper, &work),
        (attributes, layers.directories),
    )
    .and_then(|()| {
        fsmount(
            context.as_fd(),
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
        )
    })
    .map(|mount| (mount, attributes))
    .map_err(|errno| {
        let said = said(&context);
        let reason = format!("it cannot be merged with what it is to change ({errno}{said})");
        refused(&layers.upper, reason)
    })
}

/// A detached mount of the topmost lower directory alone, with all below it.
pub(super) fn lower_alone(layers: &Layers) -> Result<OwnedFd, PolicyError> {
    let path = &layers.lower[0];
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(open_directory(path)?.as_fd(), c"", flags)
        .map_err(|errno| refused(path, errno.to_string()))
}

/// Removes the kernel's mark that these directories were merged before: it
/// stands for changes that a power failure may have lost, which is the
/// caller's to know.
fn allow_again(work: &OwnedFd) {
    let mark = "work/incompat/volatile";
    let dirty = format!("{mark}/dirty");
    for (path, flags) in [
        (dirty.as_str(), AtFlags::empty()),
        (mark, AtFlags::REMOVEDIR),
    ] {
        match rustix::fs::unlinkat(work, path, flags) {
            // Usually there is none; if it stays, the mount fails and says so.
            Ok(()) | Err(_) => {}
        }
    }
}

fn refused(path: &Path, reason: String) -> PolicyError {
    PolicyError::BadSource {
        path: path.into(),
        reason,
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, PolicyError> {
    openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
    .map_err(|errno| refused(path, errno.to_string()))
}

/// Where the kernel keeps what it must remember of the upper directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attributes {
    /// In attributes that only the machine's superuser can set.
    Trusted,
    /// In attributes of the user; what a user namespace is left with.
    User,
}

/// Finds out which attributes can be set, by setting one and removing it.
///
/// Without this the kernel makes the mount and fails only when a directory is
/// removed and made again.
fn attributes(upper: &OwnedFd) -> rustix::io::Result<Attributes> {
    let path = name(upper);
    let settable = |attribute: &str| {
        setxattr(path.as_str(), attribute, b"y", XattrFlags::empty())?;
        removexattr(path.as_str(), attribute)
    };
    match settable("trusted.cofferdam.probe") {
        Ok(()) => Ok(Attributes::Trusted),
        Err(_) => settable("user.cofferdam.probe").map(|()| Attributes::User),
    }
}

/// A path that means the open directory and nothing else.
fn name(directory: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", directory.as_raw_fd())
}

fn configure(
    context: &OwnedFd,
    lower: &[OwnedFd],
    (upper, work): (&OwnedFd, &OwnedFd),
    (attributes, directories): (Attributes, Directories),
) -> rustix::io::Result<()> {
    let set = |key: &str, value: &str| fsconfig_set_string(context.as_fd(), key, value);
    let names: Vec<String> = lower.iter().map(name).collect();
    let joined = names.join(":");
    if joined.len() <= LONGEST_VALUE {
        set("lowerdir", &joined)?;
    } else {
        // Since Linux 6.7; older kernels take no more than fits in one value.
        for name in &names {
            set("lowerdir+", name)?;
        }
    }
    set("upperdir", &name(upper))?;
    set("workdir", &name(work))?;
    // An index would tie the directories to each other for good.
    set("index", "off")?;
    // Otherwise the end of the cage would write back everything that the
    // whole machine has changed on this file system, and wait for it.
    fsconfig_set_flag(context.as_fd(), "volatile")?;
    match attributes {
        // A copy without its bytes would read as zeros to whoever captures.
        // A renamed directory's attribute can be forged by nobody inside.
        Attributes::Trusted => {
            set("metacopy", "off")?;
            match directories {
                Directories::Copied => set("redirect_dir", "off")?,
                Directories::Renamed => set("redirect_dir", "on")?,
            }
        }
        // These exclude the others by themselves.
        Attributes::User => fsconfig_set_flag(context.as_fd(), "userxattr")?,
    }
    fsconfig_create(context.as_fd())
}

/// What the kernel has to say about a failed mount.
fn said(context: &OwnedFd) -> String {
    let mut all = String::new();
    let mut line = [0; 512];
    loop {
        match rustix::io::read(context, &mut line) {
            Ok(length) if length > 0 => {
                let text = String::from_utf8_lossy(&line[..length]);
                let text = text.trim().trim_start_matches(['e', 'w', 'i']).trim();
                write!(all, "; {text}").expect("because a string takes everything");
            }
            Ok(_) => return all,
            Err(Errno::INTR) => {}
            // Older kernels say nothing but the error itself.
            Err(_) => return all,
        }
    }
}
