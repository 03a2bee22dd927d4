//! What was given up by name, and what is then still promised.
//!
//! Owns the waivers of a run. Which layer and which part of the kernel hold
//! which guarantee is the table of `cofferdam-sandbox`; this room asks it
//! before a start, to refuse what the machine cannot hold, and the stage asks
//! it again for what it really achieved.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cofferdam_sandbox::guarantees::{Holder, held as holders, is_given_up_with, missing, needs};
use cofferdam_sandbox::{Enforcement, Feature, Guarantee, Layer};

use crate::config::{LEDGER_WAIVER, ValueError, check_waiver};
use crate::model::NetworkAccess;

/// What was given up by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waivers {
    layers: BTreeSet<Layer>,
    guarantees: BTreeSet<Guarantee>,
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
            // What is neither is the ledger, which `config` reads: it is no
            // promise of the cage.
            if let Ok(layer) = name.parse::<Layer>() {
                waivers.layers.insert(layer);
            } else if let Ok(guarantee) = name.parse::<Guarantee>() {
                waivers.guarantees.insert(guarantee);
            } else {
                debug_assert_eq!(name, LEDGER_WAIVER);
            }
        }
        Ok(waivers)
    }

    /// The layers among them.
    #[must_use]
    pub fn layers(&self) -> &BTreeSet<Layer> {
        &self.layers
    }

    /// What is promised all the same, with these features of the machine; those
    /// of layers that were given up left out.
    ///
    /// Bounded resources never stop a start, because an ordinary user cannot
    /// have them everywhere. With an open network, having none is not promised.
    #[must_use]
    pub fn promised(
        &self,
        network: NetworkAccess,
        features: &BTreeSet<Feature>,
    ) -> BTreeSet<Guarantee> {
        let open = match network {
            NetworkAccess::None | NetworkAccess::Gateway => false,
            NetworkAccess::Open => true,
        };
        Guarantee::ALL
            .iter()
            .copied()
            .filter(|one| *one != Guarantee::BoundedResources)
            .filter(|one| !(open && *one == Guarantee::NoNetwork))
            .filter(|one| !self.guarantees.contains(one))
            .filter(|one| !is_given_up_with(*one, &self.layers, features))
            .collect()
    }
}

/// A promise that nothing holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// Which.
    pub guarantee: Guarantee,
    /// What would hold it.
    pub needs: String,
    /// How to get it.
    pub how: Vec<&'static str>,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{0}` needs {1}, which this machine does not give ({2}; `--allow-degraded {0}` goes without)",
            self.guarantee,
            self.needs,
            self.how.join(", ")
        )
    }
}

/// Who holds each promise: names of layers, or the launcher; an empty list
/// where nobody does.
#[must_use]
pub fn held(enforcement: &Enforcement) -> BTreeMap<String, Vec<String>> {
    let words = |all: Vec<Holder>| all.into_iter().map(|one| one.word().to_owned()).collect();
    holders(&enforcement.features)
        .into_iter()
        .map(|(guarantee, all)| (guarantee.word().to_owned(), words(all)))
        .collect()
}

/// What is promised and held by nobody.
#[must_use]
pub fn shortfalls(features: &BTreeSet<Feature>, promised: &BTreeSet<Guarantee>) -> Vec<Shortfall> {
    let held = holders(features);
    let unheld = promised.iter().filter(|one| held[one].is_empty());
    unheld.map(|one| shortfall(*one, features)).collect()
}

/// What nobody holds of a guarantee, in words.
#[must_use]
pub fn shortfall(guarantee: Guarantee, features: &BTreeSet<Feature>) -> Shortfall {
    let mut how: Vec<&str> = missing(guarantee, features)
        .into_iter()
        .map(Feature::how_to_get)
        .collect();
    how.dedup();
    Shortfall {
        guarantee,
        needs: needs(guarantee),
        how,
    }
}
