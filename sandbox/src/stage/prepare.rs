//! Owns what only the namespaces' first process can do, before the command.
//!
//! The view, then the late user namespace; after both, this process is opaque
//! to whatever runs inside.

use std::os::fd::AsFd;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::guard::tie_to_guard;
use super::{Cage, Stop, failed};
use crate::enforcement::Status;
use crate::guarantees::Feature;
use crate::layers::mounts::{Processes, Viewed};
use crate::layers::overlay::Layers;
use crate::layers::{LayerError, merging, mounts, namespaces, plan};
use crate::policy::Layer;
use crate::protocol::{self, Failure, Purpose, Report};

/// What only the namespaces' first process can do: the view, the late user namespace.
pub(super) fn prepare(cage: &mut Cage<'_>) -> Result<(), Stop> {
    let Viewed {
        status,
        features,
        rules,
        procfs,
        unrenamed,
    } = view(cage)?;
    cage.rules = rules;
    cage.unrenamed = unrenamed;
    let seen = features.contains(&Feature::View);
    cage.report.features.extend(features);
    if seen && cage.hidden.complete() {
        cage.report.features.insert(Feature::HiddenPaths);
    }
    if !seen {
        // Landlock covers neither, and no rule could take them away.
        cage.report.holes.extend([
            "mode, owner and times of any file of this user can be changed".to_owned(),
            "names of files can be looked up, and their use be watched, wherever this user may"
                .to_owned(),
            "the host's procfs is in place: where a rule shows it, so are the host's processes"
                .to_owned(),
        ]);
    }
    cage.report.layers.insert(Layer::Mounts, status);
    let hole = namespaces::descend(&mut cage.spaces, &cage.request.policy, procfs)?;
    cage.report.holes.extend(hole);
    cage.report.uid_map = cage.spaces.uid_map;
    let status = cage.spaces.status(&cage.request.policy);
    cage.report.layers.insert(Layer::Namespaces, status);
    cage.report.features.extend(cage.spaces.features());
    // New credentials took the death signal away.
    tie_to_guard(cage)?;
    // Nothing inside may look into this process or borrow its descriptors.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("become opaque"))
}

/// Merges the directories of a rehearsal and tells what became of it. Before
/// the view is made: in it they are read-only.
fn merge(cage: &Cage<'_>) -> Result<(), Stop> {
    let Some(directory) = &cage.request.merged else {
        return Ok(());
    };
    let found = match cage.spaces.no_mounts() {
        Some(reason) => Err(reason),
        None => merging::try_out(&Layers::in_directory(directory)),
    };
    Ok(protocol::send(
        cage.line.as_fd(),
        &Report::Merged(found),
        &[],
    )?)
}

fn view(cage: &mut Cage<'_>) -> Result<Viewed, Stop> {
    merge(cage)?;
    let policy = &cage.request.policy;
    let without = |status| Viewed {
        status,
        features: Vec::new(),
        rules: plan::rules_in_place(policy),
        procfs: None,
        unrenamed: Vec::new(),
    };
    if let Some(status) = mounts::unmounted(policy) {
        return Ok(without(status));
    }
    let processes = if cage.spaces.pid() {
        Processes::Own
    } else {
        Processes::Hosts
    };
    let reason = match cage.spaces.no_mounts() {
        Some(reason) => reason,
        None => match mounts::apply(policy, processes, &mut cage.report.view_notes) {
            Ok(viewed) => return Ok(viewed),
            Err(LayerError::Policy(error)) => return Err(Stop::Failed(Failure::Policy(error))),
            Err(LayerError::Step { what, reason }) => format!("{what}: {reason}"),
        },
    };
    match cage.request.purpose {
        // The command would see other files than its policy says.
        Purpose::Run => Err(Stop::Failed(Failure::Unavailable {
            layer: Layer::Mounts,
            reason,
        })),
        Purpose::Probe => Ok(without(Status::Absent { reason })),
    }
}
