//! What is mounted, and in which order.
//!
//! Owns the view of the file system: private directories over everything
//! that holds other people's files or sockets of the host, the agent's own
//! directories in them, then the workspace. Paths with a rule beneath a
//! private directory are shown again by the helper itself. A repository may
//! lie beneath any of them.

use std::path::{Path, PathBuf};

use cofferdam_sandbox::{Access, Directories, FileRule, Mount, Otherwise};

use super::input::{Host, Input};
use super::readable::system_secrets;
use crate::model::{ViewAccess, ViewMode, ViewMount, ViewSource};

/// Directories at the top of the file system that stay visible; every other
/// one is hidden, because a read-only mount does not keep anybody from
/// connecting to a socket or reading a pipe that lies there.
const VISIBLE: [&str; 13] = [
    "/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/proc",
    "/sbin", "/sys", "/usr",
];

/// Directories for temporary files; each becomes the agent's own.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// Room in such a directory where it cannot be the agent's own on disk.
const TEMPORARY_BYTES: u64 = 2 << 30;

/// The mounts and where they leave the temporary directory.
pub(super) struct Mounted {
    pub(super) mounts: Vec<Mount>,
    pub(super) tmp: PathBuf,
    /// Temporary directories that are writable besides `tmp`.
    pub(super) temporary: Vec<PathBuf>,
}

/// The mounts of an agent; none where its view is in place.
pub(super) fn mounts(input: &Input<'_>, rules: &[FileRule]) -> Mounted {
    let view = input.view;
    let mut mounted = Mounted {
        mounts: Vec::new(),
        tmp: view.tmp.clone(),
        temporary: Vec::new(),
    };
    match view.mode {
        ViewMode::InPlace => return mounted,
        ViewMode::Mounted => {}
    }
    for target in hidden(&input.host) {
        mounted.mounts.push(Mount::Tmpfs {
            target: target.into(),
            access: Access::ReadOnly,
            bytes: 0,
        });
    }
    hide_secrets(&input.host, &mut mounted.mounts);
    for directory in TEMPORARY.map(PathBuf::from) {
        if input.host.is_directory(&directory) {
            private_temporary(input, rules, directory, &mut mounted);
        }
    }
    hide_files(input, rules, &mut mounted.mounts);
    mounted
        .mounts
        .push(bind(&view.home, &view.home, Access::ReadWrite));
    if mounted.tmp == view.tmp {
        mounted
            .mounts
            .push(bind(&view.tmp, &view.tmp, Access::ReadWrite));
    }
    for cache in input.caches {
        mounted.mounts.push(Mount::Overlay {
            lower: vec![cache.lower.as_path().into()],
            upper: cache.upper.as_path().into(),
            work: cache.work.as_path().into(),
            target: cache.target.as_path().into(),
            access: Access::ReadWrite,
            directories: Directories::Copied,
            // To read what was fetched is most of the use, and a home on a
            // file system that merges nothing is no reason to refuse an agent.
            otherwise: Otherwise::ReadOnly,
        });
    }
    let is_writer = input.contract.is_writer();
    let shown = view.mounts.iter().map(|mount| shown(mount, is_writer));
    mounted.mounts.extend(shown);
    mounted
}

/// A mount of the workspace.
fn shown(mount: &ViewMount, is_writer: bool) -> Mount {
    let access = match mount.access {
        ViewAccess::ReadWrite if is_writer => Access::ReadWrite,
        // A reader's role holds whatever its workspace would allow.
        ViewAccess::ReadWrite | ViewAccess::ReadOnly => Access::ReadOnly,
    };
    let target = mount.target.as_path();
    match &mount.source {
        ViewSource::Path(source) => bind(source, target, access),
        ViewSource::Layers { lower, upper, work } => Mount::Overlay {
            lower: lower.iter().map(|path| path.as_path().into()).collect(),
            upper: upper.as_path().into(),
            work: work.as_path().into(),
            target: target.into(),
            access,
            directories: Directories::Renamed,
            otherwise: Otherwise::Refuse,
        },
    }
}

fn bind(source: &Path, target: &Path, access: Access) -> Mount {
    Mount::Bind {
        source: source.into(),
        target: target.into(),
        access,
    }
}

/// What is hidden, outermost first; what lies in another is hidden with it.
fn hidden(host: &Host<'_>) -> Vec<PathBuf> {
    let temporary = |path: &Path| TEMPORARY.iter().any(|one| Path::new(one) == path);
    let visible = |path: &Path| VISIBLE.iter().any(|one| Path::new(one) == path);
    let tops = host
        .top_level
        .iter()
        .filter(|path| !visible(path) && !temporary(path));
    let mut all: Vec<PathBuf> = tops.cloned().collect();
    // Other agents' copies and homes, wherever the person keeps them.
    all.push(host.state.to_owned());
    // A home directory that is the root, or that a part of the system lies
    // in, cannot be hidden; nothing in it has a rule, so it stays unreadable.
    let usable = host.home.components().count() > 1 && !Path::new("/usr").starts_with(host.home);
    if usable {
        all.push(host.home.to_owned());
    }
    let mut hidden: Vec<PathBuf> = Vec::new();
    for path in all {
        let within = hidden.iter().any(|outer| path.starts_with(outer));
        if !within && host.is_directory(&path) {
            hidden.push(path);
        }
    }
    hidden
}

/// Covers single files in what is seen: sockets, because before Landlock 9 a
/// read-only mount is all that the kernel has and it keeps nobody from
/// connecting, and what may log the person in within a toolchain. A socket that
/// is bound later is not covered; the report says so.
///
/// It must come after the mounts that hide: what has a rule beneath one of
/// them is shown again right behind it.
fn hide_files(input: &Input<'_>, rules: &[FileRule], mounts: &mut Vec<Mount>) {
    let host = &input.host;
    let mut covers = hidden(host);
    covers.extend(TEMPORARY.map(PathBuf::from));
    // Settings that are listed one by one are no links, and hidden by nothing.
    let listed = |rule: &&FileRule| {
        // Both as they were listed: part by part it would be most of the work.
        let same = |path: &PathBuf| path.as_os_str() == rule.path.0.as_os_str();
        let of_list = |open: &[PathBuf]| open.iter().any(same);
        !host.open_settings.is_some_and(of_list)
    };
    let shown: Vec<(PathBuf, &Path)> = rules
        .iter()
        .filter(listed)
        .map(|rule| ((host.resolve)(&rule.path), rule.path.0.as_path()))
        .collect();
    let mut places: Vec<PathBuf> = Vec::new();
    for file in host.sockets.iter().chain(host.login_files) {
        for place in seen_at(file, &covers, &shown) {
            if !is_own(input, &place) && !places.contains(&place) {
                places.push(place);
            }
        }
    }
    let null = Path::new("/dev/null");
    mounts.extend(
        places
            .iter()
            .map(|place| bind(null, place, Access::ReadOnly)),
    );
}

/// Where a file without links in its path is seen: where it is, unless that is
/// hidden, and beneath every path with a rule that is shown again, by both of
/// its names.
fn seen_at(file: &Path, covers: &[PathBuf], shown: &[(PathBuf, &Path)]) -> Vec<PathBuf> {
    // These are the agent's own, whatever the host has there.
    if ["/proc", "/dev"].iter().any(|own| file.starts_with(own)) {
        return Vec::new();
    }
    let is_hidden = |path: &Path| covers.iter().any(|outer| path.starts_with(outer));
    let mut places = Vec::new();
    if VISIBLE.iter().any(|top| file.starts_with(top)) && !is_hidden(file) {
        places.push(file.to_owned());
    }
    for (real, literal) in shown {
        let Ok(rest) = file.strip_prefix(real) else {
            continue;
        };
        for base in [real.as_path(), literal] {
            if is_hidden(base) {
                // Joined with nothing it would end in a slash.
                let whole = rest.as_os_str().is_empty();
                places.push(if whole {
                    base.to_owned()
                } else {
                    base.join(rest)
                });
            }
        }
    }
    places
}

/// Whether a path is the workspace's or a private directory's: what the host
/// has there is not seen.
fn is_own(input: &Input<'_>, path: &Path) -> bool {
    let view = input.view;
    let targets = view.mounts.iter().map(|mount| mount.target.as_path());
    targets
        .chain([view.home.as_path(), view.tmp.as_path()])
        .any(|own| path.starts_with(own))
}

fn hide_secrets(host: &Host<'_>, mounts: &mut Vec<Mount>) {
    for secret in system_secrets(host) {
        let secret = secret.as_path();
        if host.is_directory(secret) {
            mounts.push(Mount::Tmpfs {
                target: secret.into(),
                access: Access::ReadOnly,
                bytes: 0,
            });
        } else if host.exists(secret) {
            mounts.push(bind(Path::new("/dev/null"), secret, Access::ReadOnly));
        }
    }
}

/// Makes a directory for temporary files the agent's own.
///
/// Where nothing else must be seen beneath it, it is the agent's directory on
/// disk. Otherwise (a repository or a program in `/tmp`) it is a private one
/// in memory, in which the targets can be made, and the one on disk keeps its
/// own path.
fn private_temporary(
    input: &Input<'_>,
    rules: &[FileRule],
    directory: PathBuf,
    mounted: &mut Mounted,
) {
    let view = input.view;
    let targets = view.mounts.iter().map(|mount| mount.target.as_path());
    let ruled = rules.iter().map(|rule| rule.path.0.as_path());
    let crowded = targets
        .chain(ruled)
        .chain(view.readable.iter().map(PathBuf::as_path))
        .chain(view.writable.iter().map(PathBuf::as_path))
        .chain([view.home.as_path(), view.tmp.as_path(), view.root.as_path()])
        .any(|path| path.starts_with(&directory));
    if crowded {
        mounted.mounts.push(Mount::Tmpfs {
            target: directory.as_path().into(),
            access: Access::ReadWrite,
            bytes: TEMPORARY_BYTES,
        });
    } else {
        mounted
            .mounts
            .push(bind(&view.tmp, &directory, Access::ReadWrite));
        if mounted.tmp == view.tmp {
            mounted.tmp.clone_from(&directory);
        }
    }
    mounted.temporary.push(directory);
}
