//! The words that settings, roles and plans are written with.
//!
//! Owns the spelling of every choice and the form of names: labels, revisions,
//! branches, variables. One table a choice, so that a message can list what
//! there is. It decides nothing about what the choices mean.

use super::ValueError;
use super::partial::EnvAsk;
use super::scope;
use crate::model::{
    Approve, ContextMode, FailurePolicy, Integrate, Land, NetworkAccess, OnConflict, Order,
    WorkspaceChoice,
};

pub(crate) const FLAG: [(&str, bool); 4] =
    [("true", true), ("false", false), ("1", true), ("0", false)];
pub(crate) const INTEGRATE: [(&str, Integrate); 3] = [
    ("auto", Integrate::Auto),
    ("hold", Integrate::Hold),
    ("never", Integrate::Never),
];
pub(crate) const ON_CONFLICT: [(&str, OnConflict); 4] = [
    ("hold", OnConflict::Hold),
    ("markers", OnConflict::Markers),
    ("ours", OnConflict::Ours),
    ("theirs", OnConflict::Theirs),
];
pub(crate) const NETWORK: [(&str, NetworkAccess); 3] = [
    ("none", NetworkAccess::None),
    ("gateway", NetworkAccess::Gateway),
    ("open", NetworkAccess::Open),
];
pub(crate) const WORKSPACE: [(&str, WorkspaceChoice); 4] = [
    ("auto", WorkspaceChoice::Auto),
    ("overlay", WorkspaceChoice::Overlay),
    ("reflink", WorkspaceChoice::Reflink),
    ("checkout", WorkspaceChoice::Checkout),
];
pub(crate) const ORDER: [(&str, Order); 2] =
    [("plan", Order::Plan), ("completion", Order::Completion)];
pub(crate) const CONTEXT: [(&str, ContextMode); 2] =
    [("brief", ContextMode::Brief), ("fork", ContextMode::Fork)];
pub(crate) const ON_FAILURE: [(&str, FailurePolicy); 3] = [
    ("fail_run", FailurePolicy::FailRun),
    ("partial", FailurePolicy::Partial),
    ("ignore", FailurePolicy::Ignore),
];
pub(crate) const APPROVE: [(&str, Approve); 2] =
    [("none", Approve::None), ("human", Approve::Human)];

/// The word of a network access.
pub(crate) fn network(access: NetworkAccess) -> &'static str {
    match access {
        NetworkAccess::None => "none",
        NetworkAccess::Gateway => "gateway",
        NetworkAccess::Open => "open",
    }
}

const LABEL_BYTES: usize = 128;

/// A label of an agent: shown on terminals, so nothing that steers one.
pub(crate) fn label(key: &str, text: &str) -> Result<String, ValueError> {
    let fits = !text.trim().is_empty()
        && text.len() <= LABEL_BYTES
        && !text.starts_with('-')
        && !text.chars().any(char::is_control);
    if !fits {
        return Err(ValueError::new(
            key,
            format!(
                "a name of 1 to {LABEL_BYTES} bytes without control characters or a leading `-`"
            ),
            &text.escape_debug().to_string(),
        ));
    }
    Ok(text.to_owned())
}

/// A set-up command. An empty one is a value of its own: it runs none, whatever
/// a role or the repository says.
pub(crate) fn setup(key: &str, text: &str) -> Result<String, ValueError> {
    if text.contains('\0') || (text.trim().is_empty() && !text.is_empty()) {
        return Err(ValueError::new(
            key,
            "a command for the shell, or nothing at all to run none",
            text,
        ));
    }
    Ok(text.to_owned())
}

/// A revision: never one that git would read as an option.
pub(crate) fn revision(key: &str, text: &str) -> Result<String, ValueError> {
    if text.is_empty() || text.starts_with('-') || text.contains(['\0', '\n']) {
        return Err(ValueError::new(
            key,
            "a revision such as `HEAD` or `main`",
            text,
        ));
    }
    Ok(text.to_owned())
}

/// Where results land.
pub(crate) fn land(key: &str, text: &str) -> Result<Land, ValueError> {
    match (text, text.strip_prefix("branch=")) {
        ("worktree", _) => Ok(Land::Worktree),
        ("commit", _) => Ok(Land::Commit),
        ("branch", _) => Ok(Land::Branch(None)),
        (_, Some(name)) if !name.is_empty() && !name.starts_with('-') => {
            Ok(Land::Branch(Some(name.to_owned())))
        }
        _ => Err(ValueError::new(
            key,
            "one of `worktree`, `commit`, `branch`, `branch=NAME`",
            text,
        )),
    }
}

/// One glob of a file scope.
pub(crate) fn glob(key: &str, text: &str) -> Result<String, ValueError> {
    let glob = text.to_owned();
    scope::check_globs(key, std::slice::from_ref(&glob))?;
    Ok(glob)
}

/// `NAME` or `NAME=VALUE`.
pub(crate) fn variable(key: &str, text: &str) -> Result<EnvAsk, ValueError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    variable_name(key, name)?;
    if text.contains('\0') {
        return Err(ValueError::new(key, "a value without a NUL byte", text));
    }
    Ok(match value {
        Some(value) => EnvAsk::Set(name.to_owned(), value.into()),
        None => EnvAsk::Copy(name.to_owned()),
    })
}

/// The name of a variable. Names that inform the agent about itself are the
/// launcher's: a wrong one would change nothing but mislead.
pub(crate) fn variable_name(key: &str, name: &str) -> Result<(), ValueError> {
    let mut bytes = name.bytes();
    let fits = bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !fits {
        return Err(ValueError::new(
            key,
            "`NAME` or `NAME=VALUE`, the name made of letters, digits and `_`",
            name,
        ));
    }
    if name.starts_with("COFFERDAM_") {
        return Err(ValueError::new(
            key,
            "a name that does not start with `COFFERDAM_`, which the launcher sets",
            name,
        ));
    }
    Ok(())
}
