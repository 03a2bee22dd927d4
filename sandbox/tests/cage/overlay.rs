//! Owns the tests of merged directories: what lies beneath stays, what changes lands above.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use cofferdam_sandbox::{Directories, Mount, Otherwise, Policy, Rights};

use crate::setting::{
    Setting, Who, as_everyone, assert_all_denied, assert_all_work, attempt, rule,
};

/// The directories of one overlay beside the work; the target is in it.
pub struct Merged {
    pub lower: PathBuf,
    pub upper: PathBuf,
    pub work: PathBuf,
    pub target: PathBuf,
}

impl Merged {
    /// Directories in a place, with some files beneath.
    pub fn new(setting: &Setting, place: &OsStr) -> Self {
        let base = setting.root.path().join(place);
        let merged = Self {
            lower: base.join("lower"),
            upper: base.join("upper"),
            work: base.join("work"),
            target: setting.work().join("merged"),
        };
        for path in [&merged.lower, &merged.upper, &merged.work, &merged.target] {
            fs::create_dir_all(path).unwrap();
        }
        fs::create_dir_all(merged.lower.join("dir/deep")).unwrap();
        for name in ["file", "gone", "moved", "mode", "dir/inner", "dir/deep/end"] {
            fs::write(merged.lower.join(name), name).unwrap();
        }
        setting.own();
        merged
    }

    fn mount(&self, otherwise: Otherwise) -> Mount {
        self.mount_with(otherwise, Directories::Copied)
    }

    pub fn mount_with(&self, otherwise: Otherwise, directories: Directories) -> Mount {
        Mount::Overlay {
            lower: vec![self.lower.as_path().into()],
            upper: self.upper.as_path().into(),
            work: self.work.as_path().into(),
            target: self.target.as_path().into(),
            access: cofferdam_sandbox::Access::ReadWrite,
            directories,
            otherwise,
        }
    }
}

/// What must not change: bytes, permissions and times of everything.
pub fn print(directory: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(path) = open.pop() {
        let facts = fs::symlink_metadata(&path).unwrap();
        let bytes = if facts.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|one| one.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        let mtime = facts.mtime() * 1_000_000_000 + facts.mtime_nsec();
        let ctime = facts.ctime() * 1_000_000_000 + facts.ctime_nsec();
        all.insert(path, (facts.mode(), mtime, ctime, bytes));
    }
    all
}

fn shell(setting: &Setting, mount: Mount, script: &str) -> Policy {
    let mut policy = setting.policy(&["sh", "-c", script]);
    policy.view.mounts.push(mount);
    policy
}

#[test]
fn takes_every_change_and_leaves_what_lies_beneath() {
    as_everyone(|setting| {
        let merged = Merged::new(setting, OsStr::new("store"));
        let before = print(&merged.lower);
        let script = "set -e; cd merged; echo more >> file; rm gone; mv moved dir/moved; \
             chmod 600 mode; rm -r dir/deep; mkdir dir/deep; echo new > dir/deep/new; \
             ln file linked; ln -s file soft; touch -d @1 dir/inner; mv dir/moved back; \
             find . -type f | sort; cat file";
        let result = setting.launch(
            "launch",
            &shell(setting, merged.mount(Otherwise::Refuse), script),
        );
        assert_eq!(
            result["stdout"],
            "./back\n./dir/deep/new\n./dir/inner\n./file\n./linked\n./mode\nfilemore\n",
            "{result}"
        );
        assert_eq!(print(&merged.lower), before);
        assert_eq!(fs::read(merged.upper.join("file")).unwrap(), b"filemore\n");
        let mode = fs::metadata(merged.upper.join("mode")).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&merged.target).unwrap().count(), 0);

        // What was written is there again for the next command.
        let again = shell(
            setting,
            merged.mount(Otherwise::Refuse),
            "cat merged/file merged/dir/deep/*; test -e merged/gone || echo gone",
        );
        let result = setting.launch("launch", &again);
        assert_eq!(result["stdout"], "filemore\nnew\ngone\n", "{result}");
        assert_eq!(result["enforcement"]["view_notes"], serde_json::json!([]));
    });
}

#[test]
fn leaves_nothing_that_its_owner_cannot_remove() {
    as_everyone(|setting| {
        let merged = Merged::new(setting, OsStr::new("store"));
        let script = "mkdir -p merged/a/b; echo x > merged/a/b/c; chmod 0 merged/a/b/c merged/a/b \
             merged/a; rm -r merged/dir; chmod 0 merged";
        let result = setting.launch(
            "launch",
            &shell(setting, merged.mount(Otherwise::Refuse), script),
        );
        assert_eq!(result["code"], 0, "{result}");
        let mut remove = std::process::Command::new("sh");
        remove
            .args(["-c", "chmod -R u+rwx \"$@\" && rm -rf \"$@\"", "sh"])
            .args([&merged.upper, &merged.work]);
        if setting.who == Who::Ordinary {
            remove.uid(1000).gid(1000);
        }
        assert!(remove.status().unwrap().success());
        assert!(!merged.upper.exists() && !merged.work.exists());
    });
}

#[test]
fn knows_every_name() {
    as_everyone(|setting| {
        let names: [&[u8]; 5] = [
            b"co:lon",
            b"com,ma=x,upperdir=/",
            b"back\\slash\\:",
            b"not-\xff-text",
            b" spa ce\n",
        ];
        for name in names {
            let name = OsStr::from_bytes(name);
            let merged = Merged::new(setting, name);
            let policy = shell(
                setting,
                merged.mount(Otherwise::Refuse),
                "cat merged/file; echo x > merged/new",
            );
            let result = setting.launch("launch", &policy);
            assert_eq!(result["stdout"], "file", "{result}");
            assert_eq!(fs::read(merged.upper.join("new")).unwrap(), b"x\n");
            fs::remove_dir(&merged.target).unwrap();
        }
    });
}

#[test]
fn obeys_the_rules_for_the_place_where_it_is_shown() {
    as_everyone(|setting| {
        let merged = Merged::new(setting, OsStr::new("store"));
        let shown = |name: &str| merged.target.join(name);
        let denied = [
            attempt("write", &[&shown("file")]),
            attempt("write", &[&shown("new")]),
            attempt("unlink", &[&shown("gone")]),
            attempt("truncate", &[&shown("file")]),
            attempt("mkdir", &[&shown("made")]),
            attempt("read", &[&shown("mode")]),
            attempt("read", &[&merged.lower.join("file")]),
            attempt("write", &[&merged.upper.join("new")]),
        ];
        let allowed = [
            attempt("read", &[&shown("file")]),
            attempt("write", &[&shown("dir/inner")]),
        ];
        for (attempts, judge) in [
            (&denied[..], assert_all_denied as fn(&[String], &[String])),
            (&allowed[..], assert_all_work),
        ] {
            let mut policy = setting.attempts(attempts);
            policy
                .files
                .retain(|rule| !rule.path.starts_with(setting.work()));
            for (name, rights) in [("file", Rights::Read), ("dir", Rights::ReadWrite)] {
                policy.files.push(rule(&shown(name), rights));
            }
            policy.view.mounts.push(merged.mount(Otherwise::Refuse));
            judge(attempts, &setting.outcomes(&policy));
        }
        assert!(fs::read_dir(&merged.upper).unwrap().count() <= 1);
    });
}

#[test]
fn neither_follows_ids_nor_has_devices() {
    as_everyone(|setting| {
        let merged = Merged::new(setting, OsStr::new("store"));
        let policy = shell(
            setting,
            merged.mount(Otherwise::Refuse),
            "grep ' overlay ' /proc/self/mountinfo | cut -d ' ' -f 6",
        );
        let result = setting.launch("launch", &policy);
        let options = result["stdout"]
            .as_str()
            .unwrap_or_else(|| panic!("{result}"));
        assert!(
            options.contains("nosuid") && options.contains("nodev"),
            "{options}"
        );
    });
}

#[test]
fn shows_the_first_of_several() {
    as_everyone(|setting| {
        let merged = Merged::new(setting, OsStr::new("store"));
        let lower: Vec<PathBuf> = (0..20)
            .map(|number| setting.root.path().join(format!("lower-{number}")))
            .collect();
        for (number, path) in lower.iter().enumerate() {
            fs::create_dir(path).unwrap();
            fs::write(path.join("shared"), format!("{number}")).unwrap();
            fs::write(path.join(format!("own-{number}")), "").unwrap();
        }
        setting.own();
        for count in [2, 20] {
            let mount = Mount::Overlay {
                lower: lower[..count]
                    .iter()
                    .map(|path| path.as_path().into())
                    .collect(),
                upper: merged.upper.as_path().into(),
                work: merged.work.as_path().into(),
                target: merged.target.as_path().into(),
                access: cofferdam_sandbox::Access::ReadWrite,
                directories: cofferdam_sandbox::Directories::Copied,
                otherwise: Otherwise::Refuse,
            };
            let policy = shell(setting, mount, "cat merged/shared; ls merged | wc -l");
            let result = setting.launch("launch", &policy);
            match result["error"].as_str() {
                None => assert_eq!(result["stdout"], format!("0{}\n", count + 1), "{result}"),
                // Before Linux 6.7 so many do not fit.
                Some(_) => assert!(count > 2 && names(&result, &merged.upper), "{result}"),
            }
        }
    });
}

/// Whether an error of a launch names a path.
fn names(result: &serde_json::Value, path: &Path) -> bool {
    result["error"] == "policy"
        && result["text"]
            .as_str()
            .is_some_and(|text| text.contains(path.to_str().unwrap()))
}

#[test]
fn is_refused_by_name_where_it_cannot_be() {
    as_everyone(|setting| {
        let merged = Merged::new(setting, OsStr::new("store"));
        // On another file system than what takes the changes.
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        let link = setting.root.path().join("link");
        std::os::unix::fs::symlink(setting.root.path(), &link).unwrap();
        let through = |path: &Path| link.join(path.strip_prefix(setting.root.path()).unwrap());
        if setting.who == Who::Ordinary {
            std::os::unix::fs::lchown(elsewhere.path(), Some(1000), Some(1000)).unwrap();
        }
        let missing = merged.lower.join("missing");
        let place = |path: &Path| path.to_path_buf();
        let wrong = [
            (
                place(&missing),
                place(&merged.upper),
                place(&merged.work),
                &missing,
            ),
            (
                place(&merged.lower),
                missing.clone(),
                place(&merged.work),
                &missing,
            ),
            (
                through(&merged.lower),
                place(&merged.upper),
                place(&merged.work),
                &link,
            ),
            (
                place(&merged.lower),
                through(&merged.upper),
                place(&merged.work),
                &link,
            ),
            (
                place(&merged.lower),
                place(&merged.upper),
                through(&merged.work),
                &link,
            ),
            (
                place(&merged.lower),
                place(&merged.upper),
                place(elsewhere.path()),
                &merged.upper,
            ),
            (
                place(&merged.lower),
                place(&merged.upper),
                "/sys".into(),
                &"/sys".into(),
            ),
            (
                place(&merged.lower),
                place(&merged.upper),
                merged.upper.join("below"),
                &merged.upper,
            ),
        ];
        for (lower, upper, work, named) in wrong {
            let mount = Mount::Overlay {
                lower: vec![lower.into()],
                upper: upper.into(),
                work: work.into(),
                target: merged.target.as_path().into(),
                access: cofferdam_sandbox::Access::ReadWrite,
                directories: cofferdam_sandbox::Directories::Copied,
                otherwise: Otherwise::Refuse,
            };
            let result = setting.launch("launch", &shell(setting, mount, "true"));
            assert!(names(&result, named), "{result}");
        }
        assert!(setting.unharmed());
    });
}

#[test]
fn is_read_only_where_it_cannot_be_and_that_is_enough() {
    as_everyone(|setting| {
        let mut merged = Merged::new(setting, OsStr::new("store"));
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        if setting.who == Who::Ordinary {
            std::os::unix::fs::lchown(elsewhere.path(), Some(1000), Some(1000)).unwrap();
        }
        merged.work = elsewhere.path().to_path_buf();
        let before = print(&merged.lower);
        let policy = shell(
            setting,
            merged.mount(Otherwise::ReadOnly),
            "cat merged/file; echo x > merged/file || echo kept; chmod 777 merged/file || echo kept",
        );
        let result = setting.launch("launch", &policy);
        assert_eq!(result["stdout"], "filekept\nkept\n", "{result}");
        let note = result["enforcement"]["view_notes"][0].as_str().unwrap();
        assert!(note.contains(merged.target.to_str().unwrap()), "{note}");
        assert_eq!(print(&merged.lower), before);
    });
}
