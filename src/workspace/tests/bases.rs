//! Shared checkouts: made once, looked over, bounded, never taken from a user.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::fixture::{Fixture, chmod};
use crate::model::ObjectId;
use crate::store::Alone;
use crate::workspace::overlay::base::{Base, Bases, Look};
use crate::workspace::{Error, Stop, sweep_bases};

struct Scene {
    fixture: Fixture,
    all: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let fixture = Fixture::new();
        let all = fixture.state.join("bases");
        Self { fixture, all }
    }

    fn bases(&self) -> Bases {
        Bases::of(&self.fixture.repo(), &self.all).expect("because it is ours")
    }

    fn head(&self) -> ObjectId {
        let text = self.fixture.git(&["rev-parse", "HEAD^{tree}"]);
        text.trim().parse().expect("because git prints an id")
    }

    fn require(&self, tree: &ObjectId) -> Base {
        let made = self
            .bases()
            .require(tree, Stop::NEVER, |_| Ok(HashMap::new()));
        made.expect("because the disk takes it")
    }

    fn find(&self, tree: &ObjectId) -> Option<Base> {
        self.bases().find(tree).expect("because it can be read")
    }

    /// Sweeps until something holds: a process that another test starts holds
    /// the locks of this one, too, until it executes its program.
    fn sweep_until(&self, holds: impl Fn() -> bool) {
        for _ in 0..1000 {
            sweep_bases(&self.all, Duration::ZERO).expect("because it is ours");
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it is not swept: {:?}", self.names());
    }

    /// The names of what lies in the cache of this repository.
    fn names(&self) -> Vec<String> {
        let mut found = Vec::new();
        for repository in fs::read_dir(&self.all).into_iter().flatten().flatten() {
            let names = fs::read_dir(repository.path()).expect("because it is ours");
            found.extend(names.map(|entry| {
                let entry = entry.expect("because it can be listed");
                entry.file_name().to_string_lossy().into_owned()
            }));
        }
        found.sort();
        found
    }

    fn whole(&self) -> usize {
        self.names()
            .iter()
            .filter(|name| !name.contains('.'))
            .count()
    }
}

#[test]
fn a_base_is_what_git_would_check_out_and_git_reads_its_index() {
    let scene = Scene::new();
    let base = scene.require(&scene.head());
    let files = base.files();
    let index = files.join(".git/index");
    let env = [
        ("GIT_DIR", scene.fixture.top.join(".git")),
        ("GIT_WORK_TREE", files.clone()),
        ("GIT_INDEX_FILE", index),
    ];
    let env: Vec<(&str, &OsStr)> = env
        .iter()
        .map(|(name, path)| (*name, path.as_os_str()))
        .collect();
    let git = |args: &[&str]| {
        let output = scene.fixture.try_git(&files, args, &env);
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Asked of the times alone: nothing is read, and nothing refreshed.
    assert_eq!(git(&["diff-files"]), "");
    assert_eq!(git(&["diff-index", "--cached", "HEAD"]), "");
    assert_eq!(git(&["ls-files", "--others", "--exclude=.git"]), "");
    assert_eq!(
        git(&["ls-files"]),
        git(&["ls-tree", "-r", "--name-only", "HEAD"])
    );
    assert_eq!(git(&["write-tree"]).trim(), scene.head().as_str());
    assert_eq!(git(&["fsck", "--strict"]), "");
    let (repository, state) = (
        git2::Repository::open(&scene.fixture.top),
        files.join(".git/index"),
    );
    repository.expect("because it is one");
    let format = scene.fixture.repo().object_format().library();
    let read = git2::Index::open_ext(&state, format).expect("because the format is git's");
    assert_eq!(read.len(), 8);
}

type Touch = fn(&Path);

/// What a person or a program may do to a base.
const TOUCHES: &[(&str, Touch)] = &[
    ("edited, times put back", |files| {
        let path = files.join("a.txt");
        let before = path
            .metadata()
            .and_then(|one| one.modified())
            .expect("because it is there");
        fs::write(&path, "ALPHA\n").expect("because it is ours");
        let file = fs::File::options()
            .write(true)
            .open(&path)
            .expect("because it is ours");
        file.set_modified(before).expect("because it is ours");
    }),
    ("cut", |files| {
        fs::write(files.join("run.sh"), "").expect("because it is ours")
    }),
    ("mode", |files| chmod(&files.join("a.txt"), 0o600)),
    ("mode of a directory", |files| {
        chmod(&files.join("src"), 0o700)
    }),
    ("more", |files| {
        fs::write(files.join("src/deep/new"), "").expect("because it is ours")
    }),
    ("less", |files| {
        fs::remove_file(files.join("link")).expect("because it is there")
    }),
    ("an empty directory", |files| {
        fs::create_dir(files.join("src/none")).expect("because it is new")
    }),
    ("another name", |files| {
        fs::rename(files.join("a.txt"), files.join("b.txt")).expect("because it is there")
    }),
    ("a part is gone", |files| {
        fs::remove_dir_all(files.join("src")).expect("because it is there")
    }),
    ("all is gone", |files| {
        fs::remove_dir_all(files).expect("because it is there")
    }),
    ("the index", |files| {
        let path = files.join(".git/index");
        let mut bytes = fs::read(&path).expect("because it is there");
        bytes[70] ^= 1;
        fs::write(&path, bytes).expect("because it is ours");
    }),
    ("no index", |files| {
        fs::remove_file(files.join(".git/index")).expect("because it is there")
    }),
    ("the list", |files| {
        fs::write(files.with_file_name("directories"), "").expect("because it is ours")
    }),
    ("the list is cut", |files| {
        let path = files.with_file_name("directories");
        let bytes = fs::read(&path).expect("because it is there");
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("because it is ours");
    }),
    ("another start of the machine", |files| {
        let path = files.with_file_name("base.json");
        let text = fs::read_to_string(&path).expect("because it is there");
        let boot = text.find("\"boot\":\"").expect("because it is written") + 8;
        let text = format!("{}0{}", &text[..boot], &text[boot + 1..]);
        fs::write(&path, text.replace("\"boot\":\"0", "\"boot\":\"x")).expect("because it is ours");
    }),
    ("no note", |files| {
        fs::remove_file(files.with_file_name("base.json")).expect("because it is there")
    }),
];

#[test]
fn whatever_touches_a_base_makes_it_useless_and_another_is_made() {
    for (name, touch) in TOUCHES {
        let scene = Scene::new();
        let tree = scene.head();
        let base = scene.require(&tree);
        assert!(scene.find(&tree).is_some(), "{name}: it is good at first");
        touch(&base.files());
        assert!(scene.find(&tree).is_none(), "{name}: it is found out");
        let again = scene.require(&tree);
        assert_ne!(again.files(), base.files(), "{name}");
        assert_eq!(
            fs::read(again.files().join("a.txt")).ok(),
            Some(b"alpha\n".to_vec()),
            "{name}"
        );
        // Whoever uses the old one keeps it as long as it does.
        assert_eq!(scene.whole(), 2, "{name}");
        drop(base);
        scene.bases().sweep(4).expect("because it is ours");
        assert_eq!(scene.whole(), 1, "{name}");
        assert!(again.files().exists(), "{name}");
    }
}

#[test]
fn many_who_want_the_same_get_one() {
    let scene = Scene::new();
    let tree = scene.head();
    let places: Vec<u64> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| scene.require(&tree).files()))
            .collect();
        running
            .into_iter()
            .map(|thread| {
                let files = thread.join().expect("because nothing panics");
                files.metadata().expect("because it is there").ino()
            })
            .collect()
    });
    assert!(places.iter().all(|place| *place == places[0]));
    assert_eq!(scene.whole(), 1);
}

#[test]
fn one_that_is_stopped_while_it_is_made_leaves_nothing() {
    let scene = Scene::new();
    let (tree, bases) = (scene.head(), scene.bases());
    let before = scene.names();
    // Somewhere before the first file, and after some.
    for files in 0..4 {
        let asked = AtomicUsize::new(0);
        let stopped = || asked.fetch_add(1, Ordering::SeqCst) > files;
        let made = bases.require(&tree, Stop::when(&stopped), |_| Ok(HashMap::new()));
        assert!(matches!(made, Err(Error::Stopped)), "{files}");
        let left: Vec<String> = scene.names();
        let left = left.iter().filter(|name| *name != "building.lock");
        assert_eq!(left.collect::<Vec<_>>(), before.iter().collect::<Vec<_>>());
    }
    drop(scene.require(&tree));
    assert_eq!(scene.whole(), 1);
}

#[test]
fn nobody_waits_for_another_longer_than_wanted() {
    let scene = Scene::new();
    let (tree, bases) = (scene.head(), scene.bases());
    let directory = fs::read_dir(&scene.all)
        .expect("because it is ours")
        .next()
        .expect("because there is one repository")
        .expect("because it can be listed")
        .path();
    let another = Alone::try_take(&directory.join("building.lock"))
        .expect("because it is ours")
        .expect("because nobody makes one");
    let asked = AtomicUsize::new(0);
    let stopped = || asked.fetch_add(1, Ordering::SeqCst) == 3;
    let made = bases.require(&tree, Stop::when(&stopped), |_| Ok(HashMap::new()));
    assert!(matches!(made, Err(Error::Stopped)));
    drop(another);
    drop(scene.require(&tree));
}

#[test]
fn a_base_in_use_is_given_up_once_anything_in_it_is_changed() {
    let scene = Scene::new();
    let base = scene.require(&scene.head());
    assert!(base.is_still_as_made(Look::AtFiles) && base.is_still_as_made(Look::AtDirectories));
    chmod(&base.files().join("a.txt"), 0o644);
    fs::write(base.files().join("a.txt"), "else\n").expect("because it is ours");
    assert!(!base.is_still_as_made(Look::AtFiles));
    drop(base);
    let again = scene.require(&scene.head());
    assert!(again.is_still_as_made(Look::AtFiles));
    fs::remove_file(again.files().join("a.txt")).expect("because it is ours");
    assert!(!again.is_still_as_made(Look::AtDirectories));
}

#[test]
fn the_number_of_bases_is_bounded_and_one_in_use_stays() {
    let scene = Scene::new();
    let held = scene.require(&scene.head());
    let mut last = scene.head();
    for number in 0..8 {
        scene.fixture.write("a.txt", &format!("{number}\n"));
        scene.fixture.commit("more");
        last = scene.head();
        drop(scene.require(&last));
    }
    assert!(held.files().join("a.txt").exists());
    assert!(scene.whole() <= 5, "{:?}", scene.names());
    assert!(scene.find(&last).is_some());
    sweep_bases(&scene.all, Duration::from_secs(3600)).expect("because it is ours");
    assert!(scene.find(&last).is_some(), "it was used a moment ago");
    scene.sweep_until(|| scene.whole() <= 1);
    assert_eq!(scene.whole(), 1, "what is held stays");
    drop(held);
    scene.sweep_until(|| !scene.all.exists());
}

#[test]
fn what_was_cut_short_is_nobodys_and_goes() {
    let scene = Scene::new();
    drop(scene.require(&scene.head()));
    let repository = fs::read_dir(&scene.all)
        .expect("because it is ours")
        .next()
        .expect("because there is one")
        .expect("because it can be listed")
        .path();
    for name in ["new-half", &format!("{}-abc.gone", scene.head())] {
        fs::create_dir_all(repository.join(name).join("tree")).expect("because it is ours");
    }
    assert_eq!(scene.bases().trees().expect("because it is ours").len(), 1);
    sweep_bases(&scene.all, Duration::from_secs(3600)).expect("because it is ours");
    assert_eq!(
        scene
            .names()
            .iter()
            .filter(|name| name.starts_with("new-") || name.ends_with(".gone"))
            .count(),
        0
    );
    assert!(scene.find(&scene.head()).is_some());
}
