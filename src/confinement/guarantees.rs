//! Which layers hold which promise.
//!
//! Owns the table of guarantee and layers. A promise is held by any one of
//! its alternatives, and an alternative only by all of its layers together.
//! Read before a start, to refuse what the machine cannot hold, and after it,
//! for the record. Names are those of `config`; a test compares them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cofferdam_sandbox::{Enforcement, Layer, Proof, Status};

use crate::config::{LEDGER_WAIVER, ValueError, check_waiver};
use crate::model::NetworkAccess;

/// How much of a layer is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// All that the policy asks of it.
    Full(Layer),
    /// The part that every kernel with the layer has.
    Basic(Layer),
}

impl Need {
    fn layer(self) -> Layer {
        match self {
            Self::Full(layer) | Self::Basic(layer) => layer,
        }
    }

    fn is_met(self, enforcement: &Enforcement) -> bool {
        match (self, enforcement.status(self.layer())) {
            (_, Some(Status::Full)) | (Self::Basic(_), Some(Status::Partial { .. })) => true,
            (Self::Full(_), Some(Status::Partial { .. }))
            | (_, None | Some(Status::Absent { .. } | Status::Waived)) => false,
        }
    }
}

use Need::{Basic, Full};

/// What holds a promise besides layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Else {
    /// Nothing.
    Nothing,
    /// The launcher and its helper, on every machine.
    Launcher,
    /// Whatever proves that every process has ended: the PID namespace, or
    /// the launcher's sweep of descendants where there is none.
    Proof,
}

struct Row {
    name: &'static str,
    alternatives: &'static [&'static [Need]],
    otherwise: Else,
}

const fn row(name: &'static str, alternatives: &'static [&'static [Need]]) -> Row {
    Row {
        name,
        alternatives,
        otherwise: Else::Nothing,
    }
}

const LAUNCHER: &str = "launcher";
const NO_NETWORK: &str = "no_network";
const BOUNDED: &str = "bounded_resources";

const TABLE: [Row; 11] = [
    row(
        "no_write_outside",
        &[&[Full(Layer::Landlock)], &[Basic(Layer::Mounts)]],
    ),
    // Landlock has no rule for modes, owners, times and attributes.
    row("no_metadata_change_outside", &[&[Basic(Layer::Mounts)]]),
    row("no_read_of_secrets", &[&[Basic(Layer::Landlock)]]),
    row(
        "no_signal_outside",
        &[&[Full(Layer::Namespaces)], &[Full(Layer::Landlock)]],
    ),
    // Short of a namespace, the filter refuses internet sockets.
    row(NO_NETWORK, &[&[Basic(Layer::Network)]]),
    // Hidden directories keep sockets with a path away, the network namespace
    // or Landlock's scope those without one.
    row(
        "no_host_sockets",
        &[
            &[Basic(Layer::Mounts), Full(Layer::Network)],
            &[Basic(Layer::Mounts), Full(Layer::Landlock)],
        ],
    ),
    row(
        "no_new_privileges",
        &[
            &[Full(Layer::Capabilities)],
            &[Basic(Layer::Capabilities), Basic(Layer::Seccomp)],
        ],
    ),
    Row {
        name: "no_inherited_descriptors",
        alternatives: &[],
        otherwise: Else::Launcher,
    },
    Row {
        name: "no_inherited_environment",
        alternatives: &[],
        otherwise: Else::Launcher,
    },
    row(BOUNDED, &[&[Basic(Layer::Limits)]]),
    Row {
        name: "nothing_survives",
        alternatives: &[],
        otherwise: Else::Proof,
    },
];

impl Row {
    /// The layers of all alternatives that are met, without repetition.
    fn holders(&self, enforcement: &Enforcement) -> Vec<String> {
        let mut holders: Vec<String> = Vec::new();
        for alternative in self.alternatives {
            if alternative.iter().all(|need| need.is_met(enforcement)) {
                for need in *alternative {
                    let word = need.layer().word().to_owned();
                    if !holders.contains(&word) {
                        holders.push(word);
                    }
                }
            }
        }
        let besides = match (self.otherwise, enforcement.proof) {
            (Else::Nothing, _) => None,
            (Else::Launcher, _) | (Else::Proof, Proof::SubreaperSwept) => Some(LAUNCHER),
            (Else::Proof, Proof::PidNamespace) => Some(Layer::Namespaces.word()),
        };
        holders.extend(besides.map(str::to_owned));
        holders
    }

    /// Whether giving up these layers gives up the promise.
    fn is_given_up_with(&self, layers: &BTreeSet<Layer>) -> bool {
        !self.alternatives.is_empty()
            && self.alternatives.iter().all(|alternative| {
                alternative
                    .iter()
                    .any(|need| layers.contains(&need.layer()))
            })
    }

    fn needs(&self) -> String {
        let alternatives: Vec<String> = self
            .alternatives
            .iter()
            .map(|alternative| {
                let words: Vec<&str> = alternative.iter().map(|need| need.layer().word()).collect();
                words.join(" and ")
            })
            .collect();
        alternatives.join(", or ")
    }
}

/// What was given up by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waivers {
    layers: BTreeSet<Layer>,
    guarantees: BTreeSet<String>,
}

impl Waivers {
    /// Sorts the names into layers and guarantees.
    ///
    /// # Errors
    /// An unknown name is refused with the list of all.
    pub fn parse(names: &[String]) -> Result<Self, ValueError> {
        let mut waivers = Self::default();
        for name in names {
            check_waiver("--allow-degraded", name)?;
            match name.parse::<Layer>() {
                Ok(layer) => {
                    waivers.layers.insert(layer);
                }
                // The ledger is no promise of the cage; `config` reads it.
                Err(_) if name == LEDGER_WAIVER => {}
                Err(_) => {
                    waivers.guarantees.insert(name.clone());
                }
            }
        }
        Ok(waivers)
    }

    /// The layers among them.
    #[must_use]
    pub fn layers(&self) -> &BTreeSet<Layer> {
        &self.layers
    }
}

/// A promise that nothing holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// Its name.
    pub guarantee: &'static str,
    /// What would hold it.
    pub needs: String,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{0}` needs {1}, which this machine does not give (`--allow-degraded {0}` goes without)",
            self.guarantee, self.needs
        )
    }
}

/// Who holds each promise: names of layers, or the launcher; an empty list
/// where nobody does.
#[must_use]
pub fn held(enforcement: &Enforcement) -> BTreeMap<String, Vec<String>> {
    TABLE
        .iter()
        .map(|row| (row.name.to_owned(), row.holders(enforcement)))
        .collect()
}

/// The promises that nobody holds and that were not given up.
///
/// Without control groups memory is measured and not bound, which is no reason
/// to refuse: `bounded_resources` never stops a start. With an open network, having none is not promised.
#[must_use]
pub fn shortfalls(
    enforcement: &Enforcement,
    waivers: &Waivers,
    network: NetworkAccess,
) -> Vec<Shortfall> {
    TABLE
        .iter()
        .filter(|row| row.name != BOUNDED)
        .filter(|row| match network {
            NetworkAccess::None | NetworkAccess::Gateway => true,
            NetworkAccess::Open => row.name != NO_NETWORK,
        })
        .filter(|row| !waivers.guarantees.contains(row.name))
        .filter(|row| !row.is_given_up_with(&waivers.layers))
        .filter(|row| row.holders(enforcement).is_empty())
        .map(|row| Shortfall {
            guarantee: row.name,
            needs: row.needs(),
        })
        .collect()
}
