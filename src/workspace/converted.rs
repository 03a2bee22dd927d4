//! What the index says that `git status` does not.
//!
//! Owns one pass over the private copy of the index, at the time when git
//! looks at the files: which paths git does not look at, and for which the
//! bytes on disk need not be those of the blob although git calls them clean.
//! A changed length shows in the stat data, whatever asked for it and
//! whenever; where a filter or another encoding may have kept the length, git
//! is asked which rules apply. Writes nothing but what it learnt.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::beneath::Beneath;
use super::error::file;
use super::known::{Known, pair};
use super::mirror::Settings;
use super::{Error, IndexCopy};
use crate::git::{
    FilterRules, IndexFlag, IndexItem, IndexKey, ObjectFormat, Objects, Repository, read_index,
};
use crate::model::{ObjectId, RepoPath, TreeMode};

const FILE: &[u8] = b".gitattributes";

/// Git reads no attributes file that is larger.
const LONGEST: u64 = 100 << 20;

/// A path whose bytes on disk need not be those of its blob.
pub(super) struct Doubtful {
    pub(super) mode: TreeMode,
    pub(super) oid: ObjectId,
    /// The blob of the bytes on disk, where it is known from before.
    pub(super) raw: Option<ObjectId>,
    pub(super) key: IndexKey,
}

/// What one pass found.
pub(super) struct IndexFindings {
    /// Paths that git does not look at.
    pub(super) flagged: Vec<(Vec<u8>, IndexFlag)>,
    pub(super) doubtful: BTreeMap<RepoPath, Doubtful>,
    known: Known,
    pairs: Vec<[u8; 24]>,
}

/// What the first pass gathers.
#[derive(Default)]
struct Pass {
    flagged: Vec<(Vec<u8>, IndexFlag)>,
    directories: Vec<Vec<u8>>,
    attributes: Vec<(Vec<u8>, ObjectId)>,
    pairs: Vec<[u8; 24]>,
    unknown: Vec<(Vec<u8>, Doubtful, [u8; 24])>,
}

impl IndexFindings {
    pub(super) fn take(
        repo: &Repository,
        index: &IndexCopy,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let known = Known::load(repo);
        let mut bytes = index.bytes()?;
        let format = repo.object_format();
        let mut pass = Pass::over(&bytes, format, &known);
        if pass.is_none() {
            bytes = index.expanded(repo)?;
            pass = Pass::over(&bytes, format, &known);
        }
        let mut pass = pass.ok_or_else(|| Error::Malformed {
            path: index.path().to_owned(),
            why: "it is no index of a form that is known".to_owned(),
        })?;
        let mut found = Self {
            flagged: std::mem::take(&mut pass.flagged),
            doubtful: BTreeMap::new(),
            pairs: std::mem::take(&mut pass.pairs),
            known,
        };
        found.compare_sizes(repo, std::mem::take(&mut pass.unknown))?;
        let rules = pass.rules(repo, settings)?;
        if !rules.is_empty() && !bytes.is_empty() {
            found.ask(repo, (index, &bytes), &rules)?;
        }
        for doubtful in found.doubtful.values_mut() {
            doubtful.raw = found.known.raw(&doubtful.key);
        }
        Ok(found)
    }

    /// Compares sizes that no earlier snapshot has compared.
    fn compare_sizes(
        &mut self,
        repo: &Repository,
        unknown: Vec<(Vec<u8>, Doubtful, [u8; 24])>,
    ) -> Result<(), Error> {
        if unknown.is_empty() {
            return Ok(());
        }
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let share = unknown.len().div_ceil(threads).max(256);
        let parts: Vec<Result<Vec<bool>, Error>> = std::thread::scope(|scope| {
            let running: Vec<_> = unknown
                .chunks(share)
                .map(|part| scope.spawn(move || same_sizes(&repo.objects()?, part)))
                .collect();
            let joined = running.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined
                .map(|part| part.expect("because comparing sizes cannot panic"))
                .collect()
        });
        let mut same = Vec::with_capacity(unknown.len());
        for part in parts {
            same.extend(part?);
        }
        for ((path, doubtful, pair), same) in unknown.into_iter().zip(same) {
            if same {
                self.pairs.push(pair);
            } else if let Ok(path) = RepoPath::from_bytes(&path) {
                self.doubtful.insert(path, doubtful);
            }
        }
        Ok(())
    }

    /// Asks git to which of the paths that the rules may concern they apply.
    fn ask(
        &mut self,
        repo: &Repository,
        (index, bytes): (&IndexCopy, &[u8]),
        rules: &FilterRules,
    ) -> Result<(), Error> {
        let mut concerned = Vec::new();
        let complete = read_index(bytes, repo.object_format(), |item| {
            if is_compared(item) && rules.may_concern(item.path) {
                concerned.push((item.path.to_vec(), Doubtful::of(item)));
            }
        });
        complete.expect("because the same bytes were read a moment ago");
        if concerned.is_empty() {
            return Ok(());
        }
        let paths: Vec<&[u8]> = concerned.iter().map(|(path, _)| path.as_slice()).collect();
        let apply = repo.filtered(index.path(), &paths)?;
        for ((path, doubtful), applies) in concerned.into_iter().zip(apply) {
            if let (true, Ok(path)) = (applies, RepoPath::from_bytes(&path)) {
                self.doubtful.insert(path, doubtful);
            }
        }
        Ok(())
    }

    /// Keeps what was learnt for the next snapshot; `read` are the blobs of
    /// the doubtful paths that were read as the index describes them.
    pub(super) fn keep(&self, index: &IndexCopy, read: &HashMap<RepoPath, ObjectId>) {
        let mut raw = HashMap::new();
        for (path, doubtful) in &self.doubtful {
            let oid = doubtful.raw.as_ref().or_else(|| read.get(path));
            if let Some(oid) = oid.filter(|_| !doubtful.key.stat().is_racy(index.written())) {
                raw.insert(doubtful.key, oid.clone());
            }
        }
        self.known.replace(&self.pairs, &raw);
    }
}

impl Doubtful {
    fn of(item: &IndexItem<'_>) -> Self {
        Self {
            mode: item.mode().unwrap_or(TreeMode::File),
            oid: item.oid(),
            raw: None,
            key: item.key(),
        }
    }
}

impl Pass {
    /// `None` when the index does not hold every path.
    fn over(bytes: &[u8], format: ObjectFormat, known: &Known) -> Option<Self> {
        let mut pass = Self::default();
        if bytes.is_empty() {
            return Some(pass);
        }
        let mut matching = known.matching();
        let mut last = Vec::new();
        read_index(bytes, format, |item| {
            pass.note_directories(&mut last, item.path);
            pass.visit(item, |pair| matching.holds(pair));
        })?;
        Some(pass)
    }

    fn visit(&mut self, item: &IndexItem<'_>, mut is_known: impl FnMut(&[u8; 24]) -> bool) {
        if item.flag != IndexFlag::Plain {
            self.flagged.push((item.path.to_vec(), item.flag));
        }
        if item.path.ends_with(FILE) && item.path.rsplit(|b| *b == b'/').next() == Some(FILE) {
            self.attributes.push((item.path.to_vec(), item.oid()));
        }
        if !is_compared(item) {
            return;
        }
        let pair = pair(item);
        if is_known(&pair) {
            self.pairs.push(pair);
        } else {
            let doubtful = Doubtful::of(item);
            self.unknown.push((item.path.to_vec(), doubtful, pair));
        }
    }

    /// Notes the directories of a path that the last one was not in. The
    /// index is sorted, so each comes once.
    fn note_directories(&mut self, last: &mut Vec<u8>, path: &[u8]) {
        let directory = match path.iter().rposition(|b| *b == b'/') {
            Some(slash) => &path[..slash],
            None => &[],
        };
        if directory == last.as_slice() {
            return;
        }
        let shared = |end: usize| {
            last.get(..end) == Some(&directory[..end]) && matches!(last.get(end), None | Some(b'/'))
        };
        let ends = directory.iter().enumerate().filter(|(_, b)| **b == b'/');
        let ends = ends.map(|(at, _)| at).chain([directory.len()]);
        let new: Vec<Vec<u8>> = ends
            .filter(|end| *end > 0 && !shared(*end))
            .map(|end| directory[..end].to_vec())
            .collect();
        self.directories.extend(new);
        last.clear();
        last.extend_from_slice(directory);
    }

    /// The rules of every attributes file that is in force.
    fn rules(&self, repo: &Repository, settings: &Settings) -> Result<FilterRules, Error> {
        let mut rules = FilterRules::default();
        for path in settings.attributes_files(repo.git()) {
            match path.map(std::fs::read) {
                Some(Ok(text)) => rules.add(b"", &text),
                Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
                Some(Err(_)) | None => rules.add_unknown(),
            }
        }
        if let Ok(text) = std::fs::read(repo.common_dir().join("info/attributes")) {
            rules.add(b"", &text);
        }
        let beneath = Beneath::open_root(repo.top()).map_err(file("open", repo.top()))?;
        let mut on_disk = HashSet::new();
        for directory in [Vec::new()].iter().chain(&self.directories) {
            let mut path = directory.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(FILE);
            if let Some(text) = attributes_at(repo, &beneath, &path)? {
                rules.add(directory, &text);
                on_disk.insert(path);
            }
        }
        let missing = self.attributes.iter();
        for (path, oid) in missing.filter(|(path, _)| !on_disk.contains(path)) {
            match repo.objects()?.read_blob(oid) {
                Ok(text) => rules.add(&path[..path.len().saturating_sub(FILE.len() + 1)], &text),
                Err(_) => rules.add_unknown(),
            }
        }
        Ok(rules)
    }
}

/// What an attributes file of the working tree holds; `None` where none is.
fn attributes_at(
    repo: &Repository,
    beneath: &Beneath,
    path: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let path = Path::new(OsStr::from_bytes(path));
    let shown = repo.top().join(path);
    let failed = || file("read", &shown);
    let Some(open) = beneath.read(path).map_err(failed())? else {
        return Ok(None);
    };
    if !open.metadata().map_err(failed())?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    let mut open = open.take(LONGEST);
    open.read_to_end(&mut text).map_err(failed())?;
    Ok(Some(text))
}

/// Whether an entry is a file that git looks at and might convert.
fn is_compared(item: &IndexItem<'_>) -> bool {
    item.flag == IndexFlag::Plain
        && item.stage == 0
        && matches!(item.mode(), Some(TreeMode::File | TreeMode::Executable))
}

fn same_sizes(
    objects: &Objects,
    part: &[(Vec<u8>, Doubtful, [u8; 24])],
) -> Result<Vec<bool>, Error> {
    let same = part.iter().map(|(_, doubtful, pair)| {
        let size: [u8; 4] = pair[20..].try_into().expect("because four bytes are left");
        // A blob that is not there says nothing of its file.
        objects
            .blob_size(&doubtful.oid)
            .is_ok_and(|blob| blob & u64::from(u32::MAX) == u64::from(u32::from_be_bytes(size)))
    });
    Ok(same.collect())
}
