//! Owns how a policy is told to people: as sentences, and as a table.
//!
//! Made from the very value that is enforced, so it cannot say something
//! else. Values of variables are left out, because they may be secret.

use serde::Serialize;

use super::{Access, Layer, Mount, Network, Policy, Rights, ViewMode};

/// A line of the table: what is granted or hidden, and which layer does it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyRow {
    /// The layer.
    pub layer: Layer,
    /// What it decides about: a path, a port, a limit.
    pub subject: String,
    /// What it does with that.
    pub rule: String,
}

impl Rights {
    /// What they allow, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::ReadWriteExecute => "reads, changes and executes",
            Self::ReadWrite => "reads and changes",
            Self::ReadExecute => "reads and executes",
            Self::Read => "reads",
            Self::Device => "uses the devices",
        }
    }
}

/// From the most to the least.
const ALL_RIGHTS: [Rights; 5] = [
    Rights::ReadWriteExecute,
    Rights::ReadWrite,
    Rights::ReadExecute,
    Rights::Read,
    Rights::Device,
];

impl Policy {
    /// What a command under this policy can do, a sentence each, without their ends.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for rights in ALL_RIGHTS {
            let rules = self.files.iter().filter(|rule| rule.rights == rights);
            let paths: Vec<String> = rules.map(|rule| rule.path.to_string()).collect();
            if !paths.is_empty() {
                lines.push(format!("{} {}", rights.words(), paths.join(" ")));
            }
        }
        lines.push(match self.view.mode {
            ViewMode::Mounted => "sees everything else read-only or not at all".to_owned(),
            ViewMode::InPlace => "sees the host's own directories; nothing is mounted".to_owned(),
        });
        let hidden: Vec<String> = self.view.mounts.iter().filter_map(hidden).collect();
        if !hidden.is_empty() {
            lines.push(format!("finds empty {}", hidden.join(" ")));
        }
        lines.push(match self.network {
            Network::None => "has no network".to_owned(),
            Network::Gateway { port } => {
                format!("reaches the launcher at port {port} and no other network")
            }
            Network::Open => "has the host's network".to_owned(),
        });
        let names = self.command.env.iter();
        let names: Vec<_> = names.map(|(name, _)| name.to_string_lossy()).collect();
        lines.push(format!("has the variables {}", names.join(" ")));
        let limits = self.limits.values().into_iter();
        let limits: Vec<String> = limits
            .map(|(limit, value)| format!("{limit} {}", limit.amount(value)))
            .collect();
        if !limits.is_empty() {
            lines.push(format!("uses at most {}", limits.join(", ")));
        }
        let required: Vec<&str> = self.required.iter().map(|layer| layer.word()).collect();
        lines.push(format!(
            "starts only with {} in full force",
            required.join(" ")
        ));
        let waived: Vec<&str> = self.waived.iter().map(|layer| layer.word()).collect();
        if !waived.is_empty() {
            lines.push(format!("goes without {}", waived.join(" ")));
        }
        lines
    }

    /// What each layer is told, a line each, in the order in which it applies.
    #[must_use]
    pub fn table(&self) -> Vec<PolicyRow> {
        let row = |layer, subject: String, rule: String| PolicyRow {
            layer,
            subject,
            rule,
        };
        let mounts = self.view.mounts.iter().map(|mount| {
            row(
                Layer::Mounts,
                mount.target().to_string(),
                mount_words(mount),
            )
        });
        let files = self.files.iter().map(|rule| {
            let words = rule.rights.words().to_owned();
            row(Layer::Landlock, rule.path.to_string(), words)
        });
        let network = match self.network {
            Network::None => "none but a loopback of its own".to_owned(),
            Network::Gateway { port } => format!("127.0.0.1:{port} leads to the launcher"),
            Network::Open => "the host's".to_owned(),
        };
        let limits = self.limits.values().into_iter().map(|(limit, value)| {
            row(
                Layer::Limits,
                limit.to_string(),
                format!("at most {}", limit.amount(value)),
            )
        });
        let mut rows: Vec<PolicyRow> = mounts.collect();
        rows.extend(files);
        rows.push(row(Layer::Network, "network".to_owned(), network));
        rows.extend(limits);
        rows
    }
}

fn mount_words(mount: &Mount) -> String {
    let access = |access: &Access| match access {
        Access::ReadOnly => "read-only",
        Access::ReadWrite => "writable",
    };
    match mount {
        Mount::Bind {
            source, access: to, ..
        } => format!("shows {source}, {}", access(to)),
        Mount::Overlay {
            lower, access: to, ..
        } => {
            let lower: Vec<String> = lower.iter().map(ToString::to_string).collect();
            let changes = match to {
                Access::ReadOnly => "read-only",
                Access::ReadWrite => "changes kept apart",
            };
            format!("shows {}, {changes}", lower.join(" over "))
        }
        Mount::Tmpfs {
            access: Access::ReadOnly,
            ..
        } => "empty".to_owned(),
        Mount::Tmpfs {
            access: to, bytes, ..
        } => format!("private, {}, at most {bytes} bytes", access(to)),
    }
}

fn hidden(mount: &Mount) -> Option<String> {
    match mount {
        Mount::Tmpfs {
            target,
            access: Access::ReadOnly,
            ..
        } => Some(target.to_string()),
        Mount::Tmpfs { .. } | Mount::Bind { .. } | Mount::Overlay { .. } => None,
    }
}
