//! Objects: blobs, commits, and the handle through which they are reached.
//!
//! Owns reading and writing single objects, byte for byte: no filter, no
//! attribute and no configuration of the person takes part. Trees are in
//! `trees`, differences in `diff`. Never moves a ref.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid};
use jiff::Timestamp;

use super::{Error, Git, ObjectFormat, Repository};
use crate::model::ObjectId;

/// Files up to this size are held in memory while they are hashed.
const IN_MEMORY: u64 = 4 << 20;

/// The objects of one repository; one handle per thread.
pub struct Objects {
    pub(super) store: git2::Repository,
    pub(super) git: Git,
    pub(super) format: ObjectFormat,
    pub(super) handle: PathBuf,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl Objects {
    pub(super) fn open(repository: &Repository) -> Result<Self, Error> {
        let format = repository.object_format();
        let handle = require_handle(repository.handle(), (repository.objects_dir(), format))?;
        let flags = git2::RepositoryOpenFlags::NO_SEARCH
            | git2::RepositoryOpenFlags::NO_DOTGIT
            | git2::RepositoryOpenFlags::BARE;
        let none: [&Path; 0] = [];
        let store = git2::Repository::open_ext(&handle, flags, none).map_err(failed(format!(
            "open the objects at `{}`",
            handle.display()
        )))?;
        Ok(Self {
            store,
            git: repository.git().clone(),
            format,
            handle,
        })
    }

    /// The bytes of a blob.
    ///
    /// # Errors
    /// It is missing, damaged or no blob.
    pub fn read_blob(&self, oid: &ObjectId) -> Result<Vec<u8>, Error> {
        self.with_bytes(self.to_raw(oid)?, ObjectType::Blob, <[u8]>::to_vec)
    }

    /// The size of a blob in bytes.
    ///
    /// # Errors
    /// It is missing or damaged.
    pub fn blob_size(&self, oid: &ObjectId) -> Result<u64, Error> {
        let odb = self.odb()?;
        let (size, _) = odb
            .read_header(self.to_raw(oid)?)
            .map_err(failed(format!("read the size of {oid}")))?;
        Ok(size as u64)
    }

    /// Whether an object is there.
    #[must_use]
    pub fn contains(&self, oid: &ObjectId) -> bool {
        match (self.odb(), self.to_raw(oid)) {
            (Ok(odb), Ok(oid)) => odb.exists(oid),
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    /// Writes a blob; one that is there already is kept from being pruned.
    ///
    /// # Errors
    /// The objects directory takes no more.
    pub fn write_blob(&self, bytes: &[u8]) -> Result<ObjectId, Error> {
        self.write_raw(ObjectType::Blob, bytes).map(from_raw)
    }

    /// Writes the content of a file as a blob. Never follows a link at `path`.
    ///
    /// # Errors
    /// As [`Objects::write_blob_from`]; also when the file cannot be opened.
    pub fn write_blob_file(&self, path: &Path) -> Result<ObjectId, Error> {
        let flags = rustix::fs::OFlags::NOFOLLOW
            | rustix::fs::OFlags::NONBLOCK
            | rustix::fs::OFlags::CLOEXEC;
        let mut file = rustix::fs::open(path, flags, rustix::fs::Mode::empty())
            .map(File::from)
            .map_err(|errno| Error::file("read", path)(errno.into()))?;
        self.write_blob_from(&mut file, path)
    }

    /// Writes what an open file holds as a blob, in bounded memory.
    ///
    /// Of a file that grows meanwhile the blob holds what it had at first; one
    /// that shrinks is read again.
    ///
    /// # Errors
    /// The file cannot be read (`shown` names it), or nothing can be written.
    pub fn write_blob_from(&self, file: &mut File, shown: &Path) -> Result<ObjectId, Error> {
        let unreadable = |source| Error::file("read", shown)(source);
        for _ in 0..3 {
            let size = file.metadata().map_err(unreadable)?.len();
            if size <= IN_MEMORY {
                let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
                file.take(IN_MEMORY * 2)
                    .read_to_end(&mut bytes)
                    .map_err(unreadable)?;
                if (bytes.len() as u64) < IN_MEMORY * 2 {
                    return self.write_blob(&bytes);
                }
            } else if let Some(oid) = self.stream(file, size, shown)? {
                return Ok(oid);
            }
            io::Seek::rewind(file).map_err(unreadable)?;
        }
        Err(unreadable(io::Error::other("it changes while it is read")))
    }

    /// Streams `size` bytes; `None` when the file turned out shorter.
    fn stream(&self, file: &File, size: u64, shown: &Path) -> Result<Option<ObjectId>, Error> {
        let written = |source| Error::Object {
            what: format!("write the content of `{}`", shown.display()),
            source,
        };
        let odb = self.odb()?;
        let length = usize::try_from(size).map_err(|_| Error::Malformed {
            what: format!("`{}`", shown.display()),
        })?;
        let mut writer = odb.writer(length, ObjectType::Blob).map_err(written)?;
        let mut source = file.take(size);
        let mut chunk = vec![0; 1 << 17];
        let mut left = size;
        while left > 0 {
            let read = source
                .read(&mut chunk)
                .map_err(Error::file("read", shown))?;
            if read == 0 {
                return Ok(None);
            }
            // The writer's own error says nothing; what libgit2 noted does.
            writer
                .write_all(&chunk[..read])
                .map_err(|_| written(git2::Error::last_error(-1)))?;
            left -= read as u64;
        }
        let oid = writer.finalize().map_err(written)?;
        Ok(Some(from_raw(oid)))
    }

    /// Writes the empty tree.
    ///
    /// # Errors
    /// The objects directory takes no more.
    pub fn empty_tree(&self) -> Result<ObjectId, Error> {
        self.write_raw(ObjectType::Tree, &[]).map(from_raw)
    }

    fn find_commit(&self, commit: &ObjectId) -> Result<git2::Commit<'_>, Error> {
        self.store
            .find_commit(self.to_raw(commit)?)
            .map_err(failed(format!("read the commit {commit}")))
    }

    /// The tree of a commit.
    ///
    /// # Errors
    /// It is missing, damaged or no commit.
    pub fn tree_of(&self, commit: &ObjectId) -> Result<ObjectId, Error> {
        let found = self.find_commit(commit)?;
        Ok(from_raw(found.tree_id()))
    }

    /// The first parent of a commit, if it has one.
    ///
    /// # Errors
    /// It is missing, damaged or no commit.
    pub fn first_parent(&self, commit: &ObjectId) -> Result<Option<ObjectId>, Error> {
        let found = self.find_commit(commit)?;
        Ok(found.parent_ids().next().map(from_raw))
    }

    /// When a commit was committed.
    ///
    /// # Errors
    /// It is missing, damaged or no commit.
    pub fn commit_time(&self, commit: &ObjectId) -> Result<Timestamp, Error> {
        let found = self.find_commit(commit)?;
        Timestamp::from_second(found.time().seconds()).map_err(|_| Error::Malformed {
            what: format!("the date of {commit}"),
        })
    }

    /// Writes a commit by `cofferdam <cofferdam@localhost>`.
    ///
    /// The same arguments give the same id. No ref moves.
    ///
    /// # Errors
    /// The objects directory takes no more.
    pub fn commit(
        &self,
        tree: &ObjectId,
        parents: &[ObjectId],
        message: &str,
        at: Timestamp,
    ) -> Result<ObjectId, Error> {
        let who = format!("cofferdam <cofferdam@localhost> {} +0000", at.as_second());
        let mut lines = vec![format!("tree {tree}")];
        lines.extend(parents.iter().map(|parent| format!("parent {parent}")));
        lines.push(format!("author {who}"));
        lines.push(format!("committer {who}"));
        let text = format!("{}\n\n{}\n", lines.join("\n"), message.trim_end());
        self.write_raw(ObjectType::Commit, text.as_bytes())
            .map(from_raw)
    }

    /// The library's form of an id.
    ///
    /// One of the other hash, from a record of what once stood here, is
    /// refused: the library would read beyond it.
    pub(super) fn to_raw(&self, oid: &ObjectId) -> Result<Oid, Error> {
        if ObjectFormat::of(oid) != self.format {
            return Err(Error::Malformed {
                what: format!("the id {oid}, where objects are named by {}", self.format),
            });
        }
        to_raw(oid)
    }

    pub(super) fn odb(&self) -> Result<git2::Odb<'_>, Error> {
        self.store
            .odb()
            .map_err(failed("open the object database".to_owned()))
    }

    pub(super) fn write_raw(&self, kind: ObjectType, bytes: &[u8]) -> Result<Oid, Error> {
        self.odb()?
            .write(kind, bytes)
            .map_err(failed(format!("write a {}", kind.str())))
    }

    pub(super) fn with_bytes<T>(
        &self,
        oid: Oid,
        kind: ObjectType,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Error> {
        let odb = self.odb()?;
        let object = odb
            .read(oid)
            .map_err(failed(format!("read the {} {oid}", kind.str())))?;
        if object.kind() != kind {
            return Err(Error::Malformed {
                what: format!("the {} {oid}", kind.str()),
            });
        }
        Ok(look(object.data()))
    }
}

pub(super) fn failed(what: String) -> impl FnOnce(git2::Error) -> Error {
    move |source| Error::Object { what, source }
}

pub(super) fn to_raw(oid: &ObjectId) -> Result<Oid, Error> {
    Oid::from_str_ext(oid.as_str(), ObjectFormat::of(oid).library())
        .map_err(failed(format!("read the id {oid}")))
}

pub(super) fn from_raw(oid: Oid) -> ObjectId {
    oid.to_string()
        .parse()
        .expect("because libgit2 prints an id as hexadecimal digits")
}

/// Makes the handle directory, once per repository.
fn require_handle(
    handle: &Path,
    (objects_dir, format): (&Path, ObjectFormat),
) -> Result<PathBuf, Error> {
    let ours = handle.parent().unwrap_or(handle).to_owned();
    let handle = handle.to_owned();
    let config = format.bare_config();
    // Another repository may stand at the same place since, of another hash.
    let leads_there = |handle: &Path| {
        fs::read_link(handle.join("objects")).is_ok_and(|target| target == objects_dir)
            && fs::read_to_string(handle.join("config")).is_ok_and(|text| text == config)
    };
    if leads_there(&handle) {
        return Ok(handle);
    }
    if handle.exists() {
        // The repository was moved or made anew since.
        fs::remove_dir_all(&handle).map_err(Error::file("remove", &handle))?;
    }
    fs::create_dir_all(&ours).map_err(Error::file("make", &ours))?;
    let made = tempfile::Builder::new()
        .prefix("handle-")
        .tempdir_in(&ours)
        .map_err(Error::file("make a directory in", &ours))?;
    let put = |name: &str, text: &str| {
        let path = made.path().join(name);
        fs::write(&path, text).map_err(Error::file("write", &path))
    };
    put("HEAD", "ref: refs/heads/none\n")?;
    put("config", &config)?;
    let refs = made.path().join("refs");
    fs::create_dir(&refs).map_err(Error::file("make", &refs))?;
    let objects = made.path().join("objects");
    symlink(objects_dir, &objects).map_err(Error::file("make", &objects))?;
    let path = made.keep();
    match fs::rename(&path, &handle) {
        Ok(()) => Ok(handle),
        Err(source) => {
            let removed = fs::remove_dir_all(&path);
            // Another process was first: its handle is as good as this one.
            if leads_there(&handle) && removed.is_ok() {
                return Ok(handle);
            }
            Err(Error::file("make", &handle)(source))
        }
    }
}
