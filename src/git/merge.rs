//! The three-way merge of trees, by `git merge-tree` (merge-ort).
//!
//! Owns a private, hermetic git directory in which no driver, filter, hook or
//! attribute file of anybody is configured, so nothing that an agent wrote can
//! run. Objects that a merge makes go into the repository's own store; the
//! synthetic commits that give git its merge base stay private. Decides
//! nothing: a conflict is a value, and any exit but clean or conflict an
//! error. Integration calls it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::merge_answer::{self, Message, Stage};
use super::{Call, Configuration, Error, Git, ObjectFormat, Version};
use crate::model::ObjectId;

/// The name of the parent's side in markers and in `path~parent`.
pub const OURS: &str = "parent";
/// The name of the agent's side in markers and in `path~agent`.
pub const THEIRS: &str = "agent";

/// From here on the messages are read; before, `-z` did not always delimit them.
const MESSAGES: Version = Version {
    major: 2,
    minor: 40,
};
/// From here on `merge-tree` takes `--attr-source`; before, it crashed.
const ATTR_SOURCE: Version = Version {
    major: 2,
    minor: 43,
};

/// How a conflicted stretch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Both sides.
    Merge,
    /// Both sides and the base, with lines common to both taken out.
    Zdiff3,
}

impl Style {
    fn as_str(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Zdiff3 => "zdiff3",
        }
    }
}

/// The three trees of a merge.
#[derive(Debug, Clone, Copy)]
pub struct Trees<'a> {
    /// What both sides started from.
    pub base: &'a ObjectId,
    /// The parent's side.
    pub ours: &'a ObjectId,
    /// The agent's side.
    pub theirs: &'a ObjectId,
}

/// What git made of three trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeMerge {
    /// The merged tree; where it is not clean, with markers and `path~side`.
    pub tree: ObjectId,
    /// Whether nothing conflicts.
    pub clean: bool,
    /// The versions of each conflicted path.
    pub stages: Vec<Stage>,
    /// What git says about paths, by its stable words.
    pub messages: Vec<Message>,
}

/// Which side wins inside a file where both changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Favour {
    /// The parent's.
    Ours,
    /// The agent's.
    Theirs,
}

/// Three versions of one file.
#[derive(Debug, Clone, Copy)]
pub struct Versions<'a> {
    /// What both sides started from; empty when both added it.
    pub base: &'a [u8],
    /// The parent's.
    pub ours: &'a [u8],
    /// The agent's.
    pub theirs: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attributes {
    FromTree,
    Materialised,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Messages {
    Read,
    Absent,
}

/// A private place in which trees of one repository are merged.
///
/// Merges in one space happen one after another; separate spaces do not
/// disturb one another.
#[derive(Debug)]
pub struct MergeSpace {
    git: Git,
    dir: PathBuf,
    objects: PathBuf,
    attributes: Attributes,
    messages: Messages,
    turn: Mutex<()>,
}

impl MergeSpace {
    /// Makes the space in `dir`, which is ours alone, over the object
    /// directory of a repository. An existing space is taken over.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn create(
        git: &Git,
        dir: &Path,
        objects_dir: &Path,
        object_format: ObjectFormat,
    ) -> Result<Self, Error> {
        let space = Self {
            git: git.clone(),
            dir: dir.to_owned(),
            objects: objects_dir.to_owned(),
            attributes: if git.version() >= ATTR_SOURCE {
                Attributes::FromTree
            } else {
                Attributes::Materialised
            },
            messages: if git.version() >= MESSAGES {
                Messages::Read
            } else {
                Messages::Absent
            },
            turn: Mutex::new(()),
        };
        // Written by hand: `git init` would copy the machine's templates.
        for made in [
            "repo/objects/info",
            "repo/objects/pack",
            "repo/refs/heads",
            "empty",
            "files",
        ] {
            space.make(made)?;
        }
        space.write("repo/HEAD", b"ref: refs/heads/none\n")?;
        space.write("repo/config", object_format.bare_config().as_bytes())?;
        Ok(space)
    }

    /// The same space as the oldest git would be asked: attributes from files,
    /// no messages.
    #[cfg(test)]
    pub(crate) fn into_oldest(mut self) -> Self {
        self.attributes = Attributes::Materialised;
        self.messages = Messages::Absent;
        self
    }

    /// Merges three trees.
    ///
    /// The base's attributes count, whatever the sides made of theirs.
    /// Drivers that the person configured do not run.
    ///
    /// # Errors
    /// Git ended with anything but clean or conflict, or its answer does not
    /// have the documented form. A conflict is not an error.
    pub fn merge(&self, trees: Trees<'_>, style: Style) -> Result<TreeMerge, Error> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.name_sides(trees)?;
        let work_tree = match self.attributes {
            Attributes::FromTree => self.dir.join("empty"),
            Attributes::Materialised => self.materialise(trees.base)?,
        };
        let mut call = self
            .call()
            .work_tree(&work_tree)
            .args(["-c", "core.bare=false", "-c", "core.fsync=none"])
            .args([
                "-c",
                "merge.directoryRenames=conflict",
                "-c",
                "merge.renameLimit=7000",
            ])
            .args(["-c", "merge.renormalize=true", "-c"])
            .arg(format!("merge.conflictStyle={}", style.as_str()));
        if self.attributes == Attributes::FromTree {
            call = call.arg(format!("--attr-source={}", trees.base));
        }
        let wanted = match self.messages {
            Messages::Read => "--messages",
            Messages::Absent => "--no-messages",
        };
        let output = call
            .args(["merge-tree", "--write-tree", "-z", wanted, OURS, THEIRS])
            .run()?;
        let clean = match output.status.code() {
            Some(0) => true,
            Some(1) => false,
            code => {
                return Err(Error::Failed {
                    argv: "git merge-tree".to_owned(),
                    code,
                    stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                });
            }
        };
        merge_answer::parse(&output.stdout, clean).map_err(|what| Error::MergeAnswer { what })
    }

    /// Merges three versions of one text by lines; where both changed, one
    /// side wins.
    ///
    /// # Errors
    /// Git refused, for instance because a version is not text.
    pub fn merge_file(&self, versions: Versions<'_>, favour: Favour) -> Result<Vec<u8>, Error> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.write("files/base", versions.base)?;
        self.write("files/ours", versions.ours)?;
        self.write("files/theirs", versions.theirs)?;
        let favour = match favour {
            Favour::Ours => "--ours",
            Favour::Theirs => "--theirs",
        };
        self.call()
            .directory(&self.dir.join("files"))
            .args(["merge-file", "--stdout", "--quiet", favour])
            .args(["ours", "base", "theirs"])
            .output()
    }

    fn call(&self) -> Call {
        self.git
            .at(&self.dir.join("repo"), Configuration::Hermetic)
            .env("GIT_OBJECT_DIRECTORY", &self.objects)
            .env(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                quoted(&self.dir.join("repo/objects")),
            )
    }

    /// Writes a root commit of the base and one child of it for each side, so
    /// that the merge base is the base whatever history there is.
    fn name_sides(&self, trees: Trees<'_>) -> Result<(), Error> {
        let base = commit_text(trees.base, None);
        let base = self.write_commits(&[base])?.remove(0);
        let sides = [trees.ours, trees.theirs].map(|tree| commit_text(tree, Some(&base)));
        let sides = self.write_commits(&sides)?;
        for (name, id) in [OURS, THEIRS].iter().zip(sides) {
            self.write(
                &format!("repo/refs/heads/{name}"),
                format!("{id}\n").as_bytes(),
            )?;
        }
        Ok(())
    }

    fn write_commits(&self, texts: &[String]) -> Result<Vec<String>, Error> {
        let failed = |source: git2::Error| Error::MergeCommit {
            path: self.dir.clone(),
            source: source.into(),
        };
        let repo = git2::Repository::open_bare(self.dir.join("repo")).map_err(failed)?;
        let odb = repo.odb().map_err(failed)?;
        let write = |text: &String| {
            let id = odb.write(git2::ObjectType::Commit, text.as_bytes());
            id.map(|id| id.to_string()).map_err(failed)
        };
        texts.iter().map(write).collect()
    }

    /// Writes the base's attribute files into a work tree that holds nothing
    /// else, for a git that cannot read them from a tree.
    fn materialise(&self, base: &ObjectId) -> Result<PathBuf, Error> {
        let top = self.dir.join("attributes").join(base.as_str());
        if top.exists() {
            return Ok(top);
        }
        let half = self.dir.join("attributes/half");
        if half.exists() {
            fs::remove_dir_all(&half).map_err(failed("remove", &half))?;
        }
        self.make("attributes/half")?;
        let listed = self
            .call()
            .args(["ls-tree", "-r", "-z", "--full-tree", base.as_str()])
            .output()?;
        for (path, id) in merge_answer::attribute_files(&listed) {
            let bytes = self
                .call()
                .args(["cat-file", "blob", id.as_str()])
                .output()?;
            let file = half.join(path.as_path());
            if let Some(directory) = file.parent() {
                fs::create_dir_all(directory).map_err(failed("create", directory))?;
            }
            fs::write(&file, bytes).map_err(failed("write", &file))?;
        }
        fs::rename(&half, &top).map_err(failed("rename", &half))?;
        Ok(top)
    }

    fn make(&self, name: &str) -> Result<(), Error> {
        let path = self.dir.join(name);
        fs::create_dir_all(&path).map_err(failed("create", &path))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.dir.join(name);
        fs::write(&path, bytes).map_err(failed("write", &path))
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::MergeSpace {
        action,
        path,
        source,
    }
}

/// A commit with fixed names and times: the same trees give the same id.
fn commit_text(tree: &ObjectId, parent: Option<&String>) -> String {
    let parent = parent.map_or_else(String::new, |id| format!("parent {id}\n"));
    let who = "cofferdam <cofferdam@invalid> 0 +0000";
    format!("tree {tree}\n{parent}author {who}\ncommitter {who}\n\nmerge input\n")
}

/// Quotes a path as git reads it in a list that colons divide.
pub(super) fn quoted(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.push(b'"');
    OsString::from_vec(text)
}
