//! A private copy of the parent's index.
//!
//! Owns taking it, and turning it into a form that libgit2 reads. The copy
//! keeps the original's time: git tells by it which entries were written too
//! close to the index to be believed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Error;
use super::error::file;
use crate::git::Repository;

/// A copy of the parent's index as it was at the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexCopy {
    path: PathBuf,
    exists: bool,
    written: (i64, u32),
}

impl IndexCopy {
    /// Copies the index into a directory of ours. A repository without an
    /// index gives a path at which nothing stands.
    pub(super) fn take(repo: &Repository, scratch: &Path) -> Result<Self, Error> {
        let made = tempfile::Builder::new()
            .prefix("index-")
            .tempdir_in(scratch)
            .map_err(file("make a directory in", scratch))?;
        let path = made.keep().join("index");
        let source = repo.git_dir().join("index");
        let mut original = match File::open(&source) {
            Ok(original) => original,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self {
                    path,
                    exists: false,
                    written: (0, 0),
                });
            }
            Err(error) => return Err(file("read", &source)(error)),
        };
        // Git replaces its index by a rename, so one open file is one state.
        let metadata = original.metadata().map_err(file("read", &source))?;
        let modified = metadata.modified().map_err(file("read", &source))?;
        let mut copy = File::create_new(&path).map_err(file("write", &path))?;
        // The kernel copies between two files, by sharing blocks if it can.
        io::copy(&mut original, &mut copy).map_err(file("write", &path))?;
        copy.set_modified(modified).map_err(file("write", &path))?;
        let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        Ok(Self {
            path,
            exists: true,
            written: (metadata.mtime(), nanos),
        })
    }

    /// Where it is; nothing stands there when the parent has no index.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the parent has an index.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// When the parent's index was written: seconds and nanoseconds.
    pub(super) fn written(&self) -> (i64, u32) {
        self.written
    }

    /// What it holds; nothing when the parent has no index.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Error> {
        match self.exists {
            true => fs::read(&self.path).map_err(file("read", &self.path)),
            false => Ok(Vec::new()),
        }
    }

    /// What it holds, expanded by git if it is split or sparse.
    pub(super) fn expanded(&self, repo: &Repository) -> Result<Vec<u8>, Error> {
        let target = self.path.with_extension("expanded");
        fs::copy(&self.path, &target).map_err(file("write", &target))?;
        expand(repo, &target)?;
        let bytes = fs::read(&target).map_err(file("read", &target))?;
        fs::remove_file(&target).map_err(file("remove", &target))?;
        Ok(bytes)
    }

    /// Removes the copy.
    pub(super) fn remove(&self) {
        // What stays behind lies in the caller's scratch directory and goes
        // with it.
        if let Some(directory) = self.path.parent() {
            drop(fs::remove_dir_all(directory));
        }
    }

    /// Opens a copy of this copy at `target`, expanded if it is split or
    /// sparse.
    pub(super) fn open_at(&self, repo: &Repository, target: &Path) -> Result<git2::Index, Error> {
        fs::copy(&self.path, target).map_err(file("write", target))?;
        let format = repo.object_format().library();
        if let Ok(index) = git2::Index::open_ext(target, format) {
            return Ok(index);
        }
        expand(repo, target)?;
        git2::Index::open_ext(target, format).map_err(|source| {
            crate::git::Error::Object {
                what: format!("read the index at `{}`", target.display()),
                source,
            }
            .into()
        })
    }
}

fn expand(repo: &Repository, index: &Path) -> Result<(), Error> {
    repo.on_index(index)
        .args(["-c", "core.splitIndex=false", "-c", "index.sparse=false"])
        .args(["-c", "index.skipHash=false"])
        .args(["update-index", "--no-split-index", "--no-untracked-cache"])
        .arg("--force-write-index")
        .output()?;
    Ok(())
}
