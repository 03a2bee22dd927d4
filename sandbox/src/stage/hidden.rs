//! Owns what the paths out of reach were before there was a view.
//!
//! A path that shows something else inside, or nothing, is hidden. Looked at
//! by the helper first of all, with the launcher's own rights; nothing is
//! opened, so nothing can be handed on.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, statat};

use crate::policy::HostPath;

/// What stands at a path: a device and the number of a file on it.
type Identity = (u64, u64);

/// What stood at each path; those at which nothing stood are left out.
#[derive(Debug, Default)]
pub(super) struct Hidden(BTreeMap<HostPath, Identity>);

impl Hidden {
    /// Looks at each path.
    pub(super) fn of(paths: &[HostPath]) -> Self {
        let found = paths.iter();
        Self(
            found
                .filter_map(|path| Some((path.clone(), look(path)?)))
                .collect(),
        )
    }

    /// Whether the same still stands at a path.
    pub(super) fn still(&self, path: &HostPath) -> bool {
        let before = self.0.get(path);
        before.is_some() && before.copied() == look(path)
    }

    /// Whether all of it is gone from where it was; not if there was nothing.
    pub(super) fn complete(&self) -> bool {
        !self.0.is_empty() && self.0.keys().all(|path| !self.still(path))
    }
}

fn look(path: &Path) -> Option<Identity> {
    let facts = statat(CWD, path, AtFlags::empty()).ok()?;
    Some((facts.st_dev, facts.st_ino))
}
