//! The policy of one agent, put together.
//!
//! Owns the order of decisions: what the machine holds is compared with what
//! is promised first, so that a policy only exists where it can be kept. The
//! tables are in the other files of this room.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cofferdam_sandbox::guarantees::Holder;
use cofferdam_sandbox::{
    Command, Feature, FileRule, Guarantee, HostPath, Layer, Network, Policy, Rights, Status, View,
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
    let promised = promised(input)?;
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
        out_of_reach: out_of_reach(input),
        promised,
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
    Ok(())
}

/// The guarantees that this agent is promised, all of which the machine holds.
fn promised(input: &Input<'_>) -> Result<BTreeSet<Guarantee>, Error> {
    let network = input.contract.network;
    let achievable = achievable(input);
    let promised = input.waivers.promised(network, &achievable);
    let short = shortfalls(&achievable, &promised);
    if short.is_empty() {
        Ok(promised)
    } else {
        Err(Error::Short(short))
    }
}

/// What of the kernel was in force when the machine was tried, less what this
/// agent's view and network leave out. It says what can be had; what is had is
/// found out by the stage.
fn achievable(input: &Input<'_>) -> BTreeSet<Feature> {
    let mounted = input.view.mode == ViewMode::Mounted;
    let closed = input.contract.network != NetworkAccess::Open;
    let given_up = |feature: Feature| match feature.holder() {
        Holder::Layer(layer) => input.waivers.layers().contains(&layer),
        Holder::Launcher => false,
    };
    let mut features = input.enforcement.features.clone();
    if mounted && features.contains(&Feature::View) {
        features.insert(Feature::HiddenPaths);
    }
    features.retain(|feature| {
        let of_view = feature.holder() == Holder::Layer(Layer::Mounts);
        let of_network = *feature == Feature::NetworkNamespace;
        !given_up(*feature) && (mounted || !of_view) && (closed || !of_network)
    });
    features
}

/// What was in full force when the machine was tried must be so again, or
/// nothing starts.
fn is_required(layer: Layer, input: &Input<'_>) -> bool {
    let full = input.enforcement.status(layer) == Some(&Status::Full);
    full && !is_left_out(layer, input)
}

/// Whether this agent goes without a layer, or without what it rests on.
fn is_left_out(layer: Layer, input: &Input<'_>) -> bool {
    let left_out = match layer {
        Layer::Mounts => input.view.mode == ViewMode::InPlace,
        Layer::Network => input.contract.network == NetworkAccess::Open,
        // An ordinary user has the power to lock capabilities in a user
        // namespace only, and without any other there is none.
        Layer::Capabilities => [Layer::Mounts, Layer::Namespaces, Layer::Network]
            .into_iter()
            .all(|other| is_left_out(other, input)),
        Layer::Landlock | Layer::Namespaces | Layer::Seccomp | Layer::Limits => false,
    };
    left_out || input.waivers.layers().contains(&layer)
}

/// What no agent may reach whatever else it is granted, as the canaries try
/// it: secrets, the launcher's own files, the real checkout.
fn out_of_reach(input: &Input<'_>) -> Vec<HostPath> {
    let host = &input.host;
    let own = [host.state.to_owned(), host.checkout.to_owned()];
    let secrets = readable::secrets(host);
    own.into_iter().chain(secrets).map(HostPath).collect()
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
        // Home and temporary directory have theirs already, whatever the role.
        let private = [&input.view.home, &input.view.tmp];
        let copy = input.view.writable.iter();
        let copy: Vec<PathBuf> = copy
            .filter(|path| !private.contains(path))
            .cloned()
            .collect();
        add(&copy, rights);
    }
    rules
}
