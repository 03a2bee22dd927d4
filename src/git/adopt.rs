//! Commits that somebody else wrote, taken over after a look.
//!
//! Owns the one way in which foreign objects get into a repository. They lie
//! in a directory of ours, without refs, configuration, grafts or hooks of
//! theirs; how large each says that it is is added up before git reads any,
//! and git believes no more than that when it inflates one. Then git packs what
//! the tip reaches and the repository lacks, and unpacks it there under
//! `--strict`: an object gets the name that its bytes have, one that is
//! malformed or holds a name that git refuses is an error, and so is one whose
//! links lead nowhere. What is missing or bent thus has no name by which
//! anything reaches it. Decides nothing about what is kept and where.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::merge::quoted;
use super::{Call, Configuration, Error, Git, Repository};
use crate::model::ObjectId;

/// As many commits are taken over.
const COMMITS: usize = 1_000;
/// As many bytes, inflated: all of them pass through memory once.
const BYTES: u64 = 64 << 20;

/// Foreign objects, apart from any repository.
#[derive(Debug)]
pub struct Quarantine {
    git: Git,
    dir: PathBuf,
    lent: OsString,
}

impl Quarantine {
    /// Makes an empty one in a directory of ours that holds nothing yet.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn make(repo: &Repository, dir: &Path) -> Result<Self, Error> {
        for name in ["refs/heads", "objects"] {
            let path = dir.join(name);
            fs::create_dir_all(&path).map_err(Error::file("make", &path))?;
        }
        let config = repo.object_format().bare_config();
        for (name, text) in [("HEAD", "ref: refs/heads/none\n"), ("config", &config)] {
            let path = dir.join(name);
            fs::write(&path, text).map_err(Error::file("write", &path))?;
        }
        Ok(Self {
            git: repo.git().clone(),
            dir: dir.to_owned(),
            lent: quoted(repo.objects_dir()),
        })
    }

    /// Where the foreign objects are to be put, as loose ones.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.dir.join("objects")
    }

    /// Takes over what a tip reaches and neither the repository's refs nor
    /// `known` do; gives the number of commits, or why there is nothing.
    ///
    /// `loose` are the names of the foreign objects. No ref moves.
    ///
    /// # Errors
    /// Git could not be run, or the repository takes no more.
    pub fn take_over(
        &self,
        repo: &Repository,
        tip: &ObjectId,
        (known, loose): (&[ObjectId], &[String]),
    ) -> Result<Result<usize, String>, Error> {
        if let Err(why) = self.weigh(loose)? {
            return Ok(Err(why));
        }
        let wanted = wanted(repo, tip, known)?;
        let count = format!("--max-count={}", COMMITS + 1);
        let listed = self
            .call()
            .args(["rev-list", &count, "--stdin"])
            .input(wanted.clone())
            .run()?;
        if !listed.status.success() {
            return Ok(Err("some of it is missing or malformed".to_owned()));
        }
        let commits = listed.stdout.iter().filter(|byte| **byte == b'\n').count();
        if commits > COMMITS {
            return Ok(Err(format!("it is more than {COMMITS} commits")));
        }
        let packed = self
            .call()
            // What the repository lends is there already, and has no bound.
            .args(["pack-objects", "--revs", "--local", "--stdout"])
            .args(["--window=0", "-q"])
            .input(wanted.clone())
            .run()?;
        if !packed.status.success() {
            return Ok(Err("some of it is missing or malformed".to_owned()));
        }
        let unpacked = repo
            .on_objects()?
            .args(["unpack-objects", "--strict", "-q"])
            .input(packed.stdout)
            .run()?;
        if !unpacked.status.success() {
            let why = String::from_utf8_lossy(&unpacked.stderr);
            let why = why.lines().next().unwrap_or("git does not say why");
            return Ok(Err(format!("git does not take it: {why}")));
        }
        Ok(match is_connected(repo, wanted)? {
            true => Ok(commits),
            false => Err("some of it is missing or malformed".to_owned()),
        })
    }

    /// Adds up what the objects say that they hold, from their first bytes.
    fn weigh(&self, loose: &[String]) -> Result<Result<(), String>, Error> {
        let mut names = Vec::new();
        for name in loose {
            writeln!(names, "{name}").expect("because memory takes everything");
        }
        let format = "--batch-check=%(objectsize)";
        let sizes = self.call().args(["cat-file", format]).input(names).run()?;
        let text = String::from_utf8_lossy(&sizes.stdout);
        let mut all = 0_u64;
        for line in text.lines() {
            let Ok(size) = line.parse::<u64>() else {
                return Ok(Err("an object of it is malformed".to_owned()));
            };
            all = all.saturating_add(size);
        }
        Ok(match sizes.status.success() && all <= BYTES {
            true => Ok(()),
            false => Err(format!("it is more than {} MiB", BYTES >> 20)),
        })
    }

    fn call(&self) -> Call {
        self.git
            .at(&self.dir, Configuration::Hermetic)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &self.lent)
    }
}

/// Whether everything that is asked for is there, as git asks after a fetch.
fn is_connected(repo: &Repository, wanted: Vec<u8>) -> Result<bool, Error> {
    let looked = repo
        .on_objects()?
        .args(["rev-list", "--objects", "--quiet", "--stdin"])
        .input(wanted)
        .run()?;
    Ok(looked.status.success())
}

/// The tip, without what is known already, as git reads a list.
fn wanted(repo: &Repository, tip: &ObjectId, known: &[ObjectId]) -> Result<Vec<u8>, Error> {
    let mut text = format!("{tip}\n").into_bytes();
    let refs = ["refs/heads/", "refs/tags/", "refs/remotes/"];
    for prefix in refs {
        for (_, oid) in repo.refs_under(prefix)? {
            writeln!(text, "^{oid}").expect("because memory takes everything");
        }
    }
    for oid in known {
        writeln!(text, "^{oid}").expect("because memory takes everything");
    }
    Ok(text)
}
