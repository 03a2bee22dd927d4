//! Owns which files may be opened, and what the kernel's version leaves out.
//!
//! The rules are opened in the finished view, so they mean what the command
//! will see, and no link is followed that was not followed when the view was
//! planned. Every version is used: what an old one lacks is in the report, and
//! the table of guarantees knows whether another layer holds it.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::LayerError;
use super::namespaces::Spaces;
use crate::enforcement::Status;
use crate::guarantees::Feature;
use crate::policy::{FileRule, Layer, Network, Policy, PolicyError, Rights};
use crate::sys::kernel::landlock_abi;

/// What the layer did.
pub(crate) struct Applied {
    pub(crate) status: Status,
    pub(crate) abi: Option<u32>,
    pub(crate) features: Vec<Feature>,
    pub(crate) holes: Vec<String>,
}

/// Restricts this thread to the policy's files, for good.
///
/// `rules` are the policy's, at the paths at which they point in the view.
pub(crate) fn apply(
    policy: &Policy,
    rules: &[FileRule],
    spaces: &Spaces,
) -> Result<Applied, LayerError> {
    let found = landlock_abi();
    let abi = found.as_ref().ok().copied();
    let without = |status, holes| {
        Ok(Applied {
            status,
            abi,
            features: vec![],
            holes,
        })
    };
    if policy.waives(Layer::Landlock) {
        return without(
            Status::Waived,
            vec!["any file may be opened that the user may open".into()],
        );
    }
    let version = match found {
        Ok(version) => version,
        Err(source) => {
            let reason = format!("the kernel has no Landlock: {source}");
            return without(Status::Absent { reason }, vec![]);
        }
    };
    let level = ABI::from(i32::try_from(version).unwrap_or(i32::MAX));
    let status = create(policy, rules, spaces, level)?
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
    let of_version = Feature::OF_LANDLOCK.iter();
    Ok(Applied {
        status: Status::unless(missing(version, policy, spaces)),
        abi,
        features: of_version
            .filter(|(since, _)| *since <= version)
            .map(|(_, feature)| *feature)
            .collect(),
        holes,
    })
}

fn create(
    policy: &Policy,
    rules: &[FileRule],
    spaces: &Spaces,
    level: ABI,
) -> Result<RulesetCreated, LayerError> {
    // The version is known exactly, so everything of it is demanded: what the
    // kernel then refuses is an error and no silent loss.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(level))
        .map_err(LayerError::step("name file rights"))?;
    // In a network namespace of its own the command reaches only itself, and
    // may: ports are ruled where it would reach the host's.
    let shared = is_shared(policy, spaces) && !policy.waives(Layer::Network);
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
    for rule in rules {
        created = add(created, rule, level)?;
    }
    Ok(created)
}

fn add(ruleset: RulesetCreated, rule: &FileRule, level: ABI) -> Result<RulesetCreated, LayerError> {
    let path = rule.path.clone();
    let file = openat2(
        CWD,
        path.as_ref() as &std::path::Path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
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

/// Whether a network that should not be there is the host's.
fn is_shared(policy: &Policy, spaces: &Spaces) -> bool {
    match policy.network {
        Network::None | Network::Gateway { .. } => !spaces.net(),
        Network::Open => false,
    }
}

fn missing(version: u32, policy: &Policy, spaces: &Spaces) -> Vec<String> {
    let shared = is_shared(policy, spaces);
    let later = [
        (2, true, "moves between directories, which are all denied"),
        (3, true, "truncation"),
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
