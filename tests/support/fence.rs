//! What keeps an attempt to escape from harming the machine.
//!
//! Owns the first words of scripts that try what would be destructive if there
//! were no cage: a broken cage must make a test fail, not cost its author the
//! machine. Each is shell that ends the script with an exit code of its own
//! unless it is safe to go on.

use std::fs;

use super::env::TestEnv;
use super::shown;

/// Goes on only below the test's own directory.
pub(crate) fn only_below(env: &TestEnv) -> String {
    format!(
        "case \"$PWD\" in '{}'/*) ;; *) exit 98 ;; esac",
        shown(env.root())
    )
}

/// Goes on only in a namespace of that kind that is not the host's.
///
/// Where the script cannot tell, it does not go on either.
pub(crate) fn only_apart(kind: &str) -> String {
    let host = fs::read_link(format!("/proc/self/ns/{kind}"))
        .expect("because the kernel names its namespaces");
    format!(
        "case \"$(readlink /proc/self/ns/{kind})\" in '{}') exit 97 ;; {kind}:*) ;; *) exit 97 ;; esac",
        shown(&host)
    )
}
