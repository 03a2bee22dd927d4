//! Owns where this launcher may make control groups.
//!
//! Read from `/proc/self/cgroup` and `/proc/self/mountinfo`, never guessed.
//! In an old hierarchy that is beneath the launcher's own group. In the
//! unified one a group with processes hands no controllers down, so it is
//! beneath the nearest ancestor that does and that this user may write. The
//! launcher is never moved, and nothing is switched on for others.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

/// Which interface a hierarchy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Version {
    One,
    Two,
}

/// A directory in which groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    pub(crate) version: Version,
}

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// The group that the mount's top shows.
    root: PathBuf,
    /// Where it is mounted.
    pub(crate) top: PathBuf,
    version: Version,
    /// Mount options, among which are the controllers of an old hierarchy.
    options: Vec<String>,
}

/// The hierarchies of this machine and this process's own groups in them.
#[derive(Debug)]
pub(crate) struct Places {
    hierarchies: Vec<Hierarchy>,
    /// Lines of `/proc/self/cgroup`: controllers and path.
    own: Vec<(Vec<String>, PathBuf)>,
}

impl Places {
    /// Those of this process.
    pub(crate) fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    fn parse(mounts: &str, own: &str) -> Self {
        let own = own.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let controllers = controllers.split(',').filter(|word| !word.is_empty());
            Some((controllers.map(str::to_owned).collect(), path.into()))
        });
        Self {
            hierarchies: mounts.lines().filter_map(hierarchy).collect(),
            own: own.collect(),
        }
    }

    /// Every mounted hierarchy.
    pub(crate) fn hierarchies(&self) -> &[Hierarchy] {
        &self.hierarchies
    }

    /// Where a group with this controller can be made, in an old hierarchy.
    pub(crate) fn old(&self, controller: &str) -> Option<Place> {
        let (_, path) = self
            .own
            .iter()
            .find(|(controllers, _)| controllers.iter().any(|word| word == controller))?;
        let hierarchy = self.hierarchies.iter().find(|hierarchy| {
            hierarchy.version == Version::One
                && hierarchy.options.iter().any(|word| word == controller)
        })?;
        let directory = hierarchy.shows(path)?;
        writable(&directory).then_some(Place {
            directory,
            version: Version::One,
        })
    }

    /// Where a group with these controllers can be made, in the unified hierarchy.
    pub(crate) fn unified(&self, controllers: &[&str]) -> Option<Place> {
        let (_, path) = self.own.iter().find(|(names, _)| names.is_empty())?;
        let hierarchy = self
            .hierarchies
            .iter()
            .find(|hierarchy| hierarchy.version == Version::Two)?;
        let mut directory = hierarchy.shows(path)?;
        loop {
            let given =
                fs::read_to_string(directory.join("cgroup.subtree_control")).unwrap_or_default();
            let given: Vec<&str> = given.split_whitespace().collect();
            // A process moves only within what its mover may write as a whole.
            let movable = writable(&directory) && writable(&directory.join("cgroup.procs"));
            if movable && controllers.iter().all(|name| given.contains(name)) {
                return Some(Place {
                    directory,
                    version: Version::Two,
                });
            }
            if directory == hierarchy.top || !directory.pop() {
                return None;
            }
        }
    }

    /// Every place in which this launcher makes groups.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let old = ["memory", "pids", "cpuacct"];
        let mut all: Vec<PathBuf> = old
            .iter()
            .filter_map(|controller| self.old(controller))
            .chain(self.unified(&["memory", "pids"]))
            .chain(self.unified(&[]))
            .map(|place| place.directory)
            .collect();
        all.dedup();
        all
    }
}

impl Hierarchy {
    /// The directory of a group, if this mount shows it.
    fn shows(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.root).ok()?;
        Some(if below.as_os_str().is_empty() {
            self.top.clone()
        } else {
            self.top.join(below)
        })
    }
}

/// One line of `mountinfo`, if it is about control groups.
fn hierarchy(line: &str) -> Option<Hierarchy> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut filesystem = filesystem.split(' ');
    let version = match filesystem.next()? {
        "cgroup" => Version::One,
        "cgroup2" => Version::Two,
        _ => return None,
    };
    let options = filesystem.nth(1).unwrap_or_default();
    let mut mount = mount.split(' ').skip(3);
    Some(Hierarchy {
        root: mount.next()?.into(),
        top: mount.next()?.into(),
        version,
        options: options.split(',').map(str::to_owned).collect(),
    })
}

fn writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unified hierarchy of three levels, of which `levels` hand controllers down.
    fn unified(given: [&str; 3]) -> (tempfile::TempDir, Option<PathBuf>) {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let mut path = dir.path().to_path_buf();
        for (name, given) in ["", "user", "app"].into_iter().zip(given) {
            path.push(name);
            fs::create_dir_all(&path).expect("because it is new");
            fs::write(path.join("cgroup.subtree_control"), given).expect("because it is new");
            fs::write(path.join("cgroup.procs"), "").expect("because it is new");
        }
        let mounts = format!(
            "41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n",
            dir.path().display()
        );
        let places = Places::parse(&mounts, "1:name=systemd:/x\n0::/user/app\n");
        let found = places.unified(&["memory", "pids"]);
        (dir, found.map(|place| place.directory))
    }

    #[test]
    fn takes_the_nearest_ancestor_that_hands_down_both_controllers() {
        let (dir, found) = unified(["cpu memory pids", "memory pids", ""]);
        assert_eq!(found, Some(dir.path().join("user")));
        let (dir, found) = unified(["cpu memory pids", "memory", ""]);
        assert_eq!(found, Some(dir.path().to_path_buf()));
        let (_dir, found) = unified(["memory", "pids", ""]);
        assert_eq!(found, None);
    }

    #[test]
    fn finds_the_own_group_of_an_old_hierarchy_also_where_only_a_part_is_mounted() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        fs::create_dir(dir.path().join("inner")).expect("because it is new");
        let mounts = format!(
            "9 8 0:3 /outer {} rw - cgroup cgroup rw,memory\n",
            dir.path().display()
        );
        let directory = |own: &str| {
            let places = Places::parse(&mounts, own);
            places.old("memory").map(|place| place.directory)
        };
        assert_eq!(
            directory("4:memory:/outer/inner\n"),
            Some(dir.path().join("inner"))
        );
        assert_eq!(directory("4:memory:/outer\n"), Some(dir.path().into()));
        // Elsewhere is not ours, and another controller is another hierarchy.
        assert_eq!(directory("4:memory:/outerly\n"), None);
        assert_eq!(directory("4:pids:/outer\n"), None);
    }
}
