//! Finishes or takes back a landing whose process died.
//!
//! Owns the decision by the journal's marks: none, and nothing was touched;
//! committed, and it goes forward; taking back, or a path that somebody has
//! edited since, and it goes back. Doing it twice is doing it once. The
//! caller holds the repository's landing lock, so no live landing is met.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::land::{Moved, Site};
use super::lines::{Header, Line, Step};
use super::watch::{Unwatched, Watch};
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
    common_dir
        .join("cofferdam")
        .join(format!("landing-{run}-{agent}"))
}

/// The staging directories that dead landings left in a repository.
///
/// # Errors
/// The directory cannot be read; that there is none is an answer.
pub fn pending(common_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let directory = common_dir.join("cofferdam");
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
        if entry.file_name().to_string_lossy().starts_with("landing-") {
            found.push(entry.path());
        }
    }
    found.retain(|path| path.is_dir());
    found.sort();
    Ok(found)
}

/// Makes the tree wholly before or wholly after the landing of `staging`.
///
/// `landed` is told, before the journal goes, of a landing that recovery
/// finished; see [`LandRequest::landed`](super::LandRequest::landed).
///
/// # Errors
/// The journal is damaged, or a file cannot be moved; nothing is lost then,
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
    let Some(found) = read(lines, staging)? else {
        site.close(&slots)?;
        return Ok(Recovered::Nothing);
    };
    let Found {
        header,
        steps,
        is_taking_back,
    } = found;
    let moved: Option<Moved> = if is_taking_back {
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

/// A landing that was committed.
struct Found {
    header: Header,
    steps: Vec<(Step, RepoPath)>,
    is_taking_back: bool,
}

/// Reads the lines; `None` when they do not say that it was committed.
fn read(lines: Vec<Line>, staging: &Path) -> Result<Option<Found>, Error> {
    let mut header = None;
    let mut steps = Vec::new();
    let (mut is_committed, mut is_taking_back) = (false, false);
    for line in lines {
        match line {
            Line::Header(found) => header = Some(found),
            Line::Step(step) => {
                let path = step.path().map_err(|source| Error::Journal {
                    staging: staging.to_owned(),
                    source,
                })?;
                steps.push((step, path));
            }
            Line::Committed => is_committed = true,
            Line::TakingBack => is_taking_back = true,
        }
    }
    let found = header.filter(|_| is_committed).map(|header| Found {
        header,
        steps,
        is_taking_back,
    });
    Ok(found)
}
