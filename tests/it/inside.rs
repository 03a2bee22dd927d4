//! What an agent sees and can do in its copy.
//!
//! Owns the state it starts from, git from within, its environment and its
//! directories. What it cannot do is in the `escape_` files.

use crate::support::{TestEnv, only_agent, shown, text};

/// Tells all that git tells about a working tree, before a file is made for it.
const TELL: &str = "told=$(git status --porcelain=v1 -uall; git diff; git diff --cached; \
    git log --format=%H%s; git ls-files -s)";

#[test]
fn an_agent_starts_from_exactly_the_parents_state() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.write("a.txt", "staged\n");
        repo.git(["add", "a.txt"]);
        repo.write("a.txt", "staged\nand more\n");
        repo.delete("b.txt");
        repo.write("docs/guide.md", "unstaged\n");
        repo.write("docs/untracked.md", "untracked\n");
        repo.git(["rm", "-q", "--cached", ".gitignore"]);
        repo.expect_unchanged();
        let told = env
            .finish(
                env.command("sh")
                    .args(["-c", &format!("{TELL}; printf '%s\\n' \"$told\"")])
                    .current_dir(repo.root()),
            )
            .expect_code(0)
            .stdout;
        repo.agent(&format!("{TELL}; printf '%s\\n' \"$told\" > told.txt"))
            .expect_code(0);

        assert_eq!(repo.text("told.txt"), told);
        assert_eq!(repo.text("a.txt"), "staged\nand more\n");
        assert!(!repo.has("b.txt"));
    }
}

#[test]
fn an_agent_starts_from_a_revision_where_one_is_named() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write("a.txt", "second\n");
    repo.commit_all("second");
    repo.write("b.txt", "uncommitted\n");
    repo.cofferdam([
        "run",
        "--base",
        "HEAD~1",
        "--",
        "sh",
        "-c",
        "head -n 1 a.txt b.txt > seen.txt",
    ])
    .expect_code(0);

    assert_eq!(
        repo.text("seen.txt"),
        "==> a.txt <==\na 1\n\n==> b.txt <==\nb 1\n"
    );
    assert_eq!(repo.text("b.txt"), "uncommitted\n");
}

#[test]
fn git_works_inside_and_moves_nothing_outside() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.git(["branch", "side"]);
        repo.expect_unchanged();
        let record = repo
            .agent(
                "set -e; echo one > n.txt; git add n.txt; git diff --cached --quiet && exit 9; \
                 git commit -q -m inside; git branch mine; git tag marked; git branch -D side; \
                 git log --format=%s > log.txt; git stash list; git gc -q; git fsck",
            )
            .expect_code(0)
            .json();

        assert_eq!(repo.text("log.txt"), "inside\nbegin\n");
        assert_eq!(repo.status(), "?? log.txt\n?? n.txt\n");
        assert_eq!(only_agent(&record)["integration"]["status"], "landed");
        repo.git(["fsck", "--strict"]);
    }
}

#[test]
fn work_that_the_agent_committed_or_stashed_over_is_still_its_result() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.agent(
        "set -e; echo one > committed.txt; git add -A; git commit -q -m one; \
         git checkout -q -b other; echo two > branched.txt; git add -A; git commit -q -m two; \
         git update-index --assume-unchanged a.txt; echo hidden >> a.txt",
    )
    .expect_code(0);

    assert_eq!(repo.text("committed.txt"), "one\n");
    assert_eq!(repo.text("branched.txt"), "two\n");
    assert!(repo.text("a.txt").ends_with("hidden\n"));
}

#[test]
fn a_repository_without_a_commit_can_be_worked_on() {
    let env = TestEnv::new();
    let repo = env.unborn_repo();
    repo.write("staged.txt", "staged\n");
    repo.git(["add", "staged.txt"]);
    repo.write("untracked.txt", "untracked\n");
    repo.expect_unchanged();
    let record = repo
        .agent(
            "set -e; s=$(git status --porcelain=v1); cat staged.txt untracked.txt > seen.txt; \
             printf '%s\\n' \"$s\" > status.txt; git add -A; git commit -q -m first",
        )
        .expect_code(0)
        .json();

    assert_eq!(record["base"]["head"], serde_json::Value::Null);
    assert_eq!(repo.text("seen.txt"), "staged\nuntracked\n");
    assert_eq!(repo.text("status.txt"), "A  staged.txt\n?? untracked.txt\n");
    assert_ne!(
        repo.try_git(["rev-parse", "-q", "--verify", "HEAD"]).code,
        0
    );
}

#[test]
fn an_agent_starts_where_the_caller_stands() {
    let env = TestEnv::new();
    let repo = env.repo();
    env.cofferdam_in(
        &repo.path("docs"),
        [
            "run",
            "--",
            "sh",
            "-c",
            "pwd > place.txt; git rev-parse --show-prefix > prefix.txt",
        ],
    )
    .expect_code(0);

    assert!(repo.text("docs/place.txt").ends_with("/docs\n"));
    assert_eq!(repo.text("docs/prefix.txt"), "docs/\n");
}

#[test]
fn an_agent_is_told_who_it_is_and_has_directories_of_its_own() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .cofferdam([
            "run",
            "--json",
            "--name",
            "scribe",
            "--task",
            "write it down",
            "--",
            "sh",
            "-c",
            "set -e; : > \"$HOME/mine\"; : > \"$TMPDIR/mine\"; test \"$HOME\" != \"$TMPDIR\"; \
             test \"$COFFERDAM_REPO\" = \"$(git rev-parse --show-toplevel)\"; \
             grep -q 'write it down' \"$COFFERDAM_BRIEF\"; command -v cofferdam; \
             printf '%s\\n' \"$COFFERDAM_RUN\" \"$COFFERDAM_AGENT_ID\" \"$COFFERDAM_AGENT\" \
             \"$COFFERDAM_ROLE\" \"$COFFERDAM_DEPTH\" > who.txt",
        ])
        .expect_code(0)
        .json();

    let agent = only_agent(&record);
    let (run, id) = (text(&record, "run"), text(agent, "id"));
    assert_eq!(
        repo.text("who.txt"),
        format!("{run}\n{id}\nscribe\nwriter\n0\n")
    );
}

#[test]
fn only_what_is_named_comes_from_the_callers_environment() {
    let env = TestEnv::new();
    let repo = env.repo();
    let run = |arguments: &[&str]| {
        env.finish(
            env.program()
                .args(["run"])
                .args(arguments)
                .args(["--", "sh", "-c", "env | grep ^PROBE_ | sort > env.txt; :"])
                .env("PROBE_TOKEN", "a secret")
                .env("PROBE_WANTED", "copied")
                .current_dir(repo.root()),
        )
        .expect_code(0)
    };
    run(&[]);
    assert_eq!(repo.text("env.txt"), "");
    run(&["--env", "PROBE_WANTED", "--env", "PROBE_SET=given"]);
    assert_eq!(
        repo.text("env.txt"),
        "PROBE_SET=given\nPROBE_WANTED=copied\n"
    );
}

#[test]
fn an_agent_has_no_standard_input_unless_it_is_passed() {
    let env = TestEnv::new();
    let repo = env.repo();
    let deaf = repo.ready(&[], "cat > heard.txt; echo ready");
    deaf.wait().expect_code(0);
    assert_eq!(repo.text("heard.txt"), "");

    let mut hearing = repo.start(["run", "--stdin", "--", "sh", "-c", "cat > heard.txt"]);
    hearing.say("hello");
    hearing.wait().expect_code(0);
    assert_eq!(repo.text("heard.txt"), "hello\n");
}

#[test]
fn a_reader_sees_the_snapshot_and_changes_nothing() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.write("a.txt", "uncommitted\n");
        let before = repo.print();
        let run = repo.cofferdam([
            "run",
            "--json",
            "--role",
            "reader",
            "--",
            "sh",
            "-c",
            "cat a.txt; ! touch n.txt && ! rm b.txt && ! chmod 777 a.txt && : > \"$HOME/mine\"",
        ]);
        let run = run.expect_code(0);

        before.expect_same(&repo.print());
        assert!(run.stderr.contains("uncommitted"), "{}", run.stderr);
        let record = run.json();
        assert_eq!(only_agent(&record)["integration"]["status"], "no_change");
    }
}

#[test]
fn the_copy_stands_at_the_repositorys_own_path_or_says_where() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .agent("printf '%s\\n' \"$COFFERDAM_REPO\" \"$PWD\" > place.txt")
        .expect_code(0)
        .json();

    let place = repo.text("place.txt");
    let (told, stands) = place
        .trim()
        .split_once('\n')
        .expect("because it wrote two lines");
    assert_eq!(told, stands);
    if only_agent(&record)["enforcement"]["mounts"] == "full" {
        assert_eq!(told, shown(repo.root()));
    }
}
