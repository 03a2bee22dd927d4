//! The table of merge cases: every kind of file and change.
//!
//! Owns data only; `merge_table` runs it.

use super::{Row, f, g, l, lines, x};
use crate::model::ConflictKind::{
    AddAdd, Binary, Content, DirectoryRename, FileDirectory, Mode, ModifyDelete, RenameAdd,
    RenameDelete, RenameRename, Submodule, Type,
};
use crate::model::WarningKind::{CaseCollision, DoubtfulMerge};
use crate::model::{ConflictKind, WarningKind};

/// What is expected of a case.
pub(super) enum Expected {
    /// The tree that `git merge` makes, and these warnings.
    Clean(&'static [WarningKind]),
    /// A conflict of this kind at this path, perhaps among others.
    At(ConflictKind, &'static [u8]),
}
use Expected::{At, Clean};

pub(super) struct Case(
    pub(super) &'static str,
    pub(super) [Vec<Row>; 3],
    pub(super) Expected,
);

/// A case of one file that all three trees have.
fn one(name: &'static str, [base, ours, theirs]: [Row; 3], expected: Expected) -> Case {
    Case(name, [vec![base], vec![ours], vec![theirs]], expected)
}

/// A case with a file besides, that only theirs changes.
fn beside(name: &'static str, mut rows: [Vec<Row>; 3], expected: Expected) -> Case {
    for (rows, text) in rows.iter_mut().zip(["k\n", "k\n", "changed\n"]) {
        rows.push(f("k", text));
    }
    Case(name, rows, expected)
}

fn ten(edits: &[(usize, &str)]) -> String {
    lines(10, edits)
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn modes_links_and_submodules() -> Vec<Case> {
    let (o, y, z) = (ten(&[]), ten(&[(1, "y")]), ten(&[(9, "z")]));
    let (o, y, z) = (o.as_str(), y.as_str(), z.as_str());
    vec![
        one(
            "mode against edit",
            [f("a", o), x("a", o), f("a", z)],
            Clean(&[]),
        ),
        one(
            "mode and edit on both",
            [f("a", o), x("a", y), x("a", z)],
            Clean(&[]),
        ),
        one(
            "mode dropped against edit",
            [x("a", o), f("a", o), x("a", z)],
            Clean(&[]),
        ),
        beside(
            "equal bytes added with other modes",
            [vec![], vec![f("a", "s\n")], vec![x("a", "s\n")]],
            At(Mode, b"a"),
        ),
        one(
            "both retarget a link",
            [l("a", "t"), l("a", "u"), l("a", "v")],
            At(Content, b"a"),
        ),
        beside(
            "one retargets a link",
            [vec![l("a", "t")], vec![l("a", "u")], vec![l("a", "t")]],
            Clean(&[]),
        ),
        one(
            "file to link against edit",
            [f("a", o), l("a", "t"), f("a", z)],
            At(Type, b"a"),
        ),
        one(
            "link to file against retarget",
            [l("a", "t"), f("a", "x\n"), l("a", "u")],
            At(Type, b"a"),
        ),
        beside(
            "one bumps a submodule",
            [vec![g("s", "1")], vec![g("s", "2")], vec![g("s", "1")]],
            Clean(&[]),
        ),
        one(
            "both bump a submodule",
            [g("s", "1"), g("s", "2"), g("s", "3")],
            At(Submodule, b"s"),
        ),
        beside(
            "submodule against directory",
            [vec![g("s", "1")], vec![g("s", "2")], vec![f("s/a", "x\n")]],
            At(FileDirectory, b"s"),
        ),
        beside(
            "submodule deleted against bump",
            [vec![g("s", "1")], vec![], vec![g("s", "2")]],
            At(ModifyDelete, b"s"),
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn files_and_directories() -> Vec<Case> {
    let (o, z) = (ten(&[]), ten(&[(9, "z")]));
    let (o, z) = (o.as_str(), z.as_str());
    vec![
        beside(
            "file to directory against edit",
            [vec![f("d", o)], vec![f("d/a", "x\n")], vec![f("d", z)]],
            At(FileDirectory, b"d"),
        ),
        beside(
            "file to directory, untouched",
            [
                vec![f("d", "q\n")],
                vec![f("d/a", "x\n")],
                vec![f("d", "q\n")],
            ],
            Clean(&[]),
        ),
        one(
            "directory to file against edit inside",
            [f("d/a", o), f("d", "file\n"), f("d/a", z)],
            At(FileDirectory, b"d"),
        ),
        Case(
            "directory to file against new inside",
            [
                vec![f("d/a", "q\n")],
                vec![f("d", "file\n")],
                vec![f("d/a", "q\n"), f("d/b", "n\n")],
            ],
            At(FileDirectory, b"d"),
        ),
        beside(
            "file added against directory added",
            [vec![], vec![f("d", "file\n")], vec![f("d/a", "x\n")]],
            At(FileDirectory, b"d"),
        ),
        beside(
            "deleted against edit",
            [vec![f("a", o)], vec![], vec![f("a", z)]],
            At(ModifyDelete, b"a"),
        ),
        beside(
            "deleted on both",
            [vec![f("a", "q\n")], vec![], vec![]],
            Clean(&[]),
        ),
        beside(
            "deleted against mode",
            [vec![f("a", o)], vec![], vec![x("a", o)]],
            At(ModifyDelete, b"a"),
        ),
        beside(
            "both add, differently",
            [vec![], vec![f("a", "x\n")], vec![f("a", "y\n")]],
            At(AddAdd, b"a"),
        ),
        one(
            "both change what is not text",
            [f("a", "\0one"), f("a", "\0two"), f("a", "\0three")],
            At(Binary, b"a"),
        ),
        one(
            "text to not text against edit",
            [f("a", o), f("a", "\0\x01"), f("a", z)],
            At(Binary, b"a"),
        ),
        one(
            "both fill an empty file",
            [f("a", ""), f("a", "x\n"), f("a", "y\n")],
            At(Content, b"a"),
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn renames() -> Vec<Case> {
    let big = |edits: &[(usize, &str)]| lines(30, edits);
    let (o, y, z) = (big(&[]), big(&[(3, "y")]), big(&[(3, "z")]));
    let late = big(&[(20, "z")]);
    let other = lines(30, &[]).replace("line", "word");
    let (o, y, z, late, w) = (
        o.as_str(),
        y.as_str(),
        z.as_str(),
        late.as_str(),
        other.as_str(),
    );
    let dir = |d: &str| -> Vec<Row> {
        let file = |n: &&str| f(format!("{d}/{n}"), format!("{n}\n{o}"));
        ["a", "b", "c"].iter().map(file).collect()
    };
    let and = |mut rows: Vec<Row>, row: Row| {
        rows.retain(|Row(_, path, _)| *path != row.1);
        rows.push(row);
        rows
    };
    vec![
        one(
            "rename against edit",
            [f("a", o), f("b", o), f("a", z)],
            Clean(&[DoubtfulMerge]),
        ),
        one(
            "rename and edit against edit of the line",
            [f("a", o), f("b", y), f("a", z)],
            At(Content, b"b"),
        ),
        one(
            "rename to two names",
            [f("a", o), f("b", o), f("c", o)],
            At(RenameRename, b"a"),
        ),
        Case(
            "two names to one",
            [
                vec![f("a", o), f("b", w)],
                vec![f("c", o), f("b", w)],
                vec![f("a", o), f("c", w)],
            ],
            At(RenameRename, b"c"),
        ),
        one(
            "same rename on both",
            [f("a", o), f("b", y), f("b", late)],
            Clean(&[DoubtfulMerge]),
        ),
        beside(
            "rename against delete",
            [vec![f("a", o)], vec![f("b", o)], vec![]],
            At(RenameDelete, b"b"),
        ),
        Case(
            "rename onto an added name",
            [
                vec![f("a", o)],
                vec![f("b", o)],
                vec![f("a", o), f("b", "added\n")],
            ],
            At(RenameAdd, b"b"),
        ),
        one(
            "rename of too little likeness",
            [f("a", "q\nr\n"), f("b", "quite other\n"), f("a", "q\ns\n")],
            At(ModifyDelete, b"a"),
        ),
        beside(
            "empty files are no renames",
            [
                vec![f("p/i", "")],
                vec![f("q/i", "")],
                vec![f("p/i", "code\n")],
            ],
            At(ModifyDelete, b"p/i"),
        ),
        one(
            "rename by case against edit",
            [f("Read", o), f("READ", o), f("Read", z)],
            Clean(&[DoubtfulMerge]),
        ),
        Case(
            "new file in a renamed directory",
            [dir("d"), dir("e"), and(dir("d"), f("d/new", "n\n"))],
            At(DirectoryRename, b"e/new"),
        ),
        Case(
            "edit in a renamed directory",
            [
                dir("d"),
                dir("e"),
                and(dir("d"), f("d/a", format!("a\n{z}"))),
            ],
            Clean(&[DoubtfulMerge]),
        ),
        Case(
            "directory renamed to two names",
            [dir("d"), dir("e"), dir("h")],
            At(RenameRename, b"d/a"),
        ),
        Case(
            "swap against edit",
            [
                vec![f("a", o), f("b", w)],
                vec![f("a", w), f("b", o)],
                vec![f("a", z), f("b", w)],
            ],
            At(Content, b"a"),
        ),
        Case(
            "a small twin elsewhere",
            [
                vec![f("p/L", "mit\n")],
                vec![f("q/L", "mit\n")],
                vec![f("p/L", "mit\n"), f("n", "n\n")],
            ],
            Clean(&[]),
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn lines_and_names() -> Vec<Case> {
    let crlf = |text: String| text.replace('\n', "\r\n");
    let long = vec!["n".repeat(200); 12].join("/");
    let a = |name, o: String, y: String, z: String, expected| {
        one(name, [f("a", o), f("a", y), f("a", z)], expected)
    };
    let named = |name, path: &[u8], expected| {
        let (o, y, z) = (ten(&[]), ten(&[(1, "y")]), ten(&[(9, "z")]));
        one(name, [f(path, o), f(path, y), f(path, z)], expected)
    };
    let added = |name, first: &str, second: &str| {
        let rows = [vec![], vec![f(first, "x\n")], vec![f(second, "y\n")]];
        beside(name, rows, Clean(&[CaseCollision]))
    };
    let rewritten = ten(&[]).replace("line", "  row");
    let unended = ten(&[]).trim_end().to_owned();
    vec![
        a(
            "adjacent lines",
            ten(&[]),
            ten(&[(3, "y")]),
            ten(&[(4, "z")]),
            At(Content, b"a"),
        ),
        a(
            "one line between",
            ten(&[]),
            ten(&[(3, "y")]),
            ten(&[(5, "z")]),
            Clean(&[]),
        ),
        a(
            "the same change on both",
            ten(&[]),
            ten(&[(3, "y"), (8, "w")]),
            ten(&[(3, "y")]),
            Clean(&[]),
        ),
        a(
            "other lines at one place",
            ten(&[]),
            ten(&[(3, "3\ny")]),
            ten(&[(3, "3\nz")]),
            At(Content, b"a"),
        ),
        a(
            "both append",
            ten(&[]),
            ten(&[]) + "y\n",
            ten(&[]) + "z\n",
            At(Content, b"a"),
        ),
        a(
            "no line end at the end",
            ten(&[]),
            ten(&[(1, "y")]),
            unended,
            Clean(&[]),
        ),
        a(
            "whole rewrite against edit",
            ten(&[]),
            rewritten,
            ten(&[(3, "z")]),
            At(Content, b"a"),
        ),
        a(
            "line ends of a file against edit",
            ten(&[]),
            crlf(ten(&[])),
            ten(&[(3, "z")]),
            At(Content, b"a"),
        ),
        a(
            "CRLF on both, disjoint",
            crlf(ten(&[])),
            crlf(ten(&[(1, "y")])),
            crlf(ten(&[(9, "z")])),
            Clean(&[]),
        ),
        named("a name that is not text", b"caf\xe9", Clean(&[])),
        named("newline, tab and quote in a name", b"a\nb\t\"c", Clean(&[])),
        named("a dash before a name", b"-rf", Clean(&[])),
        named("a very long path", long.as_bytes(), Clean(&[])),
        one(
            "conflict under a name that is not text",
            [
                f(b"caf\xe9", "o\n"),
                f(b"caf\xe9", "y\n"),
                f(b"caf\xe9", "z\n"),
            ],
            At(Content, b"caf\xe9"),
        ),
        added("two spellings of one accent", "café", "cafe\u{301}"),
        added("two cases of one name", "Foo", "foo"),
        added("two cases of one directory", "D/a", "d/b"),
    ]
}

fn attributes() -> Vec<Case> {
    let case = |name, attributes: &str, texts: [&str; 3], expected| {
        let rows = texts.map(|text| vec![f(".gitattributes", attributes), f("a", text)]);
        Case(name, rows, expected)
    };
    let (o, y, z) = (ten(&[]), ten(&[(9, "y")]), ten(&[(3, "z")]));
    vec![
        case(
            "union",
            "a merge=union\n",
            ["o\n", "o\ny\n", "o\nz\n"],
            Clean(&[DoubtfulMerge]),
        ),
        case("no merging", "a -merge\n", [&o, &y, &z], At(Binary, b"a")),
    ]
}

pub(super) fn all() -> Vec<Case> {
    let parts = [
        modes_links_and_submodules(),
        files_and_directories(),
        renames(),
        lines_and_names(),
        attributes(),
    ];
    parts.into_iter().flatten().collect()
}
