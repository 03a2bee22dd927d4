//! Where tests let a landing fail.
//!
//! Owns the points between any two effects. In the program nobody watches;
//! a test returns a fault at a point, or edits a file there.

use crate::integration::Error;

/// A point between two effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::integration) enum Point {
    /// The staging directory is made.
    Opened,
    /// A slot was filled.
    Staged(u32),
    /// The journal holds every step.
    Journalled,
    /// Everything was as expected.
    Preflighted,
    /// The journal says so.
    Committed,
    /// Before this step.
    Before(u32),
    /// The step's rename has happened, and nothing was looked at yet.
    Renamed(u32),
    /// Every step is done.
    Written,
    /// The names are on the disk.
    Synced,
    /// The caller was told, and the journal still stands.
    Told,
    /// Before this step is put back.
    Back(u32),
    /// The journal is removed.
    Closed,
}

/// What a test makes of a point; nothing can be made of one in the program.
#[derive(Debug)]
pub(in crate::integration) enum Fault {
    /// The operation fails as on a full disk.
    #[cfg(test)]
    Fail,
    /// The process dies: nothing is put back.
    #[cfg(test)]
    Die,
}

/// Looks on.
pub(in crate::integration) trait Watch {
    /// Is told of a point.
    fn at(&self, point: Point) -> Result<(), Fault>;
}

/// Nobody looks on.
pub(in crate::integration) struct Unwatched;

impl Watch for Unwatched {
    fn at(&self, _: Point) -> Result<(), Fault> {
        Ok(())
    }
}

/// Tells the watcher, and turns a fault into the error it stands for.
pub(super) fn tell(watch: &dyn Watch, point: Point) -> Result<(), Error> {
    watch.at(point).map_err(|fault| match fault {
        #[cfg(test)]
        Fault::Fail => Error::Land {
            tree: std::path::PathBuf::from("a test"),
            source: crate::store::Error::full_disk(),
        },
        #[cfg(test)]
        Fault::Die => Error::Died,
    })
}
