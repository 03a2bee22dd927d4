//! What the refs in an agent's git directory name.
//!
//! Owns reading them as bytes: HEAD, loose and packed refs, the HEADs of
//! worktrees beneath it, and of two logs what nothing else names any more,
//! older stashes and commits that a detached HEAD has left. Each is a small
//! regular file, no link is followed, and how many are read is bounded. What
//! cannot be read is told, never guessed. Knows nothing of whose the objects
//! are. Names that are no text are not seen.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use super::beneath::Beneath;
use crate::git::ObjectFormat;
use crate::model::{HistoryTip, ObjectId, RepoPath};

/// A file that names a commit; the list of packed refs, or a log.
const NAME: u64 = 4 << 10;
const LIST: u64 = 16 << 20;
/// As many files and directories are looked at for refs.
const REFS: usize = 2_000;
/// As much of what cannot be read is told.
const BENT: usize = 8;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct OwnRefs {
    /// What is named, HEAD's first; no id twice.
    pub(super) tips: Vec<OwnTip>,
    /// What could not be read, and why.
    pub(super) bent: Vec<String>,
}

/// One that is named.
#[derive(Debug)]
pub(super) struct OwnTip {
    /// What names it, and its id.
    pub(super) tip: HistoryTip,
    /// Whether it stands only in the list that the agent got at its start.
    pub(super) packed: bool,
}

/// Reads the refs beneath `own`; where that is only what an agent wrote over
/// its `start`, what is not there stands as it did at first.
pub(super) fn read(own: &Beneath, start: Option<&Beneath>, format: ObjectFormat) -> OwnRefs {
    let mut reader = Reader {
        own,
        format,
        named: BTreeMap::new(),
        symbolic: BTreeSet::new(),
        found: OwnRefs::default(),
    };
    match own.look(Path::new(".git")) {
        Ok(Some((_, metadata))) if metadata.is_dir() => reader.read(start),
        Ok(None) if start.is_some() => {}
        Ok(None) => reader.tell(".git", "is gone"),
        Ok(Some((_, metadata))) if is_mark(&metadata) => reader.tell(".git", "is gone"),
        Ok(Some(_)) => reader.tell(".git", "is no directory"),
        Err(error) => reader.tell(".git", &format!("cannot be looked at: {error}")),
    }
    reader.found
}

struct Reader<'a> {
    own: &'a Beneath,
    format: ObjectFormat,
    /// What refs name; whether only the list does.
    named: BTreeMap<String, (ObjectId, bool)>,
    /// Refs that name another one.
    symbolic: BTreeSet<String>,
    found: OwnRefs,
}

impl Reader<'_> {
    fn read(&mut self, start: Option<&Beneath>) {
        // Only an agent that moved its refs there has one.
        if !matches!(self.own.look(Path::new(".git/reftable")), Ok(None)) {
            self.tell("reftable", "holds refs in a form that is not read");
        }
        self.packed();
        self.loose();
        self.head(start);
        let named = std::mem::take(&mut self.named);
        for (name, (id, packed)) in named {
            self.add(name, id, packed);
        }
        self.worktrees();
        self.unfinished();
        self.stashes();
        self.left_behind();
        let mut seen = HashSet::new();
        let tips = &mut self.found.tips;
        tips.retain(|one| seen.insert(one.tip.tip.clone()));
    }

    fn packed(&mut self) {
        for line in self.lines("packed-refs") {
            // Comments, and what an annotated tag comes down to.
            let Some((id, name)) = line.split_once(' ') else {
                continue;
            };
            if let Some(id) = self.id(id).filter(|_| is_ref(name)) {
                self.named.insert(name.to_owned(), (id, true));
            }
        }
    }

    fn loose(&mut self) {
        let mut waiting = vec!["refs".to_owned()];
        let mut looked = 0;
        while let Some(name) = waiting.pop() {
            looked += 1;
            if looked > REFS {
                return self.tell("refs", &format!("holds more than {REFS} names"));
            }
            let path = Path::new(".git").join(&name);
            let directory = self.own.look(&path).ok().flatten();
            if !directory.is_some_and(|(_, metadata)| metadata.is_dir()) {
                self.loose_ref(name);
                continue;
            }
            match self.own.names(&path, REFS) {
                Ok(names) => {
                    let inside = names.iter().filter(|leaf| *leaf != "." && *leaf != "..");
                    waiting.extend(inside.map(|leaf| format!("{name}/{leaf}")));
                }
                Err(error) => self.tell(&name, &format!("cannot be listed: {error}")),
            }
        }
    }

    fn loose_ref(&mut self, name: String) {
        let is_lock = Path::new(&name)
            .extension()
            .is_some_and(|end| end == "lock");
        let text = match text(self.own, &name, NAME) {
            Ok(Some(text)) if !is_lock => text,
            Ok(_) => return,
            Err(why) => return self.tell(&name, &why),
        };
        if text.starts_with("ref: ") {
            self.symbolic.insert(name);
        } else if !is_ref(&name) {
            self.tell(&name, "is no name of a ref");
        } else if let Some(id) = self.id(&text) {
            self.named.insert(name, (id, false));
        } else {
            self.tell(&name, "names no object");
        }
    }

    fn head(&mut self, start: Option<&Beneath>) {
        let found = match (text(self.own, "HEAD", NAME), start) {
            (Ok(None), Some(start)) => text(start, "HEAD", NAME),
            (found, _) => found,
        };
        let text = match found {
            Ok(Some(text)) => text,
            Ok(None) => return self.tell("HEAD", "is gone"),
            Err(why) => return self.tell("HEAD", &why),
        };
        if let Some(id) = self.id(&text) {
            return self.add("HEAD".to_owned(), id, false);
        }
        let Some(branch) = text.strip_prefix("ref: ").map(str::trim_start) else {
            return self.tell("HEAD", "names neither a commit nor a branch");
        };
        if !is_ref(branch) || !branch.starts_with("refs/heads/") {
            self.tell("HEAD", "names neither a commit nor a branch");
        } else if self.symbolic.contains(branch) {
            self.tell("HEAD", "names a ref that names another one");
        } else if let Some((id, packed)) = self.named.get(branch).cloned() {
            self.add("HEAD".to_owned(), id, packed);
        }
    }

    fn worktrees(&mut self) {
        let names = self.own.names(Path::new(".git/worktrees"), REFS);
        let is_inside = |name: &&String| *name != "." && *name != "..";
        for name in names.unwrap_or_default().iter().filter(is_inside) {
            self.single(format!("worktrees/{name}/HEAD"));
        }
    }

    /// A file that holds an id, if it does; one that cannot be read is told.
    fn single(&mut self, name: String) {
        match text(self.own, &name, NAME) {
            Ok(text) => {
                if let Some(id) = text.and_then(|text| self.id(&text)) {
                    self.add(name, id, false);
                }
            }
            Err(why) => self.tell(&name, &why),
        }
    }

    /// What a merge or rebase that was left open has put by: uncommitted files,
    /// and where it came from.
    fn unfinished(&mut self) {
        for name in [
            "MERGE_HEAD",
            "MERGE_AUTOSTASH",
            "rebase-merge/autostash",
            "rebase-merge/orig-head",
            "rebase-apply/autostash",
            "rebase-apply/orig-head",
        ] {
            self.single(name.to_owned());
        }
    }

    /// All but the last stash are in its log alone.
    fn stashes(&mut self) {
        let lines = self.lines("logs/refs/stash");
        for (age, line) in lines.iter().rev().enumerate() {
            if let Some(id) = line.split(' ').nth(1).and_then(|id| self.id(id)) {
                self.add(format!("stash@{{{age}}}"), id, false);
            }
        }
    }

    /// Where HEAD stood by itself when something else was checked out. What it
    /// stood at before a reset or an amended commit was given up on purpose.
    fn left_behind(&mut self) {
        let lines = self.lines("logs/HEAD");
        for (age, line) in lines.iter().rev().enumerate() {
            let moved = line.split_once("\tcheckout: moving from ");
            let id = line.split(' ').next().and_then(|id| self.id(id));
            let (Some((_, moved)), Some(id)) = (moved, id) else {
                continue;
            };
            if moved.starts_with(id.as_str()) {
                self.add(format!("HEAD@{{{}}}", age + 1), id, false);
            }
        }
    }

    fn lines(&mut self, name: &str) -> Vec<String> {
        match text(self.own, name, LIST) {
            Ok(text) => text
                .iter()
                .flat_map(|text| text.lines())
                .map(str::to_owned)
                .collect(),
            Err(why) => {
                self.tell(name, &why);
                Vec::new()
            }
        }
    }

    fn add(&mut self, name: String, id: ObjectId, packed: bool) {
        let tip = HistoryTip {
            reference: shown(&name),
            tip: id,
        };
        self.found.tips.push(OwnTip { tip, packed });
    }

    fn tell(&mut self, name: &str, why: &str) {
        let bent = &mut self.found.bent;
        if bent.len() < BENT {
            bent.push(format!("`{}` {why}", shown(name)));
        } else if bent.len() == BENT {
            bent.push("there is more that cannot be read".to_owned());
        }
    }

    fn id(&self, text: &str) -> Option<ObjectId> {
        let id: ObjectId = text.parse().ok()?;
        (ObjectFormat::of(&id) == self.format).then_some(id)
    }
}

/// A name of the agent's, fit for a record and the message of a commit.
fn shown(name: &str) -> String {
    name.escape_debug().take(200).collect()
}

fn is_ref(name: &str) -> bool {
    RepoPath::from_bytes(name.as_bytes()).is_ok()
        && name.starts_with("refs/")
        && !name.contains(char::is_control)
}

/// Whether the kernel left a mark here that something below was deleted.
fn is_mark(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device()
}

/// The text of a small regular file in the git directory, without the white
/// space at its end; nothing where nothing stands; or why it is not read.
fn text(own: &Beneath, name: &str, most: u64) -> Result<Option<String>, String> {
    let path = Path::new(".git").join(name);
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let Some((_, metadata)) = own.look(&path).map_err(unreadable)? else {
        return Ok(None);
    };
    if is_mark(&metadata) {
        return Err("is gone".to_owned());
    }
    if !metadata.is_file() {
        return Err("is no regular file".to_owned());
    }
    let Some(file) = own.read(&path).map_err(unreadable)? else {
        return Ok(None);
    };
    // It may have been replaced since.
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(format!("is larger than {} KiB", most >> 10));
    }
    // Logs and lists hold names and messages in whatever encoding.
    Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()))
}
