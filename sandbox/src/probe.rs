//! Owns the question what this machine can enforce.
//!
//! Answered by doing it in a throw-away child, never by reading versions or
//! switches. Called by `doctor`, and before a workspace is made, to choose
//! between a mounted view and one in place.

use crate::enforcement::Enforcement;
use crate::policy::{Command, FileRule, Limits, Network, Policy, Rights, View, ViewMode};
use crate::spawn::{Helper, SpawnError, rehearse};

/// Tries every layer for real and reports what each achieves.
///
/// The view is read-only with nothing mounted in it, there is no network, and
/// memory and processes are limited.
///
/// # Errors
/// Fails if the helper cannot run, or if a canary escapes. A layer that the
/// machine lacks is no error but a status.
pub fn probe(helper: &Helper) -> Result<Enforcement, SpawnError> {
    let policy = Policy {
        command: Command {
            argv: vec!["nothing".into()],
            cwd: std::path::PathBuf::from("/").into(),
            env: vec![],
        },
        view: View {
            mode: ViewMode::Mounted,
            mounts: vec![],
        },
        files: vec![FileRule {
            path: std::path::PathBuf::from("/usr").into(),
            rights: Rights::ReadExecute,
        }],
        network: Network::None,
        limits: Limits {
            memory_bytes: Some(1 << 30),
            processes: Some(4096),
            ..Limits::default()
        },
        waived: [].into(),
        required: [].into(),
    };
    rehearse(&policy, helper)
}
