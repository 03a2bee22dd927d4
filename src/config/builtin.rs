//! The built-in roles.
//!
//! Owns `writer`, `reader` and `fixer` exactly as the interface contract has
//! them. `writer` is also the bound within which a role file found in a
//! repository may define roles. Nothing here can be redefined.

use super::tool_names::{ToolClass, tools_of};
use crate::model::{
    Approve, Budget, ContextMode, Contract, FailurePolicy, Label, NetworkAccess, ResourceLimits,
    Tainted,
};

/// The names of the built-in roles, the narrowest first.
pub const BUILT_IN: [&str; 3] = ["reader", "fixer", "writer"];

/// A contract that allows nothing.
#[must_use]
pub fn nothing(role: &str) -> Contract {
    Contract {
        role: role.to_owned(),
        context: ContextMode::Brief,
        instructions: Vec::new(),
        tools: Vec::new(),
        write: Vec::new(),
        read: Vec::new(),
        execute: false,
        network: NetworkAccess::None,
        credentials: Vec::new(),
        spawn: Vec::new(),
        budget: Budget::default(),
        limits: ResourceLimits::default(),
        trust_out: Label::Untrusted,
        on_failure: FailurePolicy::Partial,
        approve: Approve::None,
        when_tainted: Tainted::default(),
        model: None,
        needs_verify: false,
        setup: None,
    }
}

/// Changes the whole repository and may delegate.
#[must_use]
pub fn writer() -> Contract {
    Contract {
        tools: tools_of(&[
            ToolClass::Read,
            ToolClass::Write,
            ToolClass::Execute,
            ToolClass::Report,
            ToolClass::Spawn,
        ]),
        write: everything(),
        read: everything(),
        execute: true,
        spawn: vec!["writer".into(), "reader".into(), "fixer".into()],
        ..nothing("writer")
    }
}

/// Looks at the repository, changes nothing, starts nobody.
///
/// Its command may run programs: what they can change is decided by the
/// kernel, which sees nothing writable but private directories.
#[must_use]
pub fn reader() -> Contract {
    Contract {
        tools: tools_of(&[ToolClass::Read, ToolClass::Report]),
        read: everything(),
        execute: true,
        ..nothing("reader")
    }
}

/// A writer that starts nobody and whose result must be verified.
#[must_use]
pub fn fixer() -> Contract {
    Contract {
        role: "fixer".to_owned(),
        tools: tools_of(&[
            ToolClass::Read,
            ToolClass::Write,
            ToolClass::Execute,
            ToolClass::Report,
        ]),
        spawn: Vec::new(),
        needs_verify: true,
        ..writer()
    }
}

fn everything() -> Vec<String> {
    vec!["**".to_owned()]
}
