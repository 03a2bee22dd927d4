//! Conflicts and differences as people read them.
//!
//! Owns the text and decides nothing. Bytes that are not UTF-8 are shown with
//! replacement characters and control characters escaped, so that a file's
//! content cannot drive a terminal; a file that is not text is only named.

use std::fmt::Write as _;

use similar::TextDiff;

use super::objects::{differences, entry, is_binary, read};
use super::{Difference, Entry, Error, ObjectStore, hunks};
use crate::model::{Conflict, ConflictKind, ObjectId, RepoPath, TreeMode};

/// Longer texts are named, not compared: a screen shows neither.
const LONGEST: usize = 1 << 20;

/// A conflict: its kind, its versions, and the conflicted stretches of the
/// merge with markers, or both sides against the base where there are none.
///
/// # Errors
/// An object cannot be read.
pub fn render_conflict(
    objects: &impl ObjectStore,
    marked: &ObjectId,
    conflict: &Conflict,
) -> Result<String, Error> {
    let shown = |id: &Option<ObjectId>| {
        id.as_ref()
            .map_or("-", |id| id.as_str().get(..12).unwrap_or("-"))
            .to_owned()
    };
    let mut text = format!(
        "{}: {}\n  base {}  parent {}  agent {}\n",
        escaped(conflict.path.text()),
        in_words(conflict.kind),
        shown(&conflict.base),
        shown(&conflict.ours),
        shown(&conflict.theirs),
    );
    let found = match conflict.path.to_path() {
        Ok(path) => entry(objects, marked, &path)?,
        Err(_) => None,
    };
    if let Some(found) = found.filter(|_| !conflict.hunks.is_empty()) {
        let bytes = read(objects, &found.oid)?;
        text.push_str(&stretches(&bytes));
        return Ok(text);
    }
    for (name, side) in [("parent", &conflict.ours), ("agent", &conflict.theirs)] {
        let (Some(base), Some(side)) = (&conflict.base, side) else {
            continue;
        };
        if conflict.kind == ConflictKind::Submodule {
            continue;
        }
        let (old, new) = (read(objects, base)?, read(objects, side)?);
        text.push_str(&compared(&old, &new, ("base", name)));
    }
    Ok(text)
}

/// The difference between two trees as a unified diff, by path.
///
/// # Errors
/// An object cannot be read.
pub fn render_diff(
    objects: &impl ObjectStore,
    from: &ObjectId,
    to: &ObjectId,
) -> Result<String, Error> {
    let mut text = String::new();
    for change in differences(objects, from, to)? {
        text.push_str(&render_change(objects, &change)?);
    }
    Ok(text)
}

fn render_change(objects: &impl ObjectStore, change: &Difference) -> Result<String, Error> {
    let path = shown_path(&change.path);
    let mut text = format!("diff --git a/{path} b/{path}\n");
    match (&change.old, &change.new) {
        (None, Some(new)) => put(
            &mut text,
            format_args!("new file mode {}\n", new.mode.as_str()),
        ),
        (Some(old), None) => put(
            &mut text,
            format_args!("deleted file mode {}\n", old.mode.as_str()),
        ),
        (Some(old), Some(new)) if old.mode != new.mode => put(
            &mut text,
            format_args!(
                "old mode {}\nnew mode {}\n",
                old.mode.as_str(),
                new.mode.as_str()
            ),
        ),
        (Some(_), Some(_)) | (None, None) => {}
    }
    if change.old.as_ref().map(|e| &e.oid) == change.new.as_ref().map(|e| &e.oid) {
        return Ok(text);
    }
    let old = side(objects, change.old.as_ref())?;
    let new = side(objects, change.new.as_ref())?;
    let name = |entry: &Option<Entry>, sign: &str| match entry {
        Some(_) => format!("{sign}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let names = (name(&change.old, "a"), name(&change.new, "b"));
    text.push_str(&compared(&old, &new, (&names.0, &names.1)));
    Ok(text)
}

fn side(objects: &impl ObjectStore, entry: Option<&Entry>) -> Result<Vec<u8>, Error> {
    match entry {
        None => Ok(Vec::new()),
        Some(entry) if entry.mode == TreeMode::Gitlink => {
            Ok(format!("Subproject commit {}\n", entry.oid).into_bytes())
        }
        Some(entry) => read(objects, &entry.oid),
    }
}

fn compared(old: &[u8], new: &[u8], (from, to): (&str, &str)) -> String {
    if is_binary(old) || is_binary(new) {
        return format!("Binary files {from} and {to} differ\n");
    }
    if old.len().max(new.len()) > LONGEST {
        return format!("Large files {from} and {to} differ\n");
    }
    let [old, new] = [old, new].map(|bytes| escaped(&String::from_utf8_lossy(bytes)));
    let diff = TextDiff::from_lines(old.as_str(), new.as_str());
    let mut unified = diff.unified_diff();
    unified.context_radius(3).header(from, to).to_string()
}

/// The stretches with markers, each with the numbers of its lines.
fn stretches(bytes: &[u8]) -> String {
    let lines: Vec<_> = bytes.split(|b| *b == b'\n').collect();
    let mut text = String::new();
    for [first, last] in hunks::ranges(bytes) {
        put(&mut text, format_args!("@@ lines {first}-{last} @@\n"));
        for number in first..=last {
            let index = usize::try_from(number)
                .unwrap_or(usize::MAX)
                .saturating_sub(1);
            let line = lines.get(index).copied().unwrap_or_default();
            put(
                &mut text,
                format_args!("{number:>6} {}\n", escaped(&String::from_utf8_lossy(line))),
            );
        }
    }
    text
}

fn in_words(kind: ConflictKind) -> &'static str {
    match kind {
        ConflictKind::Content => "both sides changed the same lines",
        ConflictKind::AddAdd => "both sides added it, differently",
        ConflictKind::ModifyDelete => "one side changed what the other deleted",
        ConflictKind::RenameRename => "both sides renamed it, differently",
        ConflictKind::RenameDelete => "one side renamed what the other deleted",
        ConflictKind::RenameAdd => "one side renamed onto what the other added",
        ConflictKind::DirectoryRename => "added into a directory that the other side renamed",
        ConflictKind::FileDirectory => "a file on one side, a directory on the other",
        ConflictKind::Type => "a file on one side, a link or submodule on the other",
        ConflictKind::Mode => "both sides set the mode, differently",
        ConflictKind::Binary => "both sides changed a file that is not text",
        ConflictKind::Submodule => "both sides moved the submodule",
        ConflictKind::WouldOverwriteIgnored => "an ignored file of yours is in the way",
        ConflictKind::WouldOverwriteUntracked => {
            "something of yours that git does not track is in the way"
        }
        ConflictKind::Scope => "outside of the agent's paths",
    }
}

fn shown_path(path: &RepoPath) -> String {
    escaped(&path.to_string())
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

/// Text without what a terminal would obey; line ends and tabs stay.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\r' => shown.push_str("\\r"),
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("because a string takes any text");
}
