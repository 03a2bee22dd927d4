//! Owns the setting of a case: two directories, a policy, a launcher process.
//!
//! Used by every other file here; asserts nothing about confinement.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_sandbox::{
    Access, Command as Confined, FileRule, Layer, Limits, Mount, Network, Policy, Rights, View,
    ViewMode,
};
use serde_json::Value;

/// The program that launches, and that is confined.
pub const FIXTURE: &str = env!("CARGO_BIN_EXE_cofferdam-sandbox-fixture");

/// Longer than anything takes; a guard against hanging, not a measurement.
const LONG: Duration = Duration::from_secs(300);

/// Who launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Myself,
    Ordinary,
}

const ORDINARY: u32 = 1000;

/// Runs a case as every user there is.
pub fn as_everyone(case: impl Fn(&Setting)) {
    case(&Setting::new(Who::Myself));
    if rustix::process::geteuid().is_root() {
        case(&Setting::new(Who::Ordinary));
    }
}

/// Two directories of the launching user: one to work in, one to stay out of.
pub struct Setting {
    pub who: Who,
    pub root: tempfile::TempDir,
}

impl Setting {
    pub fn new(who: Who) -> Self {
        let root = tempfile::Builder::new().prefix("cage").tempdir().unwrap();
        let setting = Self { who, root };
        fs::create_dir(setting.work()).unwrap();
        fs::create_dir(setting.outside()).unwrap();
        fs::write(setting.precious(), "precious").unwrap();
        setting.own();
        setting
    }

    /// Gives everything to the launching user, so that permissions alone stop nothing.
    pub fn own(&self) {
        let mut paths = vec![self.root.path().to_path_buf()];
        while let Some(path) = paths.pop() {
            if self.who == Who::Ordinary {
                std::os::unix::fs::lchown(&path, Some(ORDINARY), Some(ORDINARY)).unwrap();
            }
            if path.is_dir() && !path.is_symlink() {
                paths.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
        }
    }

    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub fn outside(&self) -> PathBuf {
        self.root.path().join("outside")
    }

    pub fn precious(&self) -> PathBuf {
        self.outside().join("precious")
    }

    /// Whether the file outside is byte for byte what it was.
    pub fn unharmed(&self) -> bool {
        fs::read(self.precious()).is_ok_and(|text| text == b"precious")
            && fs::read_dir(self.outside()).unwrap().count() == 1
    }

    /// A policy that confines to the working directory and requires every layer.
    pub fn policy(&self, argv: &[&str]) -> Policy {
        let directory = Path::new(FIXTURE).parent().unwrap();
        let mut files = vec![
            rule(&self.work(), Rights::ReadWriteExecute),
            rule(directory, Rights::ReadExecute),
            rule(Path::new("/proc"), Rights::Read),
            rule(Path::new("/dev/null"), Rights::Device),
        ];
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"];
        files.extend(
            system
                .iter()
                .map(Path::new)
                .filter(|path| path.exists())
                .map(|path| rule(path, Rights::ReadExecute)),
        );
        Policy {
            command: Confined {
                argv: argv.iter().map(Into::into).collect(),
                cwd: self.work().into(),
                env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            },
            view: View {
                mode: ViewMode::Mounted,
                mounts: vec![bind(&self.work(), &self.work(), Access::ReadWrite)],
            },
            files,
            network: Network::None,
            limits: Limits::default(),
            out_of_reach: vec![],
            promised: [].into(),
            waived: [].into(),
            required: [
                Layer::Landlock,
                Layer::Mounts,
                Layer::Namespaces,
                Layer::Seccomp,
                Layer::Capabilities,
                Layer::Network,
            ]
            .into(),
        }
    }

    /// A policy that makes attempts.
    pub fn attempts(&self, attempts: &[String]) -> Policy {
        let mut argv = vec![FIXTURE, "try"];
        argv.extend(attempts.iter().map(String::as_str));
        self.policy(&argv)
    }

    /// Makes attempts inside and returns the outcome of each, in order.
    pub fn outcomes(&self, policy: &Policy) -> Vec<String> {
        let result = self.launch("launch", policy);
        let text = result["stdout"]
            .as_str()
            .unwrap_or_else(|| panic!("{result}"));
        let outcomes: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{result}"));
        policy.command.argv[2..]
            .iter()
            .map(|attempt| {
                outcomes[attempt.to_str().unwrap()]
                    .as_str()
                    .unwrap_or("none")
                    .to_owned()
            })
            .collect()
    }

    /// Runs the launcher in a mode until it ends; what it printed.
    pub fn launch(&self, mode: &str, policy: &Policy) -> Value {
        printed(self.start(mode, policy))
    }

    /// Starts the launcher in a mode.
    pub fn start(&self, mode: &str, policy: &Policy) -> Child {
        let mut command = Command::new(FIXTURE);
        command
            .args(mode.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if self.who == Who::Ordinary {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        let mut child = command.spawn().unwrap();
        let mut text = serde_json::to_vec(policy).unwrap();
        text.extend(b"\nthe rest");
        child.stdin.take().unwrap().write_all(&text).unwrap();
        child
    }
}

/// What a launcher printed until it ended.
pub fn printed(mut launcher: Child) -> Value {
    let mut stdout = launcher.stdout.take().unwrap();
    let text = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        text
    });
    until(|| launcher.try_wait().unwrap().is_some());
    let text = text.join().unwrap();
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("the launcher printed {text:?}"))
}

/// Launches with a file as standard input that is open for writing too; what
/// the launcher printed, and what the file then holds.
pub fn launch_with_file(setting: &Setting, policy: &Policy) -> (Value, String) {
    let path = setting.root.path().join("input");
    let mut text = serde_json::to_vec(policy).unwrap();
    text.extend(b"\nthe rest");
    fs::write(&path, text).unwrap();
    setting.own();
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut command = Command::new(FIXTURE);
    command.arg("feed").stdin(file).stderr(Stdio::inherit());
    if setting.who == Who::Ordinary {
        command.uid(ORDINARY).gid(ORDINARY);
    }
    let output = command.output().unwrap();
    let result = serde_json::from_slice(&output.stdout).unwrap();
    let after = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    (result, after)
}

pub fn rule(path: &Path, rights: Rights) -> FileRule {
    FileRule {
        path: path.into(),
        rights,
    }
}

pub fn bind(source: &Path, target: &Path, access: Access) -> Mount {
    Mount::Bind {
        source: source.into(),
        target: target.into(),
        access,
    }
}

pub fn tmpfs(target: &Path, access: Access) -> Mount {
    Mount::Tmpfs {
        target: target.into(),
        access,
        bytes: 1 << 20,
    }
}

/// Polls until something holds.
#[expect(
    clippy::disallowed_methods,
    reason = "a test polls the host with a generous bound"
)]
pub fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "it did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An attempt with an argument that holds paths.
pub fn attempt(what: &str, paths: &[&Path]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    format!("{what}={}", paths.join(","))
}

/// Asserts that nothing succeeded, naming what did.
pub fn assert_all_denied(attempts: &[String], outcomes: &[String]) {
    let through: Vec<_> = attempts
        .iter()
        .zip(outcomes)
        .filter(|(_, outcome)| outcome.parse::<i32>().is_err())
        .collect();
    assert!(through.is_empty(), "not denied by the kernel: {through:?}");
}

/// Asserts that everything succeeded, naming what did not.
pub fn assert_all_work(attempts: &[String], outcomes: &[String]) {
    let failed: Vec<_> = attempts
        .iter()
        .zip(outcomes)
        .filter(|(_, outcome)| *outcome != "ok")
        .collect();
    assert!(failed.is_empty(), "failed: {failed:?}");
}
