//! The commits that an agent made.
//!
//! Owns telling which of those that its refs name are its own, and bringing the
//! objects of them into quarantine; `git::Quarantine` looks at them. What the
//! agent's git directory says is read as bytes: its refs by `own_refs`, loose
//! objects by their names. No link is followed, nothing is opened that is no
//! regular file, and git is never run there. A result is its tree, whatever
//! the history claims, and a history that is bent only stays behind, told.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::beneath::Beneath;
use super::error::file;
use super::own_refs::{self, OwnTip};
use super::{Access, Error, Workspace};
use crate::git::{Quarantine, Repository};
use crate::model::{HistoryTip, ObjectId};

/// As many objects are looked at, and as many bytes of them, as they lie there.
const OBJECTS: usize = 20_000;
const BYTES: u64 = 64 << 20;
/// As many ends of a history are taken over.
const TIPS: usize = 64;

/// What became of an agent's commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum History {
    /// They are in the parent's object store, under no ref yet.
    Taken {
        /// The last of them; where there are several ends, a commit of ours on
        /// top of all.
        tip: ObjectId,
        /// How many the agent made.
        commits: usize,
        /// The ends, by what named them.
        tips: Vec<HistoryTip>,
        /// What stays behind, and why.
        left_out: Vec<String>,
    },
    /// They stay behind.
    LeftOut {
        /// Why.
        why: String,
    },
}

/// Takes over the commits that an agent's HEAD and refs reach; `None` where it
/// made none. `at` dates a commit that joins several ends.
///
/// # Errors
/// Git could not be run, or a disk takes no more. Whatever is wrong with the
/// agent's files is no error.
pub fn take_history(
    repo: &Repository,
    workspace: &Workspace,
    at: Timestamp,
) -> Result<Option<History>, Error> {
    if workspace.basis.access == Access::Reader {
        return Ok(None);
    }
    let Ok(own) = Beneath::open_root(&workspace.tree) else {
        return Ok(None);
    };
    let lower = workspace.basis.lower();
    let start = lower.first().and_then(|top| Beneath::open_root(top).ok());
    let found = own_refs::read(&own, start.as_ref(), repo.object_format());
    let tips = unknown(&own, repo, found.tips)?;
    let mut taken = Taken::of(found.bent);
    if !tips.is_empty() {
        let place = workspace.dir.join("history");
        super::remove_beneath(&place)?;
        let quarantine = Quarantine::make(repo, &place)?;
        let weighed = match gather(&own, &quarantine.objects())? {
            Ok(loose) => quarantine.weigh(&loose)?,
            Err(why) => Err(why),
        };
        match weighed {
            Ok(()) => taken.add(repo, (&quarantine, workspace.base()), tips)?,
            Err(why) => taken.left_out.push(why),
        }
        super::remove_beneath(&place)?;
    }
    taken.joined(repo, at)
}

/// What has been taken over.
struct Taken {
    tips: Vec<HistoryTip>,
    commits: usize,
    left_out: Vec<String>,
}

impl Taken {
    fn of(left_out: Vec<String>) -> Self {
        Self {
            tips: Vec::new(),
            commits: 0,
            left_out,
        }
    }

    /// Takes over one end after the other: one that is bent costs no other.
    fn add(
        &mut self,
        repo: &Repository,
        (quarantine, base): (&Quarantine, &ObjectId),
        mut tips: Vec<HistoryTip>,
    ) -> Result<(), Error> {
        let mut known = repo.tips()?;
        known.push(base.clone());
        let rest = tips.split_off(tips.len().min(TIPS));
        if let Some(first) = rest.first() {
            let (rest, first) = (rest.len(), &first.reference);
            let why = format!("`{first}` and what else is named, {rest} in all: too many");
            self.left_out.push(why);
        }
        for one in tips {
            // A HEAD that names a tag is none that git would write.
            let commit = quarantine.commit_of(&one.tip)?;
            let commit = commit.filter(|commit| one.reference != "HEAD" || *commit == one.tip);
            let name = one.reference;
            let Some(tip) = commit else {
                self.left_out.push(format!("`{name}` names no commit"));
                continue;
            };
            match quarantine.take_over(repo, &tip, &known)? {
                Ok(0) => {}
                Ok(commits) => {
                    self.commits += commits;
                    known.push(tip.clone());
                    let reference = name;
                    self.tips.push(HistoryTip { reference, tip });
                }
                Err(why) => self.left_out.push(format!("`{name}`: {why}")),
            }
        }
        Ok(())
    }

    /// One commit that reaches all ends.
    fn joined(self, repo: &Repository, at: Timestamp) -> Result<Option<History>, Error> {
        let Some(first) = self.tips.first() else {
            let why = self.left_out.join("; ");
            return Ok((!why.is_empty()).then_some(History::LeftOut { why }));
        };
        let tip = match self.tips.len() {
            1 => first.tip.clone(),
            _ => {
                let objects = repo.objects()?;
                let ends: Vec<ObjectId> = self.tips.iter().map(|one| one.tip.clone()).collect();
                let names: Vec<&str> = self.tips.iter().map(|one| &*one.reference).collect();
                let message = format!("Ends of an agent's history\n\n{}", names.join("\n"));
                objects.commit(&objects.tree_of(&first.tip)?, &ends, &message, at)?
            }
        };
        Ok(Some(History::Taken {
            tip,
            commits: self.commits,
            tips: self.tips,
            left_out: self.left_out,
        }))
    }
}

/// Those that the agent may have made.
///
/// Its lying in the parent's store as well says nothing of one: whoever was
/// taking it over may have died before a ref named it.
fn unknown(own: &Beneath, repo: &Repository, tips: Vec<OwnTip>) -> Result<Vec<HistoryTip>, Error> {
    let objects = repo.objects()?;
    let packs = is_packed(own);
    let made = |one: &OwnTip| {
        // What came with the parent's list, and is nowhere now, was pruned there.
        let lent = one.packed && !packs;
        let id = &one.tip.tip;
        let known = match one.tip.reference.as_str() {
            "HEAD" => objects.tree_of(id).is_ok(),
            _ => lent || objects.contains(id),
        };
        owns(own, id) || !known
    };
    Ok(tips.into_iter().filter(made).map(|one| one.tip).collect())
}

/// Whether an object lies among those that the agent made.
fn owns(own: &Beneath, id: &ObjectId) -> bool {
    let (shard, name) = id.as_str().split_at(2);
    let path = Path::new(".git/objects").join(shard).join(name);
    own.look(&path).is_ok_and(|found| found.is_some())
}

fn is_packed(own: &Beneath) -> bool {
    let packs = own.names(Path::new(".git/objects/pack"), OBJECTS);
    packs.is_ok_and(|names| names.iter().any(|name| name.ends_with(".pack")))
}

/// Opens a regular file; `None` for anything else.
fn regular(own: &Beneath, path: &Path) -> io::Result<Option<File>> {
    let Some(file) = own.read(path)? else {
        return Ok(None);
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Copies the agent's loose objects and gives their names; or says why not.
fn gather(own: &Beneath, to: &Path) -> Result<Result<Vec<String>, String>, Error> {
    if is_packed(own) {
        return Ok(Err("it is packed".to_owned()));
    }
    let is_hex = |name: &&String| name.bytes().all(|b| b"0123456789abcdef".contains(&b));
    let mut loose = Vec::new();
    let mut left = BYTES;
    let objects = PathBuf::from(".git/objects");
    let shards = own.names(&objects, OBJECTS).unwrap_or_default();
    for shard in shards.iter().filter(|name| name.len() == 2).filter(is_hex) {
        let within = to.join(shard);
        fs::create_dir_all(&within).map_err(file("make", &within))?;
        let names = own.names(&objects.join(shard), OBJECTS).unwrap_or_default();
        for name in names.iter().filter(|name| name.len() >= 38).filter(is_hex) {
            let Ok(Some(source)) = regular(own, &objects.join(shard).join(name)) else {
                continue;
            };
            let target = within.join(name);
            let copied = copy(source, &target, left).map_err(file("write", &target))?;
            let Some(rest) = left.checked_sub(copied).filter(|rest| *rest > 0) else {
                return Ok(Err(format!("it is more than {} MiB", BYTES >> 20)));
            };
            left = rest;
            loose.push(format!("{shard}{name}"));
            if loose.len() > OBJECTS {
                return Ok(Err(format!("it is more than {OBJECTS} objects")));
            }
        }
    }
    Ok(Ok(loose))
}

fn copy(source: File, target: &Path, most: u64) -> io::Result<u64> {
    let mut out = File::create_new(target)?;
    io::copy(&mut source.take(most), &mut out)
}
