//! Owns what is wrong with a policy, and finds what its shape alone tells.
//!
//! Called by the launcher before anything is started. What only the file
//! system tells is found by the stage and named with the same errors.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Component;

use serde::{Deserialize, Serialize};

use super::{Access, HostPath, Layer, Mount, Network, Policy, ViewMode};

/// What is wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PolicyError {
    /// There is nothing to execute.
    #[error("find a program: `argv` is empty")]
    NoProgram,
    /// A name holds a NUL byte, or the name of a variable is empty or holds `=`.
    #[error("use {what}: it is not a name the kernel accepts")]
    BadName {
        /// Which one.
        what: String,
    },
    /// A path is relative or goes up.
    #[error("use the path `{path}`: it must be absolute and without `..`")]
    BadPath {
        /// The path.
        path: HostPath,
    },
    /// Mounts are listed for a view that makes none.
    #[error(
        "mount `{target}`: the view is in place or the mounts layer is waived, so nothing is mounted"
    )]
    MountWithoutView {
        /// Where the first of them would have gone.
        target: HostPath,
    },
    /// A rule is for a path that does not exist in the view.
    #[error("find `{path}`, for which there is a rule")]
    MissingRule {
        /// The path.
        path: HostPath,
    },
    /// A rule is for a path that this user cannot reach.
    #[error("reach `{path}`, for which there is a rule: {reason}")]
    UnreachableRule {
        /// The path.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// The source of a bind mount does not exist, cannot be reached or must not be shown.
    #[error("mount `{path}`: {reason}")]
    BadSource {
        /// The path.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// The target of a mount does not exist and may not be made, or is behind a symbolic link.
    #[error("mount at `{path}`: {reason}")]
    BadTarget {
        /// The path.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// The working directory does not exist in the view.
    #[error("enter the working directory `{path}`: {reason}")]
    BadDirectory {
        /// The path.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// A limit that leaves nothing.
    #[error("apply the limit `{limit}` of {value}: nothing could run")]
    ImpossibleLimit {
        /// Its name.
        limit: String,
        /// Its value.
        value: u64,
    },
    /// A limit on disk that lists no directory.
    #[error("count what is on disk: `limits.disk` lists no directory")]
    NothingCounted,
    /// A directory whose content is to be counted cannot be read.
    #[error("count what is in `{path}`: {reason}")]
    BadCounted {
        /// The path.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// A layer is both waived and required.
    #[error("require the layer `{layer}`, which is also waived")]
    Contradiction {
        /// The layer.
        layer: Layer,
    },
}

impl Policy {
    /// Whether a layer was given up by name.
    #[must_use]
    pub fn waives(&self, layer: Layer) -> bool {
        self.waived.contains(&layer)
    }

    /// Whether mounts are to be made.
    #[must_use]
    pub fn mounts_wanted(&self) -> bool {
        match self.view.mode {
            ViewMode::Mounted => !self.waives(Layer::Mounts),
            ViewMode::InPlace => false,
        }
    }

    /// Finds what is wrong with the policy's shape, without touching a file.
    ///
    /// # Errors
    /// Names the first thing that is wrong.
    pub fn check(&self) -> Result<(), PolicyError> {
        if let Some(layer) = self.waived.intersection(&self.required).next() {
            return Err(PolicyError::Contradiction { layer: *layer });
        }
        self.check_command()?;
        self.check_view()?;
        for rule in &self.files {
            check_path(&rule.path)?;
        }
        for path in &self.out_of_reach {
            check_path(path)?;
        }
        match self.network {
            Network::Gateway { port: 0 } => {
                return Err(PolicyError::ImpossibleLimit {
                    limit: "port of the gateway".into(),
                    value: 0,
                });
            }
            Network::None | Network::Gateway { .. } | Network::Open => {}
        }
        self.limits.check()
    }

    fn check_command(&self) -> Result<(), PolicyError> {
        if self
            .command
            .argv
            .first()
            .is_none_or(|program| program.is_empty())
        {
            return Err(PolicyError::NoProgram);
        }
        check_path(&self.command.cwd)?;
        for argument in &self.command.argv {
            check_name("an argument", argument)?;
        }
        for (key, value) in &self.command.env {
            let what = format!("the variable `{}`", key.to_string_lossy());
            if key.is_empty() || key.as_bytes().contains(&b'=') {
                return Err(PolicyError::BadName { what });
            }
            check_name(&what, key)?;
            check_name(&what, value)?;
        }
        Ok(())
    }

    fn check_view(&self) -> Result<(), PolicyError> {
        for mount in &self.view.mounts {
            let target = mount.target();
            if !self.mounts_wanted() {
                return Err(PolicyError::MountWithoutView {
                    target: target.clone(),
                });
            }
            check_path(target)?;
            if target.parent().is_none() {
                return Err(PolicyError::BadTarget {
                    path: target.clone(),
                    reason: "the root itself cannot be replaced".into(),
                });
            }
            match mount {
                Mount::Bind { source, .. } => check_path(source)?,
                Mount::Tmpfs {
                    access: Access::ReadWrite,
                    bytes: 0,
                    ..
                } => {
                    return Err(PolicyError::ImpossibleLimit {
                        limit: format!("bytes of `{target}`"),
                        value: 0,
                    });
                }
                Mount::Tmpfs { .. } => {}
                Mount::Overlay {
                    lower, upper, work, ..
                } => check_overlay(lower, upper, work)?,
            }
        }
        Ok(())
    }
}

fn check_name(what: &str, name: &OsStr) -> Result<(), PolicyError> {
    if name.as_bytes().contains(&0) {
        return Err(PolicyError::BadName {
            what: what.to_owned(),
        });
    }
    Ok(())
}

/// What the kernel takes at most in one overlay.
const LOWER_DIRECTORIES: usize = 500;

fn check_overlay(lower: &[HostPath], upper: &HostPath, work: &HostPath) -> Result<(), PolicyError> {
    let bad = |path: &HostPath, reason: &str| {
        Err(PolicyError::BadSource {
            path: path.clone(),
            reason: reason.into(),
        })
    };
    for path in lower.iter().chain([upper, work]) {
        check_path(path)?;
    }
    if lower.is_empty() || lower.len() > LOWER_DIRECTORIES {
        return bad(
            upper,
            "it needs at least one directory beneath and at most 500",
        );
    }
    if upper.starts_with(work) || work.starts_with(upper) {
        return bad(work, "it must lie beside the upper directory");
    }
    Ok(())
}

pub(super) fn check_path(path: &HostPath) -> Result<(), PolicyError> {
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() || goes_up || path.as_os_str().as_bytes().contains(&0) {
        return Err(PolicyError::BadPath { path: path.clone() });
    }
    Ok(())
}
