//! The files of a request: settings, roles, plan, brief.
//!
//! The only place of this room that touches a file, and it only reads. Every
//! file is size-capped before it is parsed and must be an ordinary file; what
//! is read is parsed by the other files of this room.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::document::Source;
use super::error::ConfigError;
use super::plan::{BriefSource, Plan, brief_fields, check_brief};
use super::settings::repository_layer;
use super::{PartialSettings, RoleSet};
use crate::model::Brief;

/// The settings file of a repository, relative to its top.
pub const SETTINGS_FILE: &str = ".cofferdam/config.toml";
/// The role file of a repository, relative to its top.
pub const ROLES_FILE: &str = ".cofferdam/roles.toml";

/// The largest configuration file, in bytes.
const CONFIG_BYTES: u64 = 1 << 20;

/// Reads the repository's own settings; nothing where there is no such file.
///
/// # Errors
/// Fails if the file cannot be read, and as [`repository_layer`] does.
pub fn load_repository_settings(top: &Path) -> Result<PartialSettings, ConfigError> {
    let path = top.join(SETTINGS_FILE);
    match load_optional(&path)? {
        Some(text) => repository_layer(&path, &text),
        None => Ok(PartialSettings::default()),
    }
}

/// Reads the repository's own role file and the one that the person named.
///
/// # Errors
/// Fails if one cannot be read, and as [`RoleSet::load`] does. A file that
/// the person named must exist.
pub fn load_roles(top: &Path, named: Option<&Path>) -> Result<RoleSet, ConfigError> {
    let path = top.join(ROLES_FILE);
    let repository = load_optional(&path)?.map(|text| (path, text));
    let person = match named {
        Some(path) => Some((path.to_owned(), load_text(path, CONFIG_BYTES)?)),
        None => None,
    };
    RoleSet::load(repository, person)
}

/// Reads a plan and the briefs that it names.
///
/// # Errors
/// Fails if one cannot be read, and as [`Plan::parse`] does.
pub fn load_plan(path: &Path) -> Result<Plan, ConfigError> {
    let mut plan = Plan::parse(path, &load_text(path, CONFIG_BYTES)?)?;
    for task in &mut plan.tasks {
        if let Some(BriefSource::File(file)) = &task.brief {
            task.brief = Some(BriefSource::Inline(load_brief(file)?));
        }
    }
    Ok(plan)
}

/// Reads a brief: JSON where the file starts with a brace, else TOML.
///
/// # Errors
/// Fails if it cannot be read, is too large, or is not a brief.
pub fn load_brief(path: &Path) -> Result<Brief, ConfigError> {
    let limit = u64::try_from(Brief::MAX_BYTES).unwrap_or(u64::MAX);
    let text = load_text(path, limit)?;
    let brief = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| bad(path, &format!("not a brief: {error}")))?
    } else {
        let source = Source::new(path, &text);
        brief_fields(source.parse()?)?
    };
    check_brief(&brief).map_err(|reason| bad(path, &format!("expected {reason}")))?;
    Ok(brief)
}

fn bad(path: &Path, reason: &str) -> ConfigError {
    ConfigError::BadFile {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

fn load_optional(path: &Path) -> Result<Option<String>, ConfigError> {
    match load_text(path, CONFIG_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(ConfigError::Unreadable { source, .. }) if is_absent(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A missing file and a missing directory above it.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
    )
}

fn load_text(path: &Path, limit: u64) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        path: PathBuf::from(path),
        source,
    };
    // A pipe or a device would block or never end, so the kind is looked at
    // before the file is opened. A file swapped in between is still capped.
    let kind = std::fs::metadata(path).map_err(unreadable)?;
    if !kind.is_file() {
        return Err(bad(path, "not an ordinary file"));
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(bad(path, &format!("larger than {limit} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| bad(path, "not UTF-8"))
}
