//! Owns the resource limits.
//!
//! They bind single processes; nothing here counts a whole tree.

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use super::LayerError;
use crate::enforcement::Status;
use crate::policy::{Layer, Limits, Policy};

/// Sets the limits of this process and all it starts.
pub(crate) fn apply(policy: &Policy) -> Result<Status, LayerError> {
    // A core dump would carry what the command read to where the host's
    // handler puts it.
    set("core", Resource::Core, 0)?;
    if policy.waives(Layer::Limits) {
        return Ok(Status::Waived);
    }
    let Limits {
        memory_bytes,
        processes,
        file_bytes,
        open_files,
        cpu_seconds,
    } = policy.limits;
    let wanted = [
        ("memory_bytes", Resource::As, memory_bytes),
        ("processes", Resource::Nproc, processes),
        ("file_bytes", Resource::Fsize, file_bytes),
        ("open_files", Resource::Nofile, open_files),
        ("cpu_seconds", Resource::Cpu, cpu_seconds),
    ];
    for (name, resource, value) in wanted {
        if let Some(value) = value {
            set(name, resource, value)?;
        }
    }
    if policy
        .limits
        .named()
        .iter()
        .all(|(_, value)| value.is_none())
    {
        return Ok(Status::Absent {
            reason: "the policy sets no limit".into(),
        });
    }
    let mut missing = vec!["limits bind each process, not the tree as a whole".to_owned()];
    if processes.is_some() && geteuid().is_root() {
        missing.push("the kernel exempts the superuser from the limit on processes".into());
    }
    Ok(Status::Partial { missing })
}

fn set(name: &str, resource: Resource, value: u64) -> Result<(), LayerError> {
    // Raising a hard limit needs privilege, and a lower one binds anyway.
    let value = getrlimit(resource)
        .maximum
        .map_or(value, |hard| value.min(hard));
    setrlimit(
        resource,
        Rlimit {
            current: Some(value),
            maximum: Some(value),
        },
    )
    .map_err(LayerError::step(format!("set the limit {name}")))
}
