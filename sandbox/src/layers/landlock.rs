//! Owns which files may be opened, and what the kernel's version leaves out.
//!
//! The rules are opened in the finished view, so they mean what the command
//! will see. The rights of version 3 are the least that is worth having
//! (without them a file can be truncated or moved between directories); an
//! older kernel counts as having none.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::LayerError;
use super::namespaces::Spaces;
use crate::enforcement::Status;
use crate::policy::{FileRule, Layer, Network, Policy, PolicyError, Rights};
use crate::sys::kernel::landlock_abi;

/// The oldest version that is used at all.
const LEAST: u32 = 3;

/// What the layer did.
pub(crate) struct Applied {
    pub(crate) status: Status,
    pub(crate) abi: Option<u32>,
    pub(crate) holes: Vec<String>,
}

/// Restricts this thread to the policy's files, for good.
pub(crate) fn apply(policy: &Policy, spaces: &Spaces) -> Result<Applied, LayerError> {
    let found = landlock_abi();
    let abi = found.as_ref().ok().copied();
    let done = |status, holes| Ok(Applied { status, abi, holes });
    if policy.waives(Layer::Landlock) {
        return done(
            Status::Waived,
            vec!["any file may be opened that the user may open".into()],
        );
    }
    let version = match found {
        Ok(version) if version >= LEAST => version,
        Ok(version) => {
            return done(
                Status::Absent {
                    reason: format!("the kernel has version {version}, {LEAST} is the least"),
                },
                vec![],
            );
        }
        Err(source) => {
            return done(
                Status::Absent {
                    reason: format!("the kernel has no Landlock: {source}"),
                },
                vec![],
            );
        }
    };
    let level = ABI::from(i32::try_from(version).unwrap_or(i32::MAX));
    let status = create(policy, spaces, level)?
        .restrict_self()
        .map_err(LayerError::step("enforce the file rules"))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => {}
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            return Err(LayerError::Step {
                what: "enforce the file rules".into(),
                reason: format!("{:?}", status.ruleset),
            });
        }
    }
    let holes = if version < 9 {
        vec!["a unix socket that the view leaves visible can be connected to (Landlock 9 would prevent it)".into()]
    } else {
        vec![]
    };
    done(Status::unless(missing(version, policy, spaces)), holes)
}

fn create(policy: &Policy, spaces: &Spaces, level: ABI) -> Result<RulesetCreated, LayerError> {
    // The version is known exactly, so everything of it is demanded: what the
    // kernel then refuses is an error and no silent loss.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(level))
        .map_err(LayerError::step("name file rights"))?;
    // In a network namespace of its own the command reaches only itself, and
    // may: ports are ruled where it would reach the host's.
    let shared = policy.network == Network::None && !policy.waives(Layer::Network) && !spaces.net();
    if shared && level >= ABI::V4 {
        ruleset = ruleset
            .handle_access(AccessNet::from_all(level))
            .map_err(LayerError::step("name network rights"))?;
    }
    if level >= ABI::V6 {
        ruleset = ruleset
            .scope(Scope::from_all(level))
            .map_err(LayerError::step("name scopes"))?;
    }
    let mut created = ruleset
        .create()
        .map_err(LayerError::step("create the rule set"))?;
    if level >= ABI::V7 {
        // A host whose audit is on then has what the command was refused;
        // without the flag the kernel is silent about new programs.
        created = created
            .log_new_exec(true)
            .map_err(LayerError::step("ask for records of what is refused"))?;
    }
    for rule in &policy.files {
        created = add(created, rule, level)?;
    }
    Ok(created)
}

fn add(ruleset: RulesetCreated, rule: &FileRule, level: ABI) -> Result<RulesetCreated, LayerError> {
    let path = rule.path.clone();
    let file = openat(
        CWD,
        path.as_ref() as &std::path::Path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| match errno {
        Errno::NOENT | Errno::NOTDIR => PolicyError::MissingRule { path: path.clone() },
        _ => PolicyError::UnreachableRule {
            path: path.clone(),
            reason: errno.to_string(),
        },
    })?;
    let kind = FileType::from_raw_mode(
        fstat(&file)
            .map_err(LayerError::step(format!("look at `{path}`")))?
            .st_mode,
    );
    let mut rights = rights(rule.rights, level);
    if kind != FileType::Directory {
        rights &= AccessFs::from_file(level);
    }
    ruleset
        .add_rule(PathBeneath::new(file, rights))
        .map_err(LayerError::step(format!("add the rule for `{path}`")))
}

fn rights(rights: Rights, level: ABI) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    // Device nodes are never made, and driven only where the policy says so.
    let write = AccessFs::from_write(level)
        & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    match rights {
        Rights::Read => read,
        Rights::ReadExecute => read | AccessFs::Execute,
        Rights::ReadWrite => read | write,
        Rights::ReadWriteExecute => read | write | AccessFs::Execute,
        Rights::Device => {
            (read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev)
                & AccessFs::from_all(level)
        }
    }
}

fn missing(version: u32, policy: &Policy, spaces: &Spaces) -> Vec<String> {
    let shared = policy.network == Network::None && !spaces.net();
    let later = [
        (4, shared, "TCP ports"),
        (5, true, "control of devices"),
        (
            6,
            true,
            "signals and abstract sockets across the cage's wall",
        ),
    ];
    later
        .into_iter()
        .filter(|(since, wanted, _)| *wanted && version < *since)
        .map(|(since, _, what)| format!("{what} (since version {since}, the kernel has {version})"))
        .collect()
}
