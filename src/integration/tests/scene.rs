//! A live working tree, dirty in every way, and landings into it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{Fixture, Row, git, path};
use crate::integration::landing::{Fault, Point, Watch, land_watched, recover_watched};
use crate::integration::{
    Error, Header, LandRequest, Landing, Recovered, staging_dir, working_tree,
};
use crate::model::{AgentId, ObjectId, RepoPath, RunId, TreeMode};
use crate::store::Root;

/// What stands at each path but git's own: kind and mode, and bytes.
pub(super) type Picture = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

pub(super) struct Scene {
    pub(super) fixture: Fixture,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self {
            fixture: Fixture::new(),
        }
    }

    pub(super) fn top(&self) -> PathBuf {
        self.fixture.top()
    }

    pub(super) fn at(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.top().join(path(name).as_path())
    }

    /// Puts rows into the files, with nothing asked of git.
    pub(super) fn put(&self, rows: &[Row]) {
        for Row(mode, name, bytes) in rows {
            let at = self.at(name);
            let parent = at.parent().expect("because it lies in the tree");
            fs::create_dir_all(parent).expect("because the tree is ours");
            match mode {
                TreeMode::Symlink => {
                    symlink(std::ffi::OsStr::from_bytes(bytes), &at).expect("because it is new");
                }
                TreeMode::Gitlink => fs::create_dir_all(&at).expect("because the tree is ours"),
                TreeMode::File | TreeMode::Executable => {
                    fs::write(&at, bytes).expect("because the tree is ours");
                    let mode = if *mode == TreeMode::File {
                        0o644
                    } else {
                        0o755
                    };
                    let mode = fs::Permissions::from_mode(mode);
                    fs::set_permissions(&at, mode).expect("because it is ours");
                }
            }
        }
    }

    pub(super) fn staging(&self) -> PathBuf {
        let (run, agent) = (RunId::from_bits(7), AgentId::from_bits(8));
        staging_dir(&self.top().join(".git"), &run, &agent)
    }

    pub(super) fn root(&self) -> Root {
        Root::open(&self.top()).expect("because it exists")
    }

    pub(super) fn land(&self, ours: &ObjectId, merged: &ObjectId) -> Landing {
        self.land_watched(ours, merged, &Watcher::idle())
            .expect("because nothing fails")
    }

    pub(super) fn land_watched(
        &self,
        ours: &ObjectId,
        merged: &ObjectId,
        watch: &Watcher<'_>,
    ) -> Result<Landing, Error> {
        self.land_told(ours, merged, watch, &|| {})
    }

    pub(super) fn land_told(
        &self,
        ours: &ObjectId,
        merged: &ObjectId,
        watch: &Watcher<'_>,
        landed: &dyn Fn(),
    ) -> Result<Landing, Error> {
        let header = Header {
            run: RunId::from_bits(7),
            agent: AgentId::from_bits(8),
            top: working_tree(&self.top()),
            ours: ours.clone(),
            merged: merged.clone(),
        };
        let top = self.top();
        let ignored = |path: &RepoPath| {
            let words = ["check-ignore", "-q", "--"].map(str::as_bytes);
            let words = words.iter().copied().chain([path.as_bytes()]);
            let words = words.map(std::ffi::OsStr::from_bytes);
            super::run(&top, words).status.success()
        };
        let root = self.root();
        let request = LandRequest {
            root: &root,
            staging: &self.staging(),
            header: &header,
            ignored: &ignored,
            landed,
        };
        land_watched(&self.fixture.store, &request, watch)
    }

    pub(super) fn recover(&self, watch: &Watcher<'_>) -> Result<Recovered, Error> {
        recover_watched(&self.staging(), &self.root(), &|_| {}, watch)
    }

    pub(super) fn picture(&self) -> Picture {
        picture(&self.top())
    }

    /// The bytes of the index.
    pub(super) fn index(&self) -> Vec<u8> {
        fs::read(self.top().join(".git/index")).expect("because something was staged")
    }

    pub(super) fn git(&self, words: &[&str]) -> String {
        git(&self.top(), words)
    }
}

pub(super) fn picture(top: &Path) -> Picture {
    let mut found = Picture::new();
    let walk = walkdir::WalkDir::new(top).min_depth(1).into_iter();
    for entry in walk.filter_entry(|entry| entry.file_name() != ".git") {
        let entry = entry.expect("because the tree is ours");
        let meta = entry.metadata().expect("because it was just listed");
        let bytes = if meta.is_symlink() {
            let target = fs::read_link(entry.path()).expect("because it is one");
            target.as_os_str().as_bytes().to_vec()
        } else if meta.is_file() {
            fs::read(entry.path()).expect("because it is ours")
        } else {
            Vec::new()
        };
        let name = entry
            .path()
            .strip_prefix(top)
            .expect("because it lies beneath");
        found.insert(name.as_os_str().as_bytes().to_vec(), (meta.mode(), bytes));
    }
    found
}

type Act<'a> = Box<dyn FnMut(Point) -> Result<(), Fault> + 'a>;

/// Counts the points, and acts at one of them.
pub(super) struct Watcher<'a> {
    act: RefCell<Act<'a>>,
    seen: RefCell<Vec<Point>>,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(act: impl FnMut(Point) -> Result<(), Fault> + 'a) -> Self {
        Self {
            act: RefCell::new(Box::new(act)),
            seen: RefCell::default(),
        }
    }

    pub(super) fn idle() -> Self {
        Self::new(|_| Ok(()))
    }

    /// Dies or fails at the point with this number.
    pub(super) fn fault_at(number: usize, fault: fn() -> Fault) -> Self {
        let mut count = 0;
        Self::new(move |_| {
            count += 1;
            if count == number + 1 {
                Err(fault())
            } else {
                Ok(())
            }
        })
    }

    pub(super) fn seen(&self) -> Vec<Point> {
        self.seen.borrow().clone()
    }
}

impl Watch for Watcher<'_> {
    fn at(&self, point: Point) -> Result<(), Fault> {
        self.seen.borrow_mut().push(point);
        (self.act.borrow_mut())(point)
    }
}
