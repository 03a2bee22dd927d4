//! What a file is, in a few bytes.
//!
//! Owns the fingerprint by which a file on the disk is compared with what a
//! merge was computed from: kind, execute bit, length and a 128-bit sum of
//! the raw bytes. No filter runs. The sum tells an edit from no edit; nothing
//! is trusted because of it.

use std::io::Read as _;

use serde::{Deserialize, Serialize};

use crate::model::TreeMode;
use crate::store::{Error, Kind, Place};

/// A file or link, as compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    mode: TreeMode,
    size: u64,
    sum: [u64; 2],
}

impl Content {
    /// Of bytes that a tree holds.
    pub(super) fn of(mode: TreeMode, bytes: &[u8]) -> Self {
        let mut sum = Sum::new();
        sum.add(bytes);
        sum.finish(mode)
    }

    /// Of what stands at a place; `None` for nothing, a directory and what no
    /// tree can hold.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn at(place: &Place) -> Result<Option<Self>, Error> {
        let Some(stat) = place.stat()? else {
            return Ok(None);
        };
        match stat.kind {
            Kind::Directory | Kind::Special => Ok(None),
            Kind::Symlink => Ok(Some(Self::of(TreeMode::Symlink, &place.read_link()?))),
            Kind::File => {
                let mode = if stat.is_executable() {
                    TreeMode::Executable
                } else {
                    TreeMode::File
                };
                let mut file = place.open_file()?;
                let mut sum = Sum::new();
                let mut buffer = vec![0; 1 << 16];
                loop {
                    let count = file
                        .read(&mut buffer)
                        .map_err(Error::io("read", place.shown()))?;
                    if count == 0 {
                        return Ok(Some(sum.finish(mode)));
                    }
                    sum.add(&buffer[..count]);
                }
            }
        }
    }

    /// Whether exactly this stands at a place.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn stands_at(&self, place: &Place) -> Result<bool, Error> {
        Ok(Self::at(place)?.as_ref() == Some(self))
    }
}

/// FNV-1a with 128 bits: short, and the same in every version of the program.
struct Sum {
    state: u128,
    size: u64,
}

impl Sum {
    fn new() -> Self {
        Self {
            state: 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d,
            size: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.state ^= u128::from(*byte);
            self.state = self
                .state
                .wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        self.size += bytes.len() as u64;
    }

    fn finish(self, mode: TreeMode) -> Content {
        let bytes = self.state.to_be_bytes();
        let half = |from: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&bytes[from..from + 8]);
            u64::from_be_bytes(half)
        };
        Content {
            mode,
            size: self.size,
            sum: [half(0), half(8)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_fnv_1a() {
        let content = Content::of(TreeMode::File, b"a");
        assert_eq!(content.sum, [0xd228_cb69_6f1a_8caf, 0x7891_2b70_4e4a_8964]);
        assert_ne!(content, Content::of(TreeMode::Executable, b"a"));
        assert_ne!(content, Content::of(TreeMode::File, b"b"));
    }
}
