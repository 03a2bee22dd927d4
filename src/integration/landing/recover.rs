//! Finishes or takes back a landing whose process died.
//!
//! Owns the decision by the journal's marks: none, and nothing was touched;
//! committed, and it goes forward; taking back, or a path that somebody has
//! edited since, and it goes back; and in no tree but the one it was begun in.
//! Doing it twice is doing it once. The caller holds the repository's landing lock, so no live landing is met.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::land::{JOURNAL, Moved, Site};
use super::lines::{First, Header, Line, Step, working_tree};
use super::watch::{Unwatched, Watch};
use crate::git;
use crate::integration::Error;
use crate::model::{AgentId, RepoPath, RunId};
use crate::store::{self, Journal, Root};

/// What recovery found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Recovered {
    /// Nothing had been touched, or all was over; remains were removed.
    Nothing,
    /// The tree is wholly after.
    Forward {
        /// Who had landed what.
        header: Header,
    },
    /// The tree is wholly before, but for what somebody edited since.
    Back {
        /// Who had tried to land what.
        header: Header,
        /// Paths that somebody edited since; their text stands.
        kept: Vec<RepoPath>,
        /// Where the older versions of those are, where there are any.
        backups: Option<PathBuf>,
    },
}

/// The staging directory of one landing in a repository.
#[must_use]
pub fn staging_dir(common_dir: &Path, run: &RunId, agent: &AgentId) -> PathBuf {
    git::own_dir(common_dir).join(format!("landing-{run}-{agent}"))
}

/// The staging directories that dead landings left in a repository, in any of
/// its working trees.
///
/// # Errors
/// The directory cannot be read; that there is none is an answer.
pub fn pending(common_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    directories(common_dir, "landing-")
}

/// Our directories in the common git directory whose names begin so.
fn directories(common_dir: &Path, prefix: &str) -> Result<Vec<PathBuf>, Error> {
    let directory = git::own_dir(common_dir);
    let failed = |source| Error::Land {
        tree: common_dir.to_owned(),
        source: store::Error::io("list", &directory)(source),
    };
    let listed = match fs::read_dir(&directory) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in listed {
        let entry = entry.map_err(failed)?;
        if entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            found.push(entry.path());
        }
    }
    found.retain(|path| path.is_dir());
    found.sort();
    Ok(found)
}

/// What dead landings left, as far as one working tree is concerned.
#[derive(Debug, Default)]
pub struct Pending {
    /// The staging directories to recover: landings that were begun in this
    /// tree, and those that were never begun in any.
    pub landings: Vec<PathBuf>,
    /// The ones whose journal does not say whose they are. They are left
    /// alone: a step that is done in the wrong tree would destroy its files.
    pub unreadable: Vec<(PathBuf, Error)>,
}

/// The landings of [`pending`] that may be recovered in the working tree at
/// `top`; those of other linked working trees are passed over.
///
/// # Errors
/// The directory cannot be read; that there is none is an answer.
pub fn pending_in(common_dir: &Path, top: &Path) -> Result<Pending, Error> {
    let here = working_tree(top);
    let mut found = Pending::default();
    for staging in pending(common_dir)? {
        match store::read_first(&staging.join(JOURNAL)) {
            Ok(Some(First::Header(header))) if header.top == here => found.landings.push(staging),
            Ok(Some(First::Header(_))) => {}
            // Without a header no file of any tree was touched, or all is over.
            Ok(None) => found.landings.push(staging),
            Err(error) if is_absent(&error) => found.landings.push(staging),
            Err(source) => {
                let tree = top.to_owned();
                found
                    .unreadable
                    .push((staging, Error::Land { tree, source }));
            }
        }
    }
    Ok(found)
}

/// The directories with older versions of files that somebody edited between
/// a landing and taking it back, in any working tree of the repository.
///
/// Nothing here removes them: whether they are still wanted is for a person
/// to say.
///
/// # Errors
/// The directory cannot be read; that there is none is an answer.
pub fn kept_backups(common_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    directories(common_dir, "kept-landing-")
}

/// Makes the tree wholly before or wholly after the landing of `staging`.
///
/// `landed` is told, before the journal goes, of a landing that recovery
/// finished; see [`LandRequest::landed`](super::LandRequest::landed).
///
/// # Errors
/// [`Error::OtherTree`]: it was begun in another working tree than `root`, and
/// nothing is done. Else the journal is damaged, or a file cannot be moved; nothing is lost then,
/// and it can be tried again.
pub fn recover(staging: &Path, root: &Root, landed: &dyn Fn(&Header)) -> Result<Recovered, Error> {
    recover_watched(staging, root, landed, &Unwatched)
}

/// [`recover`], with somebody looking on.
pub(in crate::integration) fn recover_watched(
    staging: &Path,
    root: &Root,
    landed: &dyn Fn(&Header),
    watch: &dyn Watch,
) -> Result<Recovered, Error> {
    let site = Site {
        root,
        staging,
        watch,
    };
    if !staging.exists() {
        return Ok(Recovered::Nothing);
    }
    let slots = site.land(Root::open(staging))?;
    let lines: Vec<Line> = match store::read_journal(&site.journal()) {
        Ok(lines) => lines,
        Err(error) if is_absent(&error) => Vec::new(),
        Err(error) => return site.land(Err(error)),
    };
    let found = read(lines, staging)?;
    if let Some(header) = &found.header {
        belongs(header, root, staging)?;
    }
    let (Some(header), true) = (found.header, found.is_committed) else {
        site.close(&slots)?;
        return Ok(Recovered::Nothing);
    };
    let steps = found.steps;
    let moved: Option<Moved> = if found.is_taking_back {
        Some(site.take_back(&slots, &steps)?)
    } else {
        let mut journal = site.land(Journal::open(&site.journal()))?;
        site.write(&slots, &mut journal, &steps, &|| landed(&header))?
    };
    Ok(match moved {
        None => Recovered::Forward { header },
        Some((kept, backups)) => Recovered::Back {
            header,
            kept,
            backups,
        },
    })
}

fn is_absent(error: &store::Error) -> bool {
    let kind = error.io_source().map(io::Error::kind);
    kind == Some(io::ErrorKind::NotFound)
}

/// Whether a landing was begun in this tree.
///
/// # Errors
/// [`Error::OtherTree`] when it was not.
pub(super) fn belongs(header: &Header, root: &Root, staging: &Path) -> Result<(), Error> {
    if header.top == working_tree(root.path()) {
        return Ok(());
    }
    Err(Error::OtherTree {
        tree: root.path().to_owned(),
        staging: staging.to_owned(),
        made_in: header.top.clone(),
    })
}

/// What a journal says; without the mark of commitment nothing was touched.
#[derive(Default)]
struct Found {
    header: Option<Header>,
    steps: Vec<(Step, RepoPath)>,
    is_committed: bool,
    is_taking_back: bool,
}

fn read(lines: Vec<Line>, staging: &Path) -> Result<Found, Error> {
    let mut found = Found::default();
    for line in lines {
        match line {
            Line::Header(header) => found.header = Some(header),
            Line::Step(step) => {
                let path = step.path().map_err(|source| Error::Journal {
                    staging: staging.to_owned(),
                    source,
                })?;
                found.steps.push((step, path));
            }
            Line::Committed => found.is_committed = true,
            Line::TakingBack => found.is_taking_back = true,
        }
    }
    Ok(found)
}
