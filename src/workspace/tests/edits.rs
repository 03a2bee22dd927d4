//! Edit programs: what an agent may do to files, as data.
//!
//! Owns their random making and carrying them out. Renames fall back to moving
//! what a directory holds where the kernel refuses to rename it, as `mv` does,
//! so that a program does the same wherever it runs. What cannot be done is
//! not done; the list of what was done is the same everywhere, too.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rustix::fs::{CWD, Mode, RenameFlags, XattrFlags, mkfifoat, renameat_with, setxattr};
use serde::{Deserialize, Serialize};

/// The names that paths are made of: those of the fixture, those that its
/// ignore file names, those that no tree holds, and odd ones.
const NAMES: [&[u8]; 24] = [
    b"a.txt",
    b"src",
    b"lib.rs",
    b"deep",
    b"er",
    b"mod.rs",
    b"run.sh",
    b"-rf",
    b"link",
    b"x",
    b"y",
    b"target",
    b"x.log",
    b".gitignore",
    b"caf\xe9\nnew line",
    b".env",
    b"node_modules",
    b"b",
    b"sub",
    b"only-top",
    b"GIT~1",
    b".git",
    b"fresh",
    b"\xff",
];

/// Paths that the fixture has, so that most edits meet something.
const KNOWN: [&[usize]; 16] = [
    &[0],
    &[1],
    &[1, 2],
    &[1, 3],
    &[1, 3, 4],
    &[1, 3, 4, 5],
    &[6],
    &[7],
    &[8],
    &[13],
    &[14],
    &[15],
    &[16],
    &[16, 17],
    &[16, 17, 9],
    &[18],
];

/// A path, by the places of its names in [`NAMES`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Place(Vec<usize>);

impl Place {
    /// A path of known names.
    pub(super) fn of(path: &str) -> Self {
        let names = path.split('/').map(|name| {
            let at = NAMES.iter().position(|one| *one == name.as_bytes());
            at.expect("because it is one of the names")
        });
        Self(names.collect())
    }

    fn names(&self) -> impl Iterator<Item = &'static [u8]> {
        self.0.iter().map(|at| NAMES[*at])
    }

    fn under(&self, root: &Path) -> PathBuf {
        let mut path = root.to_owned();
        path.extend(self.names().map(OsStr::from_bytes));
        path
    }
}

/// One step of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Edit {
    Write(Place, u8),
    Append(Place, u8),
    Truncate(Place, u8),
    /// Other bytes, as many as before, and the old time put back.
    Disguise(Place),
    Touch(Place),
    Mode(Place, u32),
    Remove(Place),
    RemoveAll(Place),
    MakeDirectory(Place),
    Rename(Place, Place),
    Exchange(Place, Place),
    Link(Place, u8),
    HardLink(Place, Place),
    Pipe(Place),
    /// An attribute that the kernel uses for its own marks.
    Mark(Place, String, String),
    Repository(Place),
}

/// A program: edits, then files and directories without permissions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Program {
    pub(super) edits: Vec<Edit>,
    pub(super) locked: Vec<Place>,
}

impl Program {
    /// Whether git and we agree on what it leaves: its own answer to ignore
    /// files of the agent, nested repositories and pipes is another.
    pub(super) fn is_gits(&self) -> bool {
        let odd = |place: &Place| {
            let mut names = place.names();
            names.any(|name| [&b".gitignore"[..], b".git", b"GIT~1"].contains(&name))
        };
        let edits = self.edits.iter().all(|edit| match edit {
            Edit::Pipe(_) | Edit::Repository(_) => false,
            Edit::Rename(one, other) | Edit::Exchange(one, other) | Edit::HardLink(one, other) => {
                !odd(one) && !odd(other)
            }
            Edit::Write(place, _)
            | Edit::Append(place, _)
            | Edit::Truncate(place, _)
            | Edit::Disguise(place)
            | Edit::Touch(place)
            | Edit::Mode(place, _)
            | Edit::Remove(place)
            | Edit::RemoveAll(place)
            | Edit::MakeDirectory(place)
            | Edit::Link(place, _)
            | Edit::Mark(place, ..) => !odd(place),
        });
        edits && self.locked.is_empty()
    }

    /// Carries it out; says of each step whether it was done.
    pub(super) fn run(&self, root: &Path) -> Vec<bool> {
        let edits = self.edits.iter().map(|edit| apply(edit, root).is_ok());
        let mut done: Vec<bool> = edits.collect();
        done.extend(self.locked.iter().map(|place| {
            let path = place.under(root);
            path.symlink_metadata().is_ok_and(|is| !is.is_symlink())
                && outside_git(place)
                && fs::set_permissions(path, fs::Permissions::from_mode(0o0)).is_ok()
        }));
        done
    }
}

pub(super) fn programs() -> impl Strategy<Value = Program> {
    let locked = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(places(), 1..3),
    ];
    (prop::collection::vec(edits(), 1..24), locked)
        .prop_map(|(edits, locked)| Program { edits, locked })
}

fn places() -> impl Strategy<Value = Place> {
    let any = prop::collection::vec(0..NAMES.len(), 1..4);
    let known = (0..KNOWN.len()).prop_map(|at| KNOWN[at].to_vec());
    let below = (0..KNOWN.len(), 0..NAMES.len())
        .prop_map(|(at, name)| KNOWN[at].iter().copied().chain([name]).collect());
    prop_oneof![1 => any, 2 => known, 1 => below].prop_map(Place)
}

fn edits() -> impl Strategy<Value = Edit> {
    let modes = prop::sample::select(vec![0o644_u32, 0o755, 0o600, 0o700, 0o4755, 0o444]);
    let marks = prop::sample::select(vec![
        ("opaque", "y"),
        ("opaque", "x"),
        ("redirect", "/src"),
        ("redirect", "x"),
        ("whiteout", "y"),
        ("metacopy", ""),
    ]);
    prop_oneof![
        4 => (places(), 0..4_u8).prop_map(|(at, text)| Edit::Write(at, text)),
        1 => (places(), any::<u8>()).prop_map(|(at, text)| Edit::Append(at, text)),
        1 => (places(), 0..9_u8).prop_map(|(at, size)| Edit::Truncate(at, size)),
        1 => places().prop_map(Edit::Disguise),
        1 => places().prop_map(Edit::Touch),
        2 => (places(), modes).prop_map(|(at, mode)| Edit::Mode(at, mode)),
        2 => places().prop_map(Edit::Remove),
        2 => places().prop_map(Edit::RemoveAll),
        2 => places().prop_map(Edit::MakeDirectory),
        6 => (places(), places()).prop_map(|(from, to)| Edit::Rename(from, to)),
        2 => (places(), places()).prop_map(|(one, other)| Edit::Exchange(one, other)),
        2 => (places(), 0..5_u8).prop_map(|(at, text)| Edit::Link(at, text)),
        1 => (places(), places()).prop_map(|(from, to)| Edit::HardLink(from, to)),
        1 => places().prop_map(Edit::Pipe),
        1 => (places(), marks).prop_map(|(at, (mark, value))| {
            Edit::Mark(at, mark.to_owned(), value.to_owned())
        }),
        1 => places().prop_map(Edit::Repository),
    ]
}

/// The repository's own git directory is not part of any comparison.
fn outside_git(place: &Place) -> bool {
    place.names().next() != Some(b".git")
}

fn no() -> io::Error {
    io::Error::other("it is not to be done")
}

fn apply(edit: &Edit, root: &Path) -> io::Result<()> {
    let at = |place: &Place| match outside_git(place) {
        true => plain(root, place),
        false => Err(no()),
    };
    let file = |place: &Place| {
        let path = at(place)?;
        let is = path.symlink_metadata()?;
        if is.is_file() { Ok(path) } else { Err(no()) }
    };
    match edit {
        Edit::Write(place, text) => write(&at(place)?, *text),
        Edit::Append(place, text) => fs::File::options()
            .append(true)
            .open(file(place)?)?
            .write_all(&[*text]),
        Edit::Truncate(place, size) => fs::File::options()
            .write(true)
            .open(file(place)?)?
            .set_len((*size).into()),
        Edit::Disguise(place) => disguise(&file(place)?),
        Edit::Touch(place) => fs::File::options()
            .write(true)
            .open(file(place)?)?
            .set_modified(std::time::UNIX_EPOCH),
        Edit::Mode(place, mode) => {
            let path = at(place)?;
            let is = path.symlink_metadata()?;
            let mode = if is.is_dir() { mode | 0o700 } else { *mode };
            if is.is_symlink() {
                return Err(no());
            }
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
        }
        Edit::Remove(place) => fs::remove_file(at(place)?),
        Edit::RemoveAll(place) => fs::remove_dir_all(at(place)?),
        Edit::MakeDirectory(place) => fs::create_dir_all(at(place)?),
        Edit::Rename(from, to) => rename(&at(from)?, &at(to)?),
        Edit::Exchange(one, other) => exchange(root, &at(one)?, &at(other)?),
        Edit::Link(place, text) => {
            let texts = ["x", "a.txt", "../a.txt", "/nowhere", "src/lib.rs"];
            symlink(texts[usize::from(*text)], at(place)?)
        }
        Edit::HardLink(from, to) => fs::hard_link(file(from)?, at(to)?),
        Edit::Pipe(place) => Ok(mkfifoat(CWD, at(place)?, Mode::from_raw_mode(0o644))?),
        Edit::Mark(place, mark, value) => set_mark(&at(place)?, mark, value),
        Edit::Repository(place) => {
            let git = at(place)?.join(".git");
            fs::create_dir_all(&git)?;
            fs::write(git.join("HEAD"), "ref: refs/heads/main\n")
        }
    }
}

fn write(path: &Path, text: u8) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match path.symlink_metadata() {
        Ok(is) if !is.is_file() => Err(no()),
        Ok(_) | Err(_) => fs::write(path, format!("text {text}\n")),
    }
}

/// Other bytes of the same size at the same time.
fn disguise(path: &Path) -> io::Result<()> {
    let time = path.metadata()?.modified()?;
    let bytes: Vec<u8> = fs::read(path)?.iter().map(|byte| byte ^ 1).collect();
    let mut out = fs::File::options().write(true).open(path)?;
    out.write_all(&bytes)?;
    out.set_modified(time)
}

/// A path, if no link is on the way to it.
fn plain(root: &Path, place: &Place) -> io::Result<PathBuf> {
    let mut path = root.to_owned();
    for name in place.names() {
        if path.is_symlink() {
            return Err(no());
        }
        path.push(OsStr::from_bytes(name));
    }
    Ok(path)
}

/// Sets an attribute of the user; whether it can be is the mount's business.
fn set_mark(path: &Path, mark: &str, value: &str) -> io::Result<()> {
    let name = format!("user.overlay.{mark}");
    let is = path.symlink_metadata()?;
    if !is.is_dir() && !is.is_file() {
        return Err(no());
    }
    match setxattr(path, name, value.as_bytes(), XattrFlags::empty()) {
        Ok(()) | Err(_) => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        other => return other,
    }
    if to.starts_with(from) || from.starts_with(to) {
        return Err(no());
    }
    match to.symlink_metadata() {
        Ok(is) if is.is_dir() => fs::remove_dir(to)?,
        Ok(_) => return Err(no()),
        Err(_) => {}
    }
    carry_over(from, to)
}

/// Moves a directory by what it holds, so that files stay what they are.
fn carry_over(from: &Path, to: &Path) -> io::Result<()> {
    let mode = from.symlink_metadata()?.permissions();
    fs::create_dir(to)?;
    fs::set_permissions(to, mode)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match fs::rename(entry.path(), &target) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                carry_over(&entry.path(), &target)?;
            }
            other => other?,
        }
    }
    fs::remove_dir(from)
}

fn exchange(root: &Path, one: &Path, other: &Path) -> io::Result<()> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Err(rustix::io::Errno::XDEV) => {}
        done => return Ok(done?),
    }
    if one.starts_with(other) || other.starts_with(one) {
        return Err(no());
    }
    let between = root.join("in between");
    rename(one, &between)?;
    rename(other, one)?;
    rename(&between, other)
}
