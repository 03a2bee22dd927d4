//! Whether what a ref pins is all there.
//!
//! Owns one question. Objects are written before a ref names them, and a
//! person who prunes in between takes them away: a ref to what is not there
//! would look like kept work.

use super::{Error, Objects};
use crate::model::{ObjectId, TreeMode};

impl Objects {
    /// Whether everything that a commit's tree holds beyond a base tree is
    /// there. Costs what differs.
    ///
    /// Ask it of a fresh handle: one that wrote the objects remembers them.
    ///
    /// # Errors
    /// The base cannot be read.
    pub fn is_whole(&self, commit: &ObjectId, base: &ObjectId) -> Result<bool, Error> {
        let Ok(tree) = self.tree_of(commit) else {
            return Ok(false);
        };
        // A tree that is missing on the way is the answer, not an error; that
        // the base can be read is known from its own tree.
        self.raw_tree(self.to_raw(base)?)?;
        let Ok(differences) = self.differences(base, &tree) else {
            return Ok(false);
        };
        let odb = self.odb()?;
        let is_there = |(mode, oid): &(TreeMode, ObjectId)| {
            *mode == TreeMode::Gitlink || self.to_raw(oid).is_ok_and(|oid| odb.exists(oid))
        };
        Ok(differences
            .iter()
            .filter_map(|one| one.new.as_ref())
            .all(is_there))
    }
}
