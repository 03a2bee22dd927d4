//! Laws of the merge on random trees.

use super::{Fixture, Row, f, lines, x};
use crate::integration::ObjectStore;
use crate::model::{ObjectId, OnConflict};

/// A small generator: the same cases on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn index(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(1);
        usize::try_from(self.below(limit)).unwrap_or(0)
    }

    fn rows(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        for name in ["a", "b", "d/c", "d/e", "h/i/j", "k"] {
            let count = self.index(12);
            match self.below(5) {
                0 => {}
                1 => rows.push(x(name, lines(count, &[]))),
                _ => rows.push(f(name, lines(count + 8, &[(1, name)]))),
            }
        }
        rows
    }

    fn edit(&mut self, rows: &[Row]) -> Vec<Row> {
        let mut edited = Vec::new();
        for Row(mode, path, bytes) in rows {
            let text = String::from_utf8_lossy(bytes);
            let mut text: Vec<_> = text.lines().map(str::to_owned).collect();
            match self.below(6) {
                0 => continue,
                1 | 2 if !text.is_empty() => {
                    let at = self.index(text.len());
                    text[at] = format!("edit {}", self.below(3));
                }
                3 => text.push(format!("more {}", self.below(3))),
                _ => {}
            }
            let text: String = text.into_iter().map(|line| line + "\n").collect();
            edited.push(Row(*mode, path.clone(), text.into_bytes()));
        }
        if self.below(3) == 0 {
            let name = format!("n{}", self.below(4));
            edited.push(f(name, format!("new {}\n", self.below(3))));
        }
        edited
    }
}

#[test]
fn one_side_alone_is_the_answer_and_sides_can_be_exchanged() {
    let fixture = Fixture::new();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut clean, mut conflicted) = (0, 0);
    for round in 0..150 {
        let rows = random.rows();
        let base = fixture.tree(&rows);
        let ours = fixture.tree(&random.edit(&rows));
        let theirs = fixture.tree(&random.edit(&rows));
        let merge = |a: &ObjectId, b: &ObjectId| fixture.merge([&base, a, b], OnConflict::Hold);
        for side in [&ours, &theirs, &base] {
            assert_eq!(&merge(side, &base).tree, side, "{round}");
            assert_eq!(&merge(&base, side).tree, side, "{round}");
            assert_eq!(&merge(side, side).tree, side, "{round}");
        }
        let (one, two) = (merge(&ours, &theirs), merge(&theirs, &ours));
        assert_eq!(one.conflicts.len(), two.conflicts.len(), "{round}");
        if one.conflicts.is_empty() {
            clean += 1;
            assert_eq!(one.tree, two.tree, "{round}");
        } else {
            conflicted += 1;
            assert_eq!((&one.tree, &two.tree), (&ours, &theirs), "{round}");
        }
    }
    assert!(clean > 20 && conflicted > 20, "{clean} and {conflicted}");
}

#[test]
fn disjoint_changes_add_up() {
    let fixture = Fixture::new();
    let row = |n| f(format!("f{n}"), lines(5, &[(1, &format!("file {n}"))]));
    let rows: Vec<_> = (0..8).map(row).collect();
    let base = fixture.tree(&rows);
    let mut ours = base.clone();
    for agent in 0..8 {
        let own = [
            f(format!("f{agent}"), format!("agent {agent}\n")),
            f(format!("new{agent}/x"), "x\n"),
        ];
        let theirs = fixture.edited(&base, &own);
        let merged = fixture.merge([&base, &ours, &theirs], OnConflict::Hold);
        assert!(merged.may_land(), "{merged:?}");
        assert_eq!(merged.warnings, []);
        assert_eq!(merged.tree, fixture.edited(&ours, &own));
        ours = merged.tree;
    }
    let changed = fixture.store.differences(&base, &ours);
    assert_eq!(changed.expect("because both exist").len(), 16);
}
