//! Owns the question what this machine can enforce.
//!
//! Answered by doing it in a throw-away child, never by reading versions or
//! switches. Called by `doctor`, and before a workspace is made, to choose
//! between a mounted view and one in place.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::enforcement::Enforcement;
use crate::guarantees::Feature;
use crate::layers::merging;
use crate::layers::overlay::{Attributes, Layers};
use crate::policy::{
    Access, Command, Directories, FileRule, HostPath, Layer, Limits, Mount, Network, Policy,
    Rights, View, ViewMode,
};
use crate::spawn::{Helper, SpawnError, rehearse};

/// A directory that every machine has and nothing here needs; it stands for
/// what must be out of reach.
const HIDDEN: &str = "/etc";

/// Tries every layer for real and reports what each achieves.
///
/// The view is read-only with one directory hidden, there is no network, and
/// memory and processes are limited.
///
/// # Errors
/// Fails if the helper cannot run, or if a canary escapes. A layer that the
/// machine lacks is no error but a status.
pub fn probe(helper: &Helper) -> Result<Enforcement, SpawnError> {
    Ok(rehearse(&policy(), None, helper)?.enforcement)
}

/// What came of merging directories ([`Mount::Overlay`]) in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Merging {
    /// They can be merged there, and change in every way.
    Works {
        /// Where the kernel remembers what was changed.
        attributes: Attributes,
        /// What becomes of directories that lie beneath, if
        /// [`Directories::Renamed`] is asked for.
        directories: Directories,
    },
    /// They cannot.
    Fails {
        /// Why.
        reason: String,
    },
}

/// As [`probe`], and tries in the same helper whether directories can be
/// merged whose changes land beneath `directory`.
///
/// In a fresh directory there a file is changed, one is removed, a directory
/// is replaced and one is renamed, all as a command would do it. It is removed
/// again; only a launcher that is killed meanwhile leaves it behind, under a
/// name that begins with `.cofferdam-merging-`.
///
/// # Errors
/// As [`probe`]. That nothing can be merged there is no error.
pub fn probe_merging(
    helper: &Helper,
    directory: &Path,
) -> Result<(Enforcement, Merging), SpawnError> {
    let ground = match Ground::lay(directory) {
        Ok(ground) => ground,
        Err(error) => {
            let reason = format!("nothing can be made in `{}`: {error}", directory.display());
            return Ok((probe(helper)?, Merging::Fails { reason }));
        }
    };
    let place = HostPath::from(ground.place.as_path());
    let found = rehearse(&policy(), Some(place), helper)?;
    let merging = match found.merging {
        Some(Ok(_)) if !ground.is_untouched() => Merging::Fails {
            reason: "what lay beneath the merged directory was changed".into(),
        },
        Some(Ok(merging)) => Merging::Works {
            attributes: merging.attributes,
            directories: directories(merging.renames, &found.enforcement),
        },
        Some(Err(reason)) => Merging::Fails { reason },
        None => Merging::Fails {
            reason: "the helper did not try".into(),
        },
    };
    Ok((found.enforcement, merging))
}

/// Who renames directories, if the kernel does not: that needs what refused
/// calls are recorded by, and a procfs in which callers are seen.
fn directories(by_kernel: bool, enforcement: &Enforcement) -> Directories {
    let has = |feature| enforcement.features.contains(&feature);
    let heard = !enforcement.unrecorded.contains_key(&Layer::Seccomp);
    let seen = has(Feature::OwnProcfs) || !has(Feature::PidNamespace);
    if by_kernel || (heard && seen) {
        Directories::Renamed
    } else {
        Directories::Copied
    }
}

/// Directories to merge, removed with this.
struct Ground {
    place: PathBuf,
}

impl Ground {
    fn lay(directory: &Path) -> io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!(".cofferdam-merging-{}-{number}", std::process::id());
        // The stage follows no link.
        let place = fs::canonicalize(directory)?.join(name);
        fs::create_dir(&place)?;
        let ground = Self { place };
        let Layers { upper, work, .. } = Layers::in_directory(&ground.place);
        for path in [upper, work, ground.lower(merging::MOVED)] {
            fs::create_dir_all(path)?;
        }
        fs::create_dir(ground.lower(merging::REPLACED))?;
        for file in FILES {
            fs::write(ground.lower(file), file)?;
        }
        Ok(ground)
    }

    fn lower(&self, name: &str) -> PathBuf {
        self.place.join("lower").join(name)
    }

    /// Whether nothing was changed but what was to take the changes.
    fn is_untouched(&self) -> bool {
        let same =
            |file: &str| fs::read(self.lower(file)).is_ok_and(|text| text == file.as_bytes());
        FILES.into_iter().all(same) && self.lower(merging::MOVED).is_dir()
    }
}

const FILES: [&str; 3] = [merging::CHANGED, merging::REMOVED, merging::INNER];

impl Drop for Ground {
    fn drop(&mut self) {
        open(&self.place.join("work"));
        // What cannot be removed is told by nobody: the probe has its answer.
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// Opens what the kernel left there: directories that nobody may look into.
fn open(directory: &Path) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open(&entry.path());
        }
    }
}

/// What is rehearsed.
fn policy() -> Policy {
    Policy {
        command: Command {
            argv: vec!["nothing".into()],
            cwd: Path::new("/").into(),
            env: vec![],
        },
        view: View {
            mode: ViewMode::Mounted,
            mounts: vec![Mount::Tmpfs {
                target: Path::new(HIDDEN).into(),
                access: Access::ReadOnly,
                bytes: 0,
            }],
        },
        files: vec![FileRule {
            path: Path::new("/usr").into(),
            rights: Rights::ReadExecute,
        }],
        network: Network::None,
        out_of_reach: vec![Path::new(HIDDEN).into()],
        limits: Limits {
            memory_bytes: Some(1 << 30),
            processes: Some(4096),
            ..Limits::default()
        },
        waived: [].into(),
        required: [].into(),
        promised: [].into(),
    }
}
