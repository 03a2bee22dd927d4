//! The order on contracts holds for contracts made at random.

use super::super::authority::{is_within, narrowed};
use super::super::{TOOLS, builtin};
use super::writer;
use crate::model::{Approve, ContextMode, Contract, NetworkAccess, ResourceLimits, Tainted};

/// A fixed sequence of numbers, so that every run tries the same contracts.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    fn some_of(&mut self, all: &[&str]) -> Vec<String> {
        all.iter()
            .filter(|_| self.flag())
            .map(|entry| (*entry).to_owned())
            .collect()
    }

    fn limit(&mut self) -> Option<u64> {
        let limit = self.below(4);
        (limit > 0).then_some(limit)
    }

    fn network(&mut self) -> NetworkAccess {
        match self.below(3) {
            0 => NetworkAccess::None,
            1 => NetworkAccess::Gateway,
            _ => NetworkAccess::Open,
        }
    }

    fn contract(&mut self) -> Contract {
        let tools: Vec<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
        let globs = ["**", "docs/**", "docs/a/*.md", "*.rs", "src/lib.rs"];
        Contract {
            tools: self.some_of(&tools),
            write: self.some_of(&globs),
            read: self.some_of(&globs),
            execute: self.flag(),
            network: self.network(),
            credentials: self.some_of(&["a", "b"]),
            spawn: self.some_of(&["reader", "writer"]),
            limits: ResourceLimits {
                memory_bytes: self.limit(),
                processes: self.limit(),
                disk_bytes: self.limit(),
                output_bytes: self.limit(),
            },
            when_tainted: Tainted {
                deny: self.some_of(&["run_command", "write_file"]),
                integrate: self.flag().then(|| "hold".to_owned()),
            },
            context: if self.flag() {
                ContextMode::Brief
            } else {
                ContextMode::Fork
            },
            approve: if self.flag() {
                Approve::None
            } else {
                Approve::Human
            },
            needs_verify: self.flag(),
            ..builtin::nothing("random")
        }
    }
}

#[test]
fn what_was_narrowed_lies_within_both() {
    let mut numbers = Numbers(7);
    for _ in 0..400 {
        let (role, holder) = (numbers.contract(), numbers.contract());
        let both = narrowed(&role, &holder);
        assert_eq!(is_within(&both, &role), Ok(()), "{both:?} in {role:?}");
        assert_eq!(is_within(&both, &holder), Ok(()), "{both:?} in {holder:?}");
    }
}

#[test]
fn the_order_is_reflexive_and_narrowing_keeps_what_already_lies_within() {
    let mut numbers = Numbers(11);
    for _ in 0..400 {
        let (one, other) = (numbers.contract(), numbers.contract());
        assert_eq!(is_within(&one, &one), Ok(()));
        if is_within(&one, &other).is_ok() {
            let kept = narrowed(&one, &other);
            assert_eq!((kept.tools, kept.network), (one.tools, one.network));
            assert_eq!(kept.spawn, one.spawn);
        }
    }
}

#[test]
fn every_built_in_role_lies_within_the_writer() {
    for role in [writer(), builtin::reader(), builtin::fixer()] {
        assert_eq!(is_within(&role, &writer()), Ok(()), "{}", role.role);
    }
    let excess = is_within(&writer(), &builtin::reader()).expect_err("because a writer is wider");
    assert_eq!(excess.component, "tools");
}
