//! Owns which system calls there are.
//!
//! A list of what is denied, not of what is allowed: programs of all kinds
//! must run. But every call that this version knows is judged (`table`), and
//! newer ones do not exist. Denied calls fail with `EPERM`; `clone3`, whose
//! flags no filter can see, fails with `ENOSYS`, so that libraries fall back to
//! what the filter can see; so do numbers of x32. A call by the table of 32-bit
//! programs is the end of the process. Renames are asked about where the keeper
//! has them done (`Renames::Keeper`). Must be the last layer.
//!
//! - `numbers`: what calls are called, where the C library does not say
//! - `verdict`: what can be said about a call and its arguments
//! - `table`: what is said about each
//! - `filter`: the program made of it
//! - `attempt`: a refused call in words, for the record
//!
//! To judge a new call: its number, one word in `table`, and `NEWEST`.

mod attempt;
mod filter;
mod numbers;
mod table;
#[cfg(test)]
mod tests;
mod verdict;

use std::io;

use super::LayerError;
use super::namespaces::Spaces;
use crate::enforcement::Status;
use crate::guarantees::Feature;
use crate::policy::{Layer, Network, Policy};
use crate::sys::seccomp::{Listener, install, install_listening};

pub(crate) use attempt::{Attempt, Place};

/// Whether sockets of the internet families are left to a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Internet {
    Allowed,
    Denied,
}

/// Whether what belongs to other processes is left to namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Neighbours {
    /// Namespaces hide them, and their shared memory.
    Apart,
    /// They are seen: their priorities, their memory under a key.
    Near,
}

/// Who renames directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renames {
    /// The kernel, as far as it can.
    Kernel,
    /// The keeper, where the kernel cannot; it is asked about every rename.
    Keeper,
}

/// What the filter has to see to because no namespace does, and no kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) internet: Internet,
    pub(crate) neighbours: Neighbours,
    pub(crate) renames: Renames,
}

impl Reach {
    /// Denied is what the policy wants denied and no namespace takes away.
    pub(crate) fn of(policy: &Policy, spaces: &Spaces, renames: Renames) -> Self {
        let internet = match policy.network {
            Network::None | Network::Gateway { .. }
                if !spaces.net() && !policy.waives(Layer::Network) =>
            {
                Internet::Denied
            }
            Network::None | Network::Gateway { .. } | Network::Open => Internet::Allowed,
        };
        let neighbours = if spaces.pid() && spaces.ipc() {
            Neighbours::Apart
        } else {
            Neighbours::Near
        };
        Self {
            internet,
            neighbours,
            renames,
        }
    }

    /// What a filter made for it holds.
    pub(crate) fn features(self) -> impl Iterator<Item = Feature> {
        let refused = self.internet == Internet::Denied;
        let near = self.neighbours == Neighbours::Near;
        [
            (true, Feature::CallFilter),
            (refused, Feature::InternetRefused),
            (near, Feature::PriorityFilter),
        ]
        .into_iter()
        .filter_map(|(holds, feature)| holds.then_some(feature))
    }
}

/// Who answers the calls whose refusal is a fact for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recording {
    /// The keeper, with the same error that the filter would give.
    Listener,
    /// The filter itself.
    Nobody,
}

/// What the layer did.
pub(crate) struct Applied {
    pub(crate) status: Status,
    /// Where refused calls wait for their answer. The keeper must answer them
    /// from now on, also those of the stage itself.
    pub(crate) listener: Option<Listener>,
    /// Why no refused call will be recorded, if none will.
    pub(crate) unrecorded: Option<String>,
}

/// Filters the system calls of this thread and all it starts, for good.
///
/// A listener is had from Linux 5.19 on, and where no other filter has one
/// already. Before 5.19 a signal would break off a call that waits for its
/// answer, and a runtime that signals its threads all the time would try it
/// for ever. Without a listener the filter answers by itself, and as strictly.
pub(crate) fn apply(policy: &Policy, reach: Reach) -> Result<Applied, LayerError> {
    if policy.waives(Layer::Seccomp) {
        return Ok(Applied {
            status: Status::Waived,
            listener: None,
            unrecorded: Some("the filter was waived".into()),
        });
    }
    let refused = match install_listening(&filter::program(reach, Recording::Listener)) {
        Ok(listener) => {
            return Ok(Applied {
                status: Status::Full,
                listener: Some(listener),
                unrecorded: None,
            });
        }
        Err(source) => source,
    };
    let status = match install(&filter::program(reach, Recording::Nobody)) {
        Ok(()) => Status::Full,
        Err(source) => Status::Absent {
            reason: format!("the kernel refused the filter: {source}"),
        },
    };
    Ok(Applied {
        status,
        listener: None,
        unrecorded: Some(why_not(&refused)),
    })
}

/// As [`apply`] without a listener, whose calls nobody could answer.
pub(crate) fn apply_unheard(policy: &Policy, reach: Reach) -> io::Result<()> {
    if policy.waives(Layer::Seccomp) {
        return Ok(());
    }
    install(&filter::program(reach, Recording::Nobody))
}

fn why_not(refused: &io::Error) -> String {
    match refused.raw_os_error() {
        Some(libc::EBUSY) => "another filter around this one has the kernel's only listener".into(),
        Some(libc::EINVAL) => "the kernel has no listener that waits (Linux 5.19)".into(),
        Some(_) | None => format!("the kernel gives no listener: {refused}"),
    }
}
