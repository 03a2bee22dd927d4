//! Owns the tests of directories renamed in a merged one, by the kernel or for it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use cofferdam_sandbox::{Directories, Otherwise, Policy};
use serde_json::{Value, json};

use crate::overlay::{Merged, print};
use crate::setting::{Setting, as_everyone};

/// Calls `renameat2`; what became of it.
const PRELUDE: &str = r#"
import ctypes, errno, os, stat, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2
def move(old, new, flags=0, at=-100, to=-100):
    failed = libc.renameat2(at, os.fsencode(old), to, os.fsencode(new), flags)
    return errno.errorcode[ctypes.get_errno()] if failed else 'ok'
def names(path):
    found = []
    for at, dirs, files in os.walk(path):
        found += [os.path.relpath(os.path.join(at, one), path) for one in dirs + files]
    return ' '.join(sorted(found))
os.chdir('merged')
"#;

fn policy(setting: &Setting, merged: &Merged, script: &str) -> Policy {
    let mut policy = setting.policy(&["python3", "-c", &format!("{PRELUDE}{script}")]);
    let mount = merged.mount_with(Otherwise::Refuse, Directories::Renamed);
    policy.view.mounts.push(mount);
    policy
}

/// Runs a script in a merged directory that is furnished by `lay`; what it
/// printed, line by line.
fn moved(setting: &Setting, lay: impl Fn(&Path), script: &str) -> Vec<String> {
    let merged = Merged::new(setting, OsStr::new("store"));
    lay(&merged.lower);
    setting.own();
    let before = print(&merged.lower);
    let result = setting.launch("launch", &policy(setting, &merged, script));
    assert_eq!(print(&merged.lower), before);
    assert_eq!(result["enforcement"]["view_notes"], json!([]), "{result}");
    assert_eq!(result["denials"], json!([]), "{result}");
    for place in [&merged.target, &merged.upper, &merged.work, &merged.lower] {
        fs::remove_dir_all(place).unwrap();
    }
    lines(&result)
}

fn lines(result: &Value) -> Vec<String> {
    assert_eq!(result["code"], 0, "{result}");
    let text = result["stdout"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"));
    text.lines().map(str::to_owned).collect()
}

fn nothing(_: &Path) {}

#[test]
fn a_directory_beneath_is_renamed() {
    as_everyone(|setting| {
        let said = moved(
            setting,
            nothing,
            "print(move('dir', 'other')); print(names('.')); print(open('other/deep/end').read())",
        );
        let names = "changed? file gone mode moved other other/deep other/deep/end other/inner";
        assert_eq!(said, ["ok", &names[9..], "dir/deep/end"]);
    });
}
