//! Owns the order of mounts: which, where, and what must stay visible.
//!
//! Turns a policy into a list of steps. Reads the host's symbolic links and
//! changes nothing. Three things are added to what the policy lists: a private
//! `/dev`, a private `/dev/shm`, and a bind mount for every path with a rule
//! that would otherwise be hidden (or, if it is writable, read-only).

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::devices::{self, DEVICES};
use super::overlay::Layers;
use crate::policy::{Access, FileRule, HostPath, Mount, Otherwise, Policy, PolicyError, Rights};

/// What speaks for the whole machine and is never made writable by a rule:
/// for the superuser its files are doors to the host.
const MACHINE: [&str; 2] = ["/proc", "/sys"];

/// One mount to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Where, without symbolic links as far as the host decides that.
    pub(crate) target: PathBuf,
    pub(crate) what: What,
    pub(crate) place: Place,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Tmpfs {
        access: Access,
        bytes: u64,
    },
    Bind {
        source: PathBuf,
        access: Access,
    },
    /// The private `/dev`.
    Devices,
    Overlay {
        layers: Layers,
        access: Access,
        otherwise: Otherwise,
    },
}

impl What {
    /// Whether it is empty but for what is mounted in it.
    fn hides(&self) -> bool {
        match self {
            Self::Tmpfs { .. } | Self::Devices => true,
            Self::Bind { .. } | Self::Overlay { .. } => false,
        }
    }
}

/// Whether the target may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It lies in a private directory of this view: making it leaves nothing behind.
    Private,
    /// It belongs to the host or to the workspace, and must be there.
    Given,
}

/// Room for shared memory where the policy says nothing of it.
const SHARED_MEMORY: &str = "/dev/shm";
const SHARED_MEMORY_BYTES: u64 = 1 << 30;

struct Wanted {
    literal: PathBuf,
    step: Step,
}

/// What is mounted, and where the rules then point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The mounts, in order.
    pub(crate) steps: Vec<Step>,
    /// The rules, at paths in which no link is left to follow: one that is put
    /// there later is an error and changes nothing.
    pub(crate) rules: Vec<FileRule>,
}

/// The mounts of a policy, in order, and its rules.
pub(crate) fn plan(policy: &Policy) -> Result<Plan, PolicyError> {
    let mut wanted: Vec<Wanted> = Vec::new();
    // First: whatever the policy mounts below goes into it.
    if Path::new(DEVICES).is_dir() && !shows_devices(policy) {
        push(&mut wanted, Path::new(DEVICES), What::Devices);
    }
    let shared = shared_memory_goes(policy);
    for (index, mount) in policy.view.mounts.iter().enumerate() {
        if shared == Some(index) {
            push_shared_memory(&mut wanted);
        }
        refuse_machine(mount)?;
        let what = match mount {
            Mount::Tmpfs {
                target,
                access: Access::ReadOnly,
                ..
            } if target.as_ref() as &Path == Path::new(DEVICES) => What::Devices,
            Mount::Tmpfs { access, bytes, .. } => What::Tmpfs {
                access: *access,
                bytes: *bytes,
            },
            Mount::Bind { source, access, .. } => What::Bind {
                source: resolve(source, &[]),
                access: *access,
            },
            Mount::Overlay {
                lower,
                upper,
                work,
                access,
                directories,
                otherwise,
                ..
            } => What::Overlay {
                layers: Layers {
                    lower: lower.iter().map(|path| path.0.clone()).collect(),
                    upper: upper.0.clone(),
                    work: work.0.clone(),
                    directories: *directories,
                },
                access: *access,
                otherwise: *otherwise,
            },
        };
        push(&mut wanted, mount.target(), what);
    }
    if shared == Some(policy.view.mounts.len()) {
        push_shared_memory(&mut wanted);
    }
    // Shallow first: a rule beneath another refines it.
    let nodes = nodes(policy);
    let mut rules: Vec<&FileRule> = policy.files.iter().chain(&nodes).collect();
    rules.sort_by_key(|rule| rule.path.components().count());
    let mut back = vec![Vec::new(); wanted.len()];
    let mut first = Vec::new();
    for rule in rules {
        keep_visible(rule, &wanted, &mut first, &mut back)?;
    }
    let rules = resolve_rules(policy, &wanted);
    let mut steps = first;
    for (wanted, back) in wanted.into_iter().zip(back) {
        steps.push(wanted.step);
        steps.extend(back);
    }
    Ok(Plan { steps, rules })
}

/// The rules of a policy that mounts nothing.
pub(crate) fn rules_in_place(policy: &Policy) -> Vec<FileRule> {
    resolve_rules(policy, &[])
}

fn resolve_rules(policy: &Policy, wanted: &[Wanted]) -> Vec<FileRule> {
    let own = wanted.iter().any(|one| one.step.what == What::Devices);
    let resolved = policy.files.iter().map(|rule| {
        let path = resolve(&rule.path, wanted);
        let path = if own { devices::behind(path) } else { path };
        FileRule {
            path: path.into(),
            rights: rule.rights,
        }
    });
    resolved.collect()
}

/// Whether a mount of the policy decides what is in `/dev`.
fn shows_devices(policy: &Policy) -> bool {
    let mut mounts = policy.view.mounts.iter();
    mounts.any(|mount| Path::new(DEVICES).starts_with(mount.target()))
}

/// The usual nodes, where a rule is for all of `/dev` or for the root: the
/// private directory has no node by itself.
fn nodes(policy: &Policy) -> Vec<FileRule> {
    let mut rules = policy.files.iter();
    if !rules.any(|rule| Path::new(DEVICES).starts_with(&rule.path)) {
        return Vec::new();
    }
    let nodes = devices::NODES.into_iter().map(Path::new);
    let there = nodes.filter(|node| node.exists());
    there
        .map(|node| FileRule {
            path: node.into(),
            rights: Rights::Device,
        })
        .collect()
}

/// Before which of the policy's mounts the private shared memory goes: after
/// the last one that covers its place, so that a hidden `/dev` gets it too.
fn shared_memory_goes(policy: &Policy) -> Option<usize> {
    let place = Path::new(SHARED_MEMORY);
    let covers = |mount: &Mount| place.starts_with(mount.target());
    match policy.view.mounts.iter().rposition(covers) {
        None => place.is_dir().then_some(0),
        Some(last) => match &policy.view.mounts[last] {
            Mount::Tmpfs { target, .. } => (target.as_ref() as &Path != place).then_some(last + 1),
            // Whoever shows another /dev decides what is in it.
            Mount::Bind { .. } | Mount::Overlay { .. } => None,
        },
    }
}

fn push_shared_memory(wanted: &mut Vec<Wanted>) {
    let what = What::Tmpfs {
        access: Access::ReadWrite,
        bytes: SHARED_MEMORY_BYTES,
    };
    push(wanted, Path::new(SHARED_MEMORY), what);
}

fn push(wanted: &mut Vec<Wanted>, literal: &Path, what: What) {
    let target = resolve(literal, wanted);
    let place = match cover(&target, wanted) {
        Some(index) if wanted[index].step.what.hides() => Place::Private,
        Some(_) | None => Place::Given,
    };
    wanted.push(Wanted {
        literal: literal.to_path_buf(),
        step: Step {
            target,
            what,
            place,
        },
    });
}

/// The last mount at or above a path: the one whose contents are seen there.
fn cover(path: &Path, wanted: &[Wanted]) -> Option<usize> {
    wanted
        .iter()
        .rposition(|earlier| path.starts_with(&earlier.step.target))
}

/// Follows the host's symbolic links, except within what an earlier mount
/// covers: there the host's links are not seen.
fn resolve(literal: &Path, wanted: &[Wanted]) -> PathBuf {
    for earlier in wanted.iter().rev() {
        if let Ok(rest) = literal.strip_prefix(&earlier.literal) {
            return join(&earlier.step.target, rest);
        }
    }
    let mut known = literal;
    loop {
        if let Some(real) = real(known) {
            let rest = literal
                .strip_prefix(known)
                .expect("because it is an ancestor");
            return join(&real, rest);
        }
        match known.parent() {
            Some(parent) => known = parent,
            None => return literal.to_path_buf(),
        }
    }
}

/// Joins without a trailing slash, which would make a file's path a directory's.
fn join(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        base.to_path_buf()
    } else {
        base.join(rest)
    }
}

/// A path without links, asked of the host once: the stage plans once, before
/// anything is mounted, and a policy has hundreds of rules.
fn real(path: &Path) -> Option<PathBuf> {
    thread_local! {
        static KNOWN: RefCell<HashMap<PathBuf, Option<PathBuf>>> = RefCell::default();
    }
    if let Some(real) = KNOWN.with_borrow(|known| known.get(path).cloned()) {
        return real;
    }
    let found = look_up(path);
    KNOWN.with_borrow_mut(|known| known.insert(path.to_owned(), found.clone()));
    found
}

/// Most paths lie beside others: where their directory leads is known, and one
/// look says whether they lead on themselves.
fn look_up(path: &Path) -> Option<PathBuf> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return path.canonicalize().ok();
    };
    let beside = real(directory)?.join(name);
    match beside.symlink_metadata().ok()?.is_symlink() {
        true => beside.canonicalize().ok(),
        false => Some(beside),
    }
}

/// Adds the mounts that keep the path of a rule present with its rights.
fn keep_visible(
    rule: &FileRule,
    wanted: &[Wanted],
    first: &mut Vec<Step>,
    back: &mut [Vec<Step>],
) -> Result<(), PolicyError> {
    let access = rule.rights.access();
    let literal = resolve(&rule.path, wanted);
    let real = real(&rule.path);
    let mut places = vec![literal.clone()];
    places.extend(real.clone().filter(|real| *real != literal));
    for target in places {
        let Some(index) = cover(&target, wanted) else {
            let source = real.clone().ok_or_else(|| PolicyError::MissingRule {
                path: rule.path.clone(),
            })?;
            // A rule for the root itself is about opening, not about the view.
            let of_files = source.parent().is_some() && !of_machine(&source);
            if access == Access::ReadWrite && of_files {
                first.push(Step {
                    target: source.clone(),
                    what: What::Bind { source, access },
                    place: Place::Given,
                });
            }
            continue;
        };
        let cover = &wanted[index].step;
        let own = cover.what == What::Devices && devices::provides(&target);
        let hides = cover.what.hides() && cover.target != target && !own;
        // A later mount below the path makes the directories above itself.
        let made_by_another = wanted[index + 1..]
            .iter()
            .any(|later| later.step.target.starts_with(&target));
        if !hides {
            continue;
        }
        match (&real, made_by_another) {
            (Some(source), _) => back[index].push(Step {
                target,
                what: What::Bind {
                    source: source.clone(),
                    access,
                },
                place: Place::Private,
            }),
            (None, true) => {}
            (None, false) => {
                return Err(PolicyError::MissingRule {
                    path: rule.path.clone(),
                });
            }
        }
    }
    Ok(())
}

fn of_machine(path: &Path) -> bool {
    MACHINE.iter().any(|machine| path.starts_with(machine))
}

/// Refuses mounts that would bring the host's procfs back, or cover the cage's.
fn refuse_machine(mount: &Mount) -> Result<(), PolicyError> {
    if mount.target().starts_with("/proc") {
        let reason = "procfs is the cage's own".into();
        return Err(PolicyError::BadTarget {
            path: mount.target().clone(),
            reason,
        });
    }
    match mount {
        Mount::Tmpfs { .. } => Ok(()),
        Mount::Bind { source, access, .. } => refuse_source(source, *access),
        Mount::Overlay {
            lower, upper, work, ..
        } => {
            for source in lower {
                refuse_source(source, Access::ReadOnly)?;
            }
            refuse_source(upper, Access::ReadWrite)?;
            refuse_source(work, Access::ReadWrite)
        }
    }
}

fn refuse_source(source: &HostPath, access: Access) -> Result<(), PolicyError> {
    let real = source
        .canonicalize()
        .map_err(|error| PolicyError::BadSource {
            path: source.clone(),
            reason: error.to_string(),
        })?;
    let reason = match access {
        _ if real.starts_with("/proc") || real.parent().is_none() => {
            "it contains the host's procfs"
        }
        Access::ReadWrite if of_machine(&real) => {
            "it speaks for the whole machine and stays read-only"
        }
        Access::ReadWrite | Access::ReadOnly => return Ok(()),
    };
    Err(PolicyError::BadSource {
        path: source.clone(),
        reason: reason.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_leads_where_the_kernel_says() {
        let dir = tempfile::tempdir().expect("because /tmp is writable");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("a/b")).expect("because it is the test's");
        std::fs::write(at("a/b/file"), "x").expect("because it is the test's");
        for (link, target) in [
            ("to-b", "a/b"),
            ("a/b/to-file", "file"),
            ("a/up", ".."),
            ("loop", "loop"),
            ("nowhere", "gone"),
            ("twice", "to-b"),
        ] {
            symlink(target, at(link)).expect("because it is new");
        }
        for name in [
            "",
            "a",
            "a/b/file",
            "to-b",
            "to-b/file",
            "to-b/to-file",
            "a/up/a/b",
            "a/../a",
            "loop",
            "loop/x",
            "nowhere",
            "nowhere/x",
            "gone",
            "a/b/file/x",
            "twice/to-file",
            "a/b/..",
            "/",
            "/proc/self/cwd",
        ] {
            assert_eq!(real(&at(name)), at(name).canonicalize().ok(), "{name}");
        }
    }
}
