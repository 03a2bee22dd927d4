//! Landings that die, fail or run out of space at every step.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::scene::{Picture, Scene, Watcher, picture};
use super::{Row, f, l, path, x};
use crate::integration::landing::{Fault, Point};
use crate::integration::{Error, Header, Landing, Recovered, pending, pending_in, recover};
use crate::model::ObjectId;
use crate::store::Root;

/// Every kind of step at once.
fn before() -> Vec<Row> {
    vec![
        f("edit", "1\n"),
        f("mode", "1\n"),
        f("gone/deep/a", "1\n"),
        f("gone/b", "2\n"),
        l("link", "t"),
        f("to-dir", "1\n"),
        f("to-file/a", "1\n"),
        f("to-file/b/c", "2\n"),
        l("link-to-dir", "/etc"),
        f("still", "s\n"),
    ]
}

fn after() -> Vec<Row> {
    vec![
        f("edit", "2\n"),
        x("mode", "1\n"),
        l("link", "u"),
        f("to-dir/a/b", "1\n"),
        f("to-file", "1\n"),
        f("link-to-dir/passwd", "1\n"),
        f("still", "s\n"),
        f("new/deep/x", "1\n"),
    ]
}

struct Trees {
    scene: Scene,
    ours: ObjectId,
    merged: ObjectId,
}

fn trees() -> Trees {
    let scene = Scene::new();
    let (ours, merged) = (scene.fixture.tree(&before()), scene.fixture.tree(&after()));
    scene.put(&before());
    Trees {
        scene,
        ours,
        merged,
    }
}

impl Trees {
    /// Starts anew with the files as before.
    fn reset(&self) {
        for entry in fs::read_dir(self.scene.top()).expect("because it exists") {
            let at = entry.expect("because it was listed").path();
            if at.ends_with(".git") {
                continue;
            }
            if at.is_dir() && !at.is_symlink() {
                fs::remove_dir_all(&at).expect("because it is ours");
            } else {
                fs::remove_file(&at).expect("because it is ours");
            }
        }
        self.scene.put(&before());
    }

    fn land(&self, watch: &Watcher<'_>) -> Result<Landing, Error> {
        self.scene.land_watched(&self.ours, &self.merged, watch)
    }

    /// The points of a landing that goes through.
    fn points(&self) -> Vec<Point> {
        let watcher = Watcher::idle();
        let landing = self.land(&watcher);
        assert!(matches!(landing, Ok(Landing::Landed { .. })), "{landing:?}");
        self.reset();
        watcher.seen()
    }
}

fn pictures() -> (Picture, Picture) {
    let make = |rows: &[Row]| {
        let scene = Scene::new();
        scene.put(rows);
        scene.picture()
    };
    (make(&before()), make(&after()))
}

#[test]
fn death_at_any_step_leaves_the_tree_wholly_before_or_wholly_after() {
    let (old, new) = pictures();
    let trees = trees();
    let points = trees.points();
    let committed = points.iter().position(|p| *p == Point::Committed);
    let committed = committed.expect("because every landing is");
    for (number, point) in points.iter().enumerate() {
        let died = trees.land(&Watcher::fault_at(number, || Fault::Die));
        assert!(matches!(died, Err(Error::Died)), "{number}: {died:?}");
        let recovered = trees.scene.recover(&Watcher::idle());
        let recovered = recovered.expect("because nobody is in the way");
        let closed = *point == Point::Closed;
        let forward = number >= committed && !closed;
        assert_eq!(
            matches!(recovered, Recovered::Forward { .. }),
            forward,
            "{number}"
        );
        let expected = if number >= committed { &new } else { &old };
        assert_eq!(&trees.scene.picture(), expected, "{point:?}");
        assert!(!trees.scene.staging().exists());
        let again = trees.scene.recover(&Watcher::idle());
        assert_eq!(again.expect("because nothing is left"), Recovered::Nothing);
        trees.reset();
    }
}

#[test]
fn failure_at_any_step_puts_everything_back() {
    let (old, new) = pictures();
    let trees = trees();
    let points = trees.points();
    for (number, point) in points.iter().enumerate() {
        let failed = trees.land(&Watcher::fault_at(number, || Fault::Fail));
        // It was told by then, and stays; only the journal or slots are left.
        let is_over = matches!(point, Point::Told | Point::Closed);
        assert_eq!(failed.is_ok(), is_over, "{number}: {failed:?}");
        let expected = if is_over { &new } else { &old };
        assert_eq!(&trees.scene.picture(), expected, "{point:?}");
        if is_over {
            let rest = trees.scene.recover(&Watcher::idle());
            let rest = rest.expect("because nobody is in the way");
            let has_journal = *point == Point::Told;
            assert_eq!(matches!(rest, Recovered::Forward { .. }), has_journal);
            assert_eq!(&trees.scene.picture(), &new, "{point:?}");
        }
        assert!(!trees.scene.staging().exists(), "{point:?}");
        trees.reset();
    }
}

#[test]
fn death_while_recovering_or_putting_back_is_recovered_from() {
    let (old, new) = pictures();
    let trees = trees();
    let points = trees.points();
    let committed = points.iter().position(|p| *p == Point::Committed);
    let committed = committed.expect("because every landing is");
    for number in (committed..points.len() - 2).step_by(3) {
        // A failure that starts the way back, and a death on that way.
        let mut count = 0;
        let watcher = Watcher::new(|point| {
            count += 1;
            match point {
                Point::Back(step) if step % 3 == 1 => Err(Fault::Die),
                _ if count == number + 1 => Err(Fault::Fail),
                _ => Ok(()),
            }
        });
        let died = trees.land(&watcher);
        assert!(died.is_err(), "{number}");
        let recovered = trees.scene.recover(&Watcher::idle());
        let recovered = recovered.expect("because nobody is in the way");
        assert!(
            matches!(recovered, Recovered::Back { .. }),
            "{number}: {recovered:?}"
        );
        assert_eq!(trees.scene.picture(), old, "{number}");
        trees.reset();
        // A death, and a second one at each point of the recovery.
        for second in 0.. {
            let died = trees.land(&Watcher::fault_at(number, || Fault::Die));
            assert!(matches!(died, Err(Error::Died)), "{number}");
            let recovered = trees
                .scene
                .recover(&Watcher::fault_at(second, || Fault::Die));
            let is_over = recovered.is_ok();
            let last = trees.scene.recover(&Watcher::idle());
            assert!(last.is_ok(), "{number}, {second}: {last:?}");
            assert_eq!(trees.scene.picture(), new, "{number}, {second}");
            trees.reset();
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn every_prefix_of_the_journal_recovers() {
    let (old, new) = pictures();
    let trees = trees();
    let mut cut = 0;
    loop {
        let died = trees.land(&Watcher::new(|point| match point {
            Point::Committed => Err(Fault::Die),
            _ => Ok(()),
        }));
        assert!(matches!(died, Err(Error::Died)));
        let journal = trees.scene.staging().join("journal");
        let whole = fs::read(&journal).expect("because it was written");
        fs::write(&journal, &whole[..cut]).expect("because it is ours");
        let recovered = trees.scene.recover(&Watcher::idle());
        assert!(recovered.is_ok(), "{cut}: {recovered:?}");
        let expected = if cut == whole.len() { &new } else { &old };
        assert_eq!(&trees.scene.picture(), expected, "{cut}");
        assert!(!trees.scene.staging().exists());
        if cut == whole.len() {
            break;
        }
        trees.reset();
        cut = (cut + 97).min(whole.len());
    }
}

#[test]
fn an_edit_between_death_and_recovery_survives() {
    let trees = trees();
    let die_at = |wanted: Point| {
        Watcher::new(move |point| {
            if point == wanted {
                Err(Fault::Die)
            } else {
                Ok(())
            }
        })
    };
    let points = trees.points();
    let half = points.len() * 2 / 3;
    let (Point::Before(_) | Point::Renamed(_)) = points[half] else {
        panic!("{:?}", points[half]);
    };
    // Not landed yet: everything else goes back.
    let died = trees.land(&die_at(points[half]));
    assert!(died.is_err());
    trees.scene.put(&[f("new/deep/x", "mine\n")]);
    let recovered = trees.scene.recover(&Watcher::idle());
    let Ok(Recovered::Back { kept, .. }) = recovered else {
        panic!("{recovered:?}");
    };
    assert_eq!(kept, [path("new/deep/x")]);
    let mut found = trees.scene.picture();
    let mine = found.remove(&b"new/deep/x"[..]);
    assert_eq!(mine.expect("because it is mine").1, b"mine\n");
    found.retain(|name, _| !name.starts_with(b"new"));
    assert_eq!(found, pictures().0);
    let left = pending(&trees.scene.top().join(".git"));
    assert!(left.expect("because it can be listed").is_empty());
}

#[test]
fn a_full_disk_while_staging_touches_nothing() {
    let scene = Scene::new();
    let before = picture(&scene.top());
    let big = "x".repeat(1 << 20);
    let (ours, merged) = (
        scene.fixture.tree(&[]),
        scene.fixture.tree(&[f("big", &big)]),
    );
    let failed = scene.land_watched(
        &ours,
        &merged,
        &Watcher::new(|point| match point {
            Point::Staged(_) => Err(Fault::Fail),
            _ => Ok(()),
        }),
    );
    assert!(matches!(failed, Err(Error::Land { .. })), "{failed:?}");
    assert_eq!(picture(&scene.top()), before);
    assert!(!scene.staging().exists());
}

#[test]
fn a_landing_is_recovered_only_in_the_working_tree_it_was_begun_in() {
    let trees = trees();
    let scene = &trees.scene;
    let other = scene.fixture.dir.path().join("other");
    scene.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    let place = other.to_str().expect("because the temporary path is text");
    scene.git(&["worktree", "add", "-q", "--detach", place]);
    let common = scene.top().join(".git");
    let here = |top: &Path| {
        let found = pending_in(&common, top).expect("because it can be listed");
        assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
        found.landings
    };
    let points = trees.points();
    let journalled = points.iter().position(|p| *p == Point::Journalled);
    let first = journalled.expect("because every landing is journalled");
    for (number, point) in points.iter().enumerate() {
        let died = trees.land(&Watcher::fault_at(number, || Fault::Die));
        assert!(matches!(died, Err(Error::Died)), "{point:?}");
        // The same files in both: only the header can tell the trees apart.
        copy_tree(&scene.top(), &other);
        let untouched = (scene.picture(), picture(&other));
        assert_eq!(
            pending(&common).expect("because it can be listed").len(),
            1,
            "{point:?}"
        );
        let is_named = number >= first && *point != Point::Closed;
        assert_eq!(here(&other).is_empty(), is_named, "{point:?}");
        if is_named {
            let root = Root::open(&other).expect("because it exists");
            let never = |_: &Header| panic!("told of another tree's landing");
            let refused = recover(&scene.staging(), &root, &never);
            assert!(
                matches!(refused, Err(Error::OtherTree { .. })),
                "{point:?}: {refused:?}"
            );
            assert!(scene.staging().exists());
        }
        assert_eq!((scene.picture(), picture(&other)), untouched, "{point:?}");
        assert_eq!(here(&scene.top()), [scene.staging()], "{point:?}");
        let recovered = scene.recover(&Watcher::idle());
        assert!(recovered.is_ok(), "{point:?}: {recovered:?}");
        assert_eq!(picture(&other), untouched.1, "{point:?}");
        trees.reset();
    }
    scene.git(&["worktree", "remove", "--force", place]);
}

/// Makes the files of one tree those of another, git's own aside.
fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(to).expect("because it exists") {
        let at = entry.expect("because it was listed").path();
        if at.ends_with(".git") {
            continue;
        }
        let removed = if at.is_dir() && !at.is_symlink() {
            fs::remove_dir_all(&at)
        } else {
            fs::remove_file(&at)
        };
        removed.expect("because it is ours");
    }
    for entry in fs::read_dir(from).expect("because it exists") {
        let at = entry.expect("because it was listed").path();
        if !at.ends_with(".git") {
            let status = Command::new("cp").arg("-a").arg(&at).arg(to).status();
            assert!(status.expect("because there is cp").success());
        }
    }
}

#[test]
fn a_landing_whose_header_cannot_be_read_is_left_alone_and_named() {
    let trees = trees();
    let common = trees.scene.top().join(".git");
    let died = trees.land(&Watcher::new(|point| match point {
        Point::Renamed(2) => Err(Fault::Die),
        _ => Ok(()),
    }));
    assert!(matches!(died, Err(Error::Died)));
    let journal = trees.scene.staging().join("journal");
    let whole = fs::read(&journal).expect("because it was written");
    let second = whole.iter().position(|b| *b == b'\n').map(|at| at + 1);
    let second = second.expect("because a header ends with a line");
    let mut damaged = whole.clone();
    damaged[20] ^= 1;
    // A damaged header, and a journal that begins with a step.
    for bytes in [&damaged, &whole[second..].to_vec()] {
        fs::write(&journal, bytes).expect("because it is ours");
        let found = pending_in(&common, &trees.scene.top()).expect("because it can be listed");
        assert!(found.landings.is_empty(), "{:?}", found.landings);
        assert_eq!(found.unreadable.len(), 1);
        assert_eq!(found.unreadable[0].0, trees.scene.staging());
        assert!(journal.exists());
    }
    // A damaged step leaves the header readable: the tree stays half done, and
    // that must not be passed over.
    let mut damaged = whole;
    damaged[second + 20] ^= 1;
    fs::write(&journal, damaged).expect("because it is ours");
    let found = pending_in(&common, &trees.scene.top()).expect("because it can be listed");
    assert_eq!(found.landings, [trees.scene.staging()]);
    let recovered = trees.scene.recover(&Watcher::idle());
    assert!(
        matches!(recovered, Err(Error::Land { .. })),
        "{recovered:?}"
    );
}

#[test]
fn what_was_told_is_never_taken_back() {
    let (_, new) = pictures();
    let trees = trees();
    let told = Cell::new(0);
    let landing = trees.scene.land_told(
        &trees.ours,
        &trees.merged,
        &Watcher::new(|point| match point {
            Point::Told => Err(Fault::Fail),
            Point::Back(_) => panic!("taken back after it was told"),
            _ => Ok(()),
        }),
        &|| told.set(told.get() + 1),
    );
    assert!(matches!(landing, Ok(Landing::Landed { .. })), "{landing:?}");
    assert_eq!((told.get(), trees.scene.picture()), (1, new.clone()));
    // The journal stands, and recovery goes forward, as often as it takes.
    let journal = trees.scene.staging().join("journal");
    for fails in [true, false] {
        assert!(journal.exists());
        let recovered = trees.scene.recover(&Watcher::new(|point| match point {
            Point::Told if fails => Err(Fault::Fail),
            Point::Back(_) => panic!("taken back after it was told"),
            _ => Ok(()),
        }));
        assert!(
            matches!(recovered, Ok(Recovered::Forward { .. })),
            "{recovered:?}"
        );
        assert_eq!(trees.scene.picture(), new);
    }
    assert!(!trees.scene.staging().exists());
}
