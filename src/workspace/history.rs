//! The commits that an agent made.
//!
//! Owns finding the tip of its own history and bringing the objects of it into
//! quarantine; `git::Quarantine` looks at them. What the agent's git directory
//! says is read as bytes: one small file for HEAD, one for the branch, loose
//! objects by their names. No link is followed, nothing is opened that is no
//! regular file, and git is never run there. A result is its tree, whatever
//! the history claims, and a history that is bent only stays behind, told.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::beneath::Beneath;
use super::error::file;
use super::{Error, Workspace};
use crate::git::{ObjectFormat, Quarantine, Repository};
use crate::model::{ObjectId, RepoPath};

/// As many objects are looked at, and as many bytes of them, as they lie there.
const OBJECTS: usize = 20_000;
const BYTES: u64 = 64 << 20;
/// A file that names a commit, and the list of packed refs.
const NAME: u64 = 4 << 10;
const LIST: u64 = 4 << 20;

/// What became of an agent's commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum History {
    /// They are in the parent's object store, under no ref yet.
    Taken {
        /// The last of them.
        tip: ObjectId,
        /// How many.
        commits: usize,
    },
    /// They stay behind.
    LeftOut {
        /// Why.
        why: String,
    },
}

/// Takes over the commits that an agent's HEAD reaches; `None` where it made
/// none.
///
/// # Errors
/// Git could not be run, or a disk takes no more. Whatever is wrong with the
/// agent's files is no error.
pub fn take_history(repo: &Repository, workspace: &Workspace) -> Result<Option<History>, Error> {
    let own = match Beneath::open_root(&workspace.tree) {
        Ok(own) => own,
        Err(_) => return Ok(None),
    };
    let Some(tip) = tip(&own, repo.object_format()) else {
        return Ok(None);
    };
    // Nothing is said by its lying in the parent's store too: whoever was taking
    // it over may have died before a ref named it.
    if !owns(&own, &tip) && repo.objects()?.contains(&tip) {
        return Ok(None);
    }
    let place = workspace.dir.join("history");
    super::remove_beneath(&place)?;
    let quarantine = Quarantine::make(repo, &place)?;
    let mut known = repo.tips()?;
    known.push(workspace.base().clone());
    let weighed = match gather(&own, &quarantine.objects())? {
        Ok(loose) => quarantine.weigh(&loose)?,
        Err(why) => Err(why),
    };
    let taken = match weighed {
        Ok(()) => quarantine.take_over(repo, &tip, &known)?,
        Err(why) => Err(why),
    };
    super::remove_beneath(&place)?;
    Ok(match taken {
        Ok(0) => None,
        Ok(commits) => Some(History::Taken { tip, commits }),
        Err(why) => Some(History::LeftOut { why }),
    })
}

/// Whether an object lies among those that the agent made.
fn owns(own: &Beneath, id: &ObjectId) -> bool {
    let (shard, name) = id.as_str().split_at(2);
    let path = Path::new(".git/objects").join(shard).join(name);
    own.look(&path).is_ok_and(|found| found.is_some())
}

/// The commit that HEAD names, if anything there can be read as one.
fn tip(own: &Beneath, format: ObjectFormat) -> Option<ObjectId> {
    let text = small(own, Path::new(".git/HEAD"), NAME)?;
    let Some(name) = text.strip_prefix("ref: ") else {
        return id(&text, format);
    };
    let plain = RepoPath::from_bytes(name.as_bytes()).is_ok() && name.starts_with("refs/heads/");
    let name = plain.then_some(name)?;
    if let Some(text) = small(own, &Path::new(".git").join(name), NAME) {
        return id(&text, format);
    }
    let packed = small(own, Path::new(".git/packed-refs"), LIST)?;
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    let (oid, _) = lines.find(|(_, named)| *named == name)?;
    id(oid, format)
}

fn id(text: &str, format: ObjectFormat) -> Option<ObjectId> {
    let id: ObjectId = text.parse().ok()?;
    (ObjectFormat::of(&id) == format).then_some(id)
}

/// The text of a small regular file, without the white space at its end.
fn small(own: &Beneath, path: &Path, most: u64) -> Option<String> {
    let file = regular(own, path).ok()??;
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= most).then(|| text.trim_end().to_owned())
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
    let packs = own.names(Path::new(".git/objects/pack"), OBJECTS);
    if packs.is_ok_and(|names| names.iter().any(|name| name.ends_with(".pack"))) {
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
