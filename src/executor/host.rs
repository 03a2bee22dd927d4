//! What an agent's confinement has to know of the machine and of the person.
//!
//! Owns looking: at the top of the file system, at sockets that are bound, at
//! memory and disk. Files to be covered are looked for by `private_files`. It
//! decides nothing; `confinement` does, and touches nothing.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::private_files::{expand, open_settings, private_settings};
use super::site::Site;
use crate::confinement::{self, Found, Host, Room};
use crate::model::is_within;

/// What was found.
#[derive(Debug)]
pub(super) struct HostFacts {
    /// The person's home directory, links resolved.
    pub(super) home: PathBuf,
    top_level: Vec<PathBuf>,
    sockets: Vec<PathBuf>,
    /// The system's settings that others may not read, now.
    pub(super) private_settings: Vec<PathBuf>,
    open_settings: Option<Vec<PathBuf>>,
    /// Files within toolchains that may log the person in.
    pub(super) login_files: Vec<PathBuf>,
}

/// How long a look is good for agents that are about to start. Looking takes
/// longer than all else that a start asks of the machine, and one that runs
/// already does not see later changes either.
const GOOD_FOR: Duration = Duration::from_secs(5);

/// The last look at the machine, shared by agents that start together.
#[derive(Debug, Default)]
pub(super) struct LastLook(Mutex<Option<(Timestamp, Arc<HostFacts>)>>);

impl LastLook {
    /// What was found a moment ago, else what is found now. Whoever asks while
    /// somebody looks waits for what that one finds.
    pub(super) fn facts(&self, site: &Site) -> Arc<HostFacts> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the look: what changes during it must not count as seen later.
        let now = site.clock.now();
        if let Some((looked_at, facts)) = &*last
            && is_within(*looked_at, GOOD_FOR, now)
        {
            return facts.clone();
        }
        let facts = Arc::new(HostFacts::gather(site));
        *last = Some((now, facts.clone()));
        facts
    }
}

impl HostFacts {
    /// Looks at the machine as it is now.
    fn gather(site: &Site) -> Self {
        let home = site.variables.get(OsStr::new("HOME")).map(PathBuf::from);
        let home = match home {
            Some(home) => home.canonicalize().unwrap_or(home),
            // Without a home there is nothing of the person's to show or to
            // hide.
            None => PathBuf::from("/nonexistent"),
        };
        let private_settings = private_settings();
        let superuser = rustix::process::geteuid().is_root();
        Self {
            open_settings: superuser.then(|| open_settings(&private_settings)),
            private_settings,
            login_files: expand(confinement::masks(&home, &site.variables)),
            home,
            top_level: top_level(),
            sockets: sockets(),
        }
    }

    /// The same as `confinement` takes it.
    pub(super) fn of<'a>(&'a self, site: &'a Site, checkout: &'a Path) -> Host<'a> {
        Host {
            home: &self.home,
            own_exe: &site.own_exe,
            state: site.state.path(),
            checkout,
            private_settings: &self.private_settings,
            open_settings: self.open_settings.as_deref(),
            login_files: &self.login_files,
            top_level: &self.top_level,
            sockets: &self.sockets,
            variables: &site.variables,
            look: &look,
            resolve: &resolve,
        }
    }
}

/// What the machine has for the agent of this directory.
pub(super) fn room(directory: &Path) -> Room<'_> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|line| line.split_whitespace().next());
    let disk = rustix::fs::statvfs(directory).ok();
    let disk = disk.as_ref();
    Room {
        directory,
        memory: kib
            .and_then(|kib| kib.parse::<u64>().ok())
            .map(|kib| kib << 10),
        free_bytes: disk.map(|disk| disk.f_bavail * disk.f_frsize),
        // A file system that makes its inodes as it goes says zero.
        free_files: disk.map(|disk| disk.f_favail).filter(|files| *files > 0),
    }
}

/// The directories at the top of the file system, links left out: what they
/// lead to is looked at by itself.
fn top_level() -> Vec<PathBuf> {
    let entries = fs::read_dir("/").into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut found: Vec<PathBuf> = directories.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// The sockets that the host's programs have bound to a path, as the kernel
/// lists them for this network namespace (`/proc/net/unix`, last column).
fn sockets() -> Vec<PathBuf> {
    let list = fs::read("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<PathBuf> = list
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            line.iter()
                .position(|byte| *byte == b'/')
                .map(|at| &line[at..])
        })
        .map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket()))
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    found.sort();
    found.dedup();
    found
}

fn look(path: &Path) -> Found {
    match fs::symlink_metadata(path) {
        Err(_) => Found::Nothing,
        Ok(data) if data.is_dir() => Found::Directory,
        Ok(data) if data.is_symlink() => {
            if path.exists() {
                Found::Other
            } else {
                Found::Nothing
            }
        }
        Ok(_) => Found::Other,
    }
}

fn resolve(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
