//! The leak oracle: what may not be left when a test is over.
//!
//! Judges by the state of the host alone: processes in /proc, mounts, files,
//! what plain git says. Before it looks at what results leave on purpose, it
//! has the program give up everything that is kept; after that nothing at all
//! may be left.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::env::TestEnv;
use super::print::TreePrint;
use super::shown;

/// A repository that is looked at when the test is over.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) root: PathBuf,
    pub(super) authority: Option<TreePrint>,
}

impl Watched {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            authority: None,
        }
    }
}

/// Everything that is left and should not be.
pub(super) fn examine(env: &TestEnv) -> Vec<String> {
    let mut left = Vec::new();
    left.extend(processes(env));
    left.extend(mounts(env.root()));
    for watched in env.watched.borrow().iter() {
        if watched.root.join(".git").is_dir() {
            left.extend(linked_worktrees(&watched.root));
            left.extend(give_up_everything(env, &watched.root));
            left.extend(git_leftovers(env, &watched.root));
        }
        if let Some(before) = &watched.authority {
            left.extend(before.differences(&TreePrint::of_authority(&watched.root)));
        }
    }
    left.extend(state_leftovers(&env.state()));
    left.extend(half_made(&env.state().join("bases")));
    left.extend(
        names(&env.tmp())
            .into_iter()
            .map(|path| format!("temporary file {}", path.display())),
    );
    left.extend(control_groups());
    // `gc` itself must leave nothing running either.
    left.extend(processes(env));
    left
}

/// Processes that belong to a test's world: by its state directory in their
/// environment, or by where they stand.
///
/// A process that was killed is gone a moment after its killer said so when it
/// had been re-parented; so this looks again for a while before it complains.
fn processes(env: &TestEnv) -> Vec<String> {
    const TRIES: u32 = 250;
    for _ in 0..TRIES {
        if processes_of(env).is_empty() {
            return Vec::new();
        }
        thread::sleep(Duration::from_millis(20));
    }
    processes_of(env)
}

/// The processes of a test's world that live right now, as lines of text.
pub(crate) fn processes_of(env: &TestEnv) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")
        .expect("because Linux has /proc")
        .flatten()
    {
        let name = entry.file_name();
        let is_process = name.as_bytes().iter().all(u8::is_ascii_digit);
        if !is_process || name == OsStr::new(&own) {
            continue;
        }
        let process = entry.path();
        if belongs_to(&process, env) {
            let line = fs::read(process.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            found.push(format!("process {}: {line}", name.to_string_lossy()));
        }
    }
    found
}

fn belongs_to(process: &Path, env: &TestEnv) -> bool {
    // A process that ends while it is looked at has no files any more.
    let environment = fs::read(process.join("environ")).unwrap_or_default();
    let state = env.state();
    let named = environment
        .windows(state.as_os_str().len())
        .any(|window| window == state.as_os_str().as_bytes());
    let stands_there = ["cwd", "root"].iter().any(|link| {
        fs::read_link(process.join(link)).is_ok_and(|target| target.starts_with(env.root()))
    });
    let is_zombie = fs::read_to_string(process.join("stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" Z"))
    });
    (named || stands_there) && !is_zombie
}

fn mounts(root: &Path) -> Vec<String> {
    fs::read_to_string("/proc/self/mountinfo")
        .expect("because Linux has /proc")
        .lines()
        .filter(|line| line.contains(shown(root)))
        .map(|line| format!("mount {line}"))
        .collect()
}

/// Control groups of launchers that are dead, of this test or of another that
/// just now kills one: that one's next command takes it away.
fn control_groups() -> Vec<String> {
    const TRIES: u32 = 1000;
    let first = orphaned_groups();
    let mut left = first;
    for _ in 0..TRIES {
        if left.is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
        let now = orphaned_groups();
        left.retain(|group| now.contains(group));
    }
    left.iter()
        .map(|path| format!("control group {}", path.display()))
        .collect()
}

/// Groups whose name tells of an owner that is gone, in every hierarchy.
fn orphaned_groups() -> Vec<PathBuf> {
    let is_orphan = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let owner = name
            .strip_prefix("cofferdam-")
            // The first part is the PID namespace that the number is of.
            .and_then(|rest| rest.split('-').nth(1));
        owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    };
    groups()
        .into_iter()
        .filter(|path| is_orphan(path))
        .collect()
}

/// Every control group that the program made.
pub(crate) fn groups() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = open.pop() {
        for path in names(&directory) {
            if !path.is_dir() || path.is_symlink() {
                continue;
            }
            let ours = path
                .file_name()
                .is_some_and(|name| name.as_bytes().starts_with(b"cofferdam-"));
            if ours {
                found.push(path);
            } else {
                open.push(path);
            }
        }
    }
    found
}

fn linked_worktrees(root: &Path) -> Vec<String> {
    names(&root.join(".git/worktrees"))
        .into_iter()
        .map(|path| format!("linked worktree {}", path.display()))
        .collect()
}

fn give_up_everything(env: &TestEnv, root: &Path) -> Vec<String> {
    let run = env.cofferdam_in(root, ["gc", "--older", "0s"]);
    if run.code == 0 {
        return Vec::new();
    }
    vec![format!("gc ended with {}: {}", run.code, run.stderr)]
}

fn git_leftovers(env: &TestEnv, root: &Path) -> Vec<String> {
    let git = |arguments: &[&str]| {
        env.finish(env.command("git").args(arguments).current_dir(root))
            .stdout
    };
    let mut left: Vec<_> = git(&["for-each-ref", "--format=%(refname)", "refs/cofferdam"])
        .lines()
        .map(|name| format!("ref {name}"))
        .collect();
    let trees = git(&["worktree", "list", "--porcelain"])
        .lines()
        .filter(|line| line.starts_with("worktree "))
        .count();
    if trees != 1 {
        left.push(format!("{trees} worktrees"));
    }
    left.extend(
        files_below(&root.join(".git/cofferdam"))
            .into_iter()
            .filter(|path| {
                !path
                    .file_name()
                    .is_some_and(|name| name.as_bytes().ends_with(b"lock"))
            })
            .map(|path| format!("file {}", path.display())),
    );
    left
}

/// Directories named after a run or an agent; records may stay, as files.
fn state_leftovers(state: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for path in names(state) {
        if !path.is_dir() || path.is_symlink() {
            continue;
        }
        if path.file_name().is_some_and(is_id) {
            left.push(format!("directory {}", path.display()));
        } else {
            left.extend(state_leftovers(&path));
        }
    }
    left
}

/// Shared checkouts that somebody began to make or to remove; whole ones stay.
fn half_made(bases: &Path) -> Vec<String> {
    let all = names(bases).into_iter().flat_map(|one| names(&one));
    all.filter(|path| {
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        name.starts_with(b"new-") || name.ends_with(b".gone")
    })
    .map(|path| format!("half a checkout {}", path.display()))
    .collect()
}

fn is_id(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    matches!(bytes, [b'a' | b'r', b'-', digits @ ..]
        if digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit))
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in names(directory) {
        if path.is_dir() && !path.is_symlink() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// What a directory holds; nothing where there is none.
fn names(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

#[test]
fn the_oracle_finds_what_is_left() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.git(["update-ref", "refs/cofferdam/kept", "HEAD"]);
    repo.git([
        "worktree",
        "add",
        "-q",
        "--detach",
        shown(&env.outside().join("tree")),
    ]);
    repo.expect_unchanged();
    env.put(&env.tmp().join("file"), "");
    env.put(&repo.path(".git/cofferdam/journal"), "");
    env.put(&repo.path(".git/cofferdam/lock"), "");
    let workspace = env.state().join("runs/r-0123456789abcdef");
    env.make_dir(&workspace);
    let mut stray = super::Running::start(env.command("cat").current_dir(&workspace));

    assert_eq!(linked_worktrees(repo.root()).len(), 1);
    let left = git_leftovers(&env, repo.root());
    assert_eq!(
        left,
        [
            "ref refs/cofferdam/kept".to_owned(),
            "2 worktrees".to_owned(),
            format!("file {}", repo.path(".git/cofferdam/journal").display()),
        ]
    );
    assert_eq!(state_leftovers(&env.state()).len(), 1);
    assert_eq!(names(&env.tmp()).len(), 1);
    let bases = env.state().join("bases");
    env.make_dir(&bases.join("repository/new-half"));
    assert_eq!(half_made(&bases).len(), 1);
    fs::remove_dir_all(&bases).expect("because it was just made");
    let found = processes_of(&env);
    assert_eq!(found.len(), 1, "{found:?}");
    let before = TreePrint::of_authority(repo.root());
    repo.git(["config", "core.hooksPath", "elsewhere"]);
    assert_eq!(
        before
            .differences(&TreePrint::of_authority(repo.root()))
            .len(),
        1
    );

    repo.git(["config", "--unset", "core.hooksPath"]);
    repo.git(["update-ref", "-d", "refs/cofferdam/kept"]);
    repo.git([
        "worktree",
        "remove",
        "--force",
        shown(&env.outside().join("tree")),
    ]);
    for path in [env.tmp().join("file"), repo.path(".git/cofferdam/journal")] {
        fs::remove_file(path).expect("because the test wrote it");
    }
    fs::remove_dir(&workspace).expect("because the test made it");
    stray.say("");
    stray.wait().expect_code(0);
}
