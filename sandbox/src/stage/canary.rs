//! Owns the last test before the command: attempts to get out, for real.
//!
//! A layer that reports success and does nothing is the worst case, so each
//! attempt is made against the kernel and not against our books. An attempt is
//! made only where a layer claims to prevent it. Undoes what succeeds.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use rustix::thread::UnshareFlags;

use crate::enforcement::{Enforcement, Status};
use crate::policy::{Access, Layer, Policy};
use crate::sys::kernel::unshare;

/// Tries every way out; names the first one that is open.
pub(super) fn try_to_escape(policy: &Policy, report: &Enforcement) -> Result<(), &'static str> {
    let claims = |layer| match report.status(layer) {
        Some(Status::Full | Status::Partial { .. }) => true,
        Some(Status::Absent { .. } | Status::Waived) | None => false,
    };
    let (ruled, mounted) = (claims(Layer::Landlock), claims(Layer::Mounts));
    if claims(Layer::Seccomp) && unshare(UnshareFlags::NEWUSER).is_ok() {
        return Err("leave the user namespace");
    }
    if ruled || mounted {
        create(policy, Path::new("/"))?;
        let switch = Path::new("/proc/sys/kernel/core_pattern");
        let allowed = !mounted && covered(policy, switch, Access::ReadWrite);
        if !allowed && opens(switch, OFlags::WRONLY) {
            return Err("write a switch of the kernel");
        }
    }
    if ruled {
        let parents = policy
            .files
            .iter()
            .filter(|rule| rule.rights.access() == Access::ReadWrite);
        for parent in parents.filter_map(|rule| rule.path.parent()).take(4) {
            create(policy, parent)?;
        }
        let root = Path::new("/");
        if !covered(policy, root, Access::ReadOnly) && opens(root, OFlags::DIRECTORY) {
            return Err("open a directory without a rule");
        }
    }
    Ok(())
}

fn create(policy: &Policy, directory: &Path) -> Result<(), &'static str> {
    let real = directory
        .canonicalize()
        .unwrap_or_else(|_| directory.to_path_buf());
    if covered(policy, directory, Access::ReadWrite) || covered(policy, &real, Access::ReadWrite) {
        return Ok(());
    }
    let path = directory.join(format!(
        ".cofferdam-canary-{}",
        super::this().as_raw_nonzero()
    ));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    if openat(CWD, &path, flags, Mode::RUSR).is_ok() {
        let _ = unlinkat(CWD, &path, AtFlags::empty());
        return Err("create a file outside");
    }
    Ok(())
}

/// Whether a rule gives this access to a path.
fn covered(policy: &Policy, path: &Path, access: Access) -> bool {
    policy.files.iter().any(|rule| {
        let enough = access == Access::ReadOnly || rule.rights.access() == Access::ReadWrite;
        let real = rule.path.canonicalize().ok();
        enough && (path.starts_with(&rule.path) || real.is_some_and(|real| path.starts_with(real)))
    })
}

fn opens(path: &Path, flags: OFlags) -> bool {
    openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty()).is_ok()
}
