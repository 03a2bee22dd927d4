//! The file of events.
//!
//! A line is written with one `write` in append mode, which the kernel orders
//! under the file's own lock: concurrent launchers never mix their lines, and
//! one that is stopped holds up nobody. A torn last line, which only a power
//! failure or a full disk leaves, is skipped when reading.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use crate::model::Event;

/// The trail could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be opened, written or read.
    #[error("use the audit log `{path}`")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Appends events.
#[derive(Debug)]
pub struct Trail {
    path: PathBuf,
    file: File,
}

impl Trail {
    /// Opens the trail, making the file if it is missing.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|source| Error::File {
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Appends one event.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, event: &Event) -> Result<(), Error> {
        let failed = |source| Error::File {
            path: self.path.clone(),
            source,
        };
        let mut line =
            serde_json::to_vec(event).expect("because an event holds only text, numbers and JSON");
        line.push(b'\n');
        self.file.write_all(&line).map_err(failed)
    }
}

/// Reads every event of the trail, oldest first; none when there is no file.
///
/// # Errors
/// The file is there and cannot be read.
pub fn load_events(path: &Path) -> Result<Vec<Event>, Error> {
    let failed = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut events = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        if let Ok(event) = serde_json::from_slice(&line.map_err(failed)?) {
            events.push(event);
        }
    }
    Ok(events)
}
