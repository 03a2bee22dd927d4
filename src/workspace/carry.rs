//! Ignored files that the agent needs.
//!
//! Owns which of the parent's ignored files come along, by the globs of the
//! request and the repository's `.worktreeinclude` (whose lines are those of an
//! ignore file), and copying them: by
//! shared blocks where the file system can, else by bytes, never by a hard
//! link, links as links. A file that is not ignored is never carried: it is
//! in the snapshot already, or git does not know of it.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};

use super::beneath::{Beneath, link_text};
use super::error::file;
use super::identity::{Identities, Identity};
use super::look::warning;
use super::{Error, Need, Order};
use crate::config::Scope;
use crate::git::Objects;
use crate::model::{ObjectId, PathText, RepoPath, Warning, WarningKind};

/// One line: does it take in or leave out, and what.
struct Rule {
    takes: bool,
    paths: Scope,
}

/// Copies what the rules take in and notes each file's identity.
pub(super) fn carry(
    order: &Order<'_>,
    tree: &Path,
    identities: &mut Identities,
) -> Result<Vec<Warning>, Error> {
    let mut warnings = Vec::new();
    let Some(taken) = taken(order, &mut warnings)? else {
        return Ok(warnings);
    };
    warnings.extend(idle(order, &taken, &warnings)?);
    let top = order.repo.top();
    let beneath = Beneath::open_root(top).map_err(file("open", top))?;
    for path in taken {
        match copy(&beneath, &path, tree)? {
            Some(copied) => identities.add_carried(path, Identity::of(&copied)),
            None => warnings.push(warning(&path, WarningKind::SpecialFile)),
        }
    }
    Ok(warnings)
}

/// What copying takes of the disk; blocks that are shared after all are
/// counted too.
pub(super) fn needs(order: &Order<'_>) -> Result<Need, Error> {
    let mut need = Need::default();
    for path in taken(order, &mut Vec::new())?.unwrap_or_default() {
        let size = fs::symlink_metadata(order.repo.top().join(path.as_path()));
        // Holes stay holes only where blocks are shared, so the length counts.
        need = need.and(Need::file(size.map_or(0, |data| data.len())));
    }
    Ok(need)
}

/// The ignored files that the rules take in; `None` where there are no rules.
fn taken(order: &Order<'_>, warnings: &mut Vec<Warning>) -> Result<Option<Vec<RepoPath>>, Error> {
    let rules = rules(order)?;
    if rules.is_empty() {
        return Ok(None);
    }
    let listed = order
        .repo
        .call()
        .args([
            "ls-files",
            "--others",
            "--ignored",
            "--exclude-standard",
            "-z",
        ])
        .output()?;
    let mut ground = Ground::of(order)?;
    let mut taken = Vec::new();
    for bytes in listed.split(|b| *b == 0).filter(|b| !b.is_empty()) {
        let Ok(path) = RepoPath::from_bytes(bytes) else {
            // A repository of its own, which git lists as a directory.
            let path = PathText::from_raw(bytes);
            let kind = WarningKind::NestedRepository;
            warnings.push(Warning { path, kind });
            continue;
        };
        let last = rules.iter().rev().find(|rule| rule.paths.holds(&path));
        if !last.is_some_and(|rule| rule.takes) {
            continue;
        }
        match ground.is_free(&path)? {
            true => taken.push(path),
            false => warnings.push(warning(&path, WarningKind::CarriedTracked)),
        }
    }
    Ok(Some(taken))
}

/// The tree that the agent starts from, asked where nothing stands in it. What
/// the parent ignores now, an older commit may have; the agent gets that.
struct Ground<'a> {
    objects: Objects,
    tree: &'a ObjectId,
    directories: HashMap<RepoPath, Standing>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Nothing,
    Directory,
    Leaf,
}

impl<'a> Ground<'a> {
    fn of(order: &Order<'a>) -> Result<Self, Error> {
        Ok(Self {
            objects: order.repo.objects()?,
            tree: &order.snapshot.tree,
            directories: HashMap::new(),
        })
    }

    fn is_free(&mut self, path: &RepoPath) -> Result<bool, Error> {
        let above = match path.parent() {
            Some(parent) => self.directory(&parent)?,
            None => Standing::Directory,
        };
        Ok(match above {
            Standing::Nothing => true,
            Standing::Leaf => false,
            Standing::Directory => self.standing(path)? == Standing::Nothing,
        })
    }

    fn directory(&mut self, path: &RepoPath) -> Result<Standing, Error> {
        if let Some(known) = self.directories.get(path) {
            return Ok(*known);
        }
        let above = match path.parent() {
            Some(parent) => self.directory(&parent)?,
            None => Standing::Directory,
        };
        let standing = match above {
            Standing::Directory => self.standing(path)?,
            Standing::Nothing | Standing::Leaf => above,
        };
        self.directories.insert(path.clone(), standing);
        Ok(standing)
    }

    fn standing(&self, path: &RepoPath) -> Result<Standing, Error> {
        if self.objects.entry(self.tree, path)?.is_some() {
            return Ok(Standing::Leaf);
        }
        Ok(match self.objects.subtree(self.tree, path)? {
            Some(_) => Standing::Directory,
            None => Standing::Nothing,
        })
    }
}

impl Rule {
    /// Reads a glob as every option does.
    fn glob(glob: &str) -> Result<Self, Error> {
        let paths = Scope::parse("carry", [glob]).map_err(|source| Error::Pattern {
            pattern: glob.to_owned(),
            source,
        })?;
        Ok(Self { takes: true, paths })
    }

    /// Reads a pattern as an ignore file would, and says it in globs.
    fn parse(line: &str) -> Result<Self, Error> {
        let (takes, pattern) = match line.strip_prefix('!') {
            Some(rest) => (false, rest),
            None => (true, line),
        };
        let name = pattern.trim_end_matches('/');
        let anchored = name.contains('/');
        let name = name.trim_start_matches('/');
        let start = if anchored { "" } else { "**/" };
        // The thing itself unless only a directory is meant, and what it holds.
        let itself = (!pattern.ends_with('/')).then(|| format!("{start}{name}"));
        let globs = itself.into_iter().chain([format!("{start}{name}/")]);
        let paths = Scope::parse(".worktreeinclude", globs).map_err(|source| Error::Pattern {
            pattern: line.to_owned(),
            source,
        })?;
        Ok(Self { takes, paths })
    }
}

fn rules(order: &Order<'_>) -> Result<Vec<Rule>, Error> {
    let path = order.repo.top().join(".worktreeinclude");
    let listed = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(file("read", &path)(error)),
    };
    let lines = listed
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let asked = order.carry.iter().map(|glob| Rule::glob(glob));
    lines.map(Rule::parse).chain(asked).collect()
}

/// Tells of the globs of the request to which nothing answers, neither what
/// comes along nor what was told of.
fn idle(order: &Order<'_>, taken: &[RepoPath], told: &[Warning]) -> Result<Vec<Warning>, Error> {
    let told = told.iter().filter_map(|one| one.path.to_path().ok());
    let told: Vec<RepoPath> = told.collect();
    let mut idle = Vec::new();
    for glob in order.carry {
        let rule = Rule::glob(glob)?;
        if !taken.iter().chain(&told).any(|path| rule.paths.holds(path)) {
            idle.push(Warning {
                path: PathText::from_raw(glob.as_bytes()),
                kind: WarningKind::CarriedNothing,
            });
        }
    }
    Ok(idle)
}

/// Copies one file or link; `None` when it is neither, or has gone.
fn copy(beneath: &Beneath, path: &RepoPath, tree: &Path) -> Result<Option<Metadata>, Error> {
    let target = tree.join(path.as_path());
    let failed = || file("carry along", &target);
    let Some((handle, metadata)) = beneath.look(path.as_path()).map_err(failed())? else {
        return Ok(None);
    };
    if let Some(directory) = target.parent() {
        fs::create_dir_all(directory).map_err(failed())?;
    }
    if metadata.is_symlink() {
        let text = link_text(&handle).map_err(failed())?;
        let text: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(text.as_slice());
        symlink(text, &target).map_err(failed())?;
    } else if metadata.is_file() {
        let Some(mut source) = beneath.read(path.as_path()).map_err(failed())? else {
            return Ok(None);
        };
        let mut out = File::options()
            .write(true)
            .create_new(true)
            .mode(metadata.mode() & 0o777 | 0o200)
            .open(&target)
            .map_err(failed())?;
        // Shared blocks where the file system can; it says so by refusing.
        if rustix::fs::ioctl_ficlone(&out, &source).is_err() {
            io::copy(&mut source, &mut out).map_err(failed())?;
        }
    } else {
        return Ok(None);
    }
    let time = Timespec {
        tv_sec: metadata.mtime(),
        tv_nsec: metadata.mtime_nsec(),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, &target, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| failed()(errno.into()))?;
    target.symlink_metadata().map(Some).map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_read_as_in_every_option() {
        let takes = |glob: &str, path: &str| {
            let path = RepoPath::from_bytes(path.as_bytes()).expect("because it is plain");
            let rule = Rule::glob(glob).expect("because it is a glob");
            rule.paths.holds(&path)
        };
        assert!(takes(".env", ".env") && !takes(".env", "sub/.env"));
        assert!(takes("**/.env", "sub/.env"));
        assert!(takes("target/", "target/debug/x") && !takes("target/", "sub/target/x"));
        assert!(Rule::glob("../x").is_err());
    }

    #[test]
    fn patterns_read_as_in_an_ignore_file() {
        let takes = |pattern: &str, path: &str| {
            let rule = Rule::parse(pattern).expect("because it is a glob");
            let path = RepoPath::from_bytes(path.as_bytes()).expect("because it is plain");
            rule.paths.holds(&path)
        };
        for (pattern, path) in [
            (".env", ".env"),
            (".env", "sub/.env"),
            (".env*", ".env.local"),
            ("node_modules/", "a/node_modules/x/y.js"),
            ("node_modules", "node_modules/x"),
            ("/target", "target/debug/x"),
            ("a/*.log", "a/x.log"),
        ] {
            assert!(takes(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            (".env", ".envrc"),
            ("node_modules/", "node_modules"),
            ("/target", "sub/target/x"),
            ("a/*.log", "a/b/x.log"),
        ] {
            assert!(!takes(pattern, path), "{pattern} {path}");
        }
    }
}
