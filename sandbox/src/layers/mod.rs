//! Owns the layers: one file each, one shape.
//!
//! Each has a function `apply` that does its part to the calling process and
//! returns the [`Status`](crate::enforcement::Status) it achieved. To add one:
//! write its file, add it to [`Layer`](crate::policy::Layer), call it from
//! `stage`. What the kernel lacks is a status; an error means that something
//! that should work did not, and nothing may be started.

pub(crate) mod capabilities;
pub(crate) mod descriptors;
mod devices;
pub(crate) mod landlock;
pub(crate) mod limits;
pub(crate) mod merging;
pub(crate) mod mounts;
pub(crate) mod namespaces;
pub(crate) mod overlay;
pub(crate) mod plan;
pub(crate) mod seccomp;

use crate::policy::PolicyError;

/// Why a layer could not do its part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayerError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("{what}: {reason}")]
    Step { what: String, reason: String },
}

impl LayerError {
    /// Names the step that an error comes from.
    pub(crate) fn step<E: std::fmt::Display>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Step {
            what,
            reason: source.to_string(),
        }
    }
}
