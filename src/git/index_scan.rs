//! The index as git writes it, read in one pass.
//!
//! Owns the on-disk form, versions 2 to 4 with either hash, and nothing of its
//! meaning. A split or sparse index does not hold every path: it is told
//! apart, and the caller has git expand it. Called by the snapshot, for which
//! a process of git and a list of all paths would cost more than the look
//! itself.

use super::objects::from_raw;
use super::{IndexStat, ObjectFormat};
use crate::model::{ObjectId, TreeMode};

const ASSUME_UNCHANGED: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const SKIP_WORKTREE: u16 = 0x4000;
/// Times, device, inode, mode, owner, size; then the object and two flag bytes.
const STAT: usize = 40;
const FLAGS: usize = 2;
/// As many bytes of an id tell objects apart, whatever the hash.
const TELLING: usize = 20;

/// What the index says of a path beyond its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexFlag {
    /// Nothing: git looks at it.
    Plain,
    /// Git does not look at it, but it is there.
    AssumeUnchanged,
    /// It need not be there: sparse checkout.
    SkipWorktree,
}

/// One entry, borrowed from the file's bytes.
#[derive(Debug, Clone, Copy)]
pub struct IndexItem<'a> {
    /// The path's bytes.
    pub path: &'a [u8],
    /// What the index says of it beyond its content.
    pub flag: IndexFlag,
    /// 0, or the side of a conflict.
    pub stage: u8,
    fixed: &'a [u8],
}

/// The stat data and the object of one entry, as far as it tells objects
/// apart: with both unchanged, an entry says the same of the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexKey([u8; STAT + TELLING]);

impl IndexKey {
    /// From the bytes that [`IndexKey::bytes`] gave.
    #[must_use]
    pub fn from_bytes(bytes: [u8; STAT + TELLING]) -> Self {
        Self(bytes)
    }

    /// As bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; STAT + TELLING] {
        &self.0
    }

    /// What it says of the file.
    #[must_use]
    pub fn stat(&self) -> IndexStat {
        // The mode, at 24, is no part of it.
        IndexStat::from_numbers([0, 4, 8, 12, 16, 20, 28, 32, 36].map(|at| {
            let bytes = &self.0[at..at + 4];
            u32::from_be_bytes(bytes.try_into().expect("because four bytes were taken"))
        }))
    }
}

impl IndexItem<'_> {
    fn number(&self, at: usize) -> u32 {
        let bytes = &self.fixed[at..at + 4];
        u32::from_be_bytes(bytes.try_into().expect("because four bytes were taken"))
    }

    /// What it is; `None` for a mode that a tree cannot hold.
    #[must_use]
    pub fn mode(&self) -> Option<TreeMode> {
        TreeMode::from_bits(self.number(24))
    }

    /// The low 32 bits of the file's size.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.number(36)
    }

    /// The object's id.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        let raw = git2::Oid::from_bytes(self.raw_oid());
        from_raw(raw.expect("because an id has as many bytes"))
    }

    fn raw_oid(&self) -> &[u8] {
        &self.fixed[STAT..self.fixed.len() - FLAGS]
    }

    /// The first bytes of the object's id, enough to tell objects apart.
    #[must_use]
    pub fn short_oid(&self) -> &[u8] {
        &self.fixed[STAT..STAT + TELLING]
    }

    /// What the entry says, without its name and its flags.
    #[must_use]
    pub fn key(&self) -> IndexKey {
        let bytes = &self.fixed[..STAT + TELLING];
        IndexKey(bytes.try_into().expect("because that many were taken"))
    }
}

/// Visits every entry in the file's order.
///
/// `None` when the file is cut, of an unknown form, or does not hold every
/// path; what was visited is then to be forgotten.
#[must_use]
pub fn read_index(
    bytes: &[u8],
    format: ObjectFormat,
    mut visit: impl FnMut(&IndexItem<'_>),
) -> Option<()> {
    let whole = STAT + format.id_length() + FLAGS;
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (version, rest) = rest.split_first_chunk::<4>()?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let version = u32::from_be_bytes(*version);
    if magic != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let mut last: Vec<u8> = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        let entry = rest;
        let (fixed, after) = rest.split_at_checked(whole)?;
        let flags = u16::from_be_bytes([fixed[whole - 2], fixed[whole - 1]]);
        let mut name = after;
        let mut more = 0;
        if flags & EXTENDED != 0 {
            let (extended, after) = name.split_first_chunk::<2>()?;
            (more, name) = (u16::from_be_bytes(*extended), after);
        }
        let path: &[u8] = if version == 4 {
            let (strip, suffix) = varint(name)?;
            let end = suffix.iter().position(|b| *b == 0)?;
            last.truncate(last.len().checked_sub(strip)?);
            last.extend_from_slice(&suffix[..end]);
            rest = &suffix[end + 1..];
            &last
        } else {
            let end = name_end(name, usize::from(flags & 0xfff))?;
            // One to eight NULs, up to a multiple of eight.
            let used = (entry.len() - name.len() + end) / 8 * 8 + 8;
            rest = entry.get(used..)?;
            &name[..end]
        };
        visit(&IndexItem {
            path,
            flag: match () {
                () if more & SKIP_WORKTREE != 0 => IndexFlag::SkipWorktree,
                () if flags & ASSUME_UNCHANGED != 0 => IndexFlag::AssumeUnchanged,
                () => IndexFlag::Plain,
            },
            stage: u8::try_from(flags >> 12 & 3).expect("because two bits were taken"),
            fixed,
        });
    }
    holds_every_path(rest, format.id_length())
}

/// Where a name ends: its length is known unless it is very long.
fn name_end(name: &[u8], length: usize) -> Option<usize> {
    if length < 0xfff && name.get(length) == Some(&0) {
        return Some(length);
    }
    name.iter().position(|b| *b == 0)
}

/// Git's number of variable length, in which each further byte adds one.
fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_usize;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        value = value << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
        value += 1;
    }
    None
}

/// Extensions in small letters change what the entries mean: `link` and
/// `sdir` are those of a split and a sparse index.
fn holds_every_path(mut rest: &[u8], checksum: usize) -> Option<()> {
    while rest.len() > checksum {
        let (name, after) = rest.split_first_chunk::<4>()?;
        let (length, after) = after.split_first_chunk::<4>()?;
        if !name[0].is_ascii_uppercase() {
            return None;
        }
        rest = after.get(usize::try_from(u32::from_be_bytes(*length)).ok()?..)?;
    }
    (rest.len() == checksum).then_some(())
}
