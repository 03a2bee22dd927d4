//! Owns the groups that killed launchers left.
//!
//! The kernel ends a cage with its launcher, but nobody removes its group
//! then. A name tells the owner by PID namespace, process id and start time; a
//! group whose owner lives, or would be seen in another namespace only, is never
//! touched, and one that is not empty cannot be removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::group::{PREFIX, own_namespace};
use super::places::Places;

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Where this launcher makes its own groups: cheap enough for every start.
    Nearby,
    /// In every mounted hierarchy, from the top.
    Everywhere,
}

/// Removes the empty control groups of launchers that are dead.
///
/// Returns those that could not be removed.
#[must_use]
pub fn sweep_groups(reach: Reach) -> Vec<PathBuf> {
    let places = Places::here();
    let mut left = Vec::new();
    match reach {
        Reach::Nearby => {
            for place in places.all() {
                sweep(&place, &mut left, &mut |_| {});
            }
        }
        Reach::Everywhere => {
            let tops = places.hierarchies().iter();
            let mut open: Vec<PathBuf> = tops.map(|hierarchy| hierarchy.top.clone()).collect();
            while let Some(directory) = open.pop() {
                sweep(&directory, &mut left, &mut |other| open.push(other));
            }
        }
    }
    left
}

/// Removes what is left in one directory, and passes on what is not ours.
fn sweep(directory: &Path, left: &mut Vec<PathBuf>, other: &mut dyn FnMut(PathBuf)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        match entry.file_name().to_str().and_then(owner) {
            None => other(path),
            // From here its owner looks dead even while it lives.
            Some(owner) if Some(owner.namespace) != own_namespace() => {}
            Some(Owner { pid, start, .. }) => {
                let alive = crate::identity::start_time(pid).is_ok_and(|now| now == start);
                if !alive && !gone(&path) {
                    left.push(path);
                }
            }
        }
    }
}

/// Removes a group, or finds that another start was quicker.
///
/// The last processes of a cage that has just died take a moment.
fn gone(path: &Path) -> bool {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        if fs::remove_dir(path).is_ok() || !path.exists() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The process that made a group.
#[derive(Debug)]
struct Owner {
    namespace: u64,
    pid: i32,
    start: u64,
}

/// Whom a group's name names; none if it is not one of ours.
fn owner(name: &str) -> Option<Owner> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let owner = Owner {
        namespace: parts.next()?.parse().ok()?,
        pid: parts.next()?.parse().ok()?,
        start: parts.next()?.parse().ok()?,
    };
    let number: Option<u64> = parts.next()?.parse().ok();
    (number.is_some() && parts.next().is_none()).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_what_the_dead_left_and_nothing_else() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let start = crate::identity::start_time(own).expect("because we are alive");
        let namespace = own_namespace().expect("because procfs is there");
        let alive = format!("{PREFIX}{namespace}-{own}-{start}-0");
        let reused = format!("{PREFIX}{namespace}-{own}-{}-0", start + 1);
        let full = format!("{PREFIX}{namespace}-{own}-{}-1", start + 1);
        let elsewhere = format!("{PREFIX}{}-{own}-{}-0", namespace + 1, start + 1);
        for name in [
            alive.as_str(),
            &reused,
            &elsewhere,
            "cofferdam-other",
            "system.slice",
        ] {
            fs::create_dir(dir.path().join(name)).expect("because it is new");
        }
        fs::create_dir_all(dir.path().join(&full).join("in")).expect("because it is new");
        let (mut left, mut others) = (Vec::new(), Vec::new());
        sweep(dir.path(), &mut left, &mut |other| others.push(other));
        others.sort();
        let path = |name: &str| dir.path().join(name);
        assert_eq!(left, [path(&full)]);
        assert_eq!(others, [path("cofferdam-other"), path("system.slice")]);
        assert!(path(&alive).exists() && !path(&reused).exists());
        assert!(path(&elsewhere).exists());
    }
}
