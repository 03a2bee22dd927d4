//! Owns the resource limits of single processes, and says what holds each limit.
//!
//! They are the floor beneath what `limits/` holds for the tree. Memory: the
//! address space is never limited, because runtimes reserve many times what
//! they use; where no control group counts the tree, the data of each process
//! is, so that one process cannot outrun the watchdog. Processes: since Linux
//! 5.14 the kernel counts those of one user in one user namespace, so in a
//! namespace of the cage's own the limit is the tree's; the machine's
//! superuser is exempt from it in any namespace.

use std::collections::BTreeMap;

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use super::LayerError;
use super::namespaces::Spaces;
use crate::enforcement::{Status, UidMap};
use crate::limits::{ByUser, Joining, Limit, Mechanism, with_stage};
use crate::policy::{Layer, Policy};

/// What the layer achieved.
pub(crate) struct Bound {
    pub(crate) status: Status,
    pub(crate) held: BTreeMap<Limit, Mechanism>,
}

/// How far one process may get past the limit on memory where it is measured.
/// The kernel tells nobody that it refused data, so the watchdog comes first;
/// and what is reserved for the stacks of threads counts as data too.
const SLACK: u64 = 1 << 30;

/// Signals and timers that may be waiting at once.
const SIGNALS: u64 = 8192;

/// Sets the limits of this process and all it starts.
///
/// `others` are processes of the stage besides those that are always there.
pub(crate) fn apply(
    policy: &Policy,
    group: &Joining,
    spaces: &Spaces,
    others: u64,
) -> Result<Bound, LayerError> {
    // A core dump would carry what the command read to where the host's
    // handler puts it.
    set("core", Resource::Core, (0, 0))?;
    // Queued signals and timers are counted for the user as a whole.
    set("signals", Resource::Sigpending, (SIGNALS, SIGNALS))?;
    if policy.waives(Layer::Limits) {
        return Ok(Bound {
            status: Status::Waived,
            held: BTreeMap::new(),
        });
    }
    let limits = &policy.limits;
    let counted = by_user(spaces);
    let same = |value: Option<u64>| value.map(|value| (value, value));
    let data = limits
        .memory_bytes
        .filter(|_| group.holder(Limit::Memory).is_none())
        .map(|bytes| bytes.saturating_add(bytes.max(SLACK)));
    let processes = limits.processes.map(|count| match counted {
        ByUser::Counted => with_stage(count, others),
        ByUser::NotCounted => count,
    });
    // At the first the kernel sends a signal that tells why, at the second
    // one that cannot be ignored.
    let cpu = limits
        .cpu_seconds
        .map(|seconds| (seconds, seconds.saturating_add(1)));
    let wanted = [
        ("memory_bytes", Resource::Data, same(data)),
        ("processes", Resource::Nproc, same(processes)),
        ("file_bytes", Resource::Fsize, same(limits.file_bytes)),
        ("open_files", Resource::Nofile, same(limits.open_files)),
        ("cpu_seconds", Resource::Cpu, cpu),
    ];
    for (name, resource, value) in wanted {
        if let Some(value) = value {
            set(name, resource, value)?;
        }
    }
    let held = held(policy, group, counted);
    Ok(Bound {
        status: status(policy, group, counted, &held),
        held,
    })
}

/// Whether the kernel counts the processes of this cage, and only those.
pub(crate) fn by_user(spaces: &Spaces) -> ByUser {
    match spaces.uid_map {
        UidMap::Itself if !geteuid().is_root() => ByUser::Counted,
        UidMap::Itself | UidMap::Host => ByUser::NotCounted,
    }
}

/// Lets the machine, where it runs out of memory, end this tree before the
/// person's own programs.
///
/// Raising one's own number is always allowed; a machine whose procfs cannot
/// be written goes on without.
pub(crate) fn give_way() {
    drop(std::fs::write("/proc/self/oom_score_adj", "500"));
}

/// By what each limit of the policy is held; what nothing holds is left out.
fn held(policy: &Policy, group: &Joining, counted: ByUser) -> BTreeMap<Limit, Mechanism> {
    let by = |limit| match limit {
        Limit::Processes if counted == ByUser::Counted => Mechanism::Rlimit,
        Limit::OpenFiles | Limit::FileSize => Mechanism::Rlimit,
        Limit::Memory
        | Limit::Processes
        | Limit::Cpu
        | Limit::Disk
        | Limit::DiskFiles
        | Limit::DiskDepth => Mechanism::Watchdog,
        Limit::Output => Mechanism::Launcher,
    };
    let sees_processes = std::fs::read_link("/proc/self").is_ok();
    let values = policy.limits.values().into_iter();
    values
        .map(|(limit, _)| (limit, group.holder(limit).unwrap_or_else(|| by(limit))))
        .filter(|(limit, by)| match (by, limit) {
            // The watchdog sees nothing of it where no procfs shows the tree.
            (Mechanism::Watchdog, Limit::Memory | Limit::Processes) => sees_processes,
            (Mechanism::Watchdog, Limit::Cpu) => sees_processes || group.counts_cpu,
            _ => true,
        })
        .collect()
}

/// Full where the kernel itself bounds memory and processes of the whole tree.
fn status(
    policy: &Policy,
    group: &Joining,
    counted: ByUser,
    held: &BTreeMap<Limit, Mechanism>,
) -> Status {
    let limits = &policy.limits;
    if limits.values().is_empty() {
        return Status::Absent {
            reason: "the policy sets no limit".into(),
        };
    }
    let mut missing = Vec::new();
    if limits.memory_bytes.is_some() && group.holder(Limit::Memory).is_none() {
        missing.push(
            "memory of the whole tree is measured again and again, not bound by the kernel".into(),
        );
    }
    let loose = group.holder(Limit::Processes).is_none() && counted == ByUser::NotCounted;
    if limits.processes.is_some() && loose {
        missing.push(if geteuid().is_root() {
            "processes are counted again and again: the kernel exempts the superuser from its limit"
                .into()
        } else {
            "processes are limited together with all others of this user".into()
        });
    }
    if !missing.is_empty() {
        missing.extend(group.missing.clone());
    }
    let values = limits.values().into_iter();
    let unheld: Vec<String> = values
        .filter(|(limit, _)| !held.contains_key(limit))
        .map(|(limit, _)| format!("`{limit}`"))
        .collect();
    if !unheld.is_empty() {
        missing.push(format!(
            "there is no procfs in which processes could be measured, so nothing holds {}",
            unheld.join(" and ")
        ));
    }
    Status::unless(missing)
}

fn set(name: &str, resource: Resource, (current, maximum): (u64, u64)) -> Result<(), LayerError> {
    // Raising a hard limit needs privilege, and a lower one binds anyway.
    let lower = |value: u64| {
        getrlimit(resource)
            .maximum
            .map_or(value, |hard| value.min(hard))
    };
    setrlimit(
        resource,
        Rlimit {
            current: Some(lower(current)),
            maximum: Some(lower(maximum)),
        },
    )
    .map_err(LayerError::step(format!("set the limit {name}")))
}
