//! The commits that an agent made.
//!
//! Owns: they are kept under a ref beside the result, whole and by their own
//! ids, and go with it; what lands is the tree. Whatever an agent does to its
//! git directory, its tree is captured all the same and nothing bent is kept.

use serde_json::Value;

use crate::support::{Signal, TestEnv, backends, only_agent, run_in, text};

/// Two commits on a branch, one of them a merge, and an edit besides.
const COMMITS: &str = "git switch -qc work && echo one > one.txt && git add -A && \
    git commit -qm one && git switch -qc side HEAD~1 && echo side > side.txt && git add -A && \
    git commit -qm side && git merge -q --no-edit work && echo rest > rest.txt";

#[test]
fn an_agents_commits_are_kept_and_its_tree_is_what_lands() {
    for env in TestEnv::identities() {
        for backend in backends(&env) {
            let repo = env.adopt(env.root().join(backend));
            env.make_dir(repo.root());
            repo.git(["init", "-q", "-b", "main"]);
            repo.write("a.txt", "a\n");
            repo.commit_all("begin");
            repo.write("uncommitted.txt", "u\n");
            let record = run_in(&env, repo.root(), backend, COMMITS)
                .expect_code(0)
                .json();
            let agent = only_agent(&record);
            let kept = &agent["result"]["history"]["kept"];
            // The agent committed what the person had not, too.
            assert_eq!(kept["commits"], 3, "{agent:#}");
            let name = text(kept, "ref");
            assert_eq!(repo.git(["rev-parse", name]).trim(), text(kept, "tip"));
            let subjects = repo.git(["log", "--format=%s", name]);
            for subject in ["Merge branch 'work' into side", "side", "one", "begin"] {
                assert!(subjects.lines().any(|line| line == subject), "{subjects}");
            }
            assert_eq!(repo.show(name, "side.txt"), "side\n");
            assert_eq!(repo.text("rest.txt"), "rest\n");
            assert_eq!(repo.text("one.txt"), "one\n");
            repo.git(["fsck", "--strict", "--no-dangling"]);
            let shown = repo.cofferdam(["show", text(agent, "id")]).expect_code(0);
            assert!(
                shown.stdout.contains("3 commit(s) under "),
                "{}",
                shown.stdout
            );
            repo.cofferdam(["gc", "--older", "0s"]).expect_code(0);
            assert_eq!(repo.added_refs(), Vec::<String>::new());
        }
    }
}

#[test]
fn a_discarded_result_takes_its_history_along() {
    let env = TestEnv::new();
    let repo = env.repo();
    let script = "echo x > n.txt; git add -A; git commit -qm n";
    let record = repo
        .agent_integrating("never", script)
        .expect_code(0)
        .json();
    let agent = only_agent(&record);
    assert!(!repo.added_refs().is_empty(), "{agent:#}");
    assert_eq!(repo.added_refs().len(), 2);
    repo.cofferdam(["discard", "--yes", text(agent, "id")])
        .expect_code(0);
    assert_eq!(repo.added_refs(), Vec::<String>::new());
}

#[test]
fn commits_of_an_agent_whose_launcher_died_are_found() {
    let env = TestEnv::new();
    let repo = env.repo();
    let script = "echo x > n.txt; git add -A; git commit -qm kept; echo ready; sleep 1000";
    let run = repo.ready(&[], script);
    run.signal(Signal::KILL);
    run.wait().expect_code(137);
    let listed = repo.cofferdam(["ls", "--json"]).expect_code(0).json();
    let kept = &only_agent(&listed)["result"]["history"]["kept"];
    assert_eq!(kept["commits"], 1, "{listed:#}");
    let subject = repo.git(["log", "-1", "--format=%s", text(kept, "ref")]);
    assert_eq!(subject, "kept\n");
}

/// Whoever died may have taken the objects over and not named them yet.
#[test]
fn commits_that_lie_in_the_parents_store_under_no_ref_are_kept() {
    let env = TestEnv::new();
    let repo = env.repo();
    let forged = "export GIT_AUTHOR_DATE='@1000000000 +0000' GIT_COMMITTER_DATE='@1000000000 +0000' \
                  GIT_AUTHOR_NAME=a GIT_COMMITTER_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_EMAIL=a@b; \
                  c=$(git commit-tree HEAD^{tree} -p HEAD -m kept)";
    let script = format!("{forged} && git reset -q $c && echo ready; sleep 1000");
    let run = repo.ready(&[], &script);
    run.signal(Signal::KILL);
    run.wait().expect_code(137);
    let mut same = env.command("sh");
    same.args(["-c", &format!("{forged}; echo $c")])
        .current_dir(repo.root());
    let commit = env.finish(&mut same).expect_code(0).stdout;
    let listed = repo.cofferdam(["ls", "--json"]).expect_code(0).json();
    let kept = &only_agent(&listed)["result"]["history"]["kept"];
    assert_eq!(kept["commits"], 1, "{listed:#}");
    assert_eq!(repo.git(["rev-parse", text(kept, "ref")]), commit);
}

/// Commits that the parent has under a ref are nobody's but its own.
#[test]
fn commits_that_the_parents_refs_reach_are_no_history() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.git(["commit", "-q", "--allow-empty", "-m", "second"]);
    repo.git(["tag", "there"]);
    for script in [
        "git reset -q HEAD~1",
        "git checkout -q main",
        "git checkout -q there",
    ] {
        let script = format!("{script} && echo n > n.txt");
        let record = repo
            .agent_integrating("never", &script)
            .expect_code(0)
            .json();
        let agent = only_agent(&record);
        assert_eq!(agent["result"]["history"], Value::Null, "{agent:#}");
    }
}

/// What an agent checks out is its parent's, however large, and is not taken
/// over a second time.
#[test]
fn what_the_parent_lends_is_not_written_again() {
    let env = TestEnv::new();
    let repo = env.repo();
    let large = "head -c 30000000 /dev/zero > large && git add large";
    env.finish(
        env.command("sh")
            .args(["-c", large])
            .current_dir(repo.root()),
    )
    .expect_code(0);
    repo.git(["commit", "-q", "-m", "large"]);
    repo.git(["rm", "-q", "large"]);
    repo.git(["commit", "-q", "-m", "small again"]);
    let blob = repo.git(["rev-parse", "HEAD~1:large"]).trim().to_owned();
    let stored = repo.path(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
    // Git renews the time of an object that it is given once more.
    let before = std::fs::metadata(&stored).expect("because git wrote it a moment ago");
    let script = "git update-index --add --cacheinfo 100644,$(git rev-parse HEAD~1:large),again && \
                  git commit -qm again && git reset -q --mixed HEAD && echo n > n.txt";
    let record = repo.agent(script).expect_code(0).json();
    let agent = only_agent(&record);
    let kept = &agent["result"]["history"]["kept"];
    assert_eq!(kept["commits"], 1, "{agent:#}");
    let name = format!("{}:again", text(kept, "ref"));
    assert_eq!(repo.git(["rev-parse", &name]).trim(), blob);
    let after = std::fs::metadata(&stored).expect("because it is the parent's");
    assert_eq!(before.modified().ok(), after.modified().ok());
}

/// What is left of a history that is bent, and why.
fn left_out(agent: &Value) -> &str {
    text(&agent["result"]["history"]["left_out"], "why")
}

/// Every way in which commits end up elsewhere than on HEAD, the subjects that
/// have to be there, and what names them.
const ELSEWHERE: &[(&str, &[&str], &[&str])] = &[
    (
        "echo s > a-stash && git stash -qu",
        &["untracked files on"],
        &["refs/stash"],
    ),
    (
        "echo s > first && git stash -qu -m first && echo s > second && git stash -qu -m second",
        &["On (no branch): first", "On (no branch): second"],
        &["refs/stash", "stash@{1}"],
    ),
    (
        "git checkout -qb feat && git commit -q --allow-empty -m feat && git checkout -q main",
        &["feat"],
        &["refs/heads/feat"],
    ),
    (
        "git commit -q --allow-empty -m detached && git checkout -q main",
        &["detached"],
        &["HEAD@{1}"],
    ),
    (
        "git commit -q --allow-empty -m here && git branch side HEAD~1 && git checkout -q side && \
         git commit -q --allow-empty -m side && git checkout -q - && git pack-refs --all",
        &["here", "side"],
        &["HEAD", "refs/heads/side"],
    ),
    (
        "git commit -q --allow-empty -m tagged && git tag -am tag one && git reset -q HEAD~1",
        &["tagged"],
        &["refs/tags/one"],
    ),
    (
        "git worktree add -q --detach $TMPDIR/w && \
         git -C $TMPDIR/w commit -q --allow-empty -m worktree",
        &["worktree"],
        &["worktrees/w/HEAD"],
    ),
];

#[test]
fn commits_elsewhere_than_on_head_are_kept() {
    for backend in backends(&TestEnv::new()) {
        for (script, subjects, names) in ELSEWHERE {
            let env = TestEnv::new();
            let repo = env.repo();
            let script = format!("{script} && echo work > work.txt");
            let record = run_in(&env, repo.root(), backend, &script)
                .expect_code(0)
                .json();
            let agent = only_agent(&record);
            let kept = &agent["result"]["history"]["kept"];
            let tips = kept["tips"].as_array().cloned().unwrap_or_default();
            let named: Vec<&str> = tips.iter().map(|one| text(one, "ref")).collect();
            assert_eq!(named, *names, "{agent:#}");
            assert_eq!(kept["left_out"], Value::Null, "{agent:#}");
            let name = text(kept, "ref");
            assert_eq!(repo.git(["rev-parse", name]).trim(), text(kept, "tip"));
            let found = repo.git(["log", "--format=%s", name]);
            for subject in *subjects {
                let is_there = found.lines().any(|line| line.starts_with(subject));
                assert!(is_there, "{subject}: {found}");
            }
            if let [_, _, ..] = tips.as_slice() {
                let parents = repo.git(["log", "-1", "--format=%P", name]);
                let ends: Vec<&str> = tips.iter().map(|one| text(one, "tip")).collect();
                assert_eq!(parents.trim(), ends.join(" "));
                let message = repo.git(["log", "-1", "--format=%b", name]);
                assert_eq!(message.trim(), names.join("\n"));
            }
            assert_eq!(repo.text("work.txt"), "work\n");
            repo.git(["fsck", "--strict", "--no-dangling"]);
        }
    }
}

/// One end that is bent costs no other.
#[test]
fn a_bent_end_of_a_history_stays_behind_alone() {
    let env = TestEnv::new();
    let repo = env.repo();
    let script = "git commit -q --allow-empty -m whole; h=$(git rev-parse HEAD); \
                  git checkout -qb bent HEAD~1; git commit -q --allow-empty -m x; \
                  m=$(git rev-parse HEAD); git commit -q --allow-empty -m y; git checkout -q $h; \
                  rm -f .git/objects/$(echo $m | cut -c1-2)/$(echo $m | cut -c3-)";
    let record = repo.agent(script).expect_code(0).json();
    let kept = &only_agent(&record)["result"]["history"]["kept"];
    let subject = repo.git(["log", "-1", "--format=%s", text(kept, "ref")]);
    assert_eq!(subject, "whole\n");
    let why = "`refs/heads/bent`: some of it is missing or malformed";
    assert_eq!(kept["left_out"], serde_json::json!([why]), "{record:#}");
}

/// What a shallow parent lacks is not the agent's to have.
#[test]
fn commits_on_a_shallow_base_are_kept() {
    let env = TestEnv::new();
    let origin = env.repo();
    origin.git(["commit", "-q", "--allow-empty", "-m", "second"]);
    let repo = env.adopt(env.root().join("shallow"));
    let from = format!("file://{}", origin.root().display());
    let into = repo.root().display().to_string();
    origin.git(["clone", "-q", "--depth", "1", &from, &into]);
    let script = "echo n > n.txt && git add -A && git commit -qm own && git stash -q -u; \
                  git checkout -qb side && git commit -q --allow-empty -m side && \
                  git checkout -q - && git commit -q --allow-empty -m last";
    let record = repo.agent(script).expect_code(0).json();
    let kept = &only_agent(&record)["result"]["history"]["kept"];
    assert_eq!(kept["commits"], 3, "{record:#}");
    assert_eq!(kept["left_out"], Value::Null, "{record:#}");
}

/// Where nothing is committed yet, the branch is all that an agent writes.
#[test]
fn the_first_commit_of_all_is_kept() {
    for backend in backends(&TestEnv::new()) {
        let env = TestEnv::new();
        let repo = env.adopt(env.root().join("unborn"));
        env.make_dir(repo.root());
        repo.git(["init", "-q", "-b", "main"]);
        repo.write("a.txt", "a\n");
        let script = "echo n > n.txt && git add -A && git commit -qm first";
        let record = run_in(&env, repo.root(), backend, script)
            .expect_code(0)
            .json();
        let kept = &only_agent(&record)["result"]["history"]["kept"];
        assert_eq!(kept["commits"], 1, "{backend}: {record:#}");
        assert_eq!(repo.show(text(kept, "ref"), "n.txt"), "n\n");
    }
}

#[test]
fn a_history_that_is_bent_is_left_out_and_told() {
    let tree = "t=$(git write-tree)";
    let forged = "c=$(printf 'tree %s\\nauthor a <a@b> 1 +0000\\ncommitter a <a@b> 1 +0000\\n\\nx\\n' \"$t\" | \
                  git hash-object -t commit -w --stdin --literally); echo $c > .git/HEAD";
    let dotgit = "b=$(echo evil | git hash-object -w --stdin); \
                  t=$(printf '100644 blob %s\\t.git\\n' $b | sed 's/\\.git$/xgit/' | git mktree); \
                  f=.git/objects/$(echo $t | cut -c1-2)/$(echo $t | cut -c3-); \
                  python3 - \"$f\" <<'P'\nimport sys,zlib,hashlib,os,binascii\nd=zlib.decompress(open(sys.argv[1],'rb').read()).replace(b'xgit',b'.git')\nh=hashlib.sha1(d).hexdigest()\nos.makedirs('.git/objects/'+h[:2],exist_ok=True)\nopen('.git/objects/'+h[:2]+'/'+h[2:],'wb').write(zlib.compress(d))\nopen('T','w').write(h)\nP\nt=$(cat T); rm T";
    let swapped = "git commit -qm real --allow-empty; h=$(git rev-parse HEAD); \
                   f=.git/objects/$(echo $h | cut -c1-2)/$(echo $h | cut -c3-); chmod u+w $f; \
                   t=$(git write-tree); o=$(git commit-tree $t -m other); \
                   cp .git/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-) $f; echo $h > .git/HEAD";
    let malformed = "`HEAD`: some of it is missing or malformed";
    let cases = [
        ("a missing parent", format!("{tree}; h=$(git rev-parse HEAD); git commit -q --allow-empty -m x; m=$(git rev-parse HEAD); git commit -q --allow-empty -m y; rm -f .git/objects/$(echo $m | cut -c1-2)/$(echo $m | cut -c3-)"), malformed),
        ("a name that git refuses", format!("{dotgit}; {forged}"), "`HEAD`: git does not take it: "),
        ("another object's bytes", swapped.to_owned(), malformed),
        ("garbage", format!("{tree}; {forged}; chmod u+w .git/objects/$(echo $c | cut -c1-2)/*; echo garbage > .git/objects/$(echo $c | cut -c1-2)/$(echo $c | cut -c3-)"), "an object of it is malformed"),
        ("packed", "git commit -qm x --allow-empty; git repack -adq".to_owned(), "it is packed"),
        ("too large", "head -c 70000000 /dev/zero > zeroes; git add zeroes; git commit -qm large; rm zeroes".to_owned(), "it is more than 64 MiB"),
        ("too many", "t=$(git write-tree); p=HEAD; for i in $(seq 1001); do p=$(git commit-tree $t -p $p -m $i); done; git reset -q --soft $p".to_owned(), "`HEAD`: it is more than 1000 commits"),
    ];
    for backend in backends(&TestEnv::new()) {
        for (what, script, why) in &cases {
            let env = TestEnv::new();
            let repo = env.repo();
            let script = format!("{script}; echo work > work.txt");
            let record = run_in(&env, repo.root(), backend, &script)
                .expect_code(0)
                .json();
            let agent = only_agent(&record);
            // The rest of it is git's.
            assert!(left_out(agent).starts_with(why), "{what}: {agent:#}");
            assert_eq!(repo.text("work.txt"), "work\n", "{what}");
            let listed = repo.added_refs();
            assert!(
                listed.iter().all(|name| !name.ends_with(".history")),
                "{listed:?}"
            );
            repo.git(["fsck", "--strict", "--no-dangling"]);
        }
    }
}

#[test]
fn a_head_that_is_bent_is_told() {
    let neither = "`HEAD` names neither a commit nor a branch";
    for (head, why) in [
        ("true", "`HEAD` is gone"),
        ("ln -s /etc/passwd .git/HEAD", "`HEAD` is no regular file"),
        ("mkfifo .git/HEAD", "`HEAD` is no regular file"),
        ("mkdir .git/HEAD", "`HEAD` is no regular file"),
        ("echo garbage > .git/HEAD", neither),
        (
            "head -c 100000000 /dev/zero > .git/HEAD",
            "`HEAD` is larger than 4 KiB",
        ),
        (
            "echo 'ref: refs/heads/../../../../etc/passwd' > .git/HEAD",
            neither,
        ),
        ("echo 'ref: /etc/passwd' > .git/HEAD", neither),
        (
            "echo ref: refs/heads/one > .git/HEAD; echo ref: refs/heads/main > .git/refs/heads/one",
            "`HEAD` names a ref that names another one",
        ),
        (
            "echo 0000000000000000000000000000000000000000 > .git/HEAD; rm -rf .git/objects",
            "`HEAD` names no commit",
        ),
        ("echo $t > .git/HEAD", "`HEAD` names no commit"),
        ("rm -r .git; echo x > .git", "`.git` is no directory"),
        ("rm -r .git", "`.git` is gone"),
        (
            "rm -r .git/refs; ln -s /etc .git/refs; echo 'ref: refs/heads/x' > .git/HEAD",
            "`refs` is no regular file",
        ),
        (
            "mkdir .git/reftable; echo 'ref: refs/heads/.invalid' > .git/HEAD",
            "`reftable` holds refs in a form that is not read",
        ),
    ] {
        for backend in backends(&TestEnv::new()) {
            let env = TestEnv::new();
            let repo = env.repo();
            let script = format!(
                "git commit -q --allow-empty -m x; t=$(git write-tree); rm .git/HEAD; {head}; \
                 echo work > work.txt"
            );
            let record = run_in(&env, repo.root(), backend, &script)
                .expect_code(0)
                .json();
            let agent = only_agent(&record);
            assert_eq!(left_out(agent), why, "{head}");
            assert_eq!(repo.text("work.txt"), "work\n", "{head}");
        }
    }
}
