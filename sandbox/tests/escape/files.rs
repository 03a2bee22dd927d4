//! Owns the attempts on files outside, and beside each what must work inside.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use crate::cage::{Cage, everywhere, in_views, on, on_both, with, without_a_view};
use crate::canary::{Print, Victim};
use crate::setting::Setting;

/// Puts more outside than the one file: directories, an attribute, a pair.
pub fn furnish(setting: &Setting) {
    let outside = setting.outside();
    fs::create_dir(outside.join("empty")).unwrap();
    fs::create_dir(outside.join("full")).unwrap();
    fs::write(outside.join("full/file"), "kept").unwrap();
    fs::write(outside.join("second"), "kept").unwrap();
    fs::write(setting.work().join("mine"), "mine").unwrap();
    fs::create_dir(setting.work().join("directory")).unwrap();
    // A file system without attributes has none that could be lost.
    let _ = rustix::fs::setxattr(
        setting.precious(),
        "user.kept",
        b"kept",
        rustix::fs::XattrFlags::empty(),
    );
    setting.own();
}

/// Makes attempts that must be denied and must leave what is outside as it is.
#[track_caller]
pub fn denied(cage: &Cage<'_>, attempts: &[String]) {
    let outside = cage.setting.outside();
    let before = Print::of(&outside);
    cage.assert_denied(attempts);
    before.assert_same(&outside);
}

/// T01: nothing outside is written, made or cut, by name or by handle.
#[test]
fn no_content_outside_changes() {
    everywhere(|cage| {
        furnish(cage.setting);
        let (precious, outside) = (cage.setting.precious(), cage.setting.outside());
        let new = outside.join("new");
        denied(
            cage,
            &[
                on("write", &precious),
                on("write", &new),
                on("append", &precious),
                on("open-write", &precious),
                on("truncate", &precious),
                on("truncate-name", &precious),
                on("mkdir", &new),
                on("fifo", &new),
                on("char", &new),
                on_both("symlink", Path::new("/"), &new),
                on("unnamed", &outside),
                on("map-for-writing", &precious),
                with("write-at", &[outside.to_str().unwrap(), "precious"]),
                with("by-file-handle", &[precious.to_str().unwrap(), "1"]),
                with("by-file-handle", &[precious.to_str().unwrap(), "0"]),
            ],
        );
    });
}

/// T02: no name outside goes away, and none gets another content.
#[test]
fn no_name_outside_changes() {
    everywhere(|cage| {
        furnish(cage.setting);
        let (outside, work) = (cage.setting.outside(), cage.setting.work());
        let (precious, second, mine) = (
            outside.join("precious"),
            outside.join("second"),
            work.join("mine"),
        );
        denied(
            cage,
            &[
                on("unlink", &precious),
                on("rmdir", &outside.join("empty")),
                on_both("rename", &precious, &work.join("taken")),
                on_both("rename", &precious, &second),
                on_both("rename", &precious, &outside.join("full/moved")),
                on_both("rename", &mine, &precious),
                on_both("rename", &mine, &outside.join("given")),
                on_both("rename", &outside.join("empty"), &work.join("empty")),
                on_both("exchange", &mine, &precious),
                on_both("whiteout", &precious, &work.join("taken")),
            ],
        );
        assert_eq!(fs::read(mine).unwrap(), b"mine");
    });
}

/// T03: a file outside gets no name inside, so that no name inside writes it.
#[test]
fn nothing_outside_is_linked_in() {
    everywhere(|cage| {
        furnish(cage.setting);
        let (precious, work) = (cage.setting.precious(), cage.setting.work());
        denied(
            cage,
            &[
                on_both("link", &precious, &work.join("linked")),
                on("write", &work.join("linked/")),
                on_both("link-by-handle", &precious, &work.join("linked")),
                on_both(
                    "link",
                    &work.join("mine"),
                    &cage.setting.outside().join("given"),
                ),
            ],
        );
        assert!(!work.join("linked").exists());
    });
}

/// T04: no link leads out, whatever its chain; one that stays inside works.
#[test]
fn no_chain_of_links_leads_out() {
    everywhere(|cage| {
        furnish(cage.setting);
        let (outside, work) = (cage.setting.outside(), cage.setting.work());
        symlink(cage.setting.precious(), work.join("file")).unwrap();
        symlink(&outside, work.join("dir")).unwrap();
        symlink("dir", work.join("chain")).unwrap();
        symlink("../outside/new", work.join("dangling")).unwrap();
        symlink("directory/..", work.join("up")).unwrap();
        symlink("mine", work.join("inner")).unwrap();
        cage.setting.own();
        let at = |name: &str| work.join(name);
        denied(
            cage,
            &[
                on("write", &at("file")),
                on("truncate", &at("file")),
                on("write", &at("dir/new")),
                on("write", &at("chain/precious")),
                on("write", &at("dangling")),
                on("write", &at("up/../outside/new")),
                on("write", &at("dir/../outside/precious")),
                on_both("rename", &at("mine"), &at("chain/precious")),
                on_both("link", &at("mine"), &at("dir/given")),
                on("unlink", &at("chain/precious")),
            ],
        );
        cage.assert_works(&[on("write", &at("inner"))]);
        assert_eq!(fs::read(at("mine")).unwrap(), b"changed");
    });
}

/// Changes by a descriptor that is open for reading only.
pub const PROPERTIES_BY_READERS: [&str; 4] = ["fchmod", "fchown", "futimes", "fsetxattr"];

fn properties(setting: &Setting) -> Vec<String> {
    let precious = setting.precious();
    [
        "chmod",
        "suid",
        "chmod2",
        "chmod-by-handle",
        "chown",
        "utimes",
        "touch",
        "setxattr",
    ]
    .iter()
    .chain(&PROPERTIES_BY_READERS)
    .chain(&["removexattr", "setflags", "setxattr-at", "setflags-at"])
    .map(|what| on(what, &precious))
    .chain([
        on("chmod", &setting.outside()),
        on("setxattr", &setting.outside()),
    ])
    .collect()
}

/// T05: no property of a file outside changes.
#[test]
fn no_property_outside_changes() {
    in_views(|cage| {
        furnish(cage.setting);
        denied(cage, &properties(cage.setting));
    });
}

/// T05 without a view: what changes all the same is told by the report.
#[test]
fn what_no_view_protects_is_told() {
    without_a_view(|cage| {
        furnish(cage.setting);
        let policy = cage.attempts(&properties(cage.setting));
        let before = Print::of(&cage.setting.outside());
        let result = cage.launch(&policy);
        let same = before == Print::of(&cage.setting.outside());
        let told = result["enforcement"]["holes"]
            .as_array()
            .unwrap_or_else(|| panic!("{result}"))
            .iter()
            .any(|hole| hole.as_str().unwrap().contains("mode, owner and times"));
        assert!(same || told, "changed and not told: {result}");
    });
}

/// T06: no device and no capability of a file is made, not even inside.
#[test]
fn no_device_and_no_capability_is_made_inside() {
    everywhere(|cage| {
        furnish(cage.setting);
        let work = cage.setting.work();
        cage.assert_denied(&[
            on("char", &work.join("device")),
            on("block", &work.join("device")),
            on("setcap", &work.join("mine")),
        ]);
        assert!(!work.join("device").exists());
        let mut value = [0; 64];
        let found = rustix::fs::getxattr(work.join("mine"), "security.capability", &mut value[..]);
        assert!(found.is_err());
    });
}

/// T07: names move and multiply freely inside, also into a directory that was
/// made after the start, and with every layer in force.
#[test]
fn names_move_across_directories_inside() {
    everywhere(|cage| {
        furnish(cage.setting);
        let at = |name: &str| cage.setting.work().join(name);
        cage.assert_works(&[
            on("mkdir", &at("later")),
            on_both("rename", &at("mine"), &at("later/mine")),
            on_both("link", &at("later/mine"), &at("directory/linked")),
            on("write", &at("second")),
            on_both("exchange", &at("later/mine"), &at("second")),
            on_both("rename", &at("directory"), &at("later/directory")),
            on_both("symlink", Path::new("second"), &at("later/link")),
            on("fifo", &at("later/fifo")),
            on("unnamed", &at("later")),
            on("truncate-name", &at("later/directory/linked")),
            on("chmod", &at("second")),
            on("touch", &at("second")),
            on("chown", &at("second")),
        ]);
        assert_eq!(fs::read(at("later/mine")).unwrap(), b"changed");
        assert_eq!(
            fs::metadata(at("later/directory/linked")).unwrap().nlink(),
            2
        );
    });
}

/// T08: no name of procfs leads to files that have no rule.
#[test]
fn procfs_leads_nowhere() {
    everywhere(|cage| {
        furnish(cage.setting);
        let precious = cage.setting.precious();
        // Without the rule that makes what is outside readable.
        let beneath = precious.strip_prefix("/").unwrap().display();
        let mut victim = Victim::new(cage.setting);
        let pid = victim.pid();
        let roots = [
            format!("{pid}"),
            "1".into(),
            "self".into(),
            "thread-self".into(),
        ]
        .map(|who| format!("/proc/{who}/root/{beneath}"));
        let links = [
            "fd/2",
            "cwd/precious",
            "task/PID/fd/2",
            "task/PID/cwd/precious",
        ]
        .map(|link| format!("/proc/{pid}/{}", link.replace("PID", &pid.to_string())));
        let own = ["/proc/self/cwd/../outside/precious".to_owned()];
        let attempts: Vec<_> = roots
            .iter()
            .chain(&links)
            .chain(&own)
            .flat_map(|path| ["read", "write", "append"].map(|what| format!("{what}={path}")))
            .chain([
                format!("list=/proc/{pid}/cwd"),
                format!("chroot=/proc/{pid}/root"),
            ])
            .collect();
        let mut policy = cage.attempts(&attempts);
        policy.files.pop();
        let before = Print::of(&cage.setting.outside());
        let outcomes = cage.outcomes_of(&policy);
        before.assert_same(&cage.setting.outside());
        victim.assert_alive();
        let through: Vec<_> = attempts
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.parse::<i32>().is_err())
            .collect();
        assert!(through.is_empty(), "{:?}: {through:?}", cage.kind);
    });
}

/// T49 without a view: that names outside can be watched, and looked up one by
/// one, although nothing there can be read or listed, is told.
#[test]
fn names_that_can_be_watched_are_told() {
    without_a_view(|cage| {
        let outside = cage.setting.outside();
        let attempts = [on("watch", &outside), on("stat", &cage.setting.precious())];
        let mut policy = cage.attempts(&attempts);
        // Without the rule that makes what is outside readable.
        policy.files.pop();
        let outcomes = cage.outcomes_of(&policy);
        let result = cage.launch(&policy);
        let told = result["enforcement"]["holes"]
            .as_array()
            .unwrap_or_else(|| panic!("{result}"))
            .iter()
            .any(|hole| hole.as_str().unwrap().contains("watch"));
        let held = outcomes.iter().all(|outcome| outcome != "ok");
        assert!(held || told, "{:?}: {outcomes:?}", cage.kind);
    });
}
