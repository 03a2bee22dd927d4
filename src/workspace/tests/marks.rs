//! The kernel's marks in a directory that was merged, one by one.

use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};

use super::fixture::{Fixture, put};
use super::layers::Scene;
use crate::workspace::lowers::Attributes;
use crate::workspace::{Capture, Error, Harvest, Workspace, capture};

/// A workspace over layers that was mounted as an ordinary user does.
fn with(marks: impl FnOnce(&Path)) -> (Fixture, Workspace) {
    let fixture = Fixture::new();
    let taken = fixture.snapshot();
    let scene = Scene {
        fixture: &fixture,
        taken,
    };
    let mut workspace = scene.create(1, &[]);
    workspace.basis.marks = Some(Attributes::User);
    marks(&workspace.tree);
    (fixture, workspace)
}

fn captured(fixture: &Fixture, workspace: &Workspace) -> Result<Capture, Error> {
    let keep = fixture.keep();
    let harvest = Harvest {
        keep: &keep,
        at: Timestamp::UNIX_EPOCH,
        message: "result",
    };
    capture(workspace, &harvest)
}

fn paths(marks: impl FnOnce(&Path)) -> Vec<String> {
    let (fixture, workspace) = with(marks);
    let capture = captured(&fixture, &workspace).expect("because it can be read");
    let changes = capture.changes.changes.iter();
    changes
        .map(|change| format!("{:?} {}", change.kind, change.path.text()))
        .collect()
}

fn mark(path: &Path, name: &str, value: &str) {
    let set = setxattr(path, name, value.as_bytes(), XattrFlags::empty());
    set.expect("because the file system keeps attributes");
}

#[test]
fn a_whiteout_is_a_device_or_an_empty_file_with_a_mark() {
    let found = paths(|upper| {
        let kind = FileType::CharacterDevice;
        mknodat(CWD, upper.join("src"), kind, Mode::empty(), makedev(0, 0))
            .expect("because anybody may make one");
        put(upper, b"a.txt", b"");
        mark(&upper.join("a.txt"), "user.overlay.whiteout", "y");
        put(upper, b"run.sh", b"");
    });
    let expected = [
        "Deleted a.txt",
        "Modified run.sh",
        "Deleted src/deep/er/mod.rs",
        "Deleted src/lib.rs",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_opaque_directory_hides_what_lies_below() {
    let make = |value: &'static str| {
        paths(move |upper| {
            put(upper, b"src/lib.rs", b"pub fn one() {}\n");
            mark(&upper.join("src"), "user.overlay.opaque", value);
        })
    };
    assert_eq!(make("y"), ["Deleted src/deep/er/mod.rs"]);
    // That it has whiteouts of the second kind hides nothing.
    assert_eq!(make("x"), Vec::<String>::new());
}

#[test]
fn a_copy_without_its_bytes_is_an_error() {
    let (fixture, workspace) = with(|upper| {
        put(upper, b"a.txt", b"\0\0\0\0\0\0");
        mark(&upper.join("a.txt"), "user.overlay.metacopy", "");
    });
    let error = captured(&fixture, &workspace).expect_err("because zeros are not its bytes");
    assert!(matches!(error, Error::File { .. }), "{error}");
}
