//! People who go on working while a result lands.

use std::fs;

use super::scene::{Scene, Watcher};
use super::{f, path};
use crate::integration::landing::Point;
use crate::integration::{Landing, kept_backups};

/// Edits at one point of a landing of three files, and returns how it ended.
fn edited_at(point: Point, edit: impl Fn(&Scene)) -> (Scene, Landing) {
    let scene = Scene::new();
    let rows = [f("a", "a\n"), f("b", "b\n"), f("c", "c\n")];
    scene.put(&rows);
    let ours = scene.fixture.tree(&rows);
    let merged = scene
        .fixture
        .tree(&[f("b", "b2\n"), f("c", "c2\n"), f("n", "n\n")]);
    let landing = {
        let watcher = Watcher::new(|at| {
            if at == point {
                edit(&scene);
            }
            Ok(())
        });
        scene.land_watched(&ours, &merged, &watcher)
    };
    (scene, landing.expect("because an edit is no failure"))
}

#[test]
fn a_person_who_writes_meanwhile_wins() {
    // Steps: 0 deletes a, 1 replaces b, 2 replaces c, 3 creates n.
    let points = [
        Point::Journalled,
        Point::Preflighted,
        Point::Before(2),
        Point::Renamed(0),
        Point::Renamed(1),
    ];
    for point in points {
        let (scene, landing) = edited_at(point, |scene| scene.put(&[f("c", "typed\n")]));
        let Landing::Moved { paths, .. } = landing else {
            panic!("{point:?}: {landing:?}");
        };
        assert_eq!(paths, [path("c")], "{point:?}");
        let expected = Scene::new();
        expected.put(&[f("a", "a\n"), f("b", "b\n"), f("c", "typed\n")]);
        assert_eq!(scene.picture(), expected.picture(), "{point:?}");
        assert!(!scene.staging().exists(), "{point:?}");
    }
}

#[test]
fn a_file_that_is_made_or_deleted_meanwhile_wins() {
    let (scene, landing) = edited_at(Point::Committed, |scene| scene.put(&[f("n", "mine\n")]));
    assert!(matches!(landing, Landing::Moved { .. }), "{landing:?}");
    assert_eq!(
        fs::read(scene.at("n")).expect("because it is mine"),
        b"mine\n"
    );
    assert_eq!(fs::read(scene.at("a")).expect("because it is back"), b"a\n");
    let (scene, landing) = edited_at(Point::Committed, |scene| {
        fs::remove_file(scene.at("c")).expect("because it is there");
    });
    assert!(matches!(landing, Landing::Moved { .. }), "{landing:?}");
    assert!(!scene.at("c").exists());
    assert_eq!(fs::read(scene.at("b")).expect("because it is back"), b"b\n");
}

#[test]
fn an_edit_of_what_has_just_landed_survives_the_way_back() {
    let (scene, landing) = edited_at(Point::Before(3), |scene| {
        // Saved by renaming over it, as editors do, and then one more obstacle.
        fs::write(scene.at("tmp"), "newest\n").expect("because the tree is ours");
        fs::rename(scene.at("tmp"), scene.at("b")).expect("because both are ours");
        scene.put(&[f("n", "mine\n")]);
    });
    let Landing::Moved { paths, backups } = landing else {
        panic!("{landing:?}");
    };
    assert_eq!(paths, [path("b"), path("n")]);
    assert_eq!(
        fs::read(scene.at("b")).expect("because it is there"),
        b"newest\n"
    );
    assert_eq!(fs::read(scene.at("c")).expect("because it is back"), b"c\n");
    let backups = backups.expect("because the older text of b is kept");
    let kept = kept_backups(&scene.top().join(".git")).expect("because it can be listed");
    assert_eq!(kept, std::slice::from_ref(&backups));
    assert_eq!(
        fs::read(backups.join("s1")).expect("because it is kept"),
        b"b\n"
    );
}

#[test]
fn a_late_write_through_an_open_file_is_not_lost() {
    use std::io::Write as _;
    let scene = Scene::new();
    scene.put(&[f("b", "b\n")]);
    let (ours, merged) = (
        scene.fixture.tree(&[f("b", "b\n")]),
        scene.fixture.tree(&[f("b", "2\n")]),
    );
    let open = fs::OpenOptions::new().append(true).open(scene.at("b"));
    let mut open = open.expect("because it is there");
    let landing = {
        let watcher = Watcher::new(|at| {
            if at == Point::Synced {
                open.write_all(b"late\n").expect("because it is open");
            }
            Ok(())
        });
        scene.land_watched(&ours, &merged, &watcher)
    };
    assert!(matches!(landing, Ok(Landing::Moved { .. })), "{landing:?}");
    assert_eq!(
        fs::read(scene.at("b")).expect("because it is back"),
        b"b\nlate\n"
    );
}
