//! What of the parent's git directory an agent gets to see.
//!
//! Owns the texts of the private git directory that do not depend on the
//! agent: configuration, refs, exclude and attribute rules, shallow marks and
//! where further objects are. They are taken once with the snapshot and
//! shared by all its agents. Nothing of it leads back: changing a ref inside
//! changes the private copy alone.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::Error;
use crate::git::{Git, ObjectFormat, Repository};

/// Settings that decide which bytes git stores or shows, by lower-case name.
const COPIED: &[&str] = &[
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "user.email",
    "user.name",
];

/// Those of them that tell of the parent's file system, which is not the one
/// that agents' copies lie on.
const OF_THE_DISK: [&str; 2] = ["core.ignorecase", "core.symlinks"];

/// The parts of the parent's git directory that every agent gets a copy of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirror {
    pub(super) settings: Settings,
    pub(super) packed_refs: Vec<u8>,
    pub(super) exclude: Option<Vec<u8>>,
    pub(super) attributes: Option<Vec<u8>>,
    pub(super) shallow: Option<Vec<u8>>,
    pub(super) alternates: Vec<PathBuf>,
}

impl Mirror {
    /// Whether the parent keeps links as files that hold their targets; agents
    /// get links.
    pub(super) fn links_are_files(&self) -> bool {
        self.settings.is_off("core.symlinks")
    }

    /// The person's name and address as a git configuration: repositories
    /// that the agent makes itself can commit with them too.
    pub(super) fn identity(&self) -> String {
        let mut text = String::new();
        for name in ["name", "email"] {
            if let Some(value) = self.settings.setting(&format!("user.{name}")) {
                text.push_str(&["[user]\n\t", name, " = ", &quoted(value), "\n"].concat());
            }
        }
        text
    }

    /// Reads them, all but the settings, which are read with the parent's files.
    pub(super) fn take(repo: &Repository) -> Self {
        let common = repo.common_dir();
        let mut alternates = Vec::new();
        collect_alternates(repo.objects_dir(), 0, &mut alternates);
        Self {
            settings: Settings::default(),
            packed_refs: packed_refs(repo),
            exclude: fs::read(common.join("info/exclude")).ok(),
            attributes: fs::read(common.join("info/attributes")).ok(),
            shallow: fs::read(common.join("shallow")).ok(),
            alternates,
        }
    }

    /// With the settings that go with it.
    pub(super) fn with(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }
}

/// The settings of the person and the repository that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    values: Vec<(String, String)>,
    /// The attributes file that a setting names.
    attributes_file: Option<String>,
}

impl Settings {
    /// Reads them, by one call of git.
    pub(super) fn take(repo: &Repository) -> Result<Self, Error> {
        let output = repo.call().args(["config", "--list", "-z"]).output()?;
        let mut found = Self::default();
        for record in output.split(|b| *b == 0).filter(|r| !r.is_empty()) {
            let record = String::from_utf8_lossy(record);
            // A name without a value means true.
            let (key, value) = record.split_once('\n').unwrap_or((&record, "true"));
            if key == "core.attributesfile" {
                found.attributes_file = Some(value.to_owned());
            }
            // Filters are copied by name: inside, they run confined, and
            // without them every filtered file would look modified there.
            if COPIED.contains(&key) || key.starts_with("filter.") {
                found.values.push((key.to_owned(), value.to_owned()));
            }
        }
        Ok(found)
    }

    /// The value of a setting, by lower-case name.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether a boolean setting is off; one that is not there is on.
    pub(super) fn is_off(&self, name: &str) -> bool {
        self.setting(name).is_some_and(|value| {
            matches!(
                value.to_ascii_lowercase().as_str(),
                "false" | "no" | "off" | "0" | ""
            )
        })
    }

    /// The names of the filters that are configured.
    pub(super) fn filters(&self) -> BTreeSet<&str> {
        let keys = self.values.iter().map(|(key, _)| key.as_str());
        keys.filter_map(|key| key.strip_prefix("filter.")?.rsplit_once('.'))
            .map(|(name, _)| name)
            .collect()
    }

    /// The attributes files of the person and the machine that may apply;
    /// `None` stands for one of which only git knows where it is.
    pub(super) fn attributes_files(&self, git: &Git) -> Vec<Option<PathBuf>> {
        let mut files: Vec<Option<PathBuf>> = default_attributes(git).map(Some).collect();
        if let Some(named) = &self.attributes_file {
            // Another person's home, or where git was installed.
            let only_git_knows = named.starts_with(['~', '%']);
            files.push(match named.strip_prefix("~/") {
                Some(rest) => home().map(|home| home.join(rest)),
                None => (!only_git_knows).then(|| PathBuf::from(named)),
            });
        }
        files
    }

    /// The private configuration.
    pub(super) fn config(&self, format: ObjectFormat) -> String {
        let (version, extensions) = format.sections();
        let mut text = format!(
            "{extensions}[core]\n\t{version}\n\tbare = false\n\tlogallrefupdates = true\n\
             \tfsmonitor = false\n\tuntrackedCache = false\n[gc]\n\tauto = 0\n\
             [maintenance]\n\tauto = false\n",
        );
        for (key, value) in &self.values {
            if OF_THE_DISK.contains(&key.as_str()) {
                continue;
            }
            let Some((section, rest)) = key.split_once('.') else {
                continue;
            };
            let header = match rest.rsplit_once('.') {
                Some((subsection, _)) => format!("[{section} {}]", quoted(subsection)),
                None => format!("[{section}]"),
            };
            let name = rest.rsplit('.').next().unwrap_or(rest);
            text.push_str(&[&header, "\n\t", name, " = ", &quoted(value), "\n"].concat());
        }
        text
    }
}

fn quoted(value: &str) -> String {
    let escaped = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace('\t', "\\t");
    format!("\"{escaped}\"")
}

/// Where git looks when no setting names an attributes file.
fn default_attributes(git: &Git) -> impl Iterator<Item = PathBuf> + use<> {
    let home = || home().map(|home| home.join(".config"));
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    config
        .filter(|path| !path.as_os_str().is_empty())
        .or_else(home)
        .map(|path| path.join("git/attributes"))
        .into_iter()
        // The machine's is where git was installed, or was meant to be.
        .chain(git.prefix().map(|prefix| prefix.join("etc/gitattributes")))
        .chain(["/etc", "/usr/local/etc"].map(|etc| Path::new(etc).join("gitattributes")))
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

/// Branches, tags and remote branches, in git's own packed form.
fn packed_refs(repo: &Repository) -> Vec<u8> {
    let output = repo
        .call()
        .args(["for-each-ref", "--format=%(objectname) %(refname)"])
        .args(["refs/heads", "refs/tags", "refs/remotes"])
        .output();
    // A repository with a broken ref gives no list. Its agents then see no
    // branches, and everything else works.
    let Ok(output) = output else {
        return Vec::new();
    };
    let mut lines: Vec<&[u8]> = output
        .split(|b| *b == b'\n')
        .filter(|line| line.contains(&b' '))
        .collect();
    lines.sort_by_key(|line| line.iter().position(|b| *b == b' ').map(|at| &line[at..]));
    let mut text = b"# pack-refs with: sorted \n".to_vec();
    for line in lines {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text
}

/// The objects directories that this one borrows from, at any remove.
fn collect_alternates(objects: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    // Git follows five.
    if depth > 5 {
        return;
    }
    let Ok(text) = fs::read(objects.join("info/alternates")) else {
        return;
    };
    for line in text.split(|b| *b == b'\n') {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let path = objects.join(std::ffi::OsStr::from_bytes(line));
        // One that is gone lends nothing, here as there.
        let Ok(path) = path.canonicalize() else {
            continue;
        };
        if !found.contains(&path) {
            found.push(path.clone());
            collect_alternates(&path, depth + 1, found);
        }
    }
}
