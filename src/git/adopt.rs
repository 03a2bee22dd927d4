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
/// Why git does not read it.
const MALFORMED: &str = "some of it is missing or malformed";

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

    /// Takes over what a tip reaches and nothing `known` does; gives the number
    /// of commits, or why there is nothing. None is an answer too: then nothing
    /// is written.
    ///
    /// The tip is named by nothing afterwards: whoever gives it a name asks
    /// [`Repository::is_connected`] once more, because what no name reaches may
    /// be pruned at any time.
    ///
    /// # Errors
    /// Git could not be run, or the repository takes no more.
    pub fn take_over(
        &self,
        repo: &Repository,
        tip: &ObjectId,
        known: &[ObjectId],
    ) -> Result<Result<usize, String>, Error> {
        let wanted = wanted(tip, known);
        let count = format!("--max-count={}", COMMITS + 1);
        let listed = self
            .call()
            .args(["rev-list", &count, "--stdin"])
            .input(wanted.clone())
            .run()?;
        if !listed.status.success() {
            return Ok(Err(MALFORMED.to_owned()));
        }
        let commits = listed.stdout.iter().filter(|byte| **byte == b'\n').count();
        if commits > COMMITS {
            return Ok(Err(format!("it is more than {COMMITS} commits")));
        }
        if commits == 0 {
            return Ok(Ok(0));
        }
        if let Err(why) = self.transfer(repo, wanted)? {
            return Ok(Err(why));
        }
        // Bytes that lay under another object's name have their own now.
        Ok(match repo.is_connected(tip, known)? {
            true => Ok(commits),
            false => Err(MALFORMED.to_owned()),
        })
    }

    /// Packs what is wanted and unpacks it in the repository.
    fn transfer(&self, repo: &Repository, wanted: Vec<u8>) -> Result<Result<(), String>, Error> {
        let packed = self
            .call()
            // What the repository lends is there already, and has no bound.
            .args(["pack-objects", "--revs", "--local", "--stdout"])
            .args(["--window=0", "-q"])
            .input(wanted)
            .run()?;
        if !packed.status.success() {
            return Ok(Err(MALFORMED.to_owned()));
        }
        let unpacked = repo
            .on_objects()?
            // A ref is going to name them, and what it names is on the disk
            // before it is.
            .args(["-c", "core.fsync=loose-object"])
            .args(["-c", "core.fsyncMethod=batch"])
            .args(["unpack-objects", "--strict", "-q"])
            .input(packed.stdout)
            .run()?;
        if !unpacked.status.success() {
            let why = String::from_utf8_lossy(&unpacked.stderr);
            let why = why.lines().next().unwrap_or("git does not say why");
            return Ok(Err(format!("git does not take it: {why}")));
        }
        Ok(Ok(()))
    }

    /// Adds up what foreign objects of these names say that they hold, from
    /// their first bytes; or says why they are not looked at.
    ///
    /// # Errors
    /// Git could not be run.
    pub fn weigh(&self, loose: &[String]) -> Result<Result<(), String>, Error> {
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

    /// The commit that an id names, maybe through a tag; `None` where it names
    /// none, or nothing that is there.
    ///
    /// # Errors
    /// Git could not be run.
    pub fn commit_of(&self, id: &ObjectId) -> Result<Option<ObjectId>, Error> {
        // By its first bytes alone: what is wrong with the rest of a commit is
        // told by whoever takes it over.
        let kind = self.call().args(["cat-file", "-t", id.as_str()]).run()?;
        if kind.stdout == b"commit\n" {
            return Ok(Some(id.clone()));
        }
        if kind.stdout != b"tag\n" {
            return Ok(None);
        }
        let peeled = self
            .call()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{id}^{{commit}}"))
            .run()?;
        let text = String::from_utf8_lossy(&peeled.stdout);
        Ok(text
            .trim_end()
            .parse()
            .ok()
            .filter(|_| peeled.status.success()))
    }

    fn call(&self) -> Call {
        self.git
            .at(&self.dir, Configuration::Hermetic)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &self.lent)
    }
}

impl Repository {
    /// What a person's refs name, as far as others can see it too.
    ///
    /// # Errors
    /// Git could not be run.
    pub fn tips(&self) -> Result<Vec<ObjectId>, Error> {
        let prefixes = ["refs/heads/", "refs/tags/", "refs/remotes/"];
        let standing = self.standing(prefixes.into_iter())?;
        Ok(standing.into_iter().map(|(_, oid)| oid).collect())
    }

    /// Whether everything that a tip reaches and nothing `known` does is there,
    /// as git asks after a fetch.
    ///
    /// # Errors
    /// Git could not be run.
    pub fn is_connected(&self, tip: &ObjectId, known: &[ObjectId]) -> Result<bool, Error> {
        let looked = self
            .on_objects()?
            .args(["rev-list", "--objects", "--quiet", "--stdin"])
            .input(wanted(tip, known))
            .run()?;
        Ok(looked.status.success())
    }
}

/// The tip, without what is known already, as git reads a list.
fn wanted(tip: &ObjectId, known: &[ObjectId]) -> Vec<u8> {
    let mut text = format!("{tip}\n").into_bytes();
    for oid in known {
        writeln!(text, "^{oid}").expect("because memory takes everything");
    }
    text
}
