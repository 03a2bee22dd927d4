//! Which backend makes a workspace.
//!
//! Owns: one that is asked for by name is taken or refused, never replaced,
//! and `auto` takes the best that works and says why. What works is found out
//! by trying it without the program. That all give the same bytes is held by
//! every test that uses `backends`.

use crate::support::{BACKENDS, TestEnv, is_to_be_had, only_agent, run_in, text};

#[test]
fn a_backend_is_what_was_asked_for_or_refused() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        for (name, trial) in BACKENDS {
            let before = repo.print();
            let run = run_in(&env, repo.root(), name, "echo x > n.txt");
            if is_to_be_had(&env, trial) {
                let record = run.expect_code(0).json();
                let workspace = text(only_agent(&record), "workspace");
                assert!(workspace.starts_with(&format!("{name}: ")), "{workspace}");
                repo.delete("n.txt");
            } else {
                let error = run.expect_error(2);
                let message = text(&error, "message");
                assert!(message.contains(&format!("`{name}`")), "{message}");
                before.expect_same(&repo.print());
            }
        }
    }
}

#[test]
fn the_best_backend_that_works_is_taken_by_itself() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let best = BACKENDS
            .into_iter()
            .find(|(_, trial)| is_to_be_had(&env, trial))
            .map(|(name, _)| name)
            .expect("because plain files work everywhere");
        let run = run_in(&env, repo.root(), "auto", "echo x > n.txt").expect_code(0);
        let record = run.json();
        let (name, why) = text(only_agent(&record), "workspace")
            .split_once(": ")
            .expect("because the reason follows the name");
        assert_eq!(name, best, "{why}");
        assert!(!why.is_empty());
        assert_eq!(repo.text("n.txt"), "x\n");
        // Without a name for it the same is chosen.
        let record = repo.agent("rm n.txt").expect_code(0).json();
        assert!(text(only_agent(&record), "workspace").starts_with(best));
    }
}
