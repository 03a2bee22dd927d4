//! Owns what can be taken away, by name, and the rules that do it.
//!
//! An answer is the error that a kernel without the feature gives. What a rule
//! cannot see (flags behind a pointer) is answered as by a kernel that does not
//! know the call, so that libraries use one whose flags are in sight.

use std::fmt;
use std::str::FromStr;

use libc::c_long;

/// Something that a kernel may lack or forbid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Landlock, as where it was not built.
    Landlock,
    /// Landlock, as where it is built and not switched on.
    LandlockSwitch,
    /// What Landlock has had since after this version.
    LandlockSince(u32),
    /// Every namespace, as in a container.
    Namespaces,
    /// The user namespace.
    UserNamespaces,
    /// What a user namespace of an ordinary user allows, as on Ubuntu 24.04.
    PowerInUserNamespaces,
    /// Mounts of every kind.
    Mounts,
    /// The calls for mounts that came with Linux 5.2 and 5.12.
    MountDescriptors,
    /// The network namespace.
    NetworkNamespaces,
    /// Filters of system calls.
    Seccomp,
    /// Handles of processes.
    Pidfd,
    /// Opening beneath a directory.
    Openat2,
    /// Closing a range of descriptors.
    CloseRange,
}

/// The greatest version of Landlock that can be imitated.
const VERSIONS: u32 = 7;

impl Feature {
    /// Each of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Landlock, Self::LandlockSwitch];
        all.extend((1..=VERSIONS).map(Self::LandlockSince));
        all.extend([
            Self::Namespaces,
            Self::UserNamespaces,
            Self::PowerInUserNamespaces,
            Self::Mounts,
            Self::MountDescriptors,
            Self::NetworkNamespaces,
            Self::Seccomp,
            Self::Pidfd,
            Self::Openat2,
            Self::CloseRange,
        ]);
        all
    }

    pub(crate) fn rules(self) -> Vec<Rule> {
        match self {
            Self::Landlock => calls(&LANDLOCK, Answer::Error(libc::ENOSYS)),
            Self::LandlockSwitch => calls(&LANDLOCK, Answer::Error(libc::EOPNOTSUPP)),
            Self::LandlockSince(version) => older_landlock(version),
            Self::Namespaces => [
                namespaces(ANY_NAMESPACE),
                calls(&[libc::SYS_setns], REFUSED),
            ]
            .concat(),
            Self::UserNamespaces => namespaces(libc::CLONE_NEWUSER),
            Self::PowerInUserNamespaces => [
                namespaces(ANY_NAMESPACE & !libc::CLONE_NEWUSER),
                calls(&MOUNTS, REFUSED),
                // Raising an interface takes power over the network namespace.
                vec![Rule {
                    call: libc::SYS_ioctl,
                    when: When::Is(1, 0x8914), // SIOCSIFFLAGS, whose type differs between C libraries
                    answer: REFUSED,
                }],
            ]
            .concat(),
            Self::Mounts => calls(&MOUNTS, REFUSED),
            Self::MountDescriptors => calls(&MOUNTS[3..], Answer::Error(libc::ENOSYS)),
            Self::NetworkNamespaces => namespaces(libc::CLONE_NEWNET),
            Self::Seccomp => vec![
                Rule {
                    call: libc::SYS_prctl,
                    when: When::Is(0, libc::PR_SET_SECCOMP.unsigned_abs()),
                    answer: Answer::Error(libc::EINVAL),
                },
                Rule {
                    call: libc::SYS_seccomp,
                    when: When::Always,
                    answer: Answer::Error(libc::ENOSYS),
                },
            ],
            Self::Pidfd => calls(
                &[
                    libc::SYS_pidfd_open,
                    libc::SYS_pidfd_send_signal,
                    libc::SYS_pidfd_getfd,
                ],
                Answer::Error(libc::ENOSYS),
            ),
            Self::Openat2 => calls(&[libc::SYS_openat2], Answer::Error(libc::ENOSYS)),
            Self::CloseRange => calls(&[libc::SYS_close_range], Answer::Error(libc::ENOSYS)),
        }
    }
}

/// When a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// The argument has one of these bits.
    Has(u32, u32),
    /// The argument is this.
    Is(u32, u32),
}

/// What a call is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Error(i32),
    /// Whoever listens decides.
    Ask,
}

const REFUSED: Answer = Answer::Error(libc::EPERM);

/// One rule of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) call: c_long,
    pub(crate) when: When,
    pub(crate) answer: Answer,
}

const LANDLOCK: [c_long; 3] = [
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

/// The three old calls first.
const MOUNTS: [c_long; 10] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
];

const ANY_NAMESPACE: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

fn calls(list: &[c_long], answer: Answer) -> Vec<Rule> {
    let rule = |call: &c_long| Rule {
        call: *call,
        when: When::Always,
        answer,
    };
    list.iter().map(rule).collect()
}

fn namespaces(flags: i32) -> Vec<Rule> {
    let flags = flags.cast_unsigned();
    let rule = |call, when, answer| Rule { call, when, answer };
    vec![
        rule(libc::SYS_unshare, When::Has(0, flags), REFUSED),
        rule(libc::SYS_clone, When::Has(0, flags), REFUSED),
        rule(libc::SYS_clone3, When::Always, Answer::Error(libc::ENOSYS)),
    ]
}

fn older_landlock(version: u32) -> Vec<Rule> {
    let mut rules = calls(&[libc::SYS_landlock_create_ruleset], Answer::Ask);
    if version < VERSIONS {
        // Its flags came with the last of these versions.
        rules.push(Rule {
            call: libc::SYS_landlock_restrict_self,
            when: When::Has(1, u32::MAX),
            answer: Answer::Error(libc::EINVAL),
        });
    }
    rules
}

impl fmt::Display for Feature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Landlock => "no-landlock",
            Self::LandlockSwitch => "landlock-disabled",
            Self::LandlockSince(version) => return write!(out, "landlock-abi-{version}"),
            Self::Namespaces => "no-namespaces",
            Self::UserNamespaces => "no-user-namespaces",
            Self::PowerInUserNamespaces => "powerless-user-namespaces",
            Self::Mounts => "no-mounts",
            Self::MountDescriptors => "no-mount-descriptors",
            Self::NetworkNamespaces => "no-network-namespaces",
            Self::Seccomp => "no-seccomp",
            Self::Pidfd => "no-pidfd",
            Self::Openat2 => "no-openat2",
            Self::CloseRange => "no-close-range",
        };
        out.write_str(word)
    }
}

impl FromStr for Feature {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = Self::all();
        let known: Vec<_> = all.iter().map(ToString::to_string).collect();
        let place = known.iter().position(|name| name == word);
        place
            .map(|place| all[place])
            .ok_or_else(|| format!("`{word}` is no feature; there are {}", known.join(", ")))
    }
}
