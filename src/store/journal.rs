//! An append-only file of checksummed JSON lines.
//!
//! Owns the form of a line and what a damaged file means: a torn last line
//! was never written, a damaged line before others is an error, since what
//! follows it may depend on it. What the entries say is their owner's
//! business. The clean-up and landing write intent here before each effect.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Error, sync_directory};

/// Whether an entry must be on the disk before the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// It must, with everything before it.
    Now,
    /// The next `Now` takes it along.
    Later,
}

/// A journal that is open for appending.
#[derive(Debug)]
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    entries: PhantomData<fn(&T)>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Makes a new journal; its name is on the disk when this returns.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(Error::io("create", path))?;
        Self::named(path, file)
    }

    /// Makes a journal without entries in place of any that was there.
    ///
    /// # Errors
    /// It cannot be made or emptied.
    pub fn afresh(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(Error::io("create", path))?;
        file.set_len(0).map_err(Error::io("shorten", path))?;
        Self::named(path, file)
    }

    fn named(path: &Path, file: File) -> Result<Self, Error> {
        if let Some(directory) = path.parent() {
            sync_directory(directory)?;
        }
        Ok(Self::over(path, file))
    }

    /// Opens a journal to go on with it; a torn last line is cut off first.
    ///
    /// # Errors
    /// It is missing, damaged before its end, or cannot be written.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (_, valid) = scan::<T>(path)?;
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .map_err(Error::io("open", path))?;
        file.set_len(valid).map_err(Error::io("shorten", path))?;
        Ok(Self::over(path, file))
    }

    fn over(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            file,
            entries: PhantomData,
        }
    }

    /// Appends one entry, in one write.
    ///
    /// # Errors
    /// It cannot be written or synced; then it may or may not be there.
    pub fn append(&mut self, entry: &T, sync: Sync) -> Result<(), Error> {
        let json = serde_json::to_string(entry).map_err(|source| Error::ToJson {
            path: self.path.clone(),
            source,
        })?;
        let line = format!("{:08x} {json}\n", checksum(json.as_bytes()));
        self.file
            .write_all(line.as_bytes())
            .map_err(Error::io("append to", &self.path))?;
        match sync {
            Sync::Now => self.sync(),
            Sync::Later => Ok(()),
        }
    }

    /// Brings every entry so far to the disk.
    ///
    /// # Errors
    /// It cannot be synced.
    pub fn sync(&mut self) -> Result<(), Error> {
        let synced = self.file.sync_data();
        synced.map_err(Error::io("sync", &self.path))
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads the entries of a journal up to a torn last line.
///
/// # Errors
/// It cannot be read, a line before the last one is damaged, or a whole line
/// has another form than `T`.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    scan(path).map(|(entries, _)| entries)
}

/// Reads the entries of a journal up to whatever cannot be read, and whether
/// that is its end.
///
/// For journals of which every beginning is true.
///
/// # Errors
/// The file cannot be read.
pub fn read_prefix<T: DeserializeOwned>(path: &Path) -> Result<(Vec<T>, bool), Error> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let mut entries = Vec::new();
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        match payload(line).map(serde_json::from_slice) {
            Some(Ok(entry)) => entries.push(entry),
            Some(Err(_)) | None => return Ok((entries, false)),
        }
    }
    Ok((entries, true))
}

/// Reads the first entry of a journal, whatever follows it; `None` when it
/// has none yet.
///
/// # Errors
/// It cannot be read, or its first line is damaged or has another form than
/// `T`.
pub fn read_first<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    lines
        .read_until(b'\n', &mut line)
        .map_err(Error::io("read", path))?;
    let Some(json) = payload(&line) else {
        let rest = lines.fill_buf().map_err(Error::io("read", path))?;
        return if rest.is_empty() {
            Ok(None)
        } else {
            Err(Error::Damaged {
                path: path.to_owned(),
                line: 1,
            })
        };
    };
    let entry = serde_json::from_slice(json).map_err(|source| Error::Foreign {
        path: path.to_owned(),
        line: 1,
        source,
    })?;
    Ok(Some(entry))
}

/// The entries, and how many bytes of the file they fill.
fn scan<T: DeserializeOwned>(path: &Path) -> Result<(Vec<T>, u64), Error> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let mut entries = Vec::new();
    let mut valid = 0_usize;
    for (index, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let end = valid + line.len();
        let Some(json) = payload(line) else {
            if end == bytes.len() {
                break;
            }
            return Err(Error::Damaged {
                path: path.to_owned(),
                line: index + 1,
            });
        };
        let entry = serde_json::from_slice(json).map_err(|source| Error::Foreign {
            path: path.to_owned(),
            line: index + 1,
            source,
        })?;
        entries.push(entry);
        valid = end;
    }
    let length = u64::try_from(valid)
        .map_err(|_| Error::io("read", path)(io::Error::from(io::ErrorKind::FileTooLarge)))?;
    Ok((entries, length))
}

/// The JSON of a whole line; `None` for a torn or damaged one.
fn payload(line: &[u8]) -> Option<&[u8]> {
    let (sum, json) = line.strip_suffix(b"\n")?.split_at_checked(9)?;
    let digits = std::str::from_utf8(sum.strip_suffix(b" ")?).ok()?;
    let expected = u32::from_str_radix(digits, 16).ok()?;
    (checksum(json) == expected).then_some(json)
}

/// CRC-32 as in zip and Ethernet: finds every torn or flipped short stretch.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(path: &Path) -> Vec<String> {
        let entries: Vec<String> = ["one", "two\nlines", "three"].map(String::from).into();
        let mut journal = Journal::create(path).expect("because it is new");
        for entry in &entries {
            journal
                .append(entry, Sync::Now)
                .expect("because it is ours");
        }
        entries
    }

    #[test]
    fn the_first_entry_is_read_whatever_follows_it() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("journal");
        let entries = three(&path);
        let whole = std::fs::read(&path).expect("because it was just written");
        let first = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("because it is ours");
            read_first::<String>(&path)
        };
        let mut damaged = whole.clone();
        damaged[40] ^= 1;
        for bytes in [&whole, &damaged] {
            let found = first(bytes).expect("because its first line is whole");
            assert_eq!(found.as_ref(), entries.first());
        }
        assert!(matches!(first(b""), Ok(None)));
        assert!(matches!(first(&whole[..10]), Ok(None)));
        damaged[3] ^= 1;
        assert!(matches!(
            first(&damaged),
            Err(Error::Damaged { line: 1, .. })
        ));
    }

    #[test]
    fn the_checksum_is_crc_32() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn every_prefix_of_the_file_reads_as_a_prefix_of_the_entries() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("journal");
        let entries = three(&path);
        let whole = std::fs::read(&path).expect("because it was written");
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("because it is ours");
            let lines = whole[..cut].iter().filter(|b| **b == b'\n').count();
            let read: Vec<String> = read(&path).expect("because a torn tail is no damage");
            assert_eq!(read, entries[..lines], "cut at {cut}");
            let mut journal = Journal::open(&path).expect("because a torn tail is cut off");
            journal
                .append(&"next".to_owned(), Sync::Later)
                .expect("because it is ours");
            let again: Vec<String> = super::read(&path).expect("because it was repaired");
            assert_eq!(again.len(), lines + 1, "cut at {cut}");
            assert_eq!(again.last().map(String::as_str), Some("next"));
        }
    }

    #[test]
    fn a_flipped_bit_before_the_last_line_is_an_error_that_names_the_line() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("journal");
        three(&path);
        let whole = std::fs::read(&path).expect("because it was written");
        let second = whole
            .iter()
            .position(|b| *b == b'\n')
            .expect("because it has lines")
            + 1;
        let third = second
            + whole[second..]
                .iter()
                .position(|b| *b == b'\n')
                .expect("because it has lines")
            + 1;
        for at in second..third - 1 {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            std::fs::write(&path, &broken).expect("because it is ours");
            let answer = read::<String>(&path);
            assert!(
                matches!(answer, Err(Error::Damaged { line: 2, .. })),
                "{at}: {answer:?}"
            );
        }
    }

    #[test]
    fn an_existing_journal_is_not_overwritten() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("journal");
        three(&path);
        assert!(Journal::<String>::create(&path).is_err());
    }
}
