//! Owns the tests of what a confined command sees: mounts, directories and devices.

use std::fs;
use std::path::Path;

use cofferdam_sandbox::{Access, FileRule, Mount, Rights};

use crate::setting::{as_everyone, assert_all_denied, assert_all_work, attempt, bind, rule, tmpfs};

#[test]
fn shows_a_bind_inside_a_hidden_directory() {
    as_everyone(|setting| {
        // The whole root is hidden; the work is shown at a place that the host
        // has not, and a file with a rule comes back by itself.
        let hidden = setting.root.path();
        let shown = hidden.join("new/place");
        let mut policy = setting.policy(&[
            "sh",
            "-c",
            &format!(
                "ls {0}; cat {1}; ls {0}/new; echo x > made",
                hidden.display(),
                setting.precious().display()
            ),
        ]);
        policy.command.cwd = shown.clone().into();
        policy.view.mounts = vec![
            tmpfs(hidden, Access::ReadOnly),
            bind(&setting.work(), &shown, Access::ReadWrite),
        ];
        policy
            .files
            .retain(|rule: &FileRule| rule.path.as_ref() as &Path != setting.work());
        policy.files.push(rule(&shown, Rights::ReadWrite));
        policy.files.push(rule(&setting.precious(), Rights::Read));
        policy.files.push(rule(hidden, Rights::Read));
        let result = setting.launch("launch", &policy);
        assert_eq!(
            result["stdout"], "new\noutside\npreciousplace\n",
            "{result}"
        );
        assert_eq!(fs::read(setting.work().join("made")).unwrap(), b"x\n");
        assert!(
            setting.unharmed() && !shown.exists(),
            "the host's directory changed"
        );
    });
}

#[test]
fn keeps_a_directory_read_only_inside_a_writable_one() {
    as_everyone(|setting| {
        let kept = setting.work().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "text").unwrap();
        setting.own();
        let attempts = [
            attempt("write", &[&kept.join("file")]),
            attempt("chmod", &[&kept.join("file")]),
            attempt("rename", &[&kept, &setting.work().join("aside")]),
        ];
        let mut policy = setting.attempts(&attempts);
        policy
            .view
            .mounts
            .push(bind(&kept, &kept, Access::ReadOnly));
        assert_all_denied(&attempts, &setting.outcomes(&policy));
        assert_eq!(fs::read(kept.join("file")).unwrap(), b"text");
    });
}

#[test]
fn writes_where_a_rule_says_so_without_a_mount() {
    as_everyone(|setting| {
        let attempts = [attempt("write", &[&setting.work().join("file")])];
        let mut policy = setting.attempts(&attempts);
        policy.view.mounts.clear();
        assert_all_work(&attempts, &setting.outcomes(&policy));
    });
}

#[test]
fn bounds_a_private_directory() {
    as_everyone(|setting| {
        let private = setting.work().join("private");
        fs::create_dir(&private).unwrap();
        setting.own();
        let mut policy = setting.policy(&[
            "sh",
            "-c",
            "head -c 4000000 /dev/zero > private/big; wc -c < private/big",
        ]);
        policy.view.mounts.push(Mount::Tmpfs {
            target: private.clone().into(),
            access: Access::ReadWrite,
            bytes: 1 << 16,
        });
        policy
            .files
            .push(rule(Path::new("/dev/zero"), Rights::Device));
        let result = setting.launch("launch", &policy);
        assert_eq!(result["stdout"], "65536\n", "{result}");
        assert_eq!(fs::read_dir(&private).unwrap().count(), 0);
    });
}

#[test]
fn makes_no_mount_on_the_host() {
    as_everyone(|setting| {
        let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut policy = setting.policy(&["true"]);
        policy
            .view
            .mounts
            .push(tmpfs(&setting.outside(), Access::ReadOnly));
        assert_eq!(setting.launch("launch", &policy)["code"], 0);
        assert_eq!(before, fs::read_to_string("/proc/self/mountinfo").unwrap());
    });
}

#[test]
fn mounts_nothing_of_the_machine() {
    as_everyone(|setting| {
        let place = setting.outside();
        let wrong = [
            bind(Path::new("/"), &place, Access::ReadOnly),
            bind(Path::new("/proc"), &place, Access::ReadOnly),
            bind(Path::new("/sys"), &place, Access::ReadWrite),
            bind(&place, Path::new("/proc/sys"), Access::ReadOnly),
        ];
        for mount in wrong {
            let mut policy = setting.policy(&["true"]);
            policy.view.mounts.push(mount);
            assert_eq!(setting.launch("launch", &policy)["error"], "policy");
        }
    });
}

#[test]
fn reads_what_the_launcher_reads_only_if_told() {
    as_everyone(|setting| {
        let policy = setting.policy(&["cat"]);
        assert_eq!(setting.launch("feed", &policy)["stdout"], "the rest");
        assert_eq!(setting.launch("launch", &policy)["stdout"], "");
    });
}

#[test]
fn hides_devices_but_those_with_a_rule() {
    as_everyone(|setting| {
        let name = Path::new("/dev/shm").join(format!("hidden-{}", std::process::id()));
        fs::write(&name, "the host's").unwrap();
        let shared = Path::new("/dev/shm/made");
        let attempts = [
            "pty".to_owned(),
            attempt("write", &[Path::new("/dev/null")]),
            attempt("write", &[shared]),
            attempt("stat", &[&name]),
            attempt("stat", &[Path::new("/dev/zero")]),
        ];
        let mut policy = setting.attempts(&attempts);
        policy
            .view
            .mounts
            .push(tmpfs(Path::new("/dev"), Access::ReadOnly));
        for path in ["/dev/ptmx", "/dev/pts"] {
            policy.files.push(rule(Path::new(path), Rights::Device));
        }
        policy
            .files
            .push(rule(Path::new("/dev/shm"), Rights::ReadWrite));
        let outcomes = setting.outcomes(&policy);
        fs::remove_file(&name).unwrap();
        assert_eq!(outcomes, ["ok", "ok", "ok", "2", "2"]);
        assert!(!shared.exists());
    });
}
