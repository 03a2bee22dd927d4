//! A tree behind a directory handle: the only way to reach files beneath it.
//!
//! Owns resolution. Each path is resolved by the kernel beneath the handle
//! (`openat2` with `RESOLVE_BENEATH`, no links, no magic links), so neither a
//! link that somebody puts in the way nor a rename of a parent leads out. A
//! path that only a link could reach is answered as absent. Landing and the
//! file tools call it; what happens at a path is done on its [`Place`].

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::place::stat_of;
use super::{Error, Place, Step};
use crate::model::RepoPath;

/// What stands at a path; links are never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A directory.
    Directory,
    /// A socket, pipe or device.
    Special,
}

/// What the file system says of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Its permission bits, set-id bits included.
    pub mode: u32,
    /// Its length in bytes.
    pub size: u64,
    /// Its file system.
    pub device: u64,
    /// Its number there; a rename keeps it.
    pub inode: u64,
    /// When its content last changed, in nanoseconds of the epoch.
    pub modified: i128,
}

impl Stat {
    /// Whether its owner may execute it, which is git's execute bit.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

/// A directory, held open, and the way to everything beneath it.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
    path: PathBuf,
    device: u64,
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

impl Root {
    /// Opens a directory that the person named: links on the way to it are
    /// followed, none beneath it are.
    ///
    /// # Errors
    /// It is no directory, or the kernel has no `openat2` (older than 5.6).
    pub fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle =
            rustix::fs::open(path, flags, Mode::empty()).map_err(Error::io("open", path))?;
        let stat = rustix::fs::fstat(&handle).map_err(Error::io("examine", path))?;
        match rustix::fs::openat2(&handle, ".", flags, Mode::empty(), BENEATH) {
            Ok(_) => {}
            Err(error) => {
                return Err(Error::Unsupported {
                    action: "open",
                    path: path.to_owned(),
                    needed: "the system call `openat2` is needed (Linux 5.6)",
                    source: error.into(),
                });
            }
        }
        Ok(Self {
            handle,
            path: path.to_owned(),
            device: stat.st_dev,
        })
    }

    /// The directory's path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file system of the directory itself.
    #[must_use]
    pub fn device(&self) -> u64 {
        self.device
    }

    /// The path beneath this root, for messages.
    #[must_use]
    pub fn shown(&self, path: &RepoPath) -> PathBuf {
        self.path.join(path.as_path())
    }

    /// Opens the directory that holds `path`; `None` when it is missing, is no
    /// directory, or only a link leads there.
    ///
    /// # Errors
    /// The system refused for another reason.
    pub fn place(&self, path: &RepoPath) -> Result<Option<Place>, Error> {
        let directory = match path.parent() {
            None => self
                .handle
                .try_clone()
                .map_err(Error::io("open", &self.path))?,
            Some(parent) => match self.directory(&parent, OFlags::PATH)? {
                Some(directory) => directory,
                None => return Ok(None),
            },
        };
        Ok(Some(Place::new(directory, path, self.shown(path))))
    }

    /// Opens the directory that holds `path` and makes what is missing of it.
    ///
    /// # Errors
    /// A file or link stands where a directory is needed, or one cannot be made.
    pub fn make_place(&self, path: &RepoPath) -> Result<Place, Error> {
        if let Some(place) = self.place(path)? {
            return Ok(place);
        }
        if let Some(parent) = path.parent() {
            // Whoever made it meanwhile, it is there: the last look decides.
            match self.make_place(&parent)?.make_directory(0o777)? {
                Step::Done | Step::Taken | Step::Missing => {}
            }
        }
        self.place(path)?.ok_or_else(|| {
            Error::io("create the directory of", self.shown(path))(io::Error::from(
                io::ErrorKind::NotADirectory,
            ))
        })
    }

    /// What stands at `path`; `None` when nothing can be reached there.
    ///
    /// # Errors
    /// The system refused.
    pub fn stat(&self, path: &RepoPath) -> Result<Option<Stat>, Error> {
        match self.place(path)? {
            Some(place) => place.stat(),
            None => Ok(None),
        }
    }

    /// Opens the regular file at `path` for reading.
    ///
    /// # Errors
    /// Nothing can be reached there, or it is no regular file.
    pub fn open_file(&self, path: &RepoPath) -> Result<fs::File, Error> {
        self.require_place(path)?.open_file()
    }

    /// Reads the regular file at `path`.
    ///
    /// # Errors
    /// As [`Root::open_file`], or reading failed.
    pub fn read_file(&self, path: &RepoPath) -> Result<Vec<u8>, Error> {
        self.require_place(path)?.read_file()
    }

    /// Reads the text of the link at `path`.
    ///
    /// # Errors
    /// Nothing can be reached there, or it is no link.
    pub fn read_link(&self, path: &RepoPath) -> Result<Vec<u8>, Error> {
        self.require_place(path)?.read_link()
    }

    /// The names in the directory at `path`, sorted; `None` for the root
    /// itself.
    ///
    /// # Errors
    /// It cannot be reached or read.
    pub fn list(&self, path: Option<&RepoPath>) -> Result<Vec<Vec<u8>>, Error> {
        let shown = path.map_or_else(|| self.path.clone(), |p| self.shown(p));
        let directory = match path {
            Some(path) => self.directory(path, OFlags::RDONLY)?,
            None => Some(self.reopened()?),
        };
        let missing = || Error::io("list", &shown)(io::Error::from(io::ErrorKind::NotFound));
        let directory = directory.ok_or_else(missing)?;
        let mut names = Vec::new();
        for entry in Dir::new(directory).map_err(Error::io("list", &shown))? {
            let entry = entry.map_err(Error::io("list", &shown))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        names.sort();
        Ok(names)
    }

    /// What the file system says of the directory at `path`, opened as such.
    ///
    /// # Errors
    /// The system refused.
    pub fn stat_directory(&self, path: &RepoPath) -> Result<Option<Stat>, Error> {
        let Some(directory) = self.directory(path, OFlags::PATH)? else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&directory).map_err(Error::io("examine", self.shown(path)))?;
        Ok(Some(stat_of(&stat)))
    }

    /// Brings everything of this file system to the disk.
    ///
    /// One call for thousands of files is far cheaper than one for each.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn sync_file_system(&self) -> Result<(), Error> {
        rustix::fs::syncfs(self.reopened()?).map_err(Error::io("sync", &self.path))
    }

    /// Brings the names in the directory at `path` to the disk; `None` for the
    /// root itself. A directory that is gone has nothing to sync.
    ///
    /// # Errors
    /// It cannot be opened or synced.
    pub fn sync_directory(&self, path: Option<&RepoPath>) -> Result<(), Error> {
        let shown = path.map_or_else(|| self.path.clone(), |p| self.shown(p));
        let directory = match path {
            Some(path) => self.directory(path, OFlags::RDONLY)?,
            None => Some(self.reopened()?),
        };
        match directory {
            Some(directory) => rustix::fs::fsync(directory).map_err(Error::io("sync", shown)),
            None => Ok(()),
        }
    }

    fn require_place(&self, path: &RepoPath) -> Result<Place, Error> {
        self.place(path)?.ok_or_else(|| {
            Error::io("reach", self.shown(path))(io::Error::from(io::ErrorKind::NotFound))
        })
    }

    fn reopened(&self) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(self.handle.as_fd(), ".", flags, Mode::empty())
            .map_err(Error::io("open", &self.path))
    }

    fn directory(&self, path: &RepoPath, access: OFlags) -> Result<Option<OwnedFd>, Error> {
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat2(&self.handle, path.as_path(), flags, Mode::empty(), BENEATH) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            // The kernel resolves at most `PATH_MAX` bytes at once: the rest
            // of a longer path is resolved beneath its own parent.
            Err(Errno::NAMETOOLONG) => self.deep_directory(path, access),
            Err(error) => Err(Error::io("open", self.shown(path))(error)),
        }
    }

    fn deep_directory(&self, path: &RepoPath, access: OFlags) -> Result<Option<OwnedFd>, Error> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = self
            .handle
            .try_clone()
            .map_err(Error::io("open", &self.path))?;
        let names: Vec<_> = path.components().collect();
        for (index, name) in names.iter().enumerate() {
            let access = if index + 1 == names.len() {
                access
            } else {
                OFlags::PATH
            };
            match rustix::fs::openat2(&at, *name, flags | access, Mode::empty(), BENEATH) {
                Ok(next) => at = next,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {
                    return Ok(None);
                }
                Err(error) => return Err(Error::io("open", self.shown(path))(error)),
            }
        }
        Ok(Some(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn path(text: &str) -> RepoPath {
        RepoPath::from_bytes(text.as_bytes()).expect("because it is a plain path")
    }

    #[test]
    fn no_link_is_followed_neither_inside_nor_out() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("real")).expect("because it is new");
        fs::write(tree.join("real/file"), "x").expect("because it is ours");
        fs::write(dir.path().join("secret"), "s").expect("because it is ours");
        symlink("real", tree.join("inside")).expect("because it is new");
        symlink("..", tree.join("outside")).expect("because it is new");
        symlink("../secret", tree.join("link")).expect("because it is new");
        let root = Root::open(&tree).expect("because it is a directory");
        assert_eq!(
            root.read_file(&path("real/file"))
                .expect("because it is plain"),
            b"x"
        );
        for hidden in ["inside/file", "outside/secret", "real/file/x"] {
            assert!(
                root.place(&path(hidden))
                    .expect("because absence is an answer")
                    .is_none()
            );
            assert!(root.read_file(&path(hidden)).is_err(), "{hidden}");
        }
        assert!(root.read_file(&path("link")).is_err());
        assert_eq!(
            root.read_link(&path("link")).expect("because it is one"),
            b"../secret"
        );
        assert!(root.make_place(&path("outside/new/file")).is_err());
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn makes_missing_directories_and_lists() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let root = Root::open(dir.path()).expect("because it is a directory");
        let place = root
            .make_place(&path("a/b/c"))
            .expect("because nothing is in the way");
        drop(place.create_file(0o644).expect("because it is new"));
        assert_eq!(root.list(None).expect("because it exists"), [b"a".to_vec()]);
        assert_eq!(
            root.list(Some(&path("a/b"))).expect("because it exists"),
            [b"c".to_vec()]
        );
        assert!(root.list(Some(&path("a/x"))).is_err());
        fs::write(dir.path().join("f"), "").expect("because it is ours");
        assert!(root.make_place(&path("f/x")).is_err());
    }

    #[test]
    fn reaches_paths_longer_than_the_kernel_resolves_at_once() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let root = Root::open(dir.path()).expect("because it is a directory");
        let deep = path(&vec!["n".repeat(200); 25].join("/"));
        drop(
            root.make_place(&deep)
                .expect("because each name is legal")
                .create_file(0o644),
        );
        assert!(root.stat(&deep).expect("because it was made").is_some());
        let too_long = path(&"n".repeat(300));
        assert!(root.stat(&too_long).is_err() || root.stat(&too_long).is_ok_and(|s| s.is_none()));
    }
}
