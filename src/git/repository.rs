//! One repository: where its directories are, and what its HEAD says.
//!
//! Owns the paths that every other call names explicitly. It is found once,
//! by git itself, in a directory that the person named; nothing here looks
//! for a repository again. It writes nothing but a handle directory of its
//! own beneath the common git directory; see [`Repository::objects`].

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{Call, Configuration, Error, Git, ObjectFormat, Objects};
use crate::model::ObjectId;

/// A repository with a working tree.
#[derive(Debug, Clone)]
pub struct Repository {
    git: Git,
    top: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
    objects_dir: PathBuf,
    format: ObjectFormat,
    handle: PathBuf,
}

impl Repository {
    /// Finds the repository around a directory that the person named.
    ///
    /// # Errors
    /// There is none, it is bare, or git refuses it because of its owner.
    pub fn discover(git: &Git, dir: &Path) -> Result<Self, Error> {
        let none = || Error::NotARepository {
            dir: dir.to_owned(),
        };
        if !dir.is_dir() {
            return Err(none());
        }
        if let Some(found) = Self::discover_at_once(git, dir)? {
            return Ok(found);
        }
        // Something is wrong, or a path holds a line end: one question each.
        let Some(bare) = ask(git, dir, "--is-bare-repository")? else {
            // Git honours this setting on the command line, so the same
            // question tells "not ours" from "not there" without its text.
            let trusting = git
                .discovering(dir)
                .args(["-c", "safe.directory=*", "rev-parse", "--git-dir"])
                .run()?;
            return Err(if trusting.status.success() {
                Error::UnsafeOwner {
                    dir: dir.to_owned(),
                }
            } else {
                none()
            });
        };
        if bare == b"true" {
            return Err(Error::Bare {
                dir: dir.to_owned(),
            });
        }
        let answer = |question: &str| ask(git, dir, question)?.ok_or_else(none);
        let common_dir = answer("--git-common-dir")?;
        let format = ask(git, dir, "--show-object-format")?.unwrap_or_default();
        let (top, git_dir) = (answer("--show-toplevel")?, answer("--git-dir")?);
        Self::answered(git, [&top, &git_dir, &common_dir, &format])
    }

    /// The repository of these answers: its top, its git directory, its common
    /// one, and the format of its objects.
    fn answered(git: &Git, [top, git_dir, common_dir, format]: [&[u8]; 4]) -> Result<Self, Error> {
        let real = |bytes: &[u8]| {
            let path = PathBuf::from(OsStr::from_bytes(bytes));
            path.canonicalize().map_err(Error::file("find", &path))
        };
        let common_dir = real(common_dir)?;
        let format = String::from_utf8_lossy(format);
        let known = ObjectFormat::named(&format).ok_or_else(|| Error::Format {
            dir: common_dir.clone(),
            format: format.into_owned(),
        })?;
        Ok(Self {
            git: git.clone(),
            top: real(top)?,
            git_dir: real(git_dir)?,
            objects_dir: common_dir.join("objects"),
            handle: own_dir(&common_dir).join("handle"),
            common_dir,
            format: known,
        })
    }

    /// All answers from one call of git; `None` where a path with a line end
    /// makes them ambiguous.
    fn discover_at_once(git: &Git, dir: &Path) -> Result<Option<Self>, Error> {
        let questions = [
            "--show-toplevel",
            "--git-dir",
            "--git-common-dir",
            "--show-object-format",
        ];
        let output = git
            .discovering(dir)
            .args(["rev-parse", "--path-format=absolute"])
            .args(questions)
            .run()?;
        if !output.status.success() {
            return Ok(None);
        }
        let lines: Vec<&[u8]> = output
            .stdout
            .strip_suffix(b"\n")
            .unwrap_or_default()
            .split(|b| *b == b'\n')
            .collect();
        let Ok(answers) = <[&[u8]; 4]>::try_from(lines) else {
            return Ok(None);
        };
        Self::answered(git, answers).map(Some)
    }

    /// A name for the repository that no other one on this machine has, for
    /// directories of ours.
    ///
    /// # Errors
    /// The name cannot be computed.
    pub fn key(&self) -> Result<String, Error> {
        let path = self.common_dir.as_os_str().as_bytes();
        let what = || "name the repository".to_owned();
        git2::Oid::hash_object(git2::ObjectType::Blob, path)
            .map(|id| id.to_string())
            .map_err(|source| Error::Object {
                what: what(),
                source,
            })
    }

    /// Keeps the handle to its objects in a directory of ours instead of in
    /// the repository; see [`Repository::objects`].
    #[must_use]
    pub fn with_handle_in(mut self, directory: &Path) -> Self {
        let name = git2::Oid::hash_object(
            git2::ObjectType::Blob,
            self.common_dir.as_os_str().as_bytes(),
        );
        // Hashing bytes in memory cannot fail; were it to, the place in the
        // repository is as good.
        if let Ok(name) = name {
            self.handle = directory.join(name.to_string());
        }
        self
    }

    /// A call on its objects alone: no ref, configuration or file of the
    /// person's takes part.
    pub(super) fn on_objects(&self) -> Result<Call, Error> {
        let objects = self.objects()?;
        Ok(self.git.at(&objects.handle, Configuration::Hermetic))
    }

    pub(super) fn handle(&self) -> &Path {
        &self.handle
    }

    /// A file of ours beside the handle, for what can be found out again.
    #[must_use]
    pub fn beside_handle(&self, name: &str) -> PathBuf {
        self.handle.with_extension(name)
    }

    /// The top of the working tree; absolute, without links.
    #[must_use]
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// The git directory of this working tree.
    #[must_use]
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The git directory that all worktrees share.
    #[must_use]
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Where its objects are.
    #[must_use]
    pub fn objects_dir(&self) -> &Path {
        &self.objects_dir
    }

    /// The git program.
    #[must_use]
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Which hash names its objects.
    #[must_use]
    pub fn object_format(&self) -> ObjectFormat {
        self.format
    }

    /// Starts a call on its git directory and working tree, with the person's
    /// configuration.
    pub fn call(&self) -> Call {
        self.git
            .at(&self.git_dir, Configuration::User)
            .work_tree(&self.top)
    }

    /// The commit of HEAD; `None` while there is none.
    ///
    /// # Errors
    /// Git could not be run.
    pub fn head(&self) -> Result<Option<ObjectId>, Error> {
        self.commit_of("HEAD")
    }

    /// The branch that HEAD names, as a full ref; `None` when it is detached.
    ///
    /// # Errors
    /// Git could not be run.
    pub fn head_ref(&self) -> Result<Option<String>, Error> {
        let output = self
            .call()
            .args(["symbolic-ref", "--quiet", "HEAD"])
            .run()?;
        let name = String::from_utf8_lossy(&output.stdout);
        let name = name.trim_end_matches('\n');
        Ok((output.status.success() && !name.is_empty()).then(|| name.to_owned()))
    }

    /// What the person is in the middle of, by the files that git keeps.
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        operation_in(&self.git_dir)
    }

    /// The commit that a revision names.
    ///
    /// # Errors
    /// It names none.
    pub fn resolve_commit(&self, rev: &str) -> Result<ObjectId, Error> {
        self.commit_of(rev)?.ok_or_else(|| Error::Revision {
            rev: rev.to_owned(),
        })
    }

    fn commit_of(&self, rev: &str) -> Result<Option<ObjectId>, Error> {
        let output = self
            .call()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{rev}^{{commit}}"))
            .run()?;
        if !output.status.success() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let oid = text.trim_end().parse().map_err(|_| Error::Malformed {
            what: format!("the id of `{rev}`"),
        })?;
        Ok(Some(oid))
    }

    /// Opens its objects; one handle per thread.
    ///
    /// The first call makes a handle, `cofferdam/handle` in the common git
    /// directory unless another place was named: a git directory without refs and with a configuration of our own, whose
    /// `objects` leads to the real ones. Neither the person's configuration
    /// nor a ref storage or extension that libgit2 does not know can then
    /// stand in the way of reading and writing objects.
    ///
    /// # Errors
    /// The object format is unknown, or the handle could not be made.
    pub fn objects(&self) -> Result<Objects, Error> {
        Objects::open(self)
    }
}

/// What is unfinished in a git directory, by file names alone.
pub(super) fn operation_in(git_dir: &Path) -> Option<&'static str> {
    // A rebase keeps a CHERRY_PICK_HEAD too, so it is looked for first.
    [
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
        ("MERGE_HEAD", "merge"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
        ("BISECT_LOG", "bisect"),
    ]
    .iter()
    .find(|(file, _)| git_dir.join(file).symlink_metadata().is_ok())
    .map(|(_, operation)| *operation)
}

/// Our directory in the repository with this common git directory: what has to
/// be on the repository's own file system. It need not exist.
#[must_use]
pub fn own_dir(common_dir: &Path) -> PathBuf {
    common_dir.join("cofferdam")
}

/// One answer of `rev-parse`, without its newline; `None` when git refuses.
///
/// One question a call: a path may hold newlines, so answers cannot share a
/// stream.
fn ask(git: &Git, dir: &Path, question: &str) -> Result<Option<Vec<u8>>, Error> {
    let output = git
        .discovering(dir)
        .args(["rev-parse", "--path-format=absolute", question])
        .run()?;
    let mut bytes = output.stdout;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(output.status.success().then_some(bytes))
}
