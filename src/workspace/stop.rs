//! Whether what is being made is still wanted.
//!
//! Owns the one question that long work asks again and again: a whole checkout
//! takes a while, and so may whoever makes one first. Who answers it, and from
//! what, is the caller's business.

use std::fmt;

use super::Error;

/// Asked between files and while waiting; once it says so nothing more is made.
#[derive(Clone, Copy)]
pub struct Stop<'a>(&'a (dyn Fn() -> bool + Sync));

impl<'a> Stop<'a> {
    /// What is made is wanted, however long it takes.
    pub const NEVER: Stop<'static> = Stop(&|| false);

    /// Stops once `stopped` says so; it is asked often, and by many threads.
    pub fn when(stopped: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self(stopped)
    }

    /// Goes on, or not.
    ///
    /// # Errors
    /// [`Error::Stopped`] once it is no longer wanted.
    pub fn check(self) -> Result<(), Error> {
        match (self.0)() {
            true => Err(Error::Stopped),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Stop<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Stop")
    }
}
