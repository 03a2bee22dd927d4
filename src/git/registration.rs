//! Worktree registration: what `git worktree list` shows of an agent.
//!
//! Owns `worktrees/<id>/` in the common git directory: HEAD, commondir,
//! gitdir and locked, and never an index. The entry keeps the commit that an
//! agent started from safe from `gc`, and is a name only: no git is run
//! through it, because the agent could have written where it leads. Entries
//! without our mark are never touched.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::repository::own_dir;
use super::{Configuration, Error, Repository};
use crate::model::{AgentId, ObjectId};

/// The first word of the lock's reason marks an entry as ours.
const MARK: &str = "cofferdam ";

/// What the registered worktree's HEAD says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegisteredHead {
    /// A commit. On an unborn branch it is the snapshot's, so that the branch
    /// does not count as checked out elsewhere.
    Detached(ObjectId),
}

/// The worktrees that are registered on our account.
#[derive(Debug)]
pub struct Registration;

impl Registration {
    /// Registers a worktree, locked with our reason.
    ///
    /// The entry appears whole or not at all. An entry of ours with the same
    /// id is replaced.
    ///
    /// # Errors
    /// The entry is somebody else's, or nothing can be written.
    pub fn register(
        repo: &Repository,
        agent: &AgentId,
        head: &RegisteredHead,
        worktree: &Path,
    ) -> Result<(), Error> {
        let _lock = lock(repo.common_dir())?;
        let entries = repo.common_dir().join("worktrees");
        fs::create_dir_all(&entries).map_err(Error::file("make", &entries))?;
        let entry = entries.join(agent.as_str());
        if is_there(&entry) {
            if !is_ours(&entry) {
                return Err(Error::ForeignRegistration { path: entry });
            }
            fs::remove_dir_all(&entry).map_err(Error::file("remove", &entry))?;
        }
        // Made beside `worktrees`, not in it: git reads every directory there.
        let ours = own_dir(repo.common_dir());
        // Named after the agent, so that whoever finds it half made after a
        // crash knows whose it is.
        let made = Unfinished::make(unfinished(&ours, agent))?;
        let mut gitdir = worktree.join(".git").into_os_string().into_vec();
        gitdir.push(b'\n');
        for (name, bytes) in [
            ("commondir", b"../..\n".to_vec()),
            ("gitdir", gitdir),
            ("locked", format!("{MARK}agent {agent}\n").into_bytes()),
        ] {
            let path = made.0.join(name);
            fs::write(&path, bytes).map_err(Error::file("write", &path))?;
        }
        write_head(repo, &made.0, head)?;
        fs::rename(&made.0, &entry).map_err(Error::file("make", &entry))
    }

    /// Takes a registration away; says whether there was one.
    ///
    /// # Errors
    /// The entry is somebody else's, or cannot be removed.
    pub fn unregister(repo: &Repository, agent: &AgentId) -> Result<bool, Error> {
        Self::unregister_at(repo.common_dir(), agent)
    }

    /// As [`Registration::unregister`], for a common git directory whose
    /// repository may be gone.
    ///
    /// # Errors
    /// The entry is somebody else's, or cannot be removed.
    pub fn unregister_at(common_dir: &Path, agent: &AgentId) -> Result<bool, Error> {
        let ours = own_dir(common_dir);
        for half in [unfinished(&ours, agent), gone(&ours, agent)] {
            if is_there(&half) {
                let _lock = lock(common_dir)?;
                remove(&half)?;
            }
        }
        let entries = common_dir.join("worktrees");
        let entry = entries.join(agent.as_str());
        if !is_there(&entry) {
            return Ok(false);
        }
        let _lock = lock(common_dir)?;
        if !is_there(&entry) {
            return Ok(false);
        }
        if !is_ours(&entry) {
            return Err(Error::ForeignRegistration { path: entry });
        }
        // Renamed out first: an entry that is half removed would be reported
        // by git as broken, and would have lost our mark.
        let gone = gone(&ours, agent);
        remove(&gone)?;
        fs::rename(&entry, &gone).map_err(Error::file("remove", &entry))?;
        remove(&gone)?;
        // Git removes the directory with its last entry, and so does this;
        // others' entries make the call fail, which is what is wanted.
        drop(fs::remove_dir(&entries));
        Ok(true)
    }

    /// The agents registered here, with the worktree of each.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn ours(repo: &Repository) -> Result<Vec<(AgentId, PathBuf)>, Error> {
        let entries = repo.common_dir().join("worktrees");
        let listing = match fs::read_dir(&entries) {
            Ok(listing) => listing,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::file("list", &entries)(source)),
        };
        let mut found = Vec::new();
        for entry in listing {
            let entry = entry.map_err(Error::file("list", &entries))?;
            let id = entry.file_name().to_str().and_then(|id| id.parse().ok());
            let Some(id) = id else { continue };
            if !is_ours(&entry.path()) {
                continue;
            }
            let mut gitdir = fs::read(entry.path().join("gitdir")).unwrap_or_default();
            if gitdir.last() == Some(&b'\n') {
                gitdir.pop();
            }
            let mut worktree = PathBuf::from(OsString::from_vec(gitdir));
            worktree.pop();
            found.push((id, worktree));
        }
        found.sort();
        Ok(found)
    }
}

/// Writes the HEAD of an entry in the form of the repository's ref storage.
fn write_head(repo: &Repository, entry: &Path, head: &RegisteredHead) -> Result<(), Error> {
    let RegisteredHead::Detached(oid) = head;
    let path = entry.join("HEAD");
    if !repo.common_dir().join("reftable").is_dir() {
        return fs::write(&path, format!("{oid}\n")).map_err(Error::file("write", &path));
    }
    // With reftables the file is a mark only, and each worktree has a table
    // of its own. The entry is still ours alone, and its `commondir` leads to
    // the repository from here too, so git can write it.
    fs::write(&path, "ref: refs/heads/.invalid\n").map_err(Error::file("write", &path))?;
    for name in ["refs", "reftable"] {
        let path = entry.join(name);
        fs::create_dir(&path).map_err(Error::file("make", &path))?;
    }
    repo.git()
        .at(entry, Configuration::Hermetic)
        .args(["update-ref", "--no-deref", "HEAD", oid.as_str()])
        .output()?;
    Ok(())
}

/// An entry that is being made; dropped before its time it is taken away.
struct Unfinished(PathBuf);

impl Unfinished {
    fn make(path: PathBuf) -> Result<Self, Error> {
        remove(&path)?;
        fs::create_dir(&path).map_err(Error::file("make", &path))?;
        Ok(Self(path))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing here any more.
        drop(fs::remove_dir_all(&self.0));
    }
}

fn unfinished(ours: &Path, agent: &AgentId) -> PathBuf {
    ours.join(format!("entry-{agent}"))
}

fn gone(ours: &Path, agent: &AgentId) -> PathBuf {
    ours.join(format!("gone-{agent}"))
}

/// Removes a directory; one that is not there is fine.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::file("remove", path)(source))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn is_ours(entry: &Path) -> bool {
    fs::read(entry.join("locked")).is_ok_and(|text| text.starts_with(MARK.as_bytes()))
}

/// One change of registrations at a time, whichever process makes it; the
/// kernel drops the lock with the file.
fn lock(common_dir: &Path) -> Result<File, Error> {
    let ours = own_dir(common_dir);
    fs::create_dir_all(&ours).map_err(Error::file("make", &ours))?;
    let path = ours.join("registration.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(Error::file("open", &path))?;
    file.lock().map_err(Error::file("lock", &path))?;
    Ok(file)
}
