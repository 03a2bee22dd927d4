//! Attempts to get at credentials, at other agents' words, and to smuggle.
//!
//! Owns credential helpers, core dumps, what an agent prints in the shape of
//! the program's own documents, files with rights that no tree can hold, and
//! many agents at once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{TestEnv, agents, only_agent, shown, text};

/// T51: what the person's git would ask for a password is not asked, and the
/// words of neither its helper nor its store reach the agent.
#[test]
fn no_credential_helper_answers_an_agent() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let (mark, helper) = (env.outside().join("asked"), env.outside().join("helper"));
        env.put(
            &helper,
            format!(
                "#!/bin/sh\ntouch '{}'\necho password=sesame\n",
                shown(&mark)
            ),
        );
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755))
            .expect("because the test wrote it");
        let config = env.home().join(".gitconfig");
        let helper = format!(
            "[credential]\n\thelper = {}\n\thelper = store\n",
            shown(&helper)
        );
        let text = fs::read_to_string(&config).expect("because the test wrote it");
        env.put(&config, text + &helper);
        env.put(
            &env.home().join(".git-credentials"),
            "https://user:sesame@example.invalid\n",
        );
        env.put(
            &env.home().join(".netrc"),
            "machine example.invalid password sesame\n",
        );
        repo.agent(
            "printf 'protocol=https\\nhost=example.invalid\\n\\n' | \
             GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=true git credential fill > filled.txt 2>&1; \
             cat \"$HOME/.netrc\" \"$HOME/.git-credentials\" > read.txt 2>&1; exit 0",
        )
        .expect_code(0);
        let said = repo.text("filled.txt") + &repo.text("read.txt");
        assert!(!said.contains("sesame") && !mark.exists(), "{said}");
    }
}

/// T50: nothing of an agent's memory is written when it dies.
#[test]
fn an_agent_that_dies_leaves_no_core() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let record = repo
            .agent_integrating("hold", "ulimit -c; ulimit -c unlimited; kill -s SEGV $$")
            .json();
        assert_eq!(only_agent(&record)["outcome"], "crashed");
        let files = only_agent(&record)["changes"]
            .as_array()
            .map_or(0, Vec::len);
        assert_eq!(files, 0, "{record:#}");
    }
}

/// T28: an agent that prints what looks like the program's own documents
/// decides nothing: not its outcome, not another's, not the record.
#[test]
fn words_in_the_shape_of_a_record_decide_nothing() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let lie = r#"{"schema":"cofferdam.run/1","run":"r-0","exit_code":0,"agents":[]}"#;
        let event = r#"{"schema":"cofferdam.event/1","event":"agent.ended","outcome":"succeeded"}"#;
        let run = repo.agent(&format!(
            "echo '{lie}'; echo '{event}' >&2; for n in 3 4 5 6 7 8 9; do \
             (echo '{lie}' >&$n) 2>/dev/null; done; exit 3"
        ));
        let run = run.expect_code(1);
        let record = run.json();
        assert_eq!(record["exit_code"], 1, "{record:#}");
        assert_eq!(only_agent(&record)["outcome"], "failed");
        assert_ne!(record["run"], "r-0");
    }
}

/// T06: a file that would run as its owner, and one that everybody may write,
/// land as plain files; a device and a pipe do not land.
#[test]
fn rights_that_a_tree_cannot_hold_do_not_land() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let run = repo.agent(
            "printf '#!/bin/sh\\n' > s.sh; chmod 6777 s.sh; echo x > w.txt; chmod 666 w.txt; \
             mknod device c 1 3; mkfifo pipe; exit 0",
        );
        assert!([0, 5].contains(&run.code), "{}", run.stderr);
        for (path, bits) in [("s.sh", 0o7022), ("w.txt", 0o7133)] {
            if repo.has(path) {
                assert_eq!(repo.mode(path) & bits, 0, "{path}");
            }
        }
        assert!(!repo.has("device") && !repo.has("pipe"));
    }
}

/// T16: a name in the shared directory for temporary files that somebody could
/// guess is the agent's own; the host's file of that name stays.
#[test]
fn guessed_names_of_temporary_files_are_not_shared() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let name = format!(
            "/tmp/{}-guess",
            env.root().display().to_string().replace('/', "-")
        );
        fs::write(&name, "the person's").expect("because everybody may write there");
        fs::set_permissions(&name, fs::Permissions::from_mode(0o666))
            .expect("because the test wrote it");
        let run = repo.agent(&format!(
            "cat '{name}' > seen.txt 2>/dev/null; echo mine > '{name}'; ln -sf /etc/passwd '{name}'; \
             rm -f '{name}'; echo \"$TMPDIR\" > tmpdir.txt; touch \"$TMPDIR/works\"; exit 0"
        ));
        let left = fs::read_to_string(&name).expect("because nobody else takes it away");
        fs::remove_file(&name).expect("because it is there");
        run.expect_code(0);
        assert_eq!(
            (left.as_str(), repo.text("seen.txt").as_str()),
            ("the person's", "")
        );
        assert!(!env.tmp().join("works").exists());
    }
}

/// T65: fifty agents at once on one repository all end well, and share nothing.
#[test]
fn fifty_agents_at_once_end_well() {
    let env = TestEnv::new();
    let repo = env.repo();
    let tasks: String = (0..50)
        .map(|n| {
            format!(
                "[[task]]\nname = \"t{n}\"\ncommand = [\"sh\", \"-c\", \"echo {n} > n{n}.txt; ls -A | wc -l > \\\"$TMPDIR/count\\\"\"]\n"
            )
        })
        .collect();
    let plan = repo.plan(&tasks);
    let record = repo
        .cofferdam(["run", "--json", "--max-total", "50", shown(&plan)])
        .expect_code(0)
        .json();
    assert_eq!(agents(&record).len(), 50);
    for n in 0..50 {
        assert_eq!(repo.text(format!("n{n}.txt")), format!("{n}\n"));
    }
}

/// T75: the person's own upkeep of the repository, while an agent works, takes
/// nothing of the agent's away.
#[test]
fn upkeep_of_the_parent_does_not_disturb_an_agent() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let mut run = repo.ready(
            &["--json", "--stdin"],
            "echo one > one.txt; git add -A; git commit -q -m one; echo ready; read go; \
             git status > /dev/null && git log -1 > /dev/null && echo two > two.txt; exit 0",
        );
        repo.git(["worktree", "prune", "--expire=now"]);
        repo.git(["gc", "-q", "--prune=now"]);
        repo.git(["pack-refs", "--all"]);
        run.say("go");
        let record = run.wait().expect_code(0).json();
        assert_eq!(text(only_agent(&record), "outcome"), "succeeded");
        assert_eq!(
            (repo.text("one.txt"), repo.text("two.txt")),
            ("one\n".into(), "two\n".into())
        );
        repo.git(["fsck", "--strict"]);
    }
}
