//! Refs: made, moved and removed only if they stand where they should.
//!
//! Owns every change of a ref, through `git update-ref`, so that every ref
//! storage works and each batch happens whole or not at all. Which names are
//! ours is decided elsewhere.

use super::{Error, Repository};
use crate::model::ObjectId;

impl Repository {
    /// Makes a ref that must not exist yet.
    ///
    /// # Errors
    /// [`Error::RefExists`], or git could not write it.
    pub fn create_ref(&self, name: &str, oid: &ObjectId) -> Result<(), Error> {
        self.update(&[name], format!("create {name}\0{oid}\0"))
    }

    /// Moves a ref that must stand at `old`.
    ///
    /// # Errors
    /// It stands elsewhere, or git could not write it.
    pub fn move_ref(&self, name: &str, old: &ObjectId, new: &ObjectId) -> Result<(), Error> {
        self.update(&[name], format!("update {name}\0{new}\0{old}\0"))
    }

    /// Removes a ref that must stand at `old`; one that is absent is fine.
    ///
    /// # Errors
    /// It stands elsewhere, or git could not write it.
    pub fn delete_ref(&self, name: &str, old: &ObjectId) -> Result<(), Error> {
        self.delete_refs(&[(name.to_owned(), old.clone())])
    }

    /// Removes refs that must stand where they are said to; absent ones are
    /// fine, all others go together or not at all.
    ///
    /// # Errors
    /// One stands elsewhere, or git could not write.
    pub fn delete_refs(&self, refs: &[(String, ObjectId)]) -> Result<(), Error> {
        let standing = self.standing(refs.iter().map(|(name, _)| name.as_str()))?;
        let mut lines = String::new();
        let mut names = Vec::new();
        for (name, old) in refs {
            if standing.iter().any(|(there, _)| there == name) {
                lines.push_str(&["delete ", name, "\0", old.as_str(), "\0"].concat());
                names.push(name.as_str());
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        self.update(&names, lines)
    }

    /// Every ref beneath a prefix, sorted by name.
    ///
    /// # Errors
    /// Git could not be run.
    pub fn refs_under(&self, prefix: &str) -> Result<Vec<(String, ObjectId)>, Error> {
        self.standing([prefix].into_iter())
    }

    pub(super) fn standing<'a>(
        &self,
        patterns: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<(String, ObjectId)>, Error> {
        let output = self
            .call()
            .args(["for-each-ref", "--format=%(objectname) %(refname)"])
            .args(patterns)
            .output()?;
        String::from_utf8_lossy(&output)
            .lines()
            .map(|line| {
                let malformed = || Error::Malformed {
                    what: format!("the ref `{line}`"),
                };
                let (oid, name) = line.split_once(' ').ok_or_else(malformed)?;
                Ok((name.to_owned(), oid.parse().map_err(|_| malformed())?))
            })
            .collect()
    }

    fn update(&self, names: &[&str], lines: String) -> Result<(), Error> {
        let result = self
            .call()
            // Many agents end at once; each waits for the other's lock file.
            .args(["-c", "core.filesRefLockTimeout=20000"])
            .args(["-c", "core.packedRefsTimeout=20000"])
            // Whoever made it gives up what it has of the work elsewhere.
            .args(["-c", "core.fsync=reference"])
            .args(["update-ref", "--no-deref", "--stdin", "-z"])
            .input(lines.clone().into_bytes())
            .output();
        let Err(failure) = result else {
            return Ok(());
        };
        // Which of them is not where it should be is asked afterwards: the
        // reason that git prints is meant for people.
        let standing = self.standing(names.iter().copied())?;
        for name in names {
            let found = standing.iter().find(|(there, _)| there == name);
            let value = found.map_or("nothing", |(_, oid)| oid.as_str());
            let expected = lines
                .split_once(&format!(" {name}\0"))
                .and_then(|(_, rest)| rest.split('\0').nth(usize::from(lines.starts_with('u'))));
            let creating = lines.starts_with('c');
            if creating && found.is_some() {
                return Err(Error::RefExists {
                    name: (*name).to_owned(),
                });
            }
            if !creating && expected != Some(value) {
                return Err(Error::RefMoved {
                    name: (*name).to_owned(),
                    found: value.to_owned(),
                });
            }
        }
        Err(failure)
    }
}
