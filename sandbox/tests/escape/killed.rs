//! Owns the kill matrix: whoever dies, and whenever, nothing of the agent is left.
//!
//! The launcher, the helper, the init and the command are killed by `SIGKILL`
//! from the first moment on and while agents run that resist in every way.
//! Afterwards no process of the tree is there, the file that all of them write
//! does not grow, and the host has no mount and no zombie of it.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

use cofferdam_sandbox::{Policy, Rights};
use rustix::process::{Pid, Signal, kill_process};

use crate::cage::{Cage, Kind, start_without};
use crate::setting::{FIXTURE, as_everyone, rule, until};

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Launcher,
    Helper,
    Init,
    Command,
}

/// The ways in which agents resist; the fixture has the same list.
pub const AGENTS: [&str; 10] = [
    "plain", "deaf", "daemon", "forks", "stopped", "holder", "vfork", "zombies", "sibling",
    "adopter",
];

/// The moments after the start, which cover it from its first instruction to
/// the running command.
fn moments() -> impl Iterator<Item = Duration> {
    // A soak shifts them, so that it does not try the same ones for ever.
    let shift = std::env::var("ESCAPE_SHIFT_US")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    (0..=20).map(move |step| Duration::from_micros(step * 750 + shift))
}

/// One started launcher whose whole tree can be told from all others.
struct Tree<'a> {
    cage: &'a Cage<'a>,
    beat: PathBuf,
    program: PathBuf,
    launcher: Child,
}

impl<'a> Tree<'a> {
    fn start(cage: &'a Cage<'a>, agent: &str) -> Self {
        let bin = cage.setting.root.path().join("bin");
        let (program, beat) = (bin.join("fixture"), cage.setting.work().join("beat"));
        if !program.exists() {
            fs::create_dir(&bin).unwrap();
            // By its own name: that is how a process of this tree is known.
            // Made by another process, so that no child of another test holds
            // it open for writing while it is executed.
            let copied = std::process::Command::new("cp")
                .args([FIXTURE.as_ref(), program.as_os_str()])
                .status();
            assert!(copied.unwrap().success());
            cage.setting.own();
        }
        let _ = fs::remove_file(&beat);
        let policy = Self::policy(cage, agent, &program, &beat);
        let launcher = start_without(&cage.lacks(), &program, cage.setting, "launch", &policy);
        Self {
            cage,
            beat,
            program,
            launcher,
        }
    }

    fn policy(cage: &Cage<'_>, agent: &str, program: &PathBuf, beat: &PathBuf) -> Policy {
        let [program, beat] = [program, beat].map(|path| path.to_str().unwrap());
        let mut policy = cage.policy(&[program, "agent", agent, beat]);
        let bin = cage.setting.root.path().join("bin");
        policy.files.push(rule(&bin, Rights::ReadExecute));
        policy
    }

    fn wait_until_it_beats(&self) {
        until(|| self.size() > 3);
    }

    fn size(&self) -> u64 {
        fs::metadata(&self.beat).map_or(0, |data| data.len())
    }

    /// The process in a role now, if it is there yet.
    fn find(&self, target: Target) -> Option<i32> {
        let launcher = i32::try_from(self.launcher.id()).unwrap();
        let only_child = |pid| children(pid).first().copied();
        let helper = only_child(launcher);
        let with_init = match self.cage.kind {
            Kind::View => true,
            Kind::InPlace | Kind::Bare => false,
        };
        match target {
            Target::Launcher => Some(launcher),
            Target::Helper => helper,
            Target::Init if with_init => helper.and_then(only_child),
            Target::Init => None,
            Target::Command if with_init => helper.and_then(only_child).and_then(only_child),
            Target::Command => helper.and_then(only_child),
        }
    }

    /// Signals a process of the tree; one that is gone, or not there yet, not.
    fn signal(&self, target: Target, signal: Signal) {
        if let Some(pid) = self.find(target).and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Every process of the tree. Looked for twice: one that was made behind
    /// the first look, or was becoming another program then, is seen by the next.
    fn alive(&self) -> Vec<i32> {
        match self.seen() {
            none if none.is_empty() => self.seen(),
            some => some,
        }
    }

    /// The processes of one look: by their file, or by the file that they write.
    fn seen(&self) -> Vec<i32> {
        let needle = self.beat.as_os_str().as_encoded_bytes();
        let is_ours = |pid: i32| {
            let by_file =
                fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == self.program);
            let by_words = fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.windows(needle.len()).any(|window| window == needle));
            by_file || by_words
        };
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| is_ours(*pid))
            .collect()
    }

    /// Asserts that all of it ends by itself and that nothing is left.
    fn assert_gone(mut self, why: &str) {
        let known: Vec<i32> = self.alive();
        let launcher = std::cell::RefCell::new(&mut self.launcher);
        within(|| match launcher.borrow_mut().try_wait().unwrap() {
            Some(_) => Ok(()),
            None => Err(format!("{why}: the launcher goes on")),
        });
        within(|| match self.alive()[..] {
            [] => Ok(()),
            ref pids => Err(format!("{why}: alive are {}", described(pids))),
        });
        let size = self.size();
        // Four beats, should anybody be left to make them.
        sleep(Duration::from_millis(20));
        assert_eq!(self.size(), size, "{why}: somebody writes");
        let mut said = String::new();
        let mut stdout = self.launcher.stdout.take().unwrap();
        stdout.read_to_string(&mut said).unwrap();
        for pid in known {
            within(|| match is_gone(pid) {
                true => Ok(()),
                false => Err(format!("{why}: not buried are {}", described(&[pid]))),
            });
        }
        let root = self.cage.setting.root.path().to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(root), "{why}: a mount is left");
    }
}

/// Polls until something holds; where it never does, says what it said last.
#[track_caller]
fn within(holds: impl Fn() -> Result<(), String>) {
    // Twenty seconds: a guard against hanging, not a measurement.
    let mut last = Ok(());
    for _ in 0..10_000 {
        last = holds();
        if last.is_ok() {
            return;
        }
        sleep(Duration::from_millis(2));
    }
    if let Err(last) = last {
        panic!("{last}");
    }
}

/// Processes as a person would want to see them.
fn described(pids: &[i32]) -> String {
    let describe = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        format!("[{}] {line}", stat.chars().take(60).collect::<String>())
    };
    pids.iter().map(describe).collect::<Vec<_>>().join(", ")
}

impl Drop for Tree<'_> {
    /// A test that fails leaves nothing behind either.
    fn drop(&mut self) {
        let left = self.alive();
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.launcher.wait();
    }
}

fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            let pids: Vec<i32> = text
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect();
            pids
        })
        .collect()
}

/// Whether a process has ended and was waited for; what the machine's own
/// first process does not wait for is not the cage's to bury.
fn is_gone(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = rest.split_whitespace();
    // A number may have been given to somebody else meanwhile.
    fields.next() != Some("Z") || fields.next() == Some("1")
}

fn in_kinds(kinds: &[Kind], case: impl Fn(&Cage<'_>)) {
    for kind in kinds {
        as_everyone(|setting| {
            case(&Cage {
                setting,
                kind: *kind,
            });
        });
    }
}

const SHARED: [Kind; 2] = [Kind::InPlace, Kind::Bare];

/// Kills one at every moment of the start.
fn kill_at_every_moment(cage: &Cage<'_>, target: Target) {
    for moment in moments() {
        let tree = Tree::start(cage, "daemon");
        sleep(moment);
        tree.signal(target, Signal::KILL);
        if tree.find(target).is_none() || target != Target::Launcher {
            // It may have come too early for this one: then it runs, and the
            // launcher is ended so that the tree has an end at all.
            tree.signal(Target::Launcher, Signal::KILL);
        }
        tree.assert_gone(&format!("{:?} {target:?} after {moment:?}", cage.kind));
    }
}

/// Kills one while each kind of agent runs.
fn kill_while_running(cage: &Cage<'_>, target: Target) {
    for agent in AGENTS {
        let tree = Tree::start(cage, agent);
        tree.wait_until_it_beats();
        tree.signal(target, Signal::KILL);
        tree.assert_gone(&format!("{:?} {target:?} of {agent}", cage.kind));
    }
}

/// T62: the launcher is killed at every moment of a start.
#[test]
fn nothing_is_left_of_a_launcher_killed_at_any_moment() {
    in_kinds(&[Kind::View], |cage| {
        kill_at_every_moment(cage, Target::Launcher);
    });
}

/// T62: the launcher is killed while agents run that resist.
#[test]
fn nothing_is_left_of_a_launcher_killed_while_agents_resist() {
    in_kinds(&[Kind::View, Kind::InPlace, Kind::Bare], |cage| {
        kill_while_running(cage, Target::Launcher);
    });
}

/// T62: the helper or the init is killed at every moment of a start; both that
/// and the launcher's end a moment later leave nothing.
#[test]
fn nothing_is_left_of_a_helper_killed_at_any_moment() {
    in_kinds(&[Kind::View], |cage| {
        kill_at_every_moment(cage, Target::Helper);
        kill_at_every_moment(cage, Target::Init);
    });
}

/// T62: the helper or the init is killed while agents resist, and the launcher
/// ends by itself.
#[test]
fn nothing_is_left_of_a_helper_killed_while_agents_resist() {
    in_kinds(&[Kind::View], |cage| {
        kill_while_running(cage, Target::Helper);
        kill_while_running(cage, Target::Init);
    });
}

/// T58, T59, T61: the command is killed, and what it left behind ends with it.
#[test]
fn nothing_is_left_of_a_command_that_was_killed() {
    in_kinds(&[Kind::View], |cage| {
        kill_at_every_moment(cage, Target::Command)
    });
    in_kinds(&[Kind::View, Kind::InPlace, Kind::Bare], |cage| {
        kill_while_running(cage, Target::Command);
    });
}

/// T62: processes of the cage that are stopped die all the same.
#[test]
fn nothing_is_left_of_a_stopped_helper() {
    in_kinds(&[Kind::View], |cage| {
        for stopped in [Target::Helper, Target::Init, Target::Command] {
            let tree = Tree::start(cage, "forks");
            tree.wait_until_it_beats();
            tree.signal(stopped, Signal::STOP);
            tree.signal(Target::Launcher, Signal::KILL);
            tree.assert_gone(&format!("{stopped:?} stopped"));
        }
    });
}

/// T61: a stopped command does not keep the sweep from its end.
#[test]
fn nothing_is_left_of_a_stopped_command_without_a_view() {
    in_kinds(&SHARED, |cage| {
        let tree = Tree::start(cage, "forks");
        tree.wait_until_it_beats();
        tree.signal(Target::Command, Signal::STOP);
        tree.signal(Target::Launcher, Signal::KILL);
        tree.assert_gone("the command stopped");
    });
}

/// T62: the launcher of a cage without a view is killed at every moment.
#[test]
fn nothing_is_left_without_a_view_of_a_launcher_killed_at_any_moment() {
    in_kinds(&SHARED, |cage| kill_at_every_moment(cage, Target::Launcher));
}

/// T62: the command of a cage without a view is killed at every moment.
#[test]
fn nothing_is_left_without_a_view_of_a_command_killed_at_any_moment() {
    in_kinds(&SHARED, |cage| kill_at_every_moment(cage, Target::Command));
}

/// T62: the sweeping helper is killed at every moment of a start.
#[test]
fn nothing_is_left_of_a_sweeper_killed_at_any_moment() {
    in_kinds(&SHARED, |cage| kill_at_every_moment(cage, Target::Helper));
}

/// T62: the sweeping helper is killed while agents resist.
#[test]
fn nothing_is_left_of_a_sweeper_killed_while_agents_resist() {
    in_kinds(&SHARED, |cage| kill_while_running(cage, Target::Helper));
}

/// T62: the sweeping helper is stopped, and the launcher killed.
#[test]
fn nothing_is_left_of_a_stopped_sweeper() {
    in_kinds(&SHARED, |cage| {
        let tree = Tree::start(cage, "forks");
        tree.wait_until_it_beats();
        tree.signal(Target::Helper, Signal::STOP);
        tree.signal(Target::Launcher, Signal::KILL);
        tree.assert_gone("the helper stopped");
    });
}
