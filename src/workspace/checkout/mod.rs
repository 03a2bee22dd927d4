//! The backends of plain files: `checkout` for any file system and kernel, and
//! `reflink`, which differs in where the bytes come from.
//!
//! Owns writing the snapshot's tree as files and the private git directory
//! beside them. Costs a file creation per file; every other backend has to
//! give the same result. No filter and no hook runs, no link is followed.
//!
//! - `writer`: the files, in parallel
//! - `clones`: the parent's files as a source of bytes
//! - `private_git`: the git directory that the agent may do anything to
//! - `stat_index`: the parent's index, made right for the new files

mod clones;
pub(super) mod private_git;
pub(super) mod stat_index;
pub(super) mod writer;

use std::sync::Arc;

use self::clones::Clones;
use self::writer::Written;
use super::carry::carry;
use super::dispose::dispose;
use super::layout::{Basis, Layout, view};
use super::{Access, Backend, BackendKind, Error, Ground, Need, Order, Workspace, need};
use crate::git::{IndexRow, RegisteredHead, Registration};
use crate::model::ViewMode;

/// Plain files, and which of the two ways to their bytes.
#[derive(Debug)]
struct Plain(BytesFrom);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BytesFrom {
    Objects,
    ClonesAndObjects,
}

/// Works everywhere.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the table's shape: other backends do not work everywhere"
)]
pub(super) fn probe(_ground: &Ground<'_>) -> Result<String, String> {
    Ok("plain files work on any file system and kernel".to_owned())
}

pub(super) fn make(_ground: Ground<'_>) -> Arc<dyn Backend> {
    Arc::new(Plain(BytesFrom::Objects))
}

/// Works where files can share blocks with the parent's.
pub(super) fn probe_reflink(ground: &Ground<'_>) -> Result<String, String> {
    clones::probe(ground)
}

pub(super) fn make_reflink(_ground: Ground<'_>) -> Arc<dyn Backend> {
    Arc::new(Plain(BytesFrom::ClonesAndObjects))
}

impl Backend for Plain {
    fn name(&self) -> &'static str {
        match self.0 {
            BytesFrom::Objects => "checkout",
            BytesFrom::ClonesAndObjects => "reflink",
        }
    }

    fn create(&self, order: &Order<'_>) -> Result<Workspace, Error> {
        create(self.0, order).inspect_err(|_| {
            // The reason for the failure is what the caller must hear; what
            // cannot be removed now is found by its directory later.
            drop(dispose(order.dir));
        })
    }

    fn needs(&self, order: &Order<'_>) -> Result<Need, Error> {
        // Clones take less, but no file is sure to be cloned.
        Ok(need::of_files(order)?.and(super::carry::needs(order)?))
    }
}

fn create(bytes: BytesFrom, order: &Order<'_>) -> Result<Workspace, Error> {
    let layout = Layout(order.dir);
    let (kind, clones) = match bytes {
        BytesFrom::Objects => (BackendKind::Checkout, None),
        BytesFrom::ClonesAndObjects => (BackendKind::Reflink, Some(Clones::of(order.repo)?)),
    };
    let basis = Basis::of(order, kind);
    layout.begin(&basis)?;
    if order.writer == Access::Writer {
        let head = order
            .snapshot
            .head
            .as_ref()
            .unwrap_or(&order.snapshot.commit);
        let head = RegisteredHead::Detached(head.clone());
        Registration::register(order.repo, order.agent, &head, &layout.tree())?;
    }
    let borrowed = match order.mode {
        // The real objects are mounted there, read-only.
        ViewMode::Mounted => layout.objects(),
        ViewMode::InPlace => order.repo.objects_dir().to_owned(),
    };
    let git = private_git::make(&layout.tree(), order.snapshot, &borrowed)?;
    layout.write_identity(&order.snapshot.mirror.identity())?;
    let target = git.join("index");
    let snapshot = order.snapshot;
    let index = stat_index::open(order.repo, snapshot.index.as_ref(), &target)?;
    let written = writer::write(order, &index, clones.as_ref())?;
    let mut identities = super::identity::Identities::default();
    let same = |file: &Written| (file.row.entry.path.clone(), file.identity);
    identities.add_written(written.iter().map(same));
    let rows: Vec<IndexRow> = written.into_iter().map(|file| file.row).collect();
    stat_index::refresh(index, &rows, (order.repo, &snapshot.tree, &target))?;
    let warnings = carry(order, &layout.tree(), &mut identities)?;
    identities.save(&layout.identities())?;
    layout.finish()?;
    Ok(Workspace {
        dir: order.dir.to_owned(),
        tree: layout.tree(),
        view: view(order.repo, &basis, order.dir),
        warnings,
        repo: order.repo.clone(),
        basis,
        identities,
    })
}
