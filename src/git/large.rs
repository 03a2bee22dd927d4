//! Blobs that are written to files.
//!
//! Owns getting a blob's bytes into an open file in bounded memory: small ones
//! from memory, large ones through git, which streams them from wherever they
//! are stored. Byte for byte: no filter and no configuration takes part.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use git2::ObjectType;

use super::{Configuration, Error, Objects};
use crate::model::ObjectId;

/// Blobs up to this size are held in memory.
const IN_MEMORY: u64 = 16 << 20;

impl Objects {
    /// Writes a blob's bytes to an empty file; `shown` is its name.
    ///
    /// `size` is the blob's size where that is known.
    ///
    /// # Errors
    /// It is missing, damaged or no blob; or the file takes no more.
    pub fn copy_blob(
        &self,
        oid: &ObjectId,
        size: Option<u64>,
        (out, shown): (&mut File, &Path),
    ) -> Result<(), Error> {
        // A hint that the blob is small costs no second look at the object.
        let size = match size {
            Some(size) if size <= IN_MEMORY => size,
            Some(_) | None => self.blob_size(oid)?,
        };
        if size <= IN_MEMORY {
            return self
                .with_bytes(self.to_raw(oid)?, ObjectType::Blob, |bytes| {
                    out.write_all(bytes)
                })?
                .map_err(Error::file("write", shown));
        }
        let same = out.try_clone().map_err(Error::file("write", shown))?;
        self.git
            .at(&self.handle, Configuration::Hermetic)
            // What is stored whole is streamed from this size on.
            .args(["-c", "core.bigFileThreshold=1m"])
            .args(["cat-file", "blob", oid.as_str()])
            .output_to(same)?;
        let written = out.metadata().map_err(Error::file("write", shown))?.len();
        if written == size {
            return Ok(());
        }
        Err(Error::Malformed {
            what: format!("the blob {oid}"),
        })
    }
}
