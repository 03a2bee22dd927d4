//! How a file is known again.
//!
//! Owns the identity of a written file (where it lies, its size, its times
//! and its mode) and the list of them. The change time cannot be set by a
//! program, so a file that still has its identity has its bytes. The list is
//! also kept beside the workspace, where the agent cannot reach it, so that a
//! later process can capture; without it every file is read.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::Error;
use super::error::file;
use crate::model::RepoPath;

const HEADER: &str = "cofferdam identities 1";

/// A file whose times lie so close to the end of the checkout could have been
/// changed within the same tick of the kernel's clock.
const RACY_NANOSECONDS: i128 = 50_000_000;

/// What is known of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: i128,
    ctime: i128,
    mode: u32,
}

impl Identity {
    /// Of what `lstat` answered.
    pub(super) fn of(metadata: &Metadata) -> Self {
        let time =
            |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            mtime: time(metadata.mtime(), metadata.mtime_nsec()),
            ctime: time(metadata.ctime(), metadata.ctime_nsec()),
            mode: metadata.mode(),
        }
    }
}

/// The files of one workspace as they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Identities {
    written: HashMap<RepoPath, Identity>,
    carried: HashMap<RepoPath, Identity>,
    ended: i128,
}

impl Identities {
    /// Notes files of the snapshot.
    pub(super) fn add_written(&mut self, files: impl IntoIterator<Item = (RepoPath, Identity)>) {
        self.written.extend(files);
    }

    /// Notes a file that was carried along.
    pub(super) fn add_carried(&mut self, path: RepoPath, identity: Identity) {
        self.carried.insert(path, identity);
    }

    /// Whether a file of the snapshot is what was written, beyond doubt.
    pub(super) fn is_unchanged(&self, path: &RepoPath, now: &Metadata) -> bool {
        self.same(self.written.get(path), now)
    }

    /// Whether a carried file is what was carried; `None` if it was not carried.
    pub(super) fn carried(&self, path: &RepoPath, now: &Metadata) -> Option<bool> {
        self.carried
            .get(path)
            .map(|identity| *identity == Identity::of(now))
    }

    /// The paths that were carried along.
    pub(super) fn carried_paths(&self) -> impl Iterator<Item = &RepoPath> {
        self.carried.keys()
    }

    fn same(&self, before: Option<&Identity>, now: &Metadata) -> bool {
        before.is_some_and(|before| {
            *before == Identity::of(now) && before.ctime < self.ended - RACY_NANOSECONDS
        })
    }

    /// Writes the list; its own change time marks the end of the checkout.
    pub(super) fn save(&mut self, path: &Path) -> Result<(), Error> {
        let failed = || file("write", path);
        let temporary = path.with_extension("new");
        let out = fs::File::create(&temporary).map_err(failed())?;
        self.ended = Identity::of(&out.metadata().map_err(failed())?).ctime;
        self.write(std::io::BufWriter::new(out)).map_err(failed())?;
        fs::rename(&temporary, path).map_err(failed())
    }

    fn write(&self, mut out: impl std::io::Write) -> std::io::Result<()> {
        write!(out, "{HEADER} {}\0", self.ended)?;
        for (kind, map) in [("w", &self.written), ("c", &self.carried)] {
            for (path, id) in map {
                write!(
                    out,
                    "{kind} {} {} {} {} {} {} ",
                    id.dev, id.ino, id.size, id.mtime, id.ctime, id.mode
                )?;
                out.write_all(path.as_bytes())?;
                out.write_all(b"\0")?;
            }
        }
        write!(out, "end\0")?;
        out.flush()
    }

    /// Reads the list; an absent or damaged one is empty, which makes a
    /// capture slower and never wrong.
    pub(super) fn load(path: &Path) -> Self {
        fs::read(path)
            .ok()
            .and_then(|bytes| parse(&bytes))
            .unwrap_or_default()
    }
}

fn parse(bytes: &[u8]) -> Option<Identities> {
    let mut records = bytes.split(|b| *b == 0);
    let header = std::str::from_utf8(records.next()?).ok()?;
    let mut found = Identities {
        ended: header.strip_prefix(HEADER)?.trim().parse().ok()?,
        ..Identities::default()
    };
    for record in records {
        if record == b"end" {
            return Some(found);
        }
        let fields: Vec<&[u8]> = record.splitn(8, |b| *b == b' ').collect();
        let [kind, numbers @ .., path] = &fields[..] else {
            return None;
        };
        let numbers: Vec<i128> = numbers
            .iter()
            .map(|field| std::str::from_utf8(field).ok()?.parse().ok())
            .collect::<Option<_>>()?;
        let [dev, ino, size, mtime, ctime, mode] = numbers[..] else {
            return None;
        };
        let identity = Identity {
            dev: dev.try_into().ok()?,
            ino: ino.try_into().ok()?,
            size: size.try_into().ok()?,
            mtime,
            ctime,
            mode: mode.try_into().ok()?,
        };
        let path = RepoPath::from_bytes(path).ok()?;
        match *kind {
            b"w" => drop(found.written.insert(path, identity)),
            b"c" => drop(found.carried.insert(path, identity)),
            _ => return None,
        }
    }
    None
}

/// Tries the parser on any bytes: what it understands is written as it was
/// read.
#[cfg(fuzzing)]
pub fn try_identities(bytes: &[u8]) {
    if let Some(list) = parse(bytes) {
        let mut again = Vec::new();
        list.write(&mut again)
            .expect("because memory takes everything");
        assert_eq!(parse(&again), Some(list));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_its_file_and_a_cut_one_is_empty() {
        let dir = tempfile::tempdir().expect("because /tmp takes a directory");
        let file = dir.path().join("identities");
        let path = RepoPath::from_bytes(b"caf\xe9 \n x/-y").expect("because it is plain");
        let metadata = fs::symlink_metadata(dir.path()).expect("because it was just made");
        let mut list = Identities::default();
        list.add_written([(path.clone(), Identity::of(&metadata))]);
        list.add_carried(path, Identity::of(&metadata));
        list.save(&file).expect("because the directory is ours");
        assert_eq!(Identities::load(&file), list);
        let bytes = fs::read(&file).expect("because it was just written");
        fs::write(&file, &bytes[..bytes.len() - 6]).expect("because it is ours");
        assert_eq!(Identities::load(&file), Identities::default());
    }
}
