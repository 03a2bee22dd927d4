//! The demonstration, as a new user runs it.
//!
//! Owns that it needs no network, no privilege and no repository, and that it
//! leaves nothing.

use std::fs;

use crate::support::TestEnv;

#[test]
fn the_demonstration_keeps_its_word_for_root_and_for_an_ordinary_user() {
    for env in TestEnv::identities() {
        let run = env.cofferdam_in(&env.outside(), ["demo"]).expect_code(0);
        assert!(!run.stdout.is_empty());
        let left = fs::read_dir(env.outside())
            .expect("because the directory is there")
            .count();
        assert_eq!(left, 0);
    }
}

#[test]
fn the_demonstration_needs_no_network() {
    for env in TestEnv::identities() {
        let mut command = env.command("unshare");
        command.arg("-n");
        if !is_root_in(&env) {
            command.arg("-r");
        }
        env.finish(command.arg(env.program_path()).arg("demo"))
            .expect_code(0);
    }
}

fn is_root_in(env: &TestEnv) -> bool {
    env.finish(env.command("id").arg("-u"))
        .expect_code(0)
        .stdout
        == "0\n"
}
