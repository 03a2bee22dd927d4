//! Reads what `git merge-tree -z` prints.
//!
//! Owns the form of the answer: the tree, the versions of conflicted paths,
//! the messages. Any bytes are read without a panic; what does not have the
//! documented form is refused, never guessed at. Kinds are git's stable
//! words; the text beside them is kept for people and never looked into.

use std::str::FromStr;

use super::merge::TreeMerge;
use crate::model::{ObjectId, RepoPath, TreeMode};

/// One version of a conflicted path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Its mode.
    pub mode: TreeMode,
    /// Its object.
    pub oid: ObjectId,
    /// 1 for the base, 2 for ours, 3 for theirs.
    pub stage: u8,
    /// Where the version stands.
    pub path: RepoPath,
}

/// What git says about some paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The paths, the one it is about first.
    pub paths: Vec<RepoPath>,
    /// The stable word: `CONFLICT (contents)`, `Auto-merging`.
    pub kind: String,
    /// The sentence for people.
    pub text: String,
}

impl Message {
    /// Whether it names a conflict.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind.starts_with("CONFLICT")
    }
}

/// Reads the answer of a merge that ended clean or with conflicts.
///
/// On failure returns what is wrong with it.
pub(super) fn parse(bytes: &[u8], clean: bool) -> Result<TreeMerge, &'static str> {
    let body = bytes
        .strip_suffix(b"\0")
        .ok_or("it does not end with a NUL byte")?;
    let mut fields = body.split(|b| *b == 0);
    let tree = fields
        .next()
        .and_then(oid)
        .ok_or("it does not start with a tree")?;
    let mut stages = Vec::new();
    for field in fields.by_ref() {
        if field.is_empty() {
            break;
        }
        stages.push(stage(field).ok_or("a version of a path has another form")?);
    }
    if clean && !stages.is_empty() {
        return Err("it is called clean and lists conflicted paths");
    }
    let mut messages = Vec::new();
    while let Some(count) = fields.next() {
        // A last empty field stands where there are no messages at all.
        if count.is_empty() {
            continue;
        }
        messages.push(message(count, &mut fields).ok_or("a message has another form")?);
    }
    if clean && messages.iter().any(Message::is_conflict) {
        return Err("it is called clean and names a conflict");
    }
    Ok(TreeMerge {
        tree,
        clean,
        stages,
        messages,
    })
}

/// The attribute files in the answer of `git ls-tree -r -z`.
pub(super) fn attribute_files(listed: &[u8]) -> Vec<(RepoPath, ObjectId)> {
    let entry = |line: &[u8]| {
        let tab = line.iter().position(|b| *b == b'\t')?;
        let (head, path) = (&line[..tab], RepoPath::from_bytes(&line[tab + 1..]).ok()?);
        let mut words = head.split(|b| *b == b' ');
        let mode = words.next()?;
        let id = words.nth(1).and_then(oid)?;
        let named = path.components().last() == Some(b".gitattributes");
        // A link is no attribute file to git either.
        (named && mode.starts_with(b"100")).then_some((path, id))
    };
    listed.split(|b| *b == 0).filter_map(entry).collect()
}

fn oid(bytes: &[u8]) -> Option<ObjectId> {
    ObjectId::from_str(std::str::from_utf8(bytes).ok()?).ok()
}

fn stage(field: &[u8]) -> Option<Stage> {
    let tab = field.iter().position(|b| *b == b'\t')?;
    let path = RepoPath::from_bytes(&field[tab + 1..]).ok()?;
    let mut words = field[..tab].split(|b| *b == b' ');
    let mode = std::str::from_utf8(words.next()?).ok()?;
    let mode = TreeMode::from_bits(u32::from_str_radix(mode, 8).ok()?)?;
    let oid = words.next().and_then(oid)?;
    let stage = match words.next()? {
        b"1" => 1,
        b"2" => 2,
        b"3" => 3,
        _ => return None,
    };
    words.next().is_none().then_some(Stage {
        mode,
        oid,
        stage,
        path,
    })
}

fn message<'a>(count: &[u8], fields: &mut impl Iterator<Item = &'a [u8]>) -> Option<Message> {
    let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
    let mut paths = Vec::new();
    for _ in 0..count {
        // A name that is no path of a repository (a directory's, with a slash
        // at its end) says nothing that the versions do not say.
        paths.extend(RepoPath::from_bytes(fields.next()?).ok());
    }
    let text = |field: &[u8]| String::from_utf8_lossy(field).trim_end().to_owned();
    let kind = text(fields.next()?);
    Some(Message {
        paths,
        kind,
        text: text(fields.next()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn answer(parts: &[&str]) -> Vec<u8> {
        parts.concat().into_bytes()
    }

    #[test]
    fn reads_versions_and_messages() {
        let bytes = answer(&[
            TREE,
            "\x00100644 ",
            TREE,
            " 1\ta\nb\x00100755 ",
            TREE,
            " 3\ta\nb\0\0",
            "2\0a\nb\0c\0CONFLICT (modify/delete)\0a\nb deleted\n\0",
            "1\0x\0Auto-merging\0Auto\n\0",
        ]);
        let merge = parse(&bytes, false).expect("because it has the documented form");
        assert!(!merge.clean);
        assert_eq!(merge.stages.len(), 2);
        assert_eq!(merge.stages[1].mode, TreeMode::Executable);
        assert_eq!(merge.stages[1].stage, 3);
        assert_eq!(merge.stages[0].path.as_bytes(), b"a\nb");
        assert_eq!(merge.messages.len(), 2);
        assert_eq!(merge.messages[0].paths.len(), 2);
        assert!(merge.messages[0].is_conflict());
        assert_eq!(merge.messages[1].text, "Auto");
    }

    #[test]
    fn a_clean_answer_with_and_without_messages_is_read() {
        for tail in ["\0", "\0\0", "\0\x001\0x\0Auto-merging\0Auto\n\0"] {
            let merge = parse(&answer(&[TREE, tail]), true).expect("because it is clean");
            assert!(merge.stages.is_empty());
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let stages = answer(&[TREE, "\x00100644 ", TREE, " 1\ta\0\0"]);
        assert!(parse(&stages, true).is_err());
        let named = answer(&[TREE, "\0\x001\0x\0CONFLICT (contents)\0c\0"]);
        assert!(parse(&named, true).is_err());
        assert!(parse(b"", true).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = answer(&[
            TREE,
            "\x00100644 ",
            TREE,
            " 1\ta\0\0",
            "2\0a\0c\0CONFLICT (contents)\0c\n\0",
        ]);
        for cut in 0..whole.len() {
            drop(parse(&whole[..cut], false));
            for bit in 0..8 {
                let mut broken = whole.clone();
                broken[cut] ^= 1 << bit;
                drop(parse(&broken, false));
                drop(parse(&broken, true));
            }
        }
        let mut state = 1_u64;
        for _ in 0..2000 {
            let mut noise = TREE.as_bytes().to_vec();
            for _ in 0..60 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                noise.push(b"\0\0\t 1239a/"[usize::try_from(state >> 33).unwrap_or(0) % 10]);
            }
            drop(parse(&noise, false));
            drop(attribute_files(&noise));
        }
        drop(parse(b"99999999999999999999\0", false));
    }
}
