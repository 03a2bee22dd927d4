//! Owns what a policy says about limits, and which values leave nothing.
//!
//! Plain data; how a limit is held is decided in `limits/`.

use serde::{Deserialize, Serialize};

use super::{HostPath, PolicyError};
use crate::limits::Limit;

/// What a command and everything it starts may use up.
///
/// Unless it says otherwise, a limit is for the whole tree of processes. By
/// what it is held on this machine stands in
/// [`Enforcement::limits`](crate::Enforcement::limits).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory of the whole tree, private directories in memory included.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at once.
    pub processes: Option<u64>,
    /// Processor time of the whole tree.
    pub cpu_seconds: Option<u64>,
    /// Open descriptors, each process for itself.
    pub open_files: Option<u64>,
    /// Size of each file that is written.
    pub file_bytes: Option<u64>,
    /// Room on disk.
    #[serde(default)]
    pub disk: Option<Disk>,
}

/// Room on disk in some directories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// What is counted, as the host names it. Other file systems mounted
    /// beneath are not, and no link is followed.
    pub directories: Vec<HostPath>,
    /// The most they may take up together.
    pub bytes: Option<u64>,
    /// The most files, directories and links that they may hold together. Where
    /// either is set, directories more than 256 levels deep end the command.
    pub files: Option<u64>,
    /// What counts.
    pub counted: Counted,
}

/// What counts towards a limit on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// All that is there.
    All,
    /// What has come since the first look, which begins as the command starts.
    ///
    /// What is written before that look is complete (a few milliseconds, or
    /// seconds where there are very many files) is free from then on. While it
    /// goes on the command is ended should the file system lose more room than
    /// the limit, so that no more than once the limit can be free; what others
    /// write to the file system in that time counts there as well.
    Added,
}

/// With less than this the stage itself could not run, or would be ended
/// before it could report.
const LEAST_MEMORY: u64 = 16 << 20;

impl Limits {
    /// Each limit with the name of its field.
    fn named(&self) -> [(&'static str, Option<u64>); 7] {
        let disk = self.disk.as_ref();
        [
            ("memory_bytes", self.memory_bytes),
            ("processes", self.processes),
            ("file_bytes", self.file_bytes),
            ("open_files", self.open_files),
            ("cpu_seconds", self.cpu_seconds),
            ("disk.bytes", disk.and_then(|disk| disk.bytes)),
            ("disk.files", disk.and_then(|disk| disk.files)),
        ]
    }

    /// The limits that are set, with their values.
    #[must_use]
    pub fn values(&self) -> Vec<(Limit, u64)> {
        let disk = self.disk.as_ref();
        [
            (Limit::Memory, self.memory_bytes),
            (Limit::Processes, self.processes),
            (Limit::Cpu, self.cpu_seconds),
            (Limit::OpenFiles, self.open_files),
            (Limit::FileSize, self.file_bytes),
            (Limit::Disk, disk.and_then(|disk| disk.bytes)),
            (Limit::DiskFiles, disk.and_then(|disk| disk.files)),
        ]
        .into_iter()
        .filter_map(|(limit, value)| Some((limit, value?)))
        .collect()
    }

    pub(super) fn check(&self) -> Result<(), PolicyError> {
        // Without three descriptors nothing that reads or prints can start. A
        // file size of zero is a wish that makes sense: nothing is written.
        for (limit, value) in self.named() {
            let least = match limit {
                "open_files" => 4,
                "file_bytes" => 0,
                "memory_bytes" => LEAST_MEMORY,
                _ => 1,
            };
            if let Some(value) = value.filter(|value| *value < least) {
                return Err(PolicyError::ImpossibleLimit {
                    limit: limit.into(),
                    value,
                });
            }
        }
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        if disk.directories.is_empty() {
            return Err(PolicyError::NothingCounted);
        }
        for directory in &disk.directories {
            super::check::check_path(directory)?;
        }
        Ok(())
    }
}
