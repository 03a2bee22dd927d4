//! The directories of one test and who acts in them.
//!
//! Owns a temporary directory with a home, a state directory, a directory for
//! temporary files and one for what an agent must not reach, and the
//! environment that every process of the test gets: nothing of the machine's
//! but PATH. A test acts as whoever runs it or, where that is root, also as an
//! ordinary user. Dropping it asks the leak oracle.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::oracle;
use super::repo::Repo;
use super::run::{Run, Running};

/// A user that no machine knows: an agent's launcher needs no account.
const USER: u32 = 15_000;

/// Who runs git and the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// Whoever runs the test.
    Caller,
    /// Somebody without privileges; only root can act as him.
    User,
}

/// The world of one test.
#[derive(Debug)]
pub(crate) struct TestEnv {
    directory: TempDir,
    root: PathBuf,
    identity: Identity,
    program: PathBuf,
    pub(super) watched: RefCell<Vec<oracle::Watched>>,
}

impl TestEnv {
    /// Acts as whoever runs the test.
    pub(crate) fn new() -> Self {
        Self::with(Identity::Caller)
    }

    /// Acts as an ordinary user, also where root runs the test.
    pub(crate) fn as_user() -> Self {
        if Self::caller_is_root() {
            Self::with(Identity::User)
        } else {
            Self::new()
        }
    }

    /// One world for each identity that this machine can offer: as root, both.
    pub(crate) fn identities() -> Vec<Self> {
        if Self::caller_is_root() {
            vec![Self::new(), Self::as_user()]
        } else {
            vec![Self::new()]
        }
    }

    /// Whether root runs the test.
    pub(crate) fn caller_is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    /// Whether it is another user than the caller who acts here.
    pub(crate) fn acts_as_another(&self) -> bool {
        self.identity == Identity::User
    }

    fn with(identity: Identity) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("cofferdam-it-")
            .tempdir()
            .expect("because temporary directories can be made");
        let root = fs::canonicalize(directory.path())
            .expect("because the directory was made a moment ago");
        let mut env = Self {
            directory,
            root,
            identity,
            program: PathBuf::from(env!("CARGO_BIN_EXE_cofferdam")),
            watched: RefCell::new(Vec::new()),
        };
        env.own(&env.root);
        for name in ["home", "tmp", "outside"] {
            env.make_dir(&env.root.join(name));
        }
        // Git's own upkeep runs on in the background after the command that
        // began it, and takes loose objects away under a clone that copies them.
        env.put(
            &env.home().join(".gitconfig"),
            "[user]\n\tname = Test\n\temail = test@example.invalid\n\
             [init]\n\tdefaultBranch = main\n\
             [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
        );
        if identity == Identity::User {
            env.program = env.reachable_program();
        }
        env
    }

    /// The built program stands where only the caller may look, as a rule.
    fn reachable_program(&self) -> PathBuf {
        let program = self.root.join("cofferdam");
        if fs::hard_link(&self.program, &program).is_err() {
            // Copied by another process: a descriptor open for writing here
            // would be inherited by a child that another test starts just
            // now, and the program could not be executed.
            let status = Command::new("cp")
                .args([&self.program, &program])
                .status()
                .expect("because every system has `cp`");
            assert!(status.success(), "copy {}", self.program.display());
        }
        program
    }

    /// The directory that holds all others.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The person's home directory.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Where the program keeps its state.
    pub(crate) fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Where the program makes temporary files; the oracle wants it empty.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// A directory that belongs to the person and to no repository.
    pub(crate) fn outside(&self) -> PathBuf {
        self.root.join("outside")
    }

    /// Gives a path to whoever acts here.
    pub(crate) fn own(&self, path: &Path) {
        if self.identity == Identity::User {
            lchown(path, Some(USER), Some(USER))
                .unwrap_or_else(|error| panic!("give {} away: {error}", path.display()));
        }
    }

    /// Makes a directory with all above it.
    pub(crate) fn make_dir(&self, path: &Path) {
        if path.is_dir() {
            return;
        }
        if let Some(parent) = path.parent() {
            self.make_dir(parent);
        }
        fs::create_dir(path).unwrap_or_else(|error| panic!("make {}: {error}", path.display()));
        self.own(path);
    }

    /// Writes a file with all directories above it.
    pub(crate) fn put(&self, path: &Path, content: impl AsRef<[u8]>) {
        if let Some(parent) = path.parent() {
            self.make_dir(parent);
        }
        fs::write(path, content)
            .unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        self.own(path);
    }

    /// A program with the test's environment, as whoever acts here.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self.identity {
            Identity::Caller => Command::new(program),
            Identity::User => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={USER}"))
                    .arg(format!("--regid={USER}"))
                    .args(["--clear-groups", "--"])
                    .arg(program);
                command
            }
        };
        command
            .env_clear()
            .env("PATH", search_path())
            .envs(rustup_home().map(|home| ("RUSTUP_HOME", home)))
            .env("HOME", self.home())
            .env("TMPDIR", self.tmp())
            .env("COFFERDAM_STATE_DIR", self.state())
            .env("LC_ALL", "C")
            .env("TERM", "dumb")
            .env("GIT_CONFIG_GLOBAL", self.home().join(".gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            // Looking at a repository must not rewrite its index: the index is
            // compared byte by byte.
            .env("GIT_OPTIONAL_LOCKS", "0")
            .current_dir(&self.root);
        command
    }

    /// The program under test, to be given arguments.
    pub(crate) fn program(&self) -> Command {
        self.command(&self.program)
    }

    /// Where the program under test stands, for scripts that call it.
    pub(crate) fn program_path(&self) -> &Path {
        &self.program
    }

    /// Runs a command to its end.
    pub(crate) fn finish(&self, command: &mut Command) -> Run {
        Running::start(command).wait()
    }

    /// Runs the program in a directory.
    pub(crate) fn cofferdam_in<I, S>(&self, directory: &Path, arguments: I) -> Run
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.finish(self.program().args(arguments).current_dir(directory))
    }

    /// A repository `repo` with one commit: `a.txt` and `b.txt` of ten lines
    /// each, `docs/guide.md`, and `.gitignore`, which leaves out `target/`.
    pub(crate) fn repo(&self) -> Repo<'_> {
        let repo = self.unborn_repo();
        let lines = |letter: &str| {
            (1..=10).fold(String::new(), |text, number| {
                text + &format!("{letter} {number}\n")
            })
        };
        repo.write("a.txt", lines("a"));
        repo.write("b.txt", lines("b"));
        repo.write("docs/guide.md", "# Guide\n\nHow to use it.\n");
        repo.write(".gitignore", "target/\n");
        repo.commit_all("begin");
        repo
    }

    /// A repository `repo` without any commit.
    pub(crate) fn unborn_repo(&self) -> Repo<'_> {
        let path = self.root.join("repo");
        self.make_dir(&path);
        let repo = self.adopt(path);
        repo.git(["init", "-q", "-b", "main"]);
        repo
    }

    /// A repository that stands, or will stand, at `path`.
    pub(crate) fn adopt(&self, path: PathBuf) -> Repo<'_> {
        self.watched
            .borrow_mut()
            .push(oracle::Watched::new(path.clone()));
        Repo::new(self, path)
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        // A test that failed already says why; what it left behind would only
        // hide that.
        if std::thread::panicking() {
            return;
        }
        let complaints = oracle::examine(self);
        assert!(
            complaints.is_empty(),
            "the test is over and something is left in {}:\n{}",
            self.directory.path().display(),
            complaints.join("\n")
        );
    }
}

/// Where the machine's Rust toolchains are: the home directory is another here.
fn rustup_home() -> Option<PathBuf> {
    let named = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let usual = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup"));
    named.or(usual).filter(|home| home.is_dir())
}

/// The caller's `PATH` without directories of shims: a shim looks for its
/// toolchain in the home directory, and this one is another.
fn search_path() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let kept = std::env::split_paths(&path).filter(|place| !place.ends_with("shims"));
    std::env::join_paths(kept).expect("because its parts came from such a list")
}
