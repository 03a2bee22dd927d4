//! The harmless part of a tool's configuration, copied for one agent.
//!
//! Owns the filter: named keys only, plain values only, and none that carries
//! a user's name or password. Which files and keys is a table in
//! `confinement`. The person's files are only read.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::site::Site;
use crate::confinement::SETTINGS;

/// More than a person writes; whatever is longer is something else.
const BYTES: u64 = 1 << 20;

/// Copies what the table names into the private home.
pub(super) fn copy_settings(site: &Site, home: &Path, private: &Path) -> io::Result<()> {
    let variable = |name: &str| {
        let value = site.variables.get(std::ffi::OsStr::new(name));
        value.map(PathBuf::from)
    };
    for settings in SETTINGS {
        // What the person's tool cannot read tells the agent nothing either.
        let Some(text) = text_of(&settings.place(home, &variable)) else {
            continue;
        };
        let kept = harmless(&text, settings.keys);
        if kept.is_empty() {
            continue;
        }
        let target = private.join(settings.file);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&target, kept.to_string())?;
    }
    Ok(())
}

fn text_of(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    let plain = file.metadata().ok()?.is_file();
    plain.then_some(())?;
    file.take(BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// What of a text in TOML may be shown; nothing of one that is malformed.
fn harmless(text: &str, keys: &[&[&str]]) -> Table {
    let mut kept = Table::new();
    if let Ok(table) = text.parse::<Table>() {
        for key in keys {
            pick(&table, key, &mut kept);
        }
    }
    kept
}

fn pick(table: &Table, key: &[&str], kept: &mut Table) {
    let [first, rest @ ..] = key else {
        return;
    };
    let named = table
        .iter()
        .filter(|(name, _)| *first == "*" || name == first);
    for (name, value) in named {
        match value {
            Value::Table(inner) if !rest.is_empty() => {
                let mut below = match kept.remove(name) {
                    Some(Value::Table(below)) => below,
                    Some(_) | None => Table::new(),
                };
                pick(inner, rest, &mut below);
                if !below.is_empty() {
                    kept.insert(name.clone(), Value::Table(below));
                }
            }
            plain if rest.is_empty() && is_harmless(plain) => {
                kept.insert(name.clone(), plain.clone());
            }
            _ => {}
        }
    }
}

fn is_harmless(value: &Value) -> bool {
    match value {
        Value::String(text) => !logs_in(text),
        Value::Integer(_) | Value::Boolean(_) => true,
        Value::Array(values) => values.iter().all(is_harmless),
        Value::Float(_) | Value::Datetime(_) | Value::Table(_) => false,
    }
}

/// Whether a value may carry who asks: anything before an `@` (with a scheme
/// or without, as `user:password@host` and `git@host:path`), anything after a
/// question mark or a number sign, and a part that looks like a token.
///
/// What a token looks like is a guess: [`TOKEN`] or more letters and digits,
/// both of them, with nothing between. A shorter one, or one in words, passes.
fn logs_in(text: &str) -> bool {
    let is_address = text.contains("://") || text.contains(['/', '@']);
    is_address && (text.contains(['@', '?', '#']) || text.split('/').any(looks_like_a_token))
}

/// Names of packages and directories are shorter or have a mark in them.
const TOKEN: usize = 20;

fn looks_like_a_token(part: &str) -> bool {
    // A path may hold it as `name:token` or `token.git`, too.
    part.split(|mark: char| !mark.is_ascii_alphanumeric())
        .any(|word| {
            word.len() >= TOKEN
                && word.bytes().any(|byte| byte.is_ascii_digit())
                && word.bytes().any(|byte| byte.is_ascii_alphabetic())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_named_keys_without_anything_that_logs_in() {
        let text = r#"
[source.crates-io]
replace-with = "mirror"
[source.mirror]
registry = "sparse+https://mirror.example/index/"
[source.private]
registry = "sparse+https://me:secret@private.example/index/"
[source.asked]
registry = "https://private.example/index?token=secret"
[source.path]
registry = "https://private.example/a1B2c3D4e5F6g7H8i9J0k/index/"
[source.plain]
registry = "me:secret@private.example/index"
[source.shell]
registry = "me@private.example:index"
[source.fragment]
registry = "https://private.example/index#secret"
[source.long]
registry = "https://long.example/a-directory-of-2026-with-a-long-name/index/"
[registries.own]
index = "https://own.example/index"
token = "secret"
credential-provider = ["secret"]
[http]
proxy = "http://me:secret@proxy.example"
[env]
PASSWORD = "secret"
"#;
        let kept = harmless(text, SETTINGS[0].keys);
        assert_eq!(
            kept.to_string(),
            "[registries.own]\nindex = \"https://own.example/index\"\n\n\
             [source.crates-io]\nreplace-with = \"mirror\"\n\n\
             [source.long]\nregistry = \"https://long.example/a-directory-of-2026-with-a-long-name/index/\"\n\n\
             [source.mirror]\nregistry = \"sparse+https://mirror.example/index/\"\n"
        );
        let versions = "[tools]\nnode = \"20\"\npython = [\"3.12\", \"3.11\"]\n\
             go = { version = \"1\", token = \"secret\" }\n[env]\nA = \"secret\"\n";
        assert_eq!(
            harmless(versions, SETTINGS[1].keys).to_string(),
            "[tools]\nnode = \"20\"\npython = [\"3.12\", \"3.11\"]\n"
        );
        assert!(harmless("not = [toml", SETTINGS[0].keys).is_empty());
    }
}
