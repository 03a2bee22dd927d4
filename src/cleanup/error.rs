//! What can go wrong while a footprint is kept.
//!
//! A failing undo is not an error but a [`crate::model::LeftOver`]: the rest
//! is still undone, and the report names what stayed.

use std::io;
use std::path::PathBuf;

use crate::{git, store, workspace};

/// The footprint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its journal could not be written or read.
    #[error("keep the journal of the run")]
    Journal(#[from] store::Error),
    /// The repository could not be asked or told.
    #[error("pin work in the repository")]
    Git(#[source] git::Error),
    /// Somebody prunes objects as fast as they are written.
    #[error("pin work under `{reference}`: its objects vanish; end what prunes the repository")]
    Vanishing {
        /// The ref.
        reference: String,
    },
    /// A directory could not be deleted whole.
    #[error("empty a directory of ours")]
    Workspace(#[from] workspace::Error),
    /// A directory could not be moved away.
    #[error("remove `{path}`")]
    Remove {
        /// Which directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
