//! Files are read with a cap, and only ordinary ones.

use std::path::Path;

use super::super::{
    BriefSource, PartialSettings, load_brief, load_plan, load_repository_settings, load_roles,
};
use crate::model::Brief;

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("because the directory is the test's own");
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("because there is a temporary directory")
}

#[test]
fn files_that_a_repository_does_not_have_are_no_error() {
    let top = directory();
    assert_eq!(
        load_repository_settings(top.path()).expect("because there is no file"),
        PartialSettings::default()
    );
    assert!(load_roles(top.path(), None).is_ok());
    let named = top.path().join("roles.toml");
    let error = load_roles(top.path(), Some(&named)).expect_err("because a named file must exist");
    assert_eq!(error.path(), Some(named.as_path()));
    // A file where the directory would be is as good as none.
    write(&top.path().join(".cofferdam"), b"");
    assert!(load_roles(top.path(), None).is_ok());
}

#[test]
fn a_repositorys_files_are_found_and_hold_it_back() {
    let top = directory();
    let own = top.path().join(".cofferdam");
    std::fs::create_dir(&own).expect("because the directory is the test's own");
    write(&own.join("config.toml"), b"verify = \"evil\"\n");
    write(&own.join("roles.toml"), b"[role.x]\nnetwork = \"open\"\n");
    let settings = load_repository_settings(top.path()).expect_err("because it widens");
    assert_eq!((settings.key(), settings.line()), (Some("verify"), Some(1)));
    let roles = load_roles(top.path(), None).expect_err("because it widens");
    assert_eq!(roles.path(), Some(own.join("roles.toml").as_path()));
    // The same file may widen where the person named it.
    let elsewhere = directory();
    assert!(load_roles(elsewhere.path(), Some(&own.join("roles.toml"))).is_ok());
}

#[test]
fn a_brief_is_json_or_toml_and_bounded() {
    let top = directory();
    let path = top.path().join("brief");
    let brief = Brief {
        done_when: vec!["d".into()],
        ..Brief::of_task("t")
    };
    write(&path, b" {\"task\": \"t\", \"done_when\": [\"d\"]}");
    assert_eq!(load_brief(&path).expect("because it is JSON"), brief);
    write(&path, b"task = \"t\"\ndone_when = [\"d\"]\n");
    assert_eq!(load_brief(&path).expect("because it is TOML"), brief);
    let large = format!("task = \"{}\"\n", "x".repeat(Brief::MAX_BYTES));
    for wrong in [
        &b"{\"task\": \"t\", \"extra\": 1}"[..],
        b"{\"task\": \"\"}",
        b"{\"task\"",
        b"task = 3",
        b"",
        b"task = \"\xff\"",
        large.as_bytes(),
    ] {
        write(&path, wrong);
        let error = load_brief(&path).expect_err("because it is no brief");
        assert_eq!(
            (error.path(), error.exit_code().number()),
            (Some(path.as_path()), 2)
        );
    }
    assert!(load_brief(top.path()).is_err(), "a directory is no brief");
    assert!(load_brief(Path::new("/dev/zero")).is_err());
}

#[test]
fn a_plan_brings_its_briefs_from_its_own_directory() {
    let top = directory();
    let plan = top.path().join("PLAN.toml");
    write(
        &plan,
        b"[[task]]\nname = \"a\"\ncommand = [\"x\"]\nbrief = \"b.json\"\n",
    );
    let missing = load_plan(&plan).expect_err("because the brief is missing");
    assert_eq!(missing.path(), Some(top.path().join("b.json").as_path()));
    write(&top.path().join("b.json"), b"{\"task\": \"t\"}");
    let loaded = load_plan(&plan).expect("because the brief is there");
    assert_eq!(
        loaded.tasks[0].brief,
        Some(BriefSource::Inline(Brief::of_task("t")))
    );
}
