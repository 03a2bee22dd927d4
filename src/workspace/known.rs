//! What earlier snapshots learnt of the index's entries.
//!
//! Owns one file beside the handle of the repository's objects: which pairs
//! of blob and size belong together, and what the bytes on disk of a file are
//! whose blob is something else. Both follow from the entry alone, so nothing
//! ever makes an answer wrong; a lost or damaged file costs the time to learn
//! it again. Called by `converted`.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use crate::git::{IndexItem, IndexKey, Repository};
use crate::model::ObjectId;

const MAGIC: &[u8; 24] = b"cofferdam known index 2\n";

/// The first bytes of a blob's id and the low bits of a size.
type Pair = [u8; 24];

/// Hexadecimal digits of the longest id.
const LONGEST_ID: usize = 64;
/// An entry that `git` vouches for, and the blob of the bytes on disk.
const RAW: usize = 60 + LONGEST_ID;

/// The file, read.
pub(super) struct Known {
    path: PathBuf,
    pairs: Vec<Pair>,
    raw: HashMap<IndexKey, ObjectId>,
}

/// The pairs that were asked for, in the index's order, which is mostly the
/// order in which they were written down.
pub(super) struct Matching<'a> {
    pairs: &'a [Pair],
    at: usize,
    places: Option<HashMap<&'a Pair, usize>>,
}

pub(super) fn pair(item: &IndexItem<'_>) -> Pair {
    let mut pair = [0; 24];
    pair[..20].copy_from_slice(item.short_oid());
    pair[20..].copy_from_slice(&item.size().to_be_bytes());
    pair
}

impl Known {
    pub(super) fn load(repo: &Repository) -> Self {
        let path = repo.beside_handle("known");
        let bytes = fs::read(&path).unwrap_or_default();
        let (pairs, raw) = parse(&bytes).unwrap_or_default();
        Self { path, pairs, raw }
    }

    pub(super) fn matching(&self) -> Matching<'_> {
        Matching {
            pairs: &self.pairs,
            at: 0,
            places: None,
        }
    }

    pub(super) fn raw(&self, key: &IndexKey) -> Option<ObjectId> {
        self.raw.get(key).cloned()
    }

    /// Writes down what holds now, if it is not what was read.
    ///
    /// A failure is no failure: the next snapshot looks again.
    pub(super) fn replace(&self, pairs: &[Pair], raw: &HashMap<IndexKey, ObjectId>) {
        if self.pairs == pairs && self.raw == *raw {
            return;
        }
        if let Err(error) = self.write(pairs, raw) {
            tracing::debug!(%error, path = %self.path.display(), "what the snapshot learnt is not kept");
        }
    }

    fn write(&self, pairs: &[Pair], raw: &HashMap<IndexKey, ObjectId>) -> std::io::Result<()> {
        let directory = self.path.parent().unwrap_or(&self.path);
        fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(pairs.len() as u64).to_be_bytes());
        bytes.extend_from_slice(pairs.as_flattened());
        for (key, oid) in raw {
            bytes.extend_from_slice(key.bytes());
            // One of a shorter hash is filled up with line ends.
            let end = bytes.len() + LONGEST_ID;
            bytes.extend_from_slice(oid.as_str().as_bytes());
            bytes.resize(end, b'\n');
        }
        file.write_all(&bytes)?;
        file.persist(&self.path)?;
        Ok(())
    }
}

impl Matching<'_> {
    /// Whether a blob is known to have a size.
    pub(super) fn holds(&mut self, pair: &Pair) -> bool {
        const NEAR: usize = 16;
        let pairs = self.pairs;
        let rest = &pairs[self.at..];
        if let Some(ahead) = rest.iter().take(NEAR).position(|one| one == pair) {
            self.at += ahead + 1;
            return true;
        }
        let places = self
            .places
            .get_or_insert_with(|| pairs.iter().zip(0..).collect());
        match places.get(pair) {
            Some(place) => {
                self.at = place + 1;
                true
            }
            None => false,
        }
    }
}

type Parsed = (Vec<Pair>, HashMap<IndexKey, ObjectId>);

fn parse(bytes: &[u8]) -> Option<Parsed> {
    let bytes = bytes.strip_prefix(MAGIC)?;
    let (count, bytes) = bytes.split_first_chunk::<8>()?;
    let count = usize::try_from(u64::from_be_bytes(*count)).ok()?;
    let (pairs, raw) = bytes.split_at_checked(count.checked_mul(size_of::<Pair>())?)?;
    let (records, rest) = raw.as_chunks::<RAW>();
    let raw = records
        .iter()
        .map(|record| {
            let (key, oid) = record.split_first_chunk()?;
            let oid = std::str::from_utf8(oid).ok()?.trim_end().parse().ok()?;
            Some((IndexKey::from_bytes(*key), oid))
        })
        .collect::<Option<_>>()?;
    rest.is_empty().then(|| (pairs.as_chunks().0.to_vec(), raw))
}
