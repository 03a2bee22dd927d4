//! Owns privilege: none of it, now or after any exec.
//!
//! Must come after everything that needs privilege and before Landlock, which
//! needs `no_new_privs`.

use caps::CapSet;
use rustix::thread::{CapabilitiesSecureBits, set_capabilities_secure_bits, set_no_new_privs};

use super::LayerError;
use crate::enforcement::Status;
use crate::policy::{Layer, Policy};
use crate::sys::kernel::drop_bounding_set;

/// Drops every capability for good.
///
/// `no_new_privs` is set even where the layer is waived: without it, Landlock
/// and the filter would need privilege.
pub(crate) fn apply(policy: &Policy) -> Result<Status, LayerError> {
    set_no_new_privs(true).map_err(LayerError::step("set no_new_privs"))?;
    if policy.waives(Layer::Capabilities) {
        return Ok(Status::Waived);
    }
    let mut missing = Vec::new();
    // Both need a capability, which an ordinary user without a user namespace
    // has not. It then has none to lose either, and no_new_privs keeps it so.
    if let Err(source) = drop_bounding_set() {
        missing.push(format!("the bounding set: {source}"));
    }
    if let Err(source) = set_capabilities_secure_bits(locked()) {
        missing.push(format!("locked secure bits: {source}"));
    }
    caps::clear(None, CapSet::Ambient).map_err(LayerError::step("clear ambient capabilities"))?;
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::clear(None, set).map_err(LayerError::step(format!("clear {set:?} capabilities")))?;
    }
    // What is ambient is permitted too, so it need not be looked at by itself.
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        let left = caps::read(None, set).map_err(LayerError::step("read capabilities"))?;
        if !left.is_empty() {
            return Err(LayerError::Step {
                what: "drop capabilities".into(),
                reason: format!("{set:?} still holds {left:?}"),
            });
        }
    }
    Ok(Status::unless(missing))
}

fn locked() -> CapabilitiesSecureBits {
    CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED
}
