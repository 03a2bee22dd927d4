//! Runs the git program.
//!
//! Owns finding it, its version and the environment that every call gets: no
//! `GIT_*` of the caller, no prompt, no pager, C messages, no hooks, no
//! fsmonitor, no optional locks, no background maintenance. Every call names
//! its git directory: none is ever discovered from a place that an agent
//! could write. Never parses text meant for people.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::Error;

/// A version of git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The oldest git that can merge without a working tree (`merge-tree --write-tree`).
pub const OLDEST: Version = Version {
    major: 2,
    minor: 38,
};

/// The git program, found once.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    version: Version,
}

/// Which configuration files of the person apply to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Configuration {
    /// Those of the person and the machine: ignore files, line endings.
    User,
    /// None but the repository's own; for directories that are ours.
    Hermetic,
}

impl Git {
    /// Finds git on the PATH and checks its version.
    ///
    /// # Errors
    /// Git is missing, does not tell its version, or is older than [`OLDEST`].
    pub fn require() -> Result<Self, Error> {
        let program = PathBuf::from("git");
        let mut command = Command::new(&program);
        command
            .arg("version")
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        let output = command
            .output()
            .map_err(|source| Error::Missing { source })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = parse_version(&text).ok_or_else(|| Error::UnknownVersion {
            text: text.trim().to_owned(),
        })?;
        if version < OLDEST {
            return Err(Error::TooOld {
                found: version,
                needed: OLDEST,
            });
        }
        Ok(Self { program, version })
    }

    /// The directory beneath which git was installed, as far as its place
    /// tells: settings of the machine may lie there.
    #[must_use]
    pub fn prefix(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let places = std::env::split_paths(&path).map(|directory| directory.join(&self.program));
        let program = places.filter_map(|program| program.canonicalize().ok());
        let program = program.into_iter().find(|program| program.is_file())?;
        Some(program.parent()?.parent()?.to_owned())
    }

    /// The version that was found.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Starts a call on the repository at `git_dir`.
    pub fn at(&self, git_dir: &Path, configuration: Configuration) -> Call {
        let mut call = self.bare_call(configuration);
        let mut argument = OsString::from("--git-dir=");
        argument.push(git_dir);
        call.command.arg(argument);
        call
    }

    /// Starts a call that may discover the repository around `directory`.
    ///
    /// Only for a directory that the person named: what an agent could write
    /// is opened with [`Git::at`] alone.
    pub fn discovering(&self, directory: &Path) -> Call {
        let mut call = self.bare_call(Configuration::User);
        call.command.current_dir(directory);
        call
    }

    fn bare_call(&self, configuration: Configuration) -> Call {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"GIT_") {
                command.env_remove(name);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_PAGER", "cat");
        if configuration == Configuration::Hermetic {
            command
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_ATTR_NOSYSTEM", "1");
        }
        for setting in [
            "core.fsmonitor=false",
            "core.hooksPath=/dev/null",
            "maintenance.auto=false",
            "gc.auto=0",
            "core.quotePath=false",
        ] {
            command.arg("-c").arg(setting);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Call {
            command,
            input: None,
        }
    }
}

fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.strip_prefix("git version ")?.split(['.', ' ', '\n']);
    Some(Version {
        major: numbers.next()?.parse().ok()?,
        minor: numbers.next()?.parse().ok()?,
    })
}

/// One call of git, being put together.
#[derive(Debug)]
#[must_use]
pub struct Call {
    command: Command,
    input: Option<Vec<u8>>,
}

impl Call {
    /// Adds one argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, arguments: I) -> Self {
        self.command.args(arguments);
        self
    }

    /// Names the work tree; stands before the subcommand.
    pub fn work_tree(self, directory: &Path) -> Self {
        let mut argument = OsString::from("--work-tree=");
        argument.push(directory);
        let mut call = self.arg(argument);
        call.command.current_dir(directory);
        call
    }

    /// Sets one variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs in this directory.
    pub fn directory(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Feeds bytes to its standard input.
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = Some(bytes);
        self
    }

    /// Runs it and returns whatever it ended with.
    ///
    /// # Errors
    /// It could not be started or fed. An exit code other than 0 is not an
    /// error here: see [`Call::output`].
    pub fn run(mut self) -> Result<Output, Error> {
        let shown = self.shown();
        let failed = |source| Error::NotStarted {
            argv: shown.clone(),
            source,
        };
        let Some(input) = self.input.take() else {
            return self.command.output().map_err(failed);
        };
        self.command.stdin(Stdio::piped());
        let mut child = self.command.spawn().map_err(failed)?;
        let mut pipe = child
            .stdin
            .take()
            .expect("because stdin was set to a pipe above");
        // Fed from a thread of its own: git may answer before it has read
        // everything, and two full pipes would wait for one another.
        let writer = std::thread::spawn(move || pipe.write_all(&input));
        let output = child.wait_with_output().map_err(failed)?;
        // A git that stops reading early says why by its exit code.
        drop(writer.join());
        Ok(output)
    }

    /// Runs it and returns its standard output.
    ///
    /// # Errors
    /// It could not be started, or ended with another code than 0.
    pub fn output(self) -> Result<Vec<u8>, Error> {
        let shown = self.shown();
        let output = self.run()?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(Error::Failed {
            argv: shown,
            code: output.status.code(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Runs it with its standard output going to a file.
    ///
    /// # Errors
    /// As [`Call::output`].
    pub fn output_to(mut self, file: File) -> Result<(), Error> {
        let shown = self.shown();
        self.command.stdout(file);
        let output = self
            .command
            .spawn()
            .and_then(std::process::Child::wait_with_output)
            .map_err(|source| Error::NotStarted {
                argv: shown.clone(),
                source,
            })?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Failed {
            argv: shown,
            code: output.status.code(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Runs it and returns its standard output as one trimmed line.
    ///
    /// # Errors
    /// As [`Call::output`].
    pub fn line(self) -> Result<String, Error> {
        let bytes = self.output()?;
        Ok(String::from_utf8_lossy(&bytes)
            .trim_end_matches('\n')
            .to_owned())
    }

    fn shown(&self) -> String {
        let words: Vec<_> = self
            .command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .filter(|word| word != "-c" && !word.contains('='))
            .collect();
        format!("git {}", words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_versions_that_distributions_print() {
        for (text, major, minor) in [
            ("git version 2.47.3\n", 2, 47),
            ("git version 2.39.5 (Apple Git-154)\n", 2, 39),
            ("git version 3.0.rc1\n", 3, 0),
        ] {
            assert_eq!(parse_version(text), Some(Version { major, minor }));
        }
        assert_eq!(parse_version("hub version 2"), None);
    }
}
