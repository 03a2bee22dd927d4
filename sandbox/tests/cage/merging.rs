//! Owns the tests of the question whether directories can be merged in a place.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::setting::{FIXTURE, Setting, Who, as_everyone};

/// The answer for a place, asked behind what a script does first.
fn asked(setting: &Setting, place: &Path, script: &str) -> Value {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-ec"]);
    command.arg(format!("{script}\nexec \"$0\" merge \"$1\""));
    run(setting, command.args([Path::new(FIXTURE), place]))
}

fn run(setting: &Setting, command: &mut Command) -> Value {
    if setting.who == Who::Ordinary {
        command.uid(1000).gid(1000);
    }
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn is_empty(place: &Path) -> bool {
    fs::read_dir(place).unwrap().next().is_none()
}

#[test]
fn works_where_it_is_tried_and_leaves_nothing() {
    as_everyone(|setting| {
        let place = setting.root.path().join("pla:ce");
        fs::create_dir(&place).unwrap();
        std::os::unix::fs::symlink("pla:ce", setting.root.path().join("link")).unwrap();
        setting.own();
        for path in [place.clone(), setting.root.path().join("link")] {
            let found = run(setting, Command::new(FIXTURE).arg("merge").arg(path));
            let attributes = match setting.who {
                Who::Myself if rustix::process::geteuid().is_root() => "trusted",
                Who::Myself | Who::Ordinary => "user",
            };
            assert_eq!(
                found,
                json!({ "works": attributes, "directories": "renamed" })
            );
            assert!(is_empty(&place));
        }
    });
}

#[test]
fn fails_with_a_reason_where_it_cannot() {
    as_everyone(|setting| {
        let place = setting.root.path().join("place");
        for name in ["lower", "upper", "work"] {
            fs::create_dir_all(setting.root.path().join("merged").join(name)).unwrap();
        }
        fs::create_dir(&place).unwrap();
        setting.own();
        let root = setting.root.path().display();
        let cases = [
            // A file system without attributes.
            (
                format!("mount -t ramfs none {root}/place"),
                "its file system keeps no attributes to merge with",
            ),
            // One that is merged itself, as in containers.
            (
                format!(
                    "mount -t overlay none {root}/place -o userxattr,lowerdir={root}/merged/lower,\
                     upperdir={root}/merged/upper,workdir={root}/merged/work"
                ),
                "cannot be merged with what it is to change",
            ),
            (
                format!(
                    "mount -o bind {root}/place {root}/place; mount -o remount,bind,ro {root}/place"
                ),
                "nothing can be made",
            ),
        ];
        for (script, reason) in cases {
            let found = asked(setting, &place, &script);
            let told = found["fails"].as_str().unwrap_or_else(|| panic!("{found}"));
            assert!(told.contains(reason), "{told}");
            assert!(is_empty(&place));
        }
    });
}
