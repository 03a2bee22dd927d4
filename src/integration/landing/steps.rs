//! One step of a landing, forward or back.
//!
//! Owns the renames. Each direction finds out by itself whether its effect has
//! happened, from what lies in the slot, so both can be repeated from any
//! state that a crash leaves. After each rename the thing that was taken away
//! is looked at: if it is not what was expected, somebody wrote between the
//! preflight and the rename, and it goes back at once.

use super::content::Content;
use super::lines::{Act, Step};
use super::watch::{Point, Watch, tell};
use crate::integration::Error;
use crate::model::RepoPath;
use crate::store::{self, Kind, Place, Root, Stat};

/// How a step forward ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forward {
    /// It is done, now or before.
    Done,
    /// The path is not as expected; it was left as it is.
    Moved,
}

/// How a step back ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Back {
    /// The old state stands, now or already.
    Done,
    /// Somebody changed the path since it landed: theirs stands, and the old
    /// thing stays in its slot.
    Kept,
}

/// The two ends of one step forward.
struct Sides {
    number: u32,
    slot: Place,
    /// `None` where the path cannot be reached.
    target: Option<Place>,
}

/// The writer.
pub(super) struct Writer<'a> {
    pub(super) root: &'a Root,
    pub(super) staging: &'a Root,
    pub(super) watch: &'a dyn Watch,
}

impl Writer<'_> {
    /// Does one step.
    ///
    /// Whether it is done already is asked of the slot alone: a later step
    /// may have put a file where this one's directory was.
    pub(super) fn forward(&self, step: &Step, path: &RepoPath) -> Result<Forward, Error> {
        tell(self.watch, Point::Before(step.slot))?;
        let sides = Sides {
            number: step.slot,
            slot: self.slot(step)?,
            target: self.ok(self.root.place(path))?,
        };
        match &step.act {
            Act::Delete { old } => self.delete(old, &sides),
            Act::Create { .. } => self.create(&sides),
            Act::Replace { old, inode, .. } => self.replace(old, *inode, &sides),
            Act::RemoveDirectory { .. } => {
                // One that is not empty holds what the landing has no business
                // with; a file that needs its name will find it taken.
                if let Some(target) = &sides.target {
                    self.ok(target.remove_directory())?;
                }
                Ok(Forward::Done)
            }
            Act::MakeDirectory => {
                let Some(target) = &sides.target else {
                    return Ok(Forward::Moved);
                };
                self.ok(target.make_directory(0o777))?;
                let stands = self.ok(target.stat())?;
                let is_directory = stands.is_some_and(|stat| stat.kind == Kind::Directory);
                Ok(if is_directory {
                    Forward::Done
                } else {
                    Forward::Moved
                })
            }
        }
    }

    fn delete(&self, old: &Content, sides: &Sides) -> Result<Forward, Error> {
        if self.ok(sides.slot.stat())?.is_none() {
            let moved = match &sides.target {
                Some(target) => self.ok(target.move_to(&sides.slot))?,
                None => store::Step::Missing,
            };
            match moved {
                store::Step::Done => tell(self.watch, Point::Renamed(sides.number))?,
                store::Step::Taken | store::Step::Missing => return Ok(Forward::Moved),
            }
        }
        if self.ok(old.stands_at(&sides.slot))? {
            return Ok(Forward::Done);
        }
        // A name that was taken meanwhile leaves the edit in the slot, where
        // the way back finds and keeps it.
        if let Some(target) = &sides.target {
            self.ok(sides.slot.move_to(target))?;
        }
        Ok(Forward::Moved)
    }

    fn create(&self, sides: &Sides) -> Result<Forward, Error> {
        if self.ok(sides.slot.stat())?.is_none() {
            return Ok(Forward::Done);
        }
        let Some(target) = &sides.target else {
            return Ok(Forward::Moved);
        };
        match self.ok(sides.slot.move_to(target))? {
            store::Step::Done => {
                tell(self.watch, Point::Renamed(sides.number))?;
                Ok(Forward::Done)
            }
            store::Step::Taken | store::Step::Missing => Ok(Forward::Moved),
        }
    }

    fn replace(&self, old: &Content, inode: u64, sides: &Sides) -> Result<Forward, Error> {
        let slot = &sides.slot;
        if is_inode(self.ok(slot.stat())?, inode) {
            let exchanged = match &sides.target {
                Some(target) => self.ok(slot.exchange(target))?,
                None => store::Step::Missing,
            };
            match exchanged {
                store::Step::Done => tell(self.watch, Point::Renamed(sides.number))?,
                store::Step::Taken | store::Step::Missing => return Ok(Forward::Moved),
            }
        }
        if self.ok(old.stands_at(slot))? {
            return Ok(Forward::Done);
        }
        let Some(target) = &sides.target else {
            return Ok(Forward::Moved);
        };
        match self.ok(slot.exchange(target))? {
            store::Step::Done | store::Step::Taken | store::Step::Missing => {}
        }
        if !is_inode(self.ok(slot.stat())?, inode) {
            // Between the two exchanges an editor saved by renaming over our
            // file: what came out is the newest text, and goes back in.
            self.ok(slot.exchange(target))?;
        }
        Ok(Forward::Moved)
    }

    /// Puts one step back.
    pub(super) fn back(&self, step: &Step, path: &RepoPath) -> Result<Back, Error> {
        tell(self.watch, Point::Back(step.slot))?;
        let slot = self.slot(step)?;
        let Some(target) = self.ok(self.root.place(path))? else {
            let lies = self.ok(slot.stat())?;
            return Ok(match &step.act {
                Act::Delete { .. } if lies.is_some() => Back::Kept,
                Act::Replace { inode, .. } if !is_inode(lies, *inode) => Back::Kept,
                Act::Delete { .. }
                | Act::Replace { .. }
                | Act::Create { .. }
                | Act::RemoveDirectory { .. }
                | Act::MakeDirectory => Back::Done,
            });
        };
        match &step.act {
            Act::Delete { .. } => {
                if self.ok(slot.stat())?.is_none() {
                    return Ok(Back::Done);
                }
                match self.ok(slot.move_to(&target))? {
                    store::Step::Done => Ok(Back::Done),
                    store::Step::Taken | store::Step::Missing => Ok(Back::Kept),
                }
            }
            Act::Create { new } => self.uncreate(new, &slot, &target),
            Act::Replace { new, inode, .. } => self.unreplace((new, *inode), &slot, &target),
            Act::RemoveDirectory { mode } => {
                self.ok(target.make_directory_exactly(*mode))?;
                Ok(Back::Done)
            }
            Act::MakeDirectory => {
                self.ok(target.remove_directory())?;
                Ok(Back::Done)
            }
        }
    }

    fn uncreate(&self, new: &Content, slot: &Place, target: &Place) -> Result<Back, Error> {
        if self.ok(slot.stat())?.is_some() {
            return Ok(Back::Done);
        }
        match self.ok(target.move_to(slot))? {
            store::Step::Done => {}
            store::Step::Taken | store::Step::Missing => return Ok(Back::Done),
        }
        if self.ok(new.stands_at(slot))? {
            return Ok(Back::Done);
        }
        self.ok(slot.move_to(target))?;
        Ok(Back::Kept)
    }

    fn unreplace(
        &self,
        (new, inode): (&Content, u64),
        slot: &Place,
        target: &Place,
    ) -> Result<Back, Error> {
        if is_inode(self.ok(slot.stat())?, inode) {
            return Ok(Back::Done);
        }
        match self.ok(slot.exchange(target))? {
            store::Step::Done => {}
            store::Step::Taken | store::Step::Missing => return Ok(Back::Kept),
        }
        let is_ours = is_inode(self.ok(slot.stat())?, inode) && self.ok(new.stands_at(slot))?;
        if is_ours {
            return Ok(Back::Done);
        }
        self.ok(slot.exchange(target))?;
        Ok(Back::Kept)
    }

    /// What lies in the slot of a step that took something away.
    pub(super) fn backup(&self, step: &Step) -> Result<Option<Stat>, Error> {
        match step.act {
            Act::Delete { .. } | Act::Replace { .. } => {
                self.ok(self.staging.stat(&step.slot_name()))
            }
            Act::Create { .. } | Act::MakeDirectory | Act::RemoveDirectory { .. } => Ok(None),
        }
    }

    fn slot(&self, step: &Step) -> Result<Place, Error> {
        self.ok(self.staging.make_place(&step.slot_name()))
    }

    fn ok<T>(&self, result: Result<T, store::Error>) -> Result<T, Error> {
        result.map_err(|source| Error::Land {
            tree: self.root.path().to_owned(),
            source,
        })
    }
}

fn is_inode(stat: Option<Stat>, inode: u64) -> bool {
    stat.is_some_and(|stat| stat.inode == inode)
}
