//! Owns the names of the limits, of what holds them, and the fact of a hit.
//!
//! Used in reports and messages. Nothing is measured here.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that a tree of processes can use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory.
    Memory,
    /// Processes and threads at once.
    Processes,
    /// Processor time.
    Cpu,
    /// Open descriptors of one process.
    OpenFiles,
    /// The size of one file.
    FileSize,
    /// Bytes on disk.
    Disk,
    /// Files on disk.
    DiskFiles,
    /// Directories within each other, where room on disk is measured: a tree
    /// that is deeper cannot be.
    DiskDepth,
    /// Bytes printed.
    Output,
}

impl Limit {
    /// The limit's name in reports and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cpu => "cpu",
            Self::OpenFiles => "open_files",
            Self::FileSize => "file_size",
            Self::Disk => "disk",
            Self::DiskFiles => "disk_files",
            Self::DiskDepth => "disk_depth",
            Self::Output => "output",
        }
    }

    /// A value of this limit as people write it.
    #[must_use]
    pub fn amount(self, value: u64) -> String {
        match self {
            Self::Memory | Self::FileSize | Self::Disk | Self::Output => bytes(value),
            Self::Cpu => format!("{value} s"),
            Self::DiskDepth => format!("{value} levels"),
            Self::Processes | Self::OpenFiles | Self::DiskFiles => value.to_string(),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// In the largest unit that divides it.
fn bytes(value: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    match UNITS
        .iter()
        .find(|(size, _)| value >= *size && value.is_multiple_of(*size))
    {
        Some((size, unit)) => format!("{} {unit}", value / size),
        None => format!("{value} bytes"),
    }
}

/// What holds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// A control group of the unified hierarchy: the kernel counts the tree.
    CgroupV2,
    /// A control group of an old hierarchy: the kernel counts the tree.
    CgroupV1,
    /// A resource limit: the kernel counts one process, or, for processes in a
    /// user namespace of their own, the tree.
    Rlimit,
    /// The first process of the cage measures the tree again and again, and
    /// ends it. Between two looks more can be used than the limit says.
    Watchdog,
    /// The launcher counts what comes out.
    Launcher,
}

impl Mechanism {
    /// The mechanism's name in reports and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::Rlimit => "rlimit",
            Self::Watchdog => "watchdog",
            Self::Launcher => "launcher",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitHit {
    /// Which.
    pub limit: Limit,
    /// Its value, in the limit's own unit.
    pub value: u64,
    /// What noticed.
    pub by: Mechanism,
    /// How often, as far as that is counted; at least once.
    pub count: u64,
}

impl fmt::Display for LimitHit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            value,
            by,
            count: _,
        } = self;
        let amount = limit.amount(*value);
        write!(out, "the limit `{limit}` of {amount} was reached ({by})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_limit_its_value_and_what_held_it() {
        let hit = |limit, value, by| LimitHit {
            limit,
            value,
            by,
            count: 1,
        };
        assert_eq!(
            [
                hit(Limit::Memory, 512 << 20, Mechanism::CgroupV1).to_string(),
                hit(Limit::Disk, (1 << 30) + 1, Mechanism::Watchdog).to_string(),
                hit(Limit::Cpu, 7, Mechanism::Rlimit).to_string(),
                hit(Limit::Processes, 64, Mechanism::CgroupV2).to_string(),
            ],
            [
                "the limit `memory` of 512 MiB was reached (cgroup v1)",
                "the limit `disk` of 1073741825 bytes was reached (watchdog)",
                "the limit `cpu` of 7 s was reached (rlimit)",
                "the limit `processes` of 64 was reached (cgroup v2)",
            ]
        );
    }
}
