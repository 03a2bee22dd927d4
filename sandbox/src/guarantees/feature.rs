//! Owns the list of what the kernel can give a cage, each found by using it.
//!
//! A feature is in an [`Enforcement`](crate::Enforcement) if it is in force
//! for that command, and only then; versions are never looked up. The kernel
//! versions here are for people who want to get what they lack.

use serde::{Deserialize, Serialize};

use crate::policy::Layer;

/// What holds a guarantee, in one word: a layer, or the launcher itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A layer.
    Layer(Layer),
    /// The launcher and its helper, on every machine.
    Launcher,
}

impl Holder {
    /// Its name in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Layer(layer) => layer.word(),
            Self::Launcher => "launcher",
        }
    }
}

/// One thing that is in force, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// File rules (Landlock 1): open, make, remove, rename.
    FileRules,
    /// Rules about moving and linking between directories (Landlock 2);
    /// before, the kernel denies all of it.
    MoveRules,
    /// The rule about `truncate` (Landlock 3).
    TruncateRule,
    /// Rules about TCP ports (Landlock 4).
    TcpRules,
    /// The rule about controlling devices (Landlock 5).
    DeviceRule,
    /// No signal to, and no abstract socket of, processes outside (Landlock 6).
    Scopes,
    /// The rule about unix sockets with a path (Landlock 9).
    PathSocketRule,
    /// Rules about UDP (Landlock 10).
    UdpRules,
    /// A mount namespace in which all is read-only but what the policy says.
    View,
    /// What the policy calls out of reach is not there.
    HiddenPaths,
    /// A procfs that shows the cage only.
    OwnProcfs,
    /// A `/dev` that holds the devices that belong to nobody.
    OwnDevices,
    /// A PID namespace.
    PidNamespace,
    /// A user namespace that owns none of the others, or the first of all.
    UserNamespace,
    /// A user namespace that may have no further namespaces.
    NamespaceQuota,
    /// A network namespace.
    NetworkNamespace,
    /// The filter refuses sockets of the internet.
    InternetRefused,
    /// The system call filter.
    CallFilter,
    /// The filter refuses to change other processes' priorities; only where no
    /// PID namespace hides them.
    PriorityFilter,
    /// No capability is held, and `no_new_privs` keeps it so.
    NoCapabilities,
    /// The bounding set is empty and the secure bits are locked.
    LockedCapabilities,
    /// Memory and processes of the whole tree are bound.
    TreeLimits,
    /// Single processes are bound.
    ProcessLimits,
    /// A sub-reaper sweeps what is left.
    SubReaper,
    /// What the launcher and its helper do on every machine.
    Launcher,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 25] = [
        Self::FileRules,
        Self::MoveRules,
        Self::TruncateRule,
        Self::TcpRules,
        Self::DeviceRule,
        Self::Scopes,
        Self::PathSocketRule,
        Self::UdpRules,
        Self::View,
        Self::HiddenPaths,
        Self::OwnProcfs,
        Self::OwnDevices,
        Self::PidNamespace,
        Self::UserNamespace,
        Self::NamespaceQuota,
        Self::NetworkNamespace,
        Self::InternetRefused,
        Self::CallFilter,
        Self::PriorityFilter,
        Self::NoCapabilities,
        Self::LockedCapabilities,
        Self::TreeLimits,
        Self::ProcessLimits,
        Self::SubReaper,
        Self::Launcher,
    ];

    /// The features of a version of Landlock, oldest first.
    pub(crate) const OF_LANDLOCK: [(u32, Self); 8] = [
        (1, Self::FileRules),
        (2, Self::MoveRules),
        (3, Self::TruncateRule),
        (4, Self::TcpRules),
        (5, Self::DeviceRule),
        (6, Self::Scopes),
        (9, Self::PathSocketRule),
        (10, Self::UdpRules),
    ];

    /// The layer it belongs to.
    #[must_use]
    pub fn holder(self) -> Holder {
        Holder::Layer(match self {
            Self::FileRules
            | Self::MoveRules
            | Self::TruncateRule
            | Self::TcpRules
            | Self::DeviceRule
            | Self::Scopes
            | Self::PathSocketRule
            | Self::UdpRules => Layer::Landlock,
            Self::View | Self::HiddenPaths | Self::OwnProcfs | Self::OwnDevices => Layer::Mounts,
            Self::PidNamespace | Self::UserNamespace | Self::NamespaceQuota => Layer::Namespaces,
            Self::NetworkNamespace => Layer::Network,
            Self::InternetRefused | Self::CallFilter | Self::PriorityFilter => Layer::Seccomp,
            Self::NoCapabilities | Self::LockedCapabilities => Layer::Capabilities,
            Self::TreeLimits | Self::ProcessLimits => Layer::Limits,
            Self::SubReaper | Self::Launcher => return Holder::Launcher,
        })
    }

    /// What it is called in tables.
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::FileRules => "Landlock 1",
            Self::MoveRules => "Landlock 2",
            Self::TruncateRule => "Landlock 3",
            Self::TcpRules => "Landlock 4",
            Self::DeviceRule => "Landlock 5",
            Self::Scopes => "Landlock 6",
            Self::PathSocketRule => "Landlock 9",
            Self::UdpRules => "Landlock 10",
            Self::View => "read-only view",
            Self::HiddenPaths => "hidden paths",
            Self::OwnProcfs => "own procfs",
            Self::OwnDevices => "own devices",
            Self::PidNamespace => "PID namespace",
            Self::UserNamespace => "user namespace",
            Self::NamespaceQuota => "quota of namespaces",
            Self::NetworkNamespace => "network namespace",
            Self::InternetRefused => "filter of internet sockets",
            Self::CallFilter => "system call filter",
            Self::PriorityFilter => "filter of priorities",
            Self::NoCapabilities => "no capability",
            Self::LockedCapabilities => "locked capabilities",
            Self::TreeLimits => "limits of the tree",
            Self::ProcessLimits => "limits of a process",
            Self::SubReaper => "sub-reaper",
            Self::Launcher => "helper",
        }
    }

    /// How a person gets it, as an imperative.
    #[must_use]
    pub fn how_to_get(self) -> &'static str {
        match self {
            Self::FileRules => "boot Linux 5.13 or later with `landlock` among `lsm=`",
            Self::MoveRules => "boot Linux 5.19 or later",
            Self::TruncateRule => "boot Linux 6.2 or later",
            Self::TcpRules => "boot Linux 6.7 or later",
            Self::DeviceRule => "boot Linux 6.10 or later",
            Self::Scopes => "boot Linux 6.12 or later",
            Self::PathSocketRule => "boot Linux 7.1 or later",
            Self::UdpRules => "boot Linux 7.2 or later",
            Self::View | Self::HiddenPaths | Self::OwnProcfs | Self::OwnDevices => {
                "allow this user mount namespaces (Linux 5.12 or later; see user namespaces)"
            }
            Self::PidNamespace | Self::UserNamespace | Self::NetworkNamespace => {
                "allow this user namespaces: `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile on Ubuntu, `kernel.unprivileged_userns_clone=1` on older Debian, CAP_SYS_ADMIN in a container"
            }
            Self::NamespaceQuota => {
                "allow user namespaces, and a procfs in which they can be counted"
            }
            Self::InternetRefused | Self::CallFilter | Self::PriorityFilter => {
                "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER)"
            }
            Self::NoCapabilities => "start as a user who may drop what it holds",
            Self::LockedCapabilities => "start with CAP_SETPCAP, or allow user namespaces",
            Self::TreeLimits => {
                "give this user a cgroup with the controllers `memory` and `pids` (`systemd-run --user --scope -p Delegate=yes`)"
            }
            Self::ProcessLimits => "set a limit",
            Self::SubReaper | Self::Launcher => "nothing is needed",
        }
    }
}
