//! Where the program keeps its state.
//!
//! Owns the state directory and every path in it; nothing else joins such a
//! path. It never lies inside a repository that agents work on. What must be
//! on the repository's own file system is kept in its common git directory,
//! and is not the business of this file.
//!
//! ```text
//! <state>/runs/<run>/{lease,journal,agents/<agent>,scratch}
//!         records/<run>.json   kept/<run>/<agent>   trash/   audit.jsonl
//!         approvals/<repository and content>.json
//! ```

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Error;
use crate::model::{AgentId, RunId};

/// The state directory: private to its owner, and canonical.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// Finds and opens the state directory: `COFFERDAM_STATE_DIR`, else
    /// `cofferdam` in `XDG_STATE_HOME`, else in `~/.local/state`.
    ///
    /// A relative value is not used, as the XDG rules say: it would mean
    /// another place for each working directory.
    ///
    /// # Errors
    /// No variable names an absolute path, or it cannot be made.
    pub fn locate(env: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let absolute = |name: &str| env(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let path = absolute("COFFERDAM_STATE_DIR")
            .or_else(|| absolute("XDG_STATE_HOME").map(|home| home.join("cofferdam")))
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state/cofferdam")))
            .ok_or(Error::NoHome)?;
        Self::open(&path)
    }

    /// Opens the directory, makes it with mode 0700 where it is missing, and
    /// takes other people's rights away where it was wider.
    ///
    /// # Errors
    /// It cannot be made or is no directory.
    pub fn open(path: &Path) -> Result<Self, Error> {
        private_directory(path)?;
        let real = fs::canonicalize(path).map_err(Error::io("resolve", path))?;
        let state = Self(real);
        let mode = fs::metadata(&state.0)
            .map_err(Error::io("examine", &state.0))?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            let narrower = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&state.0, narrower).map_err(Error::io("protect", &state.0))?;
        }
        for made in ["runs", "records", "kept", "trash"] {
            private_directory(&state.0.join(made))?;
        }
        Ok(state)
    }

    /// Refuses a state directory inside the repository at `top`.
    ///
    /// # Errors
    /// It lies there, or `top` cannot be resolved.
    pub fn require_outside(&self, top: &Path) -> Result<(), Error> {
        let repository = fs::canonicalize(top).map_err(Error::io("resolve", top))?;
        if self.0.starts_with(&repository) {
            return Err(Error::InsideRepository {
                path: self.0.clone(),
                repository,
            });
        }
        Ok(())
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// One directory for each run that has not been cleaned up.
    #[must_use]
    pub fn runs_dir(&self) -> PathBuf {
        self.0.join("runs")
    }

    /// The directory of one run.
    #[must_use]
    pub fn run_dir(&self, run: &RunId) -> PathBuf {
        self.runs_dir().join(run.as_str())
    }

    /// The lease that a run's launcher holds as long as it lives.
    #[must_use]
    pub fn lease_path(&self, run: &RunId) -> PathBuf {
        self.run_dir(run).join("lease")
    }

    /// The journal of what a run has to undo.
    #[must_use]
    pub fn journal_path(&self, run: &RunId) -> PathBuf {
        self.run_dir(run).join("journal")
    }

    /// What belongs to one agent while its run lives.
    #[must_use]
    pub fn agent_dir(&self, run: &RunId, agent: &AgentId) -> PathBuf {
        self.run_dir(run).join("agents").join(agent.as_str())
    }

    /// A place for a run's temporary files.
    #[must_use]
    pub fn scratch_dir(&self, run: &RunId) -> PathBuf {
        self.run_dir(run).join("scratch")
    }

    /// The record of one run.
    #[must_use]
    pub fn record_path(&self, run: &RunId) -> PathBuf {
        self.0.join("records").join(format!("{run}.json"))
    }

    /// Files of one agent that outlive its workspace for a while.
    #[must_use]
    pub fn kept_dir(&self, run: &RunId, agent: &AgentId) -> PathBuf {
        self.0.join("kept").join(run.as_str()).join(agent.as_str())
    }

    /// Checkouts that agents of many runs share, by repository.
    #[must_use]
    pub fn bases_dir(&self) -> PathBuf {
        self.0.join("bases")
    }

    /// Where directories are moved to before they are deleted.
    #[must_use]
    pub fn trash_dir(&self) -> PathBuf {
        self.0.join("trash")
    }

    /// What a person approved, one file each; made with the first.
    #[must_use]
    pub fn approvals_dir(&self) -> PathBuf {
        self.0.join("approvals")
    }

    /// The append-only record of what happened.
    #[must_use]
    pub fn audit_path(&self) -> PathBuf {
        self.0.join("audit.jsonl")
    }

    /// Makes the directory of a new run; that it did not exist proves that the
    /// id is nobody else's.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn create_run(&self, run: &RunId) -> Result<PathBuf, Error> {
        let path = self.run_dir(run);
        let failed = || Error::io("create", &path);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(failed())?;
        for made in ["agents", "scratch"] {
            private_directory(&path.join(made))?;
        }
        Ok(path)
    }

    /// The runs that have a directory, in the order of their ids.
    ///
    /// # Errors
    /// The directory cannot be read. Foreign names in it are passed over.
    pub fn list_runs(&self) -> Result<Vec<RunId>, Error> {
        ids(&self.runs_dir(), "")
    }

    /// The runs that have a record, in the order of their ids.
    ///
    /// # Errors
    /// The directory cannot be read. Foreign names in it are passed over.
    pub fn list_records(&self) -> Result<Vec<RunId>, Error> {
        ids(&self.0.join("records"), ".json")
    }
}

fn private_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(Error::io("create", path))
}

fn ids(directory: &Path, suffix: &str) -> Result<Vec<RunId>, Error> {
    let failed = || Error::io("list", directory);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed())? {
        let name = entry.map_err(failed())?.file_name();
        let id = name
            .to_str()
            .and_then(|name| name.strip_suffix(suffix))
            .and_then(|name| RunId::from_str(name).ok());
        found.extend(id);
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_with_an_absolute_path_decides() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let at = |name: &str| dir.path().join(name).into_os_string();
        let locate = |set: &[(&str, OsString)]| {
            StateDir::locate(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()))
        };
        let own = locate(&[
            ("COFFERDAM_STATE_DIR", at("own")),
            ("XDG_STATE_HOME", at("xdg")),
        ]);
        assert_eq!(own.expect("because it can be made").path(), at("own"));
        let xdg = locate(&[
            ("COFFERDAM_STATE_DIR", "relative".into()),
            ("XDG_STATE_HOME", at("xdg")),
            ("HOME", at("home")),
        ]);
        assert_eq!(
            xdg.expect("because it can be made").path(),
            dir.path().join("xdg/cofferdam")
        );
        let home = locate(&[("HOME", at("home"))]);
        assert_eq!(
            home.expect("because it can be made").path(),
            dir.path().join("home/.local/state/cofferdam")
        );
        assert!(matches!(locate(&[]), Err(Error::NoHome)));
    }

    #[test]
    fn the_directory_is_private_and_outside_the_repository() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("repo/state");
        fs::create_dir_all(&path).expect("because its parent is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("because it is ours");
        let state = StateDir::open(&path).expect("because it can be made");
        let mode = fs::metadata(&path)
            .expect("because it exists")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        let refused = state.require_outside(&dir.path().join("repo"));
        assert!(matches!(refused, Err(Error::InsideRepository { .. })));
        fs::create_dir(dir.path().join("rep")).expect("because its parent is writable");
        assert!(state.require_outside(&dir.path().join("rep")).is_ok());
    }

    #[test]
    fn lists_its_own_names_only() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let state = StateDir::open(dir.path()).expect("because it is ours");
        let (one, two) = (RunId::from_bits(1), RunId::from_bits(2));
        state.create_run(&two).expect("because it is new");
        state.create_run(&one).expect("because it is new");
        assert!(state.create_run(&one).is_err(), "an id is used once");
        fs::create_dir(state.runs_dir().join("foreign")).expect("because it is new");
        assert_eq!(
            state.list_runs().expect("because it exists"),
            [one.clone(), two]
        );
        fs::write(state.record_path(&one), "{}").expect("because it is ours");
        fs::write(state.path().join("records/x.json"), "{}").expect("because it is ours");
        assert_eq!(state.list_records().expect("because it exists"), [one]);
    }
}
