//! Random edits: snapshot and capture give the tree that git would add.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::fixture::{Fixture, chmod};

/// A small generator; each seed is one fixed story.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("because 31 bits fit") % sides
    }

    fn path(&mut self, root: &Path) -> PathBuf {
        const NAMES: [&str; 7] = ["a.txt", "src", "lib.rs", "x", "run.sh", "-rf", "é \n"];
        let depth = 1 + self.roll(3);
        let mut path = root.to_owned();
        for _ in 0..depth {
            path.push(NAMES[self.roll(NAMES.len())]);
        }
        path
    }

    /// One edit; most that cannot be done are simply not done.
    fn edit(&mut self, root: &Path) {
        let path = self.path(root);
        let exists = path.symlink_metadata().is_ok();
        match self.roll(8) {
            0 | 1 => {
                if let Some(parent) = path.parent() {
                    drop(fs::create_dir_all(parent));
                }
                drop(fs::write(&path, format!("{}\n", self.roll(4))));
            }
            2 => drop(fs::remove_file(&path)),
            3 => drop(fs::remove_dir_all(&path)),
            4 => {
                let target = self.path(root);
                drop(fs::rename(&path, target));
            }
            5 => {
                drop(fs::remove_file(&path));
                drop(symlink(["x", "../a.txt", "/nowhere"][self.roll(3)], &path));
            }
            6 if exists && !path.is_symlink() && path.is_file() => {
                chmod(&path, [0o644, 0o755][self.roll(2)]);
            }
            _ => {
                let target = self.path(root);
                drop(fs::hard_link(&path, target));
            }
        }
    }
}

#[test]
fn a_capture_after_random_edits_is_what_git_would_add() {
    for seed in 0..24 {
        let fixture = Fixture::new();
        let mut dice = Dice(seed);
        for _ in 0..dice.roll(20) {
            dice.edit(&fixture.top);
        }
        let taken = fixture.snapshot();
        assert_eq!(taken.tree, fixture.oracle(), "snapshot of seed {seed}");
        let workspace = fixture.create(&taken);
        let status = ["status", "--porcelain=v2", "-z", "--untracked-files=all"];
        let inside = fixture.git_in(&workspace.tree, &status);
        assert_eq!(inside, fixture.git(&status), "status of seed {seed}");
        for _ in 0..=dice.roll(20) {
            dice.edit(&workspace.tree);
        }
        let expected = fixture.oracle_of(&workspace.tree, &workspace.tree.join(".git"));
        let capture = fixture.capture(&workspace);
        assert_eq!(capture.changes.tree, expected, "capture of seed {seed}");
    }
}
