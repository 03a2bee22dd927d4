//! The names that can be given up with `--allow-degraded`.
//!
//! Owns the check of a waiver against layers and guarantees, whose one list
//! each is in `cofferdam-sandbox`, and the one name that is neither.

use cofferdam_sandbox::{Guarantee, Layer};

use super::ValueError;

/// The waiver for caps on turns, tokens and money that nothing meters.
pub const LEDGER_WAIVER: &str = "ledger";

/// Every name that can be waived.
#[must_use]
pub fn known_waivers() -> Vec<&'static str> {
    let layers = Layer::ALL.into_iter().map(Layer::word);
    let guarantees = Guarantee::ALL.iter().map(|one| one.word());
    layers.chain(guarantees).chain([LEDGER_WAIVER]).collect()
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
