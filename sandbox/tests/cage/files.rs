//! Owns the tests of which files a confined command can reach, and of what must work inside.

use std::fs;
use std::path::Path;

use cofferdam_sandbox::Rights;

use crate::setting::{FIXTURE, as_everyone, assert_all_denied, assert_all_work, attempt, rule};

#[test]
fn changes_nothing_outside() {
    as_everyone(|setting| {
        let (precious, outside, work) = (setting.precious(), setting.outside(), setting.work());
        let before = fs::metadata(&precious).unwrap();
        let attempts = [
            attempt("write", &[&precious]),
            attempt("open-write", &[&precious]),
            attempt("truncate", &[&precious]),
            attempt("unlink", &[&precious]),
            attempt("mkdir", &[&outside.join("made")]),
            attempt("rename", &[&precious, &work.join("taken")]),
            attempt("rename", &[&work, &outside.join("moved")]),
            attempt("link", &[&precious, &work.join("linked")]),
            attempt("symlink", &[&work, &outside.join("link")]),
            attempt("chmod", &[&precious]),
            attempt("utimes", &[&precious]),
        ];
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
        assert!(setting.unharmed());
        let after = fs::metadata(&precious).unwrap();
        assert_eq!(
            (before.permissions(), before.modified().unwrap()),
            (after.permissions(), after.modified().unwrap())
        );
    });
}

#[test]
fn reads_nothing_without_a_rule() {
    as_everyone(|setting| {
        let attempts = [
            attempt("read", &[&setting.precious()]),
            attempt("list", &[&setting.outside()]),
            attempt("list", &[Path::new("/")]),
        ];
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
    });
}

#[test]
fn follows_no_link_out() {
    as_everyone(|setting| {
        let link = setting.work().join("link");
        std::os::unix::fs::symlink(setting.precious(), &link).unwrap();
        let attempts = [
            attempt("read", &[&link]),
            attempt("write", &[&link]),
            attempt(
                "read",
                &[&Path::new("/proc/self/root")
                    .join(setting.precious().strip_prefix("/").unwrap())],
            ),
        ];
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
        assert!(setting.unharmed());
    });
}

#[test]
fn works_freely_inside() {
    as_everyone(|setting| {
        let path = |name: &str| setting.work().join(name);
        for name in ["a", "b"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("a/file"), "text").unwrap();
        setting.own();
        let script = format!(
            "set -e; {FIXTURE} try write=new > /dev/null; mv a/file b/file; ln b/file a/link; mv b a/b; \
             ln -s a s; chmod 700 a; touch a/t; rm new; echo ok > /dev/null; echo done"
        );
        let result = setting.launch("launch", &setting.policy(&["sh", "-c", &script]));
        assert_eq!(result["stdout"], "done\n", "{result}");
        assert_eq!(fs::read(path("a/b/file")).unwrap(), b"text");
        assert_eq!(fs::read(path("a/link")).unwrap(), b"text");
    });
}

#[test]
fn has_pairs_terminals_and_shared_memory() {
    as_everyone(|setting| {
        let name = format!("cage-{}", std::process::id());
        let shared = Path::new("/dev/shm").join(&name);
        let attempts = [
            "pair".to_owned(),
            "pty".to_owned(),
            attempt("write", &[&shared]),
        ];
        let mut policy = setting.attempts(&attempts);
        for path in ["/dev/ptmx", "/dev/pts"] {
            policy.files.push(rule(Path::new(path), Rights::Device));
        }
        policy
            .files
            .push(rule(Path::new("/dev/shm"), Rights::ReadWrite));
        assert_all_work(&attempts, &setting.outcomes(&policy));
        assert!(!shared.exists(), "shared memory is the host's");
    });
}
