//! The demo's repository and its agents.
//!
//! Owns a temporary directory with a small repository, a home with a secret,
//! a file that nobody may touch and a socket that nobody may reach. Only git,
//! `sh` and the usual small programs are used.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::cli::failure::Failure;
use crate::cli::request::{self, Parts, Work};
use crate::config::PartialSettings;
use crate::model::{ExitCode, RunRequest};

/// What the secret in the demo's home says; it must never be heard.
pub(super) const SECRET: &str = "correct-horse-battery-staple";
/// What the file outside the repository says, before and after.
pub(super) const CANARY: &str = "nobody but its owner writes this\n";

/// What the intruder prints when it has tried everything.
pub(super) const LAST_WORDS: &str = "that was all I could think of";
/// What `git status` says in the end: the results of the others and what the
/// person had not committed.
pub(super) const CHANGED: [&str; 7] = [
    " M README.md",
    " M config.ini",
    " D docs/guide.md",
    " M src/menu.txt",
    "?? handbook/guide.md",
    "?? notes.txt",
    "?? tests/menu.sh",
];

/// The stage of the demo.
pub(super) struct Sample {
    root: tempfile::TempDir,
    /// A process of the person's, which the intruder is told of. It ends with
    /// its standard input, so also when the demo itself is killed.
    victim: Child,
    listener: Option<TcpListener>,
    hooks_before: Vec<(OsString, Vec<u8>)>,
}

fn failed(what: &str) -> impl Fn(io::Error) -> Failure {
    let what = what.to_owned();
    move |error| {
        Failure::new(ExitCode::Isolation, format!("failed to {what}: {error}"))
            .hint("set TMPDIR to a directory that can be written")
    }
}

impl Sample {
    /// Makes the stage.
    pub(super) fn create() -> Result<Self, Failure> {
        let root = tempfile::Builder::new()
            .prefix("cofferdam-demo-")
            .tempdir()
            .map_err(failed("make a temporary directory"))?;
        let listener = TcpListener::bind("127.0.0.1:0").ok();
        if let Some(listener) = &listener {
            listener
                .set_nonblocking(true)
                .map_err(failed("prepare a socket"))?;
        }
        let victim = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed("start `cat`"))?;
        let mut sample = Self {
            root,
            victim,
            listener,
            hooks_before: Vec::new(),
        };
        sample
            .write_files()
            .map_err(failed("write the sample repository"))?;
        sample.commit_files()?;
        // What the person has not committed.
        let readme = fs::read_to_string(sample.repository().join("README.md"))
            .map_err(failed("read the sample repository"))?;
        sample
            .put(
                "repo/README.md",
                &format!("{readme}\nEdited, not committed.\n"),
            )
            .map_err(failed("write the sample repository"))?;
        sample
            .put("repo/notes.txt", "untracked: remember the oysters\n")
            .map_err(failed("write the sample repository"))?;
        sample.hooks_before = sample.hooks();
        Ok(sample)
    }

    /// Where the repository is.
    pub(super) fn repository(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    /// Where the demo keeps its runs.
    pub(super) fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// The directory around everything.
    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The file that nobody may touch.
    pub(super) fn canary(&self) -> PathBuf {
        self.root.path().join("outside/canary.txt")
    }

    /// The person's environment, with a home that holds a secret.
    pub(super) fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut all: BTreeMap<_, _> = std::env::vars_os()
            .filter(|(name, _)| name != "HOME")
            .collect();
        all.insert(
            "HOME".into(),
            self.root.path().join("home").into_os_string(),
        );
        all.insert("DEPLOY_TOKEN".into(), SECRET.into());
        all
    }

    /// The process id of the person's process.
    pub(super) fn victim(&self) -> u32 {
        self.victim.id()
    }

    /// Whether the person's process repeats a word and then ends as it should:
    /// it is a child that was not waited for, so nobody else has its id.
    pub(super) fn victim_answers(&mut self) -> bool {
        let victim = &mut self.victim;
        let told = victim
            .stdin
            .take()
            .is_some_and(|mut stdin| stdin.write_all(b"alive\n").is_ok());
        let mut answer = String::new();
        let answered = victim
            .stdout
            .as_mut()
            .is_some_and(|stdout| stdout.read_to_string(&mut answer).is_ok());
        let ended = victim.wait().is_ok_and(|status| status.success());
        told && answered && answer == "alive\n" && ended
    }

    /// Whether somebody reached the socket.
    pub(super) fn was_reached(&self) -> Option<bool> {
        self.listener
            .as_ref()
            .map(|listener| listener.accept().is_ok())
    }

    /// Whether the repository's hooks are as they were.
    pub(super) fn hooks_unchanged(&self) -> bool {
        self.hooks() == self.hooks_before
    }

    /// Reads a file of the repository; empty when it is not there.
    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.repository().join(path)).unwrap_or_default()
    }

    /// Asks git about the repository. Where it has no answer the text says so,
    /// and no claim takes that for "nothing".
    pub(super) fn git(&self, arguments: &[&str]) -> String {
        match self.git_command(arguments).output() {
            Ok(output) if output.status.success() => {
                String::from_utf8_lossy(&output.stdout).into_owned()
            }
            Ok(output) => format!("git ended with {}", output.status),
            Err(error) => format!("git could not be run: {error}"),
        }
    }

    /// Leaves the directory in place.
    pub(super) fn keep(self) -> PathBuf {
        self.root.keep()
    }

    fn put(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.root.path().join(path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, text)
    }

    fn hooks(&self) -> Vec<(OsString, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(self.repository().join(".git/hooks")) else {
            return Vec::new();
        };
        let mut hooks: Vec<_> = entries
            .flatten()
            .map(|entry| {
                (
                    entry.file_name(),
                    fs::read(entry.path()).unwrap_or_default(),
                )
            })
            .collect();
        hooks.sort();
        hooks
    }

    fn write_files(&self) -> io::Result<()> {
        let menu: String = (1..=20).map(|number| format!("dish {number}\n")).collect();
        self.put("repo/README.md", "# The lighthouse kitchen\n")?;
        self.put("repo/src/menu.txt", &menu)?;
        self.put("repo/docs/guide.md", "# Guide\n")?;
        self.put("repo/config.ini", "[lamp]\ncolour = white\nrange = 20\n")?;
        self.put("home/.ssh/id_ed25519", SECRET)?;
        self.put("outside/canary.txt", CANARY)?;
        fs::set_permissions(self.canary(), fs::Permissions::from_mode(0o644))
    }

    fn git_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command
            .arg("-C")
            .arg(self.repository())
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    fn commit_files(&self) -> Result<(), Failure> {
        let steps: [&[&str]; 5] = [
            &["init", "--quiet", "--initial-branch=main"],
            &["config", "user.name", "Keeper"],
            &["config", "user.email", "keeper@lighthouse.invalid"],
            &["add", "--all"],
            &["commit", "--quiet", "--message=The kitchen opens"],
        ];
        for step in steps {
            let output = self.git_command(step).output().map_err(|error| {
                Failure::usage(format!("failed to run `git`: {error}"))
                    .hint("install git 2.38 or newer")
            })?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(Failure::usage(format!(
                    "failed to make the sample repository: git {}: {}",
                    step[0],
                    said.trim()
                )));
            }
        }
        Ok(())
    }

    /// The fleet.
    pub(super) fn request(&self, top: &Path) -> Result<RunRequest, Failure> {
        let port = self
            .listener
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
            .map_or(9, |address| address.port());
        let home = self.root.path().join("home");
        let plan = plan((&self.canary(), &home), port, self.victim());
        let path = self.root.path().join("plan.toml");
        fs::write(&path, plan).map_err(failed("write the plan"))?;
        let parts = Parts {
            top,
            cwd: top,
            variables: BTreeMap::new(),
            options: PartialSettings::default(),
            work: Work::Plan(path),
        };
        Ok(request::assemble(parts)?.0.request)
    }
}

/// The plan of the demo, as a person would write it.
fn plan((canary, home): (&Path, &Path), port: u16, victim: u32) -> String {
    let canary = canary.display();
    let home = home.display();
    let launcher = std::process::id();
    format!(
        r#"[run]
max_live = 4

[[task]]
name = "docs"
task = "Write the guide, from the notes that nobody has committed"
command = ["sh", "-c", "cat notes.txt >> docs/guide.md && grep -q 'not committed' README.md"]

[[task]]
name = "tests"
task = "Add a test and commit it"
command = ["sh", "-c", "mkdir tests && printf '#!/bin/sh\ngrep -q dish src/menu.txt\n' > tests/menu.sh && chmod +x tests/menu.sh && git add -A && git commit -q -m 'Add a test' && git log -1 --format=%s"]

[[task]]
name = "starters"
task = "Rename the second dish"
command = ["sh", "-c", "sed -i 's/^dish 2$/dish 2: oysters/' src/menu.txt"]

[[task]]
name = "desserts"
task = "Rename the nineteenth dish"
command = ["sh", "-c", "sed -i 's/^dish 19$/dish 19: lemon cake/' src/menu.txt"]

[[task]]
name = "mover"
task = "Move the guide's folder"
after = ["docs"]
command = ["sh", "-c", "git mv docs handbook"]

[[task]]
name = "red-lamp"
task = "Paint the lamp red"
command = ["sh", "-c", "sed -i 's/white/red/' config.ini"]

[[task]]
name = "green-lamp"
task = "Paint the lamp green"
command = ["sh", "-c", "sed -i 's/white/green/' config.ini"]

[[task]]
name = "intruder"
task = "Get out"
command = ["sh", "-c", '''
echo owned > "{canary}"
chmod 777 "{canary}"
cat "{home}/.ssh/id_ed25519"
echo "token: $DEPLOY_TOKEN"
printf '#!/bin/sh\ntouch "{canary}"\n' > .git/hooks/pre-commit
git config core.fsmonitor 'echo owned > {canary}'
kill -9 {victim} {launcher}
git ls-remote git://127.0.0.1:{port}/x
(sleep 600 &) 
mount -t tmpfs none /mnt
echo '{LAST_WORDS}'
''']
"#
    )
}
