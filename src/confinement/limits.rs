//! What an agent may use up where nobody says otherwise.
//!
//! Owns the table of defaults, so that an agent without limits of its own
//! cannot take the machine down, and the shape of the limits that reach the
//! sandbox. What the machine has is handed in.

use std::path::Path;

use cofferdam_sandbox::{Counted, Disk, Limits};

use crate::model::{ResourceLimits, ViewMode};

/// Processes at once. In place they are counted together with the person's
/// own, so there is no default then.
const PROCESSES: u64 = 4096;

/// The largest file: what an agent writes is read and hashed when it has
/// ended, holes included.
const FILE_BYTES: u64 = 16 << 30;

/// Bytes that an agent may print; what is kept of them is far less.
pub const OUTPUT_BYTES: u64 = 1 << 30;

/// Open descriptors of each process, so that an agent that uses them up uses up
/// its own and not the machine's. A lower limit of the launcher's stays.
const OPEN_FILES: u64 = 65_536;

/// Memory and room that one agent leaves to everybody else: it gets this part
/// of what there is.
const PART: u64 = 2;

/// With a limit on disk, one file or directory for so many bytes of it: an
/// empty file takes up room too, of another kind.
const BYTES_A_FILE: u64 = 1 << 10;
/// However small the limit on disk.
const FILES: u64 = 10_000;

/// The agent's directory and what the machine has left.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    /// The agent's own directory: its copy, home and temporary files.
    pub directory: &'a Path,
    /// Memory of the machine; `None` where it is not known.
    pub memory: Option<u64>,
    /// Bytes free on the directory's file system.
    pub free_bytes: Option<u64>,
    /// Files that can still be made there.
    pub free_files: Option<u64>,
}

/// The limits of one agent.
///
/// Processor time has no option and no default: an agent's deadline bounds it.
pub(super) fn limits(asked: &ResourceLimits, mode: ViewMode, room: &Room<'_>) -> Limits {
    let processes = match mode {
        ViewMode::Mounted => Some(PROCESSES),
        ViewMode::InPlace => None,
    };
    let part = |whole: Option<u64>| whole.map(|whole| whole / PART).filter(|part| *part > 0);
    let (bytes, files, counted) = match asked.disk_bytes {
        Some(bytes) => {
            let files = (bytes / BYTES_A_FILE).max(FILES);
            (Some(bytes), Some(files), Counted::All)
        }
        // The copy itself was made before anybody looked.
        None => (part(room.free_bytes), part(room.free_files), Counted::Added),
    };
    Limits {
        memory_bytes: asked.memory_bytes.or(part(room.memory)),
        processes: asked.processes.or(processes),
        cpu_seconds: None,
        open_files: Some(OPEN_FILES),
        file_bytes: asked.disk_bytes.or(Some(FILE_BYTES)),
        disk: Some(Disk {
            directories: vec![room.directory.into()],
            bytes,
            files,
            counted,
        }),
    }
}
