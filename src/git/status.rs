//! What git says of the person's working tree.
//!
//! Owns one look of `git status`, on an index that is a private copy, so that
//! the person's own index is not even refreshed. Settings of the person that
//! hide files from that look are overruled, and filters are taken out.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Call, Error, Repository, Version};
use crate::model::{ObjectId, TreeMode};

const KNOWS_ATTR_SOURCE: Version = Version {
    major: 2,
    minor: 43,
};

/// How a submodule's working tree differs from what the index says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubmoduleState {
    /// Another commit is checked out.
    pub moved: bool,
    /// It holds modified or untracked files.
    pub dirty: bool,
}

/// One path that `git status` lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusEntry {
    /// A tracked path that differs somewhere.
    Tracked {
        /// The path's bytes.
        path: Vec<u8>,
        /// Its mode and object in the index; `None` when it is not there.
        index: Option<(TreeMode, ObjectId)>,
        /// Whether the index differs from HEAD, or only announces it.
        staged: bool,
        /// Whether its removal is staged.
        removed: bool,
        /// Set where it is a submodule.
        submodule: Option<SubmoduleState>,
    },
    /// A path in conflict.
    Unmerged {
        /// The path's bytes.
        path: Vec<u8>,
    },
    /// An untracked file, or with a slash at its end a repository.
    Untracked {
        /// The path's bytes.
        path: Vec<u8>,
    },
}

/// One look at the working tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The commit of HEAD; `None` while there is none.
    pub head: Option<ObjectId>,
    /// The paths that differ from it, or from the index.
    pub entries: Vec<StatusEntry>,
}

impl Repository {
    /// Looks at every file of the working tree.
    ///
    /// `index` is a private copy of the index, or a path where nothing is.
    /// `filters` are the names of the filters that are configured: none runs.
    ///
    /// # Errors
    /// Git could not be run or answers in an unknown form.
    pub fn status(&self, index: &Path, filters: &[&str]) -> Result<Status, Error> {
        let mut call = self.on_index(index);
        // The repository's own attributes file applies even to the empty
        // tree. A filter without a command changes nothing.
        let settings = [("clean", ""), ("process", ""), ("required", "false")];
        let off = filters
            .iter()
            .flat_map(|name| settings.map(|(key, value)| (name, key, value)));
        for (at, (name, key, value)) in off.enumerate() {
            call = call
                .env(
                    &format!("GIT_CONFIG_KEY_{at}"),
                    format!("filter.{name}.{key}"),
                )
                .env(&format!("GIT_CONFIG_VALUE_{at}"), value)
                .env("GIT_CONFIG_COUNT", (at + 1).to_string());
        }
        if self.git().version() >= KNOWS_ATTR_SOURCE {
            let empty = self.object_format().empty_tree();
            call = call.arg(format!("--attr-source={empty}"));
        }
        if !folds_case(self.top()) {
            // Set by a file system that the files came from, it would hide one
            // of two names.
            call = call.args(["-c", "core.ignoreCase=false"]);
        }
        let output = call
            .args(["-c", "core.autocrlf=false"])
            .args(["-c", "core.attributesFile=/dev/null"])
            .args(["-c", "core.checkStat=default"])
            .args(["-c", "core.trustctime=true"])
            .args(["-c", "core.ignoreStat=false"])
            .args(["status", "--porcelain=v2", "-z", "--branch"])
            .args(["--no-ahead-behind", "--untracked-files=all"])
            .args(["--ignored=no", "--no-renames", "--ignore-submodules=none"])
            .output()?;
        parse(&output)
    }

    /// Starts a call on a private copy of the index.
    pub fn on_index(&self, index: &Path) -> Call {
        self.call().env("GIT_INDEX_FILE", index)
    }

    /// The commit that is checked out in a submodule of the working tree;
    /// `None` when it has none.
    ///
    /// # Errors
    /// Git could not be run.
    pub fn submodule_head(&self, path: &Path) -> Result<Option<ObjectId>, Error> {
        let git_dir = self.top().join(path).join(".git");
        let output = self
            .git()
            .at(&git_dir, super::Configuration::User)
            .args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
            .run()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text
            .trim_end()
            .parse()
            .ok()
            .filter(|_| output.status.success()))
    }

    /// What a `.gitmodules` file says of where submodules are, by their names.
    ///
    /// Includes are not followed; a file that git cannot read names none.
    ///
    /// # Errors
    /// Git could not be run.
    pub fn submodule_paths(&self, file: &ObjectId) -> Result<Vec<NamedPath>, Error> {
        let output = self
            .git()
            .at(self.common_dir(), super::Configuration::Hermetic)
            .arg("config")
            .arg(format!("--blob={file}"))
            .args(["--no-includes", "-z", "--get-regexp"])
            .arg(r"^submodule\..*\.path$")
            .run()?;
        if !output.status.success() {
            return Ok(Vec::new());
        }
        let records = output.stdout.split(|byte| *byte == 0);
        let said = records.filter_map(|record| {
            let end = record.iter().position(|byte| *byte == b'\n')?;
            let name = record[..end].strip_prefix(b"submodule.".as_slice())?;
            let name = name.strip_suffix(b".path".as_slice())?;
            Some((name.to_vec(), record[end + 1..].to_vec()))
        });
        Ok(said.collect())
    }
}

/// A submodule's name, and where it is.
pub type NamedPath = (Vec<u8>, Vec<u8>);

fn malformed(what: &str) -> Error {
    Error::Malformed {
        what: format!("the answer of `{what}`"),
    }
}

fn parse(output: &[u8]) -> Result<Status, Error> {
    let mut status = Status::default();
    for record in output.split(|b| *b == 0).filter(|r| !r.is_empty()) {
        match record {
            [b'#', b' ', header @ ..] => {
                if let Some(oid) = header.strip_prefix(b"branch.oid ") {
                    // "(initial)" is no id: there is no commit yet.
                    status.head = String::from_utf8_lossy(oid).parse().ok();
                }
            }
            [b'1', b' ', rest @ ..] => status.entries.push(tracked(rest)?),
            [b'u', b' ', rest @ ..] => {
                // XY, sub, four modes, three ids, path.
                let path = rest.splitn(10, |b| *b == b' ').nth(9);
                let path = path.ok_or_else(|| malformed("git status"))?.to_vec();
                status.entries.push(StatusEntry::Unmerged { path });
            }
            [b'?', b' ', path @ ..] => status.entries.push(StatusEntry::Untracked {
                path: path.to_vec(),
            }),
            _ => return Err(malformed("git status")),
        }
    }
    Ok(status)
}

/// Reads `XY sub mH mI mW hH hI path`.
fn tracked(record: &[u8]) -> Result<StatusEntry, Error> {
    let fields: Vec<&[u8]> = record.splitn(8, |b| *b == b' ').collect();
    let [states, sub, _, mode, _, _, oid, path] = fields[..] else {
        return Err(malformed("git status"));
    };
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| malformed("git status"));
    let bits = u32::from_str_radix(text(mode)?, 8).map_err(|_| malformed("git status"))?;
    let oid: ObjectId = text(oid)?.parse().map_err(|_| malformed("git status"))?;
    let submodule = (sub.first() == Some(&b'S')).then(|| SubmoduleState {
        moved: sub.get(1) == Some(&b'C'),
        dirty: sub.get(2) == Some(&b'M') || sub.get(3) == Some(&b'U'),
    });
    Ok(StatusEntry::Tracked {
        path: path.to_vec(),
        index: TreeMode::from_bits(bits).map(|mode| (mode, oid)),
        // What is only announced shows as added to the working tree.
        staged: states.first() != Some(&b'.') || states.get(1) == Some(&b'A'),
        removed: states.first() == Some(&b'D'),
        submodule,
    })
}
/// Whether the file system of a working tree takes `.GIT` for `.git`.
fn folds_case(top: &Path) -> bool {
    let look = |name: &str| top.join(name).symlink_metadata().ok();
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    let (plain, folded) = (look(".git").map(identity), look(".GIT").map(identity));
    plain.is_some() && plain == folded
}
