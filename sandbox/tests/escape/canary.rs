//! Owns what the host looks like: directories and processes that are watched.
//!
//! A print holds everything that the kernel knows of a file but when it was
//! read; the time of its last change of status betrays what was put back.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::setting::{FIXTURE, Setting, Who, until};

/// Everything about a directory and what is beneath it.
#[derive(Debug, PartialEq, Eq)]
pub struct Print(BTreeMap<PathBuf, Vec<String>>);

impl Print {
    pub fn of(root: &Path) -> Self {
        let mut print = BTreeMap::new();
        let mut paths = vec![root.to_path_buf()];
        while let Some(path) = paths.pop() {
            let data = fs::symlink_metadata(&path).unwrap();
            if data.is_dir() {
                paths.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            let numbers = format!(
                "mode {:o} of {}:{}, {} links, {} bytes, changed {}.{} and {}.{}",
                data.mode(),
                data.uid(),
                data.gid(),
                data.nlink(),
                data.size(),
                data.mtime(),
                data.mtime_nsec(),
                data.ctime(),
                data.ctime_nsec(),
            );
            let mut facts = vec![numbers, attributes(&path)];
            if data.is_file() {
                facts.push(String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
            } else if data.is_symlink() {
                facts.push(fs::read_link(&path).unwrap().display().to_string());
            }
            print.insert(path, facts);
        }
        Self(print)
    }

    /// Asserts that nothing is different now.
    #[track_caller]
    pub fn assert_same(&self, root: &Path) {
        let now = Self::of(root);
        let all: std::collections::BTreeSet<_> = self.0.keys().chain(now.0.keys()).collect();
        let changed: Vec<_> = all
            .into_iter()
            .filter(|path| self.0.get(*path) != now.0.get(*path))
            .map(|path| {
                format!(
                    "{}: {:?} -> {:?}",
                    path.display(),
                    self.0.get(path),
                    now.0.get(path)
                )
            })
            .collect();
        assert!(changed.is_empty(), "the host changed: {changed:#?}");
    }
}

fn attributes(path: &Path) -> String {
    let mut names = [0; 1024];
    match rustix::fs::llistxattr(path, &mut names[..]) {
        Ok(length) => String::from_utf8_lossy(&names[..length]).replace('\0', " "),
        Err(error) => error.to_string(),
    }
}

/// A process of the launching user outside, which says back what it is told.
///
/// It stands in the directory outside and holds the file there open.
pub struct Victim {
    child: Child,
}

impl Victim {
    pub fn new(setting: &Setting) -> Self {
        let mut command = Command::new("cat");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(
                fs::File::options()
                    .append(true)
                    .open(setting.precious())
                    .unwrap(),
            )
            .current_dir(setting.outside())
            .env("CAGE_TOKEN", "a secret")
            .process_group(0);
        if setting.who == Who::Ordinary {
            command.uid(1000).gid(1000);
        }
        let child = command.spawn().unwrap();
        Self { child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What others could change about it.
    pub fn facts(&self) -> Vec<String> {
        let pid = self.pid();
        // Not all of it is told to everybody; that it is not told stays so.
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/{pid}/{name}"))
                .unwrap_or_else(|error| error.to_string())
        };
        let stat = read("stat");
        let fields: Vec<_> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        let status = read("status");
        let kept =
            |line: &&str| line.starts_with("Cpus_allowed:") || line.starts_with("Mems_allowed:");
        let order = Command::new(FIXTURE)
            .args(["try", &format!("look-ioprio={pid}")])
            .output()
            .unwrap();
        let mut facts = vec![
            format!(
                "priority {}, nice {}, policy {}",
                fields[15], fields[16], fields[38]
            ),
            format!("group {}, session {}", fields[2], fields[3]),
            String::from_utf8(order.stdout).unwrap(),
        ];
        facts.extend(status.lines().filter(kept).map(str::to_owned));
        for name in [
            "limits",
            "oom_score_adj",
            "coredump_filter",
            "comm",
            "timerslack_ns",
        ] {
            facts.push(read(name));
        }
        facts
    }

    /// Waits for its end.
    pub fn wait_for_death(mut self) {
        until(|| self.child.try_wait().unwrap().is_some());
    }

    /// Asserts that it lives and answers.
    #[track_caller]
    pub fn assert_alive(&mut self) {
        let told = self.child.stdin.as_mut().unwrap().write_all(b"alive\n");
        assert!(told.is_ok(), "the process outside is dead");
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "alive\n");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
