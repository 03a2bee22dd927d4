//! Owns every unsafe line of the crate, as small safe functions.
//!
//! Nothing here decides anything. Called by the stage and its layers only;
//! the launcher's side needs none of it.

pub(crate) mod kernel;
pub(crate) mod process;
pub(crate) mod seccomp;
