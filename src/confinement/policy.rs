//! The policy of one agent, put together.
//!
//! Owns the order of decisions: what the machine holds is compared with what
//! is promised first, so that a policy only exists where it can be kept. The
//! tables are in the other files of this room.

use std::path::PathBuf;

use cofferdam_sandbox::{
    Command, Enforcement, FileRule, Layer, Network, Policy, Rights, Status, View,
};

use super::environment::environment;
use super::guarantees::shortfalls;
use super::input::{Error, Input};
use super::limits::limits;
use super::mounts::{Mounted, mounts};
use super::readable;
use crate::model::{NetworkAccess, ViewMode};

/// Makes the policy of one agent.
///
/// Everything that the view or the contract does not name is out of reach. A
/// role that writes nothing gets nothing writable but its private
/// directories, whatever its workspace would allow. Which paths of a
/// workspace a role may read or write is not narrowed here beyond that:
/// scopes are held when a result is integrated.
///
/// # Errors
/// Refuses what the machine cannot hold and nobody gave up, and a view or a
/// command that does not fit.
pub fn policy(input: &Input<'_>) -> Result<Policy, Error> {
    check(input)?;
    let readable = readable::rules(input);
    let mounted = mounts(input, &readable);
    let files = files(input, readable, &mounted);
    let network = match input.contract.network {
        NetworkAccess::None => Network::None,
        NetworkAccess::Open => Network::Open,
        NetworkAccess::Gateway => return Err(Error::NoGateway),
    };
    Ok(Policy {
        command: Command {
            argv: input.command.to_vec(),
            cwd: input.cwd.into(),
            env: environment(input, &mounted.tmp),
        },
        view: View {
            mode: match input.view.mode {
                ViewMode::Mounted => cofferdam_sandbox::ViewMode::Mounted,
                ViewMode::InPlace => cofferdam_sandbox::ViewMode::InPlace,
            },
            mounts: mounted.mounts,
        },
        files,
        network,
        limits: limits(&input.limits, input.view.mode, &input.room),
        waived: input.waivers.layers().clone(),
        required: Layer::ALL
            .into_iter()
            .filter(|layer| is_required(*layer, input))
            .collect(),
    })
}

fn check(input: &Input<'_>) -> Result<(), Error> {
    if input
        .command
        .first()
        .is_none_or(|program| program.is_empty())
    {
        return Err(Error::NoProgram);
    }
    if !input.cwd.starts_with(&input.view.root) {
        return Err(Error::CwdOutside {
            cwd: input.cwd.to_owned(),
            root: input.view.root.clone(),
        });
    }
    let mounted = match input.view.mode {
        ViewMode::Mounted => true,
        ViewMode::InPlace => false,
    };
    if mounted && input.waivers.layers().contains(&Layer::Mounts) {
        return Err(Error::MountsWaived);
    }
    let short = shortfalls(&achievable(input), input.waivers, input.contract.network);
    if short.is_empty() {
        Ok(())
    } else {
        Err(Error::Short(short))
    }
}

/// What the machine achieved when it was tried, less what this agent's view
/// and network leave out.
fn achievable(input: &Input<'_>) -> Enforcement {
    let mut enforcement = input.enforcement.clone();
    let mut absent = |layer, reason: &str| {
        let reason = reason.to_owned();
        enforcement.layers.insert(layer, Status::Absent { reason });
    };
    match input.view.mode {
        ViewMode::Mounted => {}
        ViewMode::InPlace => absent(Layer::Mounts, "the view is in place"),
    }
    match input.contract.network {
        NetworkAccess::None | NetworkAccess::Gateway => {}
        NetworkAccess::Open => absent(Layer::Network, "the network is open"),
    }
    for layer in input.waivers.layers() {
        enforcement.layers.insert(*layer, Status::Waived);
    }
    enforcement
}

/// What was in full force when the machine was tried must be so again, or
/// nothing starts.
fn is_required(layer: Layer, input: &Input<'_>) -> bool {
    achievable(input).status(layer) == Some(&Status::Full)
}

fn files(input: &Input<'_>, readable: Vec<FileRule>, mounted: &Mounted) -> Vec<FileRule> {
    let writable = if input.contract.execute {
        Rights::ReadWriteExecute
    } else {
        Rights::ReadWrite
    };
    let seen = if input.contract.execute {
        Rights::ReadExecute
    } else {
        Rights::Read
    };
    let mut rules = readable;
    let mut add = |paths: &[PathBuf], rights| {
        for path in paths {
            rules.push(FileRule {
                path: path.as_path().into(),
                rights,
            });
        }
    };
    add(&mounted.temporary, writable);
    if !mounted.temporary.contains(&mounted.tmp) {
        add(std::slice::from_ref(&mounted.tmp), writable);
    }
    add(std::slice::from_ref(&input.view.home), writable);
    let may_read = input.contract.is_writer() || !input.contract.read.is_empty();
    if may_read {
        add(&input.view.readable, seen);
        let rights = if input.contract.is_writer() {
            writable
        } else {
            seen
        };
        add(&input.view.writable, rights);
    }
    rules
}
