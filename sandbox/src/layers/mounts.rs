//! Owns the view: everything read-only, except what the policy makes writable.
//!
//! Runs in a mount namespace of its own, after the PID namespace exists (a
//! fresh procfs shows that one). Sources are opened before anything is
//! covered, targets are opened without following a single link, and nothing
//! is created outside private directories.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
    open_tree,
};

use super::LayerError;
use super::devices;
use super::overlay::{self, Attributes, Layers};
use super::plan::{Place, Plan, Step, What, plan};
use crate::enforcement::Status;
use crate::guarantees::Feature;
use crate::policy::{
    Access, Directories, FileRule, Layer, Otherwise, Policy, PolicyError, ViewMode,
};
use crate::sys::kernel::{Reach, set_mount_attributes};

/// Whether the namespace that procfs would show is this cage's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processes {
    Own,
    Hosts,
}

/// The status of a view that makes no mounts, if this is one.
pub(crate) fn unmounted(policy: &Policy) -> Option<Status> {
    match policy.view.mode {
        _ if policy.waives(Layer::Mounts) => Some(Status::Waived),
        ViewMode::InPlace => Some(Status::Absent {
            reason: "the view is in place: no mounts are made".into(),
        }),
        ViewMode::Mounted => None,
    }
}

/// A finished view.
#[derive(Debug)]
pub(crate) struct Viewed {
    pub(crate) status: Status,
    /// What of the kernel is in force for it.
    pub(crate) features: Vec<Feature>,
    /// Where the rules point in it.
    pub(crate) rules: Vec<FileRule>,
    /// The cage's procfs once more, writable and attached nowhere: the maps of
    /// a user namespace that is entered later are written through it. Must be
    /// closed before the command starts.
    pub(crate) procfs: Option<OwnedFd>,
    /// Merged directories in which those that lie beneath should be renamed,
    /// and the kernel does not.
    pub(crate) unrenamed: Vec<PathBuf>,
}

/// Builds the view in this mount namespace.
///
/// What the policy lets be otherwise, and is, is added to `notes`.
pub(crate) fn apply(
    policy: &Policy,
    processes: Processes,
    notes: &mut Vec<String>,
) -> Result<Viewed, LayerError> {
    let Plan { steps, rules } = plan(policy)?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(LayerError::step("keep mounts private"))?;
    let mut told = Told {
        notes,
        unrenamed: Vec::new(),
    };
    let sources = steps
        .iter()
        .map(|step| open_source(step, &mut told))
        .collect::<Result<Vec<_>, _>>()?;
    let unrenamed = told.unrenamed;
    set_mount_attributes(CWD, c"/", Reach::Recursive, read_only())
        .map_err(LayerError::step("make the host's files read-only"))?;
    let mut missing = Vec::new();
    let procfs = match mount_proc(processes)? {
        Procfs::Own(procfs) => Some(procfs),
        Procfs::Missing(what) => {
            missing.push(what);
            None
        }
    };
    let mut made = Vec::new();
    for (step, source) in steps.iter().zip(sources) {
        made.push((step, attach(step, source)?));
    }
    // After the policy's mounts, so that a hidden /dev gets them too.
    missing.extend(devices::mount_terminals());
    // Only now: targets of later mounts had to be made inside.
    for (step, mount) in &made {
        if let What::Tmpfs {
            access: Access::ReadOnly,
            ..
        }
        | What::Devices = step.what
        {
            set_mount_attributes(mount, c"", Reach::One, read_only()).map_err(LayerError::step(
                format!("make `{}` read-only", step.target.display()),
            ))?;
        }
    }
    let own_devices = steps.iter().any(|step| step.what == What::Devices);
    let features = [
        (true, Feature::View),
        (procfs.is_some(), Feature::OwnProcfs),
        (own_devices, Feature::OwnDevices),
    ];
    let features = features
        .into_iter()
        .filter_map(|(holds, feature)| holds.then_some(feature));
    Ok(Viewed {
        status: Status::unless(missing),
        features: features.collect(),
        rules,
        procfs,
        unrenamed,
    })
}

fn read_only() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID
}

/// What is learnt while the sources are opened.
struct Told<'a> {
    notes: &'a mut Vec<String>,
    unrenamed: Vec<PathBuf>,
}

/// A detached mount of what a step shows.
fn open_source(step: &Step, told: &mut Told<'_>) -> Result<OwnedFd, LayerError> {
    match &step.what {
        What::Tmpfs { access, bytes } => {
            // A hidden directory holds only other mounts' targets. It is not
            // sticky: in such a directory the kernel refuses to open another
            // user's device for writing if `O_CREAT` is given, as shells do.
            let (bytes, mode) = match access {
                Access::ReadOnly => ((*bytes).max(64 << 10), "755"),
                Access::ReadWrite => (*bytes, "1777"),
            };
            let inodes = inodes(*access, bytes).to_string();
            let options = [
                ("size", bytes.to_string()),
                ("nr_inodes", inodes),
                ("mode", mode.to_owned()),
            ];
            filesystem(
                "tmpfs",
                &options
                    .each_ref()
                    .map(|(key, value)| (*key, value.as_str())),
            )
            .map_err(LayerError::step(format!(
                "make a private directory for `{}`",
                step.target.display()
            )))
        }
        What::Devices => devices::make(),
        What::Overlay {
            layers,
            access,
            otherwise,
        } => {
            let (mount, attributes) = open_overlay(step, layers, *otherwise, told.notes)?;
            match access {
                Access::ReadWrite => {
                    let unrenamed = layers.directories == Directories::Renamed
                        && attributes == Some(Attributes::User);
                    told.unrenamed
                        .extend(unrenamed.then(|| step.target.clone()));
                }
                Access::ReadOnly => {
                    set_mount_attributes(&mount, c"", Reach::Recursive, read_only()).map_err(
                        LayerError::step(format!("restrict `{}`", step.target.display())),
                    )?;
                }
            }
            Ok(mount)
        }
        What::Bind { source, access } => {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_EMPTY_PATH
                | OpenTreeFlags::AT_RECURSIVE;
            // The path was resolved when the plan was made: a link in it now
            // was put there since.
            let tree = openat2(
                CWD,
                source.as_path(),
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
                ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
            )
            .and_then(|source| open_tree(source, c"", flags))
            .map_err(|errno| PolicyError::BadSource {
                path: source.clone().into(),
                reason: errno.to_string(),
            })?;
            let attributes = match access {
                Access::ReadOnly => read_only(),
                Access::ReadWrite => MountAttrFlags::MOUNT_ATTR_NOSUID,
            };
            set_mount_attributes(&tree, c"", Reach::Recursive, attributes)
                .map_err(LayerError::step(format!("restrict `{}`", source.display())))?;
            Ok(tree)
        }
    }
}

/// Also where the kernel remembers changes; nowhere if there can be none.
fn open_overlay(
    step: &Step,
    layers: &Layers,
    otherwise: Otherwise,
    notes: &mut Vec<String>,
) -> Result<(OwnedFd, Option<Attributes>), LayerError> {
    match (overlay::make(layers), otherwise) {
        (Ok((mount, attributes)), _) => Ok((mount, Some(attributes))),
        (Err(error), Otherwise::Refuse) => Err(error.into()),
        (Err(error), Otherwise::ReadOnly) => {
            let lower = overlay::lower_alone(layers)?;
            set_mount_attributes(&lower, c"", Reach::Recursive, read_only()).map_err(
                LayerError::step(format!("restrict `{}`", layers.lower[0].display())),
            )?;
            notes.push(format!(
                "`{}` is read-only: failed to {error}",
                step.target.display()
            ));
            Ok((lower, None))
        }
    }
}

/// How many files a private directory may hold: each takes up memory of the
/// kernel's that its size does not count.
fn inodes(access: Access, bytes: u64) -> u64 {
    match access {
        // Only the stage makes anything there: the targets of mounts.
        Access::ReadOnly => 1 << 16,
        Access::ReadWrite => (bytes >> 13).max(1 << 10),
    }
}

pub(super) fn filesystem(kind: &str, options: &[(&str, &str)]) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | if kind == "devpts" {
            MountAttrFlags::empty()
        } else {
            MountAttrFlags::MOUNT_ATTR_NODEV
        };
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Puts a detached mount on its target; the descriptor goes on meaning the mount.
fn attach(step: &Step, source: OwnedFd) -> Result<OwnedFd, LayerError> {
    let bad = |reason: String| PolicyError::BadTarget {
        path: step.target.clone().into(),
        reason,
    };
    if step.place == Place::Private {
        make_target(&step.target, &source).map_err(|source| bad(source.to_string()))?;
    }
    let target = openat2(
        CWD,
        step.target.as_path(),
        OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
    .map_err(|errno| bad(errno.to_string()))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(source.as_fd(), c"", target.as_fd(), c"", flags)
        .map_err(|errno| bad(errno.to_string()))?;
    Ok(source)
}

fn make_target(target: &Path, source: &OwnedFd) -> std::io::Result<()> {
    if fs::symlink_metadata(target).is_ok() {
        return Ok(());
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    match FileType::from_raw_mode(fstat(source)?.st_mode) {
        FileType::Directory => fs::create_dir(target),
        _ => fs::File::create_new(target).map(drop),
    }
}

/// What became of the cage's own procfs.
enum Procfs {
    /// It is in place, read-only; this is it once more, writable and attached
    /// nowhere.
    Own(OwnedFd),
    /// There is none, for this reason.
    Missing(String),
}

/// Mounts a procfs that shows this cage only and can change nothing.
fn mount_proc(processes: Processes) -> Result<Procfs, LayerError> {
    match processes {
        // The host's procfs stays, read-only as a whole.
        Processes::Hosts => {
            return Ok(Procfs::Missing(
                "a procfs of one's own: the host's processes are visible".into(),
            ));
        }
        Processes::Own => {}
    }
    let proc = match filesystem("proc", &[]) {
        Ok(proc) => proc,
        Err(errno) => {
            // Machines that mask parts of their procfs allow no fresh one, and
            // the old one leads to the host's processes.
            let mask = filesystem("tmpfs", &[("size", "4096"), ("mode", "555")])
                .map_err(LayerError::step("mask procfs"))?;
            set_mount_attributes(&mask, c"", Reach::One, read_only())
                .map_err(LayerError::step("mask procfs"))?;
            cover("/proc", &mask)?;
            return Ok(Procfs::Missing(format!(
                "procfs: the machine allows no fresh one ({errno})"
            )));
        }
    };
    // All of what the command sees is read-only: the switches speak for the
    // whole machine and are the superuser's to write. What is lost is naming
    // another thread and raising one's own chance to be killed; programs do
    // without both.
    let clone = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let seen = open_tree(proc.as_fd(), c"", clone).map_err(LayerError::step("copy procfs"))?;
    set_mount_attributes(&seen, c"", Reach::One, read_only())
        .map_err(LayerError::step("make procfs read-only"))?;
    cover("/proc", &seen)?;
    Ok(Procfs::Own(proc))
}

pub(super) fn cover(target: &str, mount: &OwnedFd) -> Result<(), LayerError> {
    let path = CString::new(Path::new(target).as_os_str().as_bytes())
        .expect("because the names are constants");
    let path: &CStr = &path;
    move_mount(
        mount.as_fd(),
        c"",
        CWD,
        path,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .map_err(LayerError::step(format!("mount on {target}")))
}
