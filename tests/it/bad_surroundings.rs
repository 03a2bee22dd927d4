//! Surroundings in which nothing can be run.
//!
//! Owns: no repository, a bare one, a missing or old git, a disk that is full
//! or read-only. One clear error, exit 2 or 4, and nothing left behind. Disks
//! are made in a mount namespace of the test's own, so the host sees none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::{Repo, TestEnv, backends, only_agent, run_in, shown, text};

#[test]
fn a_directory_that_is_no_repository_is_told() {
    for env in TestEnv::identities() {
        let error = env
            .cofferdam_in(&env.outside(), ["run", "--json", "--", "true"])
            .expect_error(2);
        assert!(error.to_string().contains("repository"), "{error:#}");
        env.cofferdam_in(&env.outside(), ["run", "--", "true"])
            .expect_code(2)
            .expect_told();
        assert_eq!(
            fs::read_dir(env.outside())
                .expect("because it is there")
                .count(),
            0
        );
    }
}

#[test]
fn a_bare_repository_is_told() {
    let env = TestEnv::new();
    let bare = env.outside().join("bare.git");
    env.finish(env.command("git").args(["init", "-q", "--bare"]).arg(&bare))
        .expect_code(0);
    let error = env
        .cofferdam_in(&bare, ["run", "--json", "--", "true"])
        .expect_error(2);
    assert!(error.to_string().contains("bare"), "{error:#}");
    assert!(!bare.join("worktrees").exists() && !bare.join("cofferdam").exists());
}

#[test]
fn a_repository_that_is_not_there_is_told() {
    let env = TestEnv::new();
    let missing = env.outside().join("missing");
    env.cofferdam_in(
        env.root(),
        ["run", "--json", "--repo", shown(&missing), "--", "true"],
    )
    .expect_error(2);
}

/// Runs with another PATH and demands exit 2 and that nothing moved.
#[track_caller]
fn refused_with_path(env: &TestEnv, repo: &Repo<'_>, path: &str, word: &str) {
    let before = repo.print();
    let error = env
        .finish(
            env.program()
                .args(["run", "--json", "--", "/bin/true"])
                .env("PATH", path)
                .current_dir(repo.root()),
        )
        .expect_error(2);
    before.expect_same(&repo.print());
    assert!(
        error.to_string().contains(word),
        "`{word}` is not named in {error:#}"
    );
}

#[test]
fn a_missing_git_is_told() {
    let env = TestEnv::new();
    let repo = env.repo();
    let empty = env.root().join("empty");
    env.make_dir(&empty);
    refused_with_path(&env, &repo, shown(&empty), "git");
}

#[test]
fn an_old_git_is_told_with_both_versions() {
    let env = TestEnv::new();
    let repo = env.repo();
    let fake = env.root().join("old/git");
    env.put(&fake, "#!/bin/sh\necho git version 2.37.9\n");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755))
        .expect("because the test wrote it");
    let old = env.root().join("old");
    refused_with_path(&env, &repo, shown(&old), "2.37");
    refused_with_path(&env, &repo, shown(&old), "2.38");
}

/// A shell in a mount namespace of its own, where it may mount.
fn in_own_mounts(env: &TestEnv, script: &str) -> Command {
    let mut command = env.command("unshare");
    command.arg("-m");
    if !TestEnv::caller_is_root() {
        command.arg("-r");
    }
    command
        .args(["--", "sh", "-c", script, "sh"])
        .arg(env.program_path());
    command
}

#[test]
fn a_repository_on_a_read_only_disk_is_told() {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    let script = "mount --bind \"$PWD\" \"$PWD\" && mount -o remount,bind,ro \"$PWD\" && \
                  cd \"$PWD\" && exec \"$1\" run --json -- sh -c 'echo new > n.txt'";
    env.finish(in_own_mounts(&env, script).current_dir(repo.root()))
        .expect_error(4);
    before.expect_same(&repo.print());
}

#[test]
fn a_state_directory_on_a_full_disk_is_told() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write("large.txt", "0123456789\n".repeat(20_000));
    repo.commit_all("large");
    env.make_dir(&env.state());
    let before = repo.print();
    let script = "mount -t tmpfs -o size=64k none \"$COFFERDAM_STATE_DIR\" && \
                  exec \"$1\" run --json -- sh -c 'echo new > n.txt'";
    env.finish(in_own_mounts(&env, script).current_dir(repo.root()))
        .expect_error(4);
    before.expect_same(&repo.print());
}

/// Runs an agent with the state directory on a small disk of its own, and
/// demands that it was refused before anything of a run was written there.
#[track_caller]
fn refused_for_lack_of_room(env: &TestEnv, repo: &Repo<'_>, disk: &str) -> String {
    env.make_dir(&env.state());
    let before = repo.print();
    let script = format!(
        "mount -t tmpfs -o {disk} none \"$COFFERDAM_STATE_DIR\" && \
         \"$1\" run --json -- sh -c 'echo new > n.txt'; code=$?; \
         test -z \"$(ls \"$COFFERDAM_STATE_DIR\"/runs)\" || exit 99; exit $code"
    );
    let error = env
        .finish(in_own_mounts(env, &script).current_dir(repo.root()))
        .expect_error(4);
    before.expect_same(&repo.print());
    let message = text(&error, "message").to_owned();
    assert!(
        message.contains("find room") && message.contains(shown(&env.state())),
        "{message}"
    );
    message
}

#[test]
fn a_copy_that_would_not_fit_is_refused_before_it_is_begun() {
    let env = TestEnv::new();
    let repo = env.repo();
    for number in 0..40 {
        repo.write(format!("large/{number}"), vec![b'x'; 100_000]);
    }
    repo.commit_all("large");
    refused_for_lack_of_room(&env, &repo, "size=3m");

    let env = TestEnv::new();
    let repo = env.repo();
    for number in 0..400 {
        repo.write(format!("small/{number}"), "x");
    }
    repo.commit_all("small");
    let message = refused_for_lack_of_room(&env, &repo, "size=64m,nr_inodes=300");
    assert!(message.contains("files are needed"), "{message}");
}

#[test]
fn ignored_files_that_would_not_fit_are_refused_too() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write("target/large", vec![b'x'; 8_000_000]);
    repo.write(".worktreeinclude", "target/\n");
    repo.commit_all("ask for it");
    refused_for_lack_of_room(&env, &repo, "size=6m");
}

#[test]
fn an_agent_that_fills_the_disk_of_the_state_directory_leaves_nothing_there() {
    let env = TestEnv::new();
    let repo = env.repo();
    env.make_dir(&env.state());
    let script = "mount -t tmpfs -o size=8m none \"$COFFERDAM_STATE_DIR\" && \
         \"$1\" run --json -- sh -c 'echo new > n.txt; mkdir target; cat /dev/zero > target/full'; \
         code=$?; test -z \"$(ls \"$COFFERDAM_STATE_DIR\"/runs)\" || exit 99; exit $code";
    let run = env.finish(in_own_mounts(&env, script).current_dir(repo.root()));
    assert!(
        [1, 6].contains(&run.code),
        "{} {} {}",
        run.code,
        run.stdout,
        run.stderr
    );
    let record = run.json();
    let reference = text(&only_agent(&record)["result"], "ref");
    assert_eq!(repo.show(reference, "n.txt"), "new\n");
    assert!(!repo.has("n.txt"));
}

#[test]
fn a_repository_on_a_full_disk_is_told_and_stays_as_it_is() {
    let env = TestEnv::new();
    let repo = env.repo();
    let disk = env.outside();
    // What stands on the disk is gone with the namespace; so the script itself
    // compares, and says so by its own exit code.
    let script = format!(
        "mount -t tmpfs -o size=4m none '{disk}' && cp -a '{repo}' '{disk}/repo' && \
         cd '{disk}/repo' && git status --porcelain >&2 && \
         {{ head -c 4000000 /dev/zero > '{disk}/fill'; cat /dev/zero >> '{disk}/fill'; }} 2>/dev/null; \
         print() {{ find . -type f -print0 | sort -z | xargs -0 sha256sum; git worktree list; \
         git for-each-ref; }}; before=$(print); \
         \"$1\" run --json -- sh -c 'head -c 200000 /dev/urandom > n.bin'; code=$?; \
         test \"$(print)\" = \"$before\" || exit 99; exit $code",
        disk = shown(&disk),
        repo = shown(repo.root()),
    );
    env.finish(&mut in_own_mounts(&env, &script))
        .expect_error(4);
}

#[test]
fn a_state_directory_that_cannot_be_made_is_told() {
    let env = TestEnv::new();
    let repo = env.repo();
    let before = repo.print();
    env.put(&env.outside().join("file"), "");
    env.finish(
        env.program()
            .args(["run", "--json", "--", "true"])
            .env("COFFERDAM_STATE_DIR", env.outside().join("file/state"))
            .current_dir(repo.root()),
    )
    .expect_error(2);
    before.expect_same(&repo.print());
}

#[test]
fn shared_checkouts_that_cannot_be_reached_are_done_without() {
    let env = TestEnv::as_user();
    let repo = env.repo();
    repo.agent("true").expect_code(0);
    let bases = env.state().join("bases");
    env.make_dir(&bases);
    let set = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&bases, mode).expect("because it is the test's");
    };
    set(0o000);
    let record = repo.agent("echo work > n.txt").expect_code(0).json();
    let chosen = text(only_agent(&record), "workspace").to_owned();
    assert!(!chosen.starts_with("overlay: "), "{chosen}");
    assert_eq!(repo.text("n.txt"), "work\n");
    let error = run_in(&env, repo.root(), "overlay", "true").expect_error(2);
    if backends(&env).contains(&"overlay") {
        assert!(chosen.contains("/bases`, where"), "{chosen}");
        assert!(
            text(&error, "message").contains("/bases`, where"),
            "{error:#}"
        );
    }
    set(0o700);
    repo.agent("true").expect_code(0);
}
