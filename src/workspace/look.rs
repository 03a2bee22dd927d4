//! One look at the parent's working tree, and the tree it makes.
//!
//! Owns which paths are read and how: git lists what differs, on a private
//! copy of the index; every listed path is then taken from disk, raw. Paths
//! that git would not look at, or whose bytes it would convert, are those that
//! `converted` finds, and read too. No filter runs and no link is followed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::beneath::{Beneath, link_text};
use super::converted::IndexFindings;
use super::error::file;
use super::mirror::Settings;
use super::snapshot::FileTime;
use super::{Error, IndexCopy};
use crate::git::{
    IndexFlag, IndexKey, IndexStat, Objects, Repository, Status, StatusEntry, SubmoduleState,
    TreeEdit,
};
use crate::model::{ObjectId, PathText, RepoPath, TreeMode, Warning, WarningKind};

/// What git said.
pub(super) struct Look {
    pub(super) index: IndexCopy,
    pub(super) status: Status,
    pub(super) settings: Settings,
    findings: IndexFindings,
}

/// What was made of it.
pub(super) struct TreeFound {
    pub(super) tree: ObjectId,
    pub(super) head_tree: ObjectId,
    pub(super) seen: BTreeMap<RepoPath, FileTime>,
    pub(super) absent: BTreeSet<RepoPath>,
    pub(super) warnings: Vec<Warning>,
}

/// Why a path is looked at, and what the index says of it.
#[derive(Debug, Clone, Default)]
struct Hint {
    index: Option<(TreeMode, ObjectId)>,
    submodule: Option<SubmoduleState>,
    may_be_absent: bool,
    /// Git did not say what the index holds: HEAD's entry stands for it.
    asks_head: bool,
    /// Staged as deleted, and not listed as untracked: ignored if it is there.
    unstaged: bool,
    /// Git calls it clean; its bytes may be others than its blob's.
    doubted: Option<Doubt>,
}

/// What the index says of a file that git calls clean.
#[derive(Debug, Clone)]
struct Doubt {
    key: IndexKey,
    /// The blob of its bytes, where an earlier snapshot read them.
    raw: Option<ObjectId>,
}

#[derive(Default)]
struct Finding {
    edit: Option<TreeEdit>,
    seen: Option<(RepoPath, FileTime)>,
    absent: Option<RepoPath>,
    warnings: Vec<Warning>,
    /// A doubted file, read as the index describes it.
    learnt: Option<(RepoPath, ObjectId)>,
}

/// The settings and handles that reading a path needs.
struct Reader<'a> {
    repo: &'a Repository,
    beneath: &'a Beneath,
    trusts_modes: bool,
    has_links: bool,
}

impl Look {
    /// Asks git, and reads the index meanwhile.
    pub(super) fn take(repo: &Repository, scratch: &Path) -> Result<Self, Error> {
        let (index, settings) = std::thread::scope(|threads| {
            let settings = threads.spawn(|| Settings::take(repo));
            let index = IndexCopy::take(repo, scratch);
            let settings = settings.join().expect("because asking git cannot panic");
            (index, settings)
        });
        let (index, settings) = (index?, settings?);
        let filters: Vec<&str> = settings.filters().into_iter().collect();
        let (status, findings) = std::thread::scope(|threads| {
            let findings = threads.spawn(|| IndexFindings::take(repo, &index, &settings));
            let status = repo.status(index.path(), &filters);
            let findings = findings
                .join()
                .expect("because reading an index cannot panic");
            (status, findings)
        });
        Ok(Self {
            status: status?,
            findings: findings?,
            index,
            settings,
        })
    }

    /// Whether the index is there and says what HEAD says, and nothing else.
    pub(super) fn lists_head(&self) -> bool {
        let as_head = |entry: &StatusEntry| match entry {
            StatusEntry::Tracked { staged, .. } => !staged,
            StatusEntry::Unmerged { .. } => false,
            StatusEntry::Untracked { .. } => true,
        };
        self.index.exists()
            && self.status.entries.iter().all(as_head)
            && self.findings.flagged.is_empty()
            // Where bytes are converted, an entry knows the size on disk, and a
            // file of the entry's blob has another one.
            && self.findings.doubtful.is_empty()
    }

    /// Reads what has to be read and writes the tree.
    pub(super) fn tree(&self, repo: &Repository) -> Result<TreeFound, Error> {
        let objects = repo.objects()?;
        let head_tree = match &self.status.head {
            Some(head) => objects.tree_of(head)?,
            None => objects.empty_tree()?,
        };
        let beneath = Beneath::open_root(repo.top()).map_err(file("open", repo.top()))?;
        let settings = &self.settings;
        let reader = Reader {
            repo,
            beneath: &beneath,
            trusts_modes: !settings.is_off("core.filemode"),
            has_links: !settings.is_off("core.symlinks"),
        };
        let mut warnings = Vec::new();
        let mut hints = self.hints(&mut warnings);
        self.doubt(&mut hints);
        let exact = reader.trusts_modes && reader.has_links;
        let unknown = |hint: &Hint| hint.index.is_none() && (hint.asks_head || !exact);
        for (path, hint) in hints.iter_mut().filter(|(_, hint)| unknown(hint)) {
            hint.index = objects.entry(&head_tree, path)?.map(|e| (e.mode, e.oid));
        }
        let mut found = TreeFound {
            tree: head_tree.clone(),
            head_tree,
            seen: BTreeMap::new(),
            absent: BTreeSet::new(),
            warnings,
        };
        let (mut edits, mut learnt) = (Vec::new(), HashMap::new());
        for finding in reader.read_all(&hints)? {
            edits.extend(finding.edit);
            found.seen.extend(finding.seen);
            found.absent.extend(finding.absent);
            found.warnings.extend(finding.warnings);
            learnt.extend(finding.learnt);
        }
        self.findings.keep(&self.index, &learnt);
        found.tree = objects.edit_tree(&found.head_tree, &edits)?;
        Ok(found)
    }

    fn hints(&self, warnings: &mut Vec<Warning>) -> BTreeMap<RepoPath, Hint> {
        let mut hints: BTreeMap<RepoPath, Hint> = BTreeMap::new();
        let mut plain = |bytes: &[u8]| match RepoPath::from_bytes(bytes) {
            Ok(path) => Some(path),
            Err(_) => {
                // A repository that git does not descend into ends in a slash.
                let kind = match bytes.ends_with(b"/") {
                    true => WarningKind::NestedRepository,
                    false => WarningKind::GitName,
                };
                let path = PathText::from_raw(bytes);
                warnings.push(Warning { path, kind });
                None
            }
        };
        for entry in &self.status.entries {
            match entry {
                StatusEntry::Tracked {
                    path,
                    index,
                    removed,
                    submodule,
                    staged: _,
                } => {
                    let Some(path) = plain(path) else { continue };
                    let hint = Hint {
                        unstaged: *removed,
                        index: index.clone(),
                        submodule: *submodule,
                        ..Hint::default()
                    };
                    hints.insert(path, hint);
                }
                StatusEntry::Unmerged { path } => {
                    let Some(path) = plain(path) else { continue };
                    hints.entry(path).or_default().asks_head = true;
                }
                StatusEntry::Untracked { path } => {
                    let Some(path) = plain(path) else { continue };
                    hints.entry(path).or_default().unstaged = false;
                }
            }
        }
        for (path, flag) in &self.findings.flagged {
            let Ok(path) = RepoPath::from_bytes(path) else {
                continue;
            };
            if *flag == IndexFlag::Plain {
                continue;
            }
            let hint = hints.entry(path).or_default();
            hint.asks_head = true;
            hint.may_be_absent = *flag == IndexFlag::SkipWorktree;
        }
        hints
    }

    /// Adds the files whose bytes need not be those of their blob although
    /// git calls them clean.
    fn doubt(&self, hints: &mut BTreeMap<RepoPath, Hint>) {
        for (path, doubtful) in &self.findings.doubtful {
            hints.entry(path.clone()).or_insert_with(|| Hint {
                index: Some((doubtful.mode, doubtful.oid.clone())),
                doubted: Some(Doubt {
                    key: doubtful.key,
                    raw: doubtful.raw.clone(),
                }),
                ..Hint::default()
            });
        }
    }
}

impl Reader<'_> {
    fn read_all(&self, hints: &BTreeMap<RepoPath, Hint>) -> Result<Vec<Finding>, Error> {
        let work: Vec<(&RepoPath, &Hint)> = hints.iter().collect();
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // A thread and its handle cost more than a few files.
        let share = work.len().div_ceil(threads).max(16);
        let parts: Vec<Result<Vec<Finding>, Error>> = std::thread::scope(|scope| {
            let running: Vec<_> = work
                .chunks(share)
                .map(|part| scope.spawn(move || self.read_part(part)))
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("because reading a file cannot panic"))
                .collect()
        });
        let mut found = Vec::with_capacity(work.len());
        for part in parts {
            found.extend(part?);
        }
        Ok(found)
    }

    fn read_part(&self, part: &[(&RepoPath, &Hint)]) -> Result<Vec<Finding>, Error> {
        let objects = self.repo.objects()?;
        part.iter()
            .map(|(path, hint)| self.read(&objects, path, hint))
            .collect()
    }

    fn read(&self, objects: &Objects, path: &RepoPath, hint: &Hint) -> Result<Finding, Error> {
        let shown = self.repo.top().join(path.as_path());
        let found = self
            .beneath
            .look(path.as_path())
            .map_err(file("look at", &shown))?
            .filter(|_| !hint.unstaged);
        let Some((handle, metadata)) = found else {
            return Ok(Self::missing(path, hint));
        };
        if let Some(finding) = Self::remembered(objects, path, (hint, &metadata)) {
            return Ok(finding);
        }
        let kind = metadata.file_type();
        if kind.is_dir() {
            return self.directory(path, hint);
        }
        if kind.is_symlink() {
            let text = link_text(&handle).map_err(file("read the link", &shown))?;
            return Ok(Finding::put(
                path,
                TreeMode::Symlink,
                objects.write_blob(&text)?,
            ));
        }
        if !kind.is_file() {
            let mut finding = Finding::removed(path);
            finding
                .warnings
                .push(warning(path, WarningKind::SpecialFile));
            return Ok(finding);
        }
        let open = self.beneath.read(path.as_path());
        let Some(mut open) = open.map_err(file("read", &shown))? else {
            return Ok(Self::missing(path, hint));
        };
        // Asked of the open file: another may stand at the path by now.
        let metadata = open.metadata().map_err(file("read", &shown))?;
        let oid = objects.write_blob_from(&mut open, &shown)?;
        let mut finding = Finding::put(path, self.mode(&metadata, hint), oid.clone());
        let doubt = hint.doubted.as_ref();
        if doubt.is_some_and(|doubt| doubt.key.stat() == IndexStat::of(&metadata)) {
            finding.learnt = Some((path.clone(), oid));
        }
        let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        finding.seen = Some((path.clone(), (metadata.mtime(), nanos)));
        Ok(finding)
    }

    /// A file that an earlier snapshot read and that is still what the index
    /// describes. Git compares times by the second, which is not enough here;
    /// and the object may have been pruned.
    fn remembered(
        objects: &Objects,
        path: &RepoPath,
        (hint, now): (&Hint, &Metadata),
    ) -> Option<Finding> {
        let doubt = hint.doubted.as_ref()?;
        let (mode, _) = hint.index.as_ref()?;
        let described = doubt.key.stat();
        if !now.is_file() || described != IndexStat::of(now) {
            return None;
        }
        let raw = doubt.raw.as_ref().filter(|raw| objects.contains(raw))?;
        let mut finding = Finding::put(path, *mode, raw.clone());
        finding.seen = Some((path.clone(), described.modified()));
        Some(finding)
    }

    fn missing(path: &RepoPath, hint: &Hint) -> Finding {
        if !hint.may_be_absent {
            return Finding::removed(path);
        }
        let mut finding = match &hint.index {
            Some((mode, oid)) => Finding::put(path, *mode, oid.clone()),
            None => Finding::default(),
        };
        finding.absent = Some(path.clone());
        finding
    }

    /// A directory where git lists a path: a submodule, or a file that gave
    /// way to a directory whose own files are listed too.
    fn directory(&self, path: &RepoPath, hint: &Hint) -> Result<Finding, Error> {
        let linked = matches!(hint.index, Some((TreeMode::Gitlink, _)));
        if !linked && hint.submodule.is_none() {
            return Ok(Finding::removed(path));
        }
        let state = hint.submodule.unwrap_or_default();
        let mut commit = hint.index.as_ref().map(|(_, oid)| oid.clone());
        if state.moved || !linked {
            commit = self.repo.submodule_head(path.as_path())?.or(commit);
        }
        let mut finding = match commit {
            Some(commit) => Finding::put(path, TreeMode::Gitlink, commit),
            None => Finding::removed(path),
        };
        if state.dirty {
            finding
                .warnings
                .push(warning(path, WarningKind::SubmoduleChanged));
        }
        Ok(finding)
    }

    fn mode(&self, metadata: &Metadata, hint: &Hint) -> TreeMode {
        let indexed = hint.index.as_ref().map(|(mode, _)| *mode);
        if !self.has_links && indexed == Some(TreeMode::Symlink) {
            return TreeMode::Symlink;
        }
        if self.trusts_modes {
            return TreeMode::from_bits(0o100_000 | (metadata.mode() & 0o100))
                .expect("because these are the bits of a regular file");
        }
        match indexed {
            Some(TreeMode::Executable) => TreeMode::Executable,
            Some(TreeMode::File | TreeMode::Symlink | TreeMode::Gitlink) | None => TreeMode::File,
        }
    }
}

impl Finding {
    fn put(path: &RepoPath, mode: TreeMode, oid: ObjectId) -> Self {
        let path = path.clone();
        Self {
            edit: Some(TreeEdit::Put { path, mode, oid }),
            ..Self::default()
        }
    }

    fn removed(path: &RepoPath) -> Self {
        let path = path.clone();
        Self {
            edit: Some(TreeEdit::Remove { path }),
            ..Self::default()
        }
    }
}

pub(super) fn warning(path: &RepoPath, kind: WarningKind) -> Warning {
    Warning {
        path: PathText::from(path),
        kind,
    }
}
