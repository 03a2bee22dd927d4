//! What agents may spend: turns of their own and one ledger for the run.
//!
//! Owns the arithmetic of spending and nothing else: a turn budget per agent
//! (consume, refund), and a ledger for the tree (reserve, then settle or
//! release) that holds something back for every ancestor, so that a parent
//! can always finish. It meters nothing itself; whoever sees a call tells it.
//!
//! To add a meter: one line in `meter`.

mod ledger;
mod meter;
mod turns;

pub use ledger::{Entry, EntryKind, Ledger, Reservation};
pub use meter::{Amounts, Meter};
pub use turns::{Turns, TurnsExhausted};
