//! The private git directory of one workspace.
//!
//! Owns making it: HEAD, configuration, refs and rules of its own, objects
//! borrowed from the parent's. The agent may do to it whatever it likes: what
//! its work is never depends on it, and only `history` reads it again, as bytes
//! that nobody vouches for.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::super::error::file;
use super::super::{Error, Snapshot};
use crate::git::ObjectFormat;

/// Makes `.git` in a tree of files, all but the index. `borrowed` is where the
/// agent finds the parent's objects.
pub(in super::super) fn make(
    tree: &Path,
    snapshot: &Snapshot,
    borrowed: &Path,
) -> Result<PathBuf, Error> {
    let git = tree.join(".git");
    for directory in [
        "",
        "refs/heads",
        "refs/tags",
        "objects/info",
        "objects/pack",
        "info",
        "hooks",
    ] {
        let path = git.join(directory);
        fs::create_dir_all(&path).map_err(file("make", &path))?;
    }
    let put = |name: &str, bytes: &[u8]| {
        let path = git.join(name);
        fs::write(&path, bytes).map_err(file("write", &path))
    };
    let head = match (&snapshot.head, &snapshot.head_ref) {
        (Some(oid), _) => format!("{oid}\n"),
        (None, Some(branch)) => format!("ref: {branch}\n"),
        (None, None) => "ref: refs/heads/main\n".to_owned(),
    };
    put("HEAD", head.as_bytes())?;
    let mirror = &snapshot.mirror;
    let format = ObjectFormat::of(&snapshot.tree);
    put("config", mirror.settings.config(format).as_bytes())?;
    if !mirror.packed_refs.is_empty() {
        put("packed-refs", &mirror.packed_refs)?;
    }
    for (name, bytes) in [
        ("info/exclude", &mirror.exclude),
        ("info/attributes", &mirror.attributes),
        ("shallow", &mirror.shallow),
    ] {
        if let Some(bytes) = bytes {
            put(name, bytes)?;
        }
    }
    let mut lines = Vec::new();
    // What the parent borrows itself is named too: its own list may be
    // relative, and would then be read relative to the mount.
    let alternates = mirror.alternates.iter().map(PathBuf::as_path);
    for path in [borrowed].into_iter().chain(alternates) {
        lines.extend_from_slice(&alternate(path));
        lines.push(b'\n');
    }
    put("objects/info/alternates", &lines)?;
    Ok(git)
}

/// A line of `objects/info/alternates`: quoted where git would misread it.
fn alternate(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.contains(&b'\n') && !bytes.starts_with(b"\"") && !bytes.starts_with(b"#") {
        return bytes.to_vec();
    }
    let mut quoted = b"\"".to_vec();
    for byte in bytes {
        match byte {
            b'\n' => quoted.extend_from_slice(b"\\n"),
            b'"' | b'\\' => quoted.extend_from_slice(&[b'\\', *byte]),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'"');
    quoted
}
