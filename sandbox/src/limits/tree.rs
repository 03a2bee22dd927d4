//! Owns a look at every process of the tree, through procfs.
//!
//! For what no control group counts. The tree is what descends from this
//! process, whose number in this procfs may be another than it knows. Numbers
//! are a moment old when they are read; what ended in between is not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, readlinkat, statat};

use crate::procfs::{self, Stat, descends};

/// Processes whose memory is looked at closely, the largest first: a close
/// look takes milliseconds for each. Of all others the pages that no file backs
/// are counted, once for each process.
const CLOSELY: usize = 256;
/// Descriptors that are looked at in one round.
const DESCRIPTORS: usize = 16 << 10;
/// Clock ticks of procfs in a second, the same on every machine.
const TICKS: u64 = 100;

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    threads: u64,
    /// Its own and of the children that it waited for.
    ticks: u64,
    waited_ticks: u64,
    resident: u64,
}

/// What the tree uses.
#[derive(Debug, Default)]
pub(super) struct Tree {
    processes: Vec<Process>,
    /// Processes and threads.
    pub(super) threads: u64,
    pub(super) cpu_ms: u64,
    /// Memory in use, shared pages counted once for each process: at least
    /// what is really in use.
    pub(super) resident: u64,
}

/// What is held by descriptors alone.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nameless {
    /// In files in memory.
    pub(super) memory: u64,
    /// On the file systems that were asked for.
    pub(super) disk: u64,
}

/// Looks at all processes that descend from this one.
pub(super) fn look() -> io::Result<Tree> {
    let own: i32 = fs::read_link("/proc/self")?
        .to_str()
        .and_then(|name| name.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/self names no process"))?;
    let mut all = BTreeMap::new();
    for pid in procfs::processes()? {
        if let Some(process) = process(pid) {
            all.insert(pid, process);
        }
    }
    let parent = |pid| all.get(&pid).map(|process: &Process| process.parent);
    let mut tree = Tree::default();
    for process in all.values() {
        if process.pid == own {
            tree.cpu_ms += process.waited_ticks * 1000 / TICKS;
        } else if descends(process.pid, own, parent) {
            tree.threads += process.threads;
            tree.cpu_ms += process.ticks * 1000 / TICKS;
            tree.resident += process.resident;
            tree.processes.push(*process);
        }
    }
    Ok(tree)
}

fn process(pid: i32) -> Option<Process> {
    let stat = Stat::of(pid).ok()?;
    let number = |at| stat.field::<u64>(at);
    let waited_ticks = number(16)? + number(17)?;
    Some(Process {
        pid,
        parent: stat.field(4)?,
        threads: number(20)?,
        ticks: number(14)? + number(15)? + waited_ticks,
        waited_ticks,
        resident: number(24)? * crate::sys::process::page_size(),
    })
}

/// A number of kibibytes behind a key, in bytes.
fn kib(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next());
    let number = number.and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

/// Memory of a process that neither a file nor shared memory backs.
fn unbacked(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut pages = text.split_whitespace().skip(1).map(str::parse::<u64>);
    match (pages.next(), pages.next()) {
        (Some(Ok(resident)), Some(Ok(shared))) => {
            resident.saturating_sub(shared) * crate::sys::process::page_size()
        }
        _ => 0,
    }
}

impl Tree {
    /// Memory of the tree that was moved to swap.
    pub(super) fn swapped(&self) -> u64 {
        let each = self.processes.iter().map(|process| {
            let text = fs::read_to_string(format!("/proc/{}/status", process.pid));
            kib(&text.unwrap_or_default(), "VmSwap:")
        });
        each.sum()
    }

    /// Memory that is the tree's own: private pages, and shared ones that no
    /// file on disk backs, each counted once.
    pub(super) fn memory(&self) -> (u64, u64) {
        let mut largest = self.processes.clone();
        largest.sort_by_key(|process| std::cmp::Reverse(process.resident));
        let (mut private, mut shared) = (0, 0);
        for (at, process) in largest.iter().enumerate() {
            if at >= CLOSELY {
                private += unbacked(process.pid);
                continue;
            }
            match fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)) {
                Ok(text) => {
                    private += kib(&text, "Pss_Anon:") + kib(&text, "SwapPss:");
                    shared += kib(&text, "Pss_Shmem:");
                }
                // Either it has ended, or it shows itself to nobody: then all
                // that it keeps counts.
                Err(_) => private += self::process(process.pid).map_or(0, |now| now.resident),
            }
        }
        (private, shared)
    }

    /// What the tree's descriptors keep that no name leads to any more.
    ///
    /// `memory` and `disk` are the devices that count.
    pub(super) fn nameless(&self, memory: Option<u64>, disk: &BTreeSet<u64>) -> Nameless {
        let mut found = Nameless::default();
        let mut seen = BTreeSet::new();
        let mut room = DESCRIPTORS;
        for process in &self.processes {
            let path = format!("/proc/{}/fd", process.pid);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(directory) = openat(rustix::fs::CWD, path, flags, Mode::empty()) else {
                continue;
            };
            let Ok(entries) = Dir::read_from(&directory) else {
                continue;
            };
            for entry in entries.flatten() {
                if room == 0 {
                    return found;
                }
                room -= 1;
                // The link is read first: looking at the file itself could
                // wait for a file system that does not answer.
                let deleted = readlinkat(&directory, entry.file_name(), Vec::new())
                    .is_ok_and(|link| link.as_bytes().ends_with(b" (deleted)"));
                if !deleted {
                    continue;
                }
                let Ok(data) = statat(&directory, entry.file_name(), AtFlags::empty()) else {
                    continue;
                };
                let bytes = u64::try_from(data.st_blocks).unwrap_or(0) * 512;
                if !seen.insert((data.st_dev, data.st_ino)) {
                    continue;
                }
                if Some(data.st_dev) == memory {
                    found.memory += bytes;
                } else if disk.contains(&data.st_dev) {
                    found.disk += bytes;
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_a_child_and_what_it_keeps_without_a_name() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let file = dir.path().join("file");
        let script =
            "exec 9>\"$0\"; head -c 1048576 /dev/zero >&9; rm \"$0\"; echo; exec sleep 1000";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .arg(&file)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("because a shell is everywhere");
        let mut byte = [0];
        let mut out = child.stdout.take().expect("because it is a pipe");
        io::Read::read_exact(&mut out, &mut byte).expect("because it says when it is done");
        let tree = look().expect("because procfs is there");
        let device = rustix::fs::stat(dir.path())
            .expect("because it is there")
            .st_dev;
        let nameless = tree.nameless(None, &[device].into());
        child.kill().expect("because it is our child");
        child.wait().expect("because it is our child");
        let pid = i32::try_from(child.id()).expect("because ids fit");
        assert!(tree.processes.iter().any(|process| process.pid == pid));
        assert!(tree.threads >= 1 && tree.resident > 0);
        assert!(nameless.disk >= 1 << 20, "{nameless:?}");
    }
}
