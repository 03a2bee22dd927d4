//! The names that can be given up with `--allow-degraded`.
//!
//! Owns the one list of guarantees and the check of a waiver against layers
//! and guarantees. Which layers hold a guarantee is in `confinement/`, whose
//! table is tested against this list.

use cofferdam_sandbox::Layer;

use super::ValueError;

/// What the cage promises, in the order in which it is reported.
pub const GUARANTEES: [&str; 11] = [
    "no_write_outside",
    "no_metadata_change_outside",
    "no_read_of_secrets",
    "no_signal_outside",
    "no_network",
    "no_host_sockets",
    "no_new_privileges",
    "no_inherited_descriptors",
    "no_inherited_environment",
    "bounded_resources",
    "nothing_survives",
];

/// The waiver for caps on turns, tokens and money that nothing meters.
pub const LEDGER_WAIVER: &str = "ledger";

/// Every name that can be waived.
#[must_use]
pub fn known_waivers() -> Vec<&'static str> {
    let layers = Layer::ALL.into_iter().map(Layer::word);
    layers.chain(GUARANTEES).chain([LEDGER_WAIVER]).collect()
}

/// Checks that a name can be waived.
///
/// # Errors
/// Lists every name that can.
pub fn check_waiver(key: &str, name: &str) -> Result<(), ValueError> {
    let known = known_waivers();
    if known.contains(&name) {
        return Ok(());
    }
    Err(ValueError::new(
        key,
        format!("a layer or a guarantee ({})", known.join(" ")),
        name,
    ))
}
