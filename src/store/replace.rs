//! Replaces a whole file: before or after, never between.
//!
//! Owns the order of the five steps (temporary file beside it, write, sync,
//! rename, sync the directory) and the JSON forms of it. For files of ours
//! only: what lies in a person's tree is the business of landing.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;

/// Replaces the file at `path`, or makes it, with mode 0600.
///
/// A reader and a crash see the old bytes or the new ones. The temporary file
/// is removed when a step fails.
///
/// # Errors
/// A step failed; the old file stands.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(directory)
        .map_err(Error::io("create a file beside", path))?;
    temporary
        .write_all(bytes)
        .and_then(|()| temporary.as_file().sync_all())
        .map_err(Error::io("write", temporary.path()))?;
    temporary
        .persist(path)
        .map_err(|failed| Error::io("replace", path)(failed.error))?;
    sync_directory(directory)
}

/// Replaces the file at `path` by a value as JSON.
///
/// # Errors
/// As [`replace_file`], or the value is no JSON.
pub fn replace_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    replace_file(path, &to_json(path, value)?)
}

/// What [`replace_json`] writes to `path`.
///
/// # Errors
/// The value is no JSON.
pub fn to_json<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, Error> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|source| Error::ToJson {
        path: path.to_owned(),
        source,
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a value from a JSON file; `None` when there is no file.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let bytes = read_file(path)?;
    bytes.map(|bytes| from_json(path, &bytes)).transpose()
}

/// Reads a file; `None` when there is none.
///
/// # Errors
/// It cannot be read.
pub fn read_file(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// The value in what was read from the JSON file at `path`.
///
/// # Errors
/// It holds something else.
pub fn from_json<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })
}

/// Brings the names in a directory to the disk.
///
/// # Errors
/// It cannot be opened or synced.
pub fn sync_directory(directory: &Path) -> Result<(), Error> {
    File::open(directory)
        .and_then(|handle| handle.sync_all())
        .map_err(Error::io("sync", directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_and_reads_back_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("record.json");
        assert_eq!(
            read_json::<Vec<u8>>(&path).expect("because absence is an answer"),
            None
        );
        replace_json(&path, &vec![1_u8]).expect("because it is ours");
        replace_json(&path, &vec![2_u8, 3]).expect("because it is ours");
        let back: Option<Vec<u8>> = read_json(&path).expect("because it was written");
        assert_eq!(back, Some(vec![2, 3]));
        assert_eq!(
            fs::read_dir(dir.path()).expect("because it exists").count(),
            1
        );
    }

    #[test]
    fn a_failed_step_leaves_the_old_thing_and_no_temporary_file() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let path = dir.path().join("taken");
        fs::create_dir(&path).expect("because it is new");
        assert!(replace_file(&path, b"x").is_err());
        assert!(path.is_dir());
        assert_eq!(
            fs::read_dir(dir.path()).expect("because it exists").count(),
            1
        );
        let missing = replace_file(&dir.path().join("no/file"), b"x").expect_err("no directory");
        assert!(missing.to_string().contains("no/file"), "{missing}");
    }
}
