//! Owns the question what this machine can enforce.
//!
//! Answered by doing it in a throw-away child, never by reading versions or
//! switches. Called by `doctor`, and before a workspace is made, to choose
//! between a mounted view and one in place.

use std::path::Path;

use crate::enforcement::Enforcement;
use crate::policy::{
    Access, Command, FileRule, Limits, Mount, Network, Policy, Rights, View, ViewMode,
};
use crate::spawn::{Helper, SpawnError, rehearse};

/// A directory that every machine has and nothing here needs; it stands for
/// what must be out of reach.
const HIDDEN: &str = "/etc";

/// Tries every layer for real and reports what each achieves.
///
/// The view is read-only with one directory hidden, there is no network, and
/// memory and processes are limited.
///
/// # Errors
/// Fails if the helper cannot run, or if a canary escapes. A layer that the
/// machine lacks is no error but a status.
pub fn probe(helper: &Helper) -> Result<Enforcement, SpawnError> {
    let policy = Policy {
        command: Command {
            argv: vec!["nothing".into()],
            cwd: Path::new("/").into(),
            env: vec![],
        },
        view: View {
            mode: ViewMode::Mounted,
            mounts: vec![Mount::Tmpfs {
                target: Path::new(HIDDEN).into(),
                access: Access::ReadOnly,
                bytes: 0,
            }],
        },
        files: vec![FileRule {
            path: Path::new("/usr").into(),
            rights: Rights::ReadExecute,
        }],
        network: Network::None,
        out_of_reach: vec![Path::new(HIDDEN).into()],
        limits: Limits {
            memory_bytes: Some(1 << 30),
            processes: Some(4096),
            ..Limits::default()
        },
        waived: [].into(),
        required: [].into(),
        promised: [].into(),
    };
    rehearse(&policy, helper)
}
