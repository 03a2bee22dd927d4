//! Attempts to reach the host through git.
//!
//! Owns: git's own files of the parent cannot be changed, and nothing that an
//! agent plants in its copy is ever executed by a git that runs outside.

use crate::support::{TestEnv, only_below, shown};

/// Runs one script with `MARK` naming a file of the host that only code which
/// ran outside can make, lets plain git look at the parent afterwards, and
/// demands that there is no mark and that git's own files are as they were.
#[track_caller]
fn plant(script: &str) {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.expect_unchanged();
        let mark = env.outside().join("mark");
        let script = format!(
            "{}; MARK='{}'; REPO='{}'\nprintf '#!/bin/sh\\ntouch %s\\n' \"$MARK\" > evil; \
             chmod +x evil; EVIL=$PWD/evil\n{script}\nexit 0",
            only_below(&env),
            shown(&mark),
            shown(repo.root()),
        );
        let run = repo.agent(&script);
        assert!([0, 5].contains(&run.code), "{}", run.stderr);
        repo.git(["status"]);
        repo.git(["diff"]);
        repo.git(["log", "-1"]);
        let worktrees = repo.git(["worktree", "list"]);
        assert_eq!(worktrees.lines().count(), 1, "{worktrees}");
        assert!(
            !mark.exists(),
            "something that the agent planted ran outside"
        );
    }
}

#[test]
fn configuration_hooks_refs_and_index_of_the_parent_stay() {
    plant(
        "for g in \"$REPO/.git\" \"$(git rev-parse --git-common-dir)\" \
         \"$(git rev-parse --git-dir)\"; do test -n \"$g\" || continue; echo '[core] hooksPath = /tmp' >> \"$g/config\"; \
         mkdir -p \"$g/hooks\"; cp evil \"$g/hooks/post-checkout\"; cp evil \"$g/hooks/pre-commit\"; \
         echo broken > \"$g/index\"; echo broken > \"$g/HEAD\"; echo broken > \"$g/refs/heads/main\"; \
         echo /tmp > \"$g/objects/info/alternates\"; rm -rf \"$g/refs\" \"$g/objects\"; done",
    );
}

#[test]
fn objects_of_the_parent_stay() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.git(["repack", "-q", "-a", "-d"]);
        repo.write("loose.txt", "loose\n");
        repo.commit_all("loose");
        repo.expect_unchanged();
        let script = only_below(&env)
            + "; o=$(git rev-parse --git-path objects); cat \"$o/info/alternates\"; \
             for d in \"$o\" $(cat \"$o/info/alternates\"); do \
             find \"$d\" -type f | while read -r f; do chmod u+w \"$f\"; echo x > \"$f\"; \
             rm -f \"$f\"; done; done; git gc -q --prune=now; git prune; exit 0";
        let run = repo.agent(&script);
        assert!([0, 5].contains(&run.code), "{}", run.stderr);
        repo.git(["fsck", "--strict"]);
        repo.git(["cat-file", "-e", "HEAD~1:a.txt"]);
    }
}

#[test]
fn programs_named_in_configuration_never_run_outside() {
    plant(
        "for c in core.fsmonitor core.sshCommand diff.external filter.x.clean filter.x.smudge \
         filter.x.process merge.x.driver core.pager core.editor gpg.program; \
         do git config \"$c\" \"$EVIL\"; git config --global \"$c\" \"$EVIL\"; done; \
         echo '* filter=x merge=x diff=x' > .gitattributes; git add -A; git commit -q -m planted; \
         rm -f \"$MARK\"; echo changed >> a.txt",
    );
}

#[test]
fn a_replaced_git_directory_is_not_believed() {
    plant(
        "rm -rf .git; git init -q; git config core.fsmonitor \"$EVIL\"; \
         git config core.worktree /; cp evil .git/hooks/post-index-change; \
         cp evil .git/hooks/reference-transaction; echo changed >> a.txt",
    );
}

#[test]
fn a_git_file_that_points_elsewhere_is_not_followed() {
    plant(
        "mkdir bad; git init -q bad; git -C bad config core.fsmonitor \"$EVIL\"; \
         rm -rf .git; echo \"gitdir: $PWD/bad/.git\" > .git; echo changed >> a.txt",
    );
}

#[test]
fn a_planted_nested_repository_or_module_is_not_entered() {
    plant(
        "git init -q sub; git -C sub config core.fsmonitor \"$EVIL\"; echo in > sub/in; \
         git -C sub add -A; git -C sub commit -q -m sub; rm -f \"$MARK\"; \
         printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./sub\\n\\tupdate = !%s\\n' \"$EVIL\" \
         > .gitmodules; git add -A",
    );
}

#[test]
fn names_that_git_reads_as_its_own_do_not_land() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.expect_unchanged();
        let run = repo.agent(
            "mkdir -p docs/.git .GIT 'git~1'; echo '[core]' > docs/.git/config; \
             echo x > .GIT/config; echo x > 'git~1/config'; echo new > n.txt; exit 0",
        );
        assert!([0, 5].contains(&run.code), "{}", run.stderr);
        for path in ["docs/.git", ".GIT", "git~1"] {
            assert!(!repo.has(path), "{path} landed");
        }
    }
}

#[test]
fn landing_follows_no_link() {
    let env = TestEnv::new();
    let repo = env.repo();
    env.put(&env.outside().join("guide.md"), "the person's\n");
    let run = repo
        .agent_integrating(
            "hold",
            "echo agent > docs/guide.md; echo agent > docs/new.md",
        )
        .expect_code(0);
    // The person puts a link where the result has a directory.
    repo.delete("docs/guide.md");
    std::fs::remove_dir(repo.path("docs")).expect("because it is empty now");
    std::os::unix::fs::symlink(env.outside(), repo.path("docs"))
        .expect("because nothing stands there");
    env.own(&repo.path("docs"));
    let record = run.json();
    let id = crate::support::text(crate::support::only_agent(&record), "id");
    repo.cofferdam(["apply", id]).expect_code(5);

    let outside = std::fs::read_dir(env.outside())
        .expect("because it is there")
        .count();
    assert_eq!(outside, 1);
    assert!(repo.path("docs").is_symlink());
}

/// T67: a tree that looks like a bare repository, at the top or below, is a
/// tree like any other.
#[test]
fn a_tree_laid_out_as_a_bare_repository_is_not_read() {
    plant(
        "mkdir -p sub && git init -q --bare sub/bare && cp -r sub/bare/. . ; \
         for c in config sub/bare/config; do \
         printf '[core]\\n\\tfsmonitor = %s\\n\\thooksPath = .\\n\\tworktree = /\\n' \"$EVIL\" >> $c; done; \
         cp evil hooks/post-index-change; cp evil sub/bare/hooks/reference-transaction; \
         echo changed >> a.txt",
    );
}

/// T71: a module whose address is a command, whose path leads out, or whose
/// list is a link is not fetched, entered or followed.
#[test]
fn a_module_with_a_command_for_an_address_is_not_fetched() {
    plant(
        "printf '[submodule \"a\"]\\n\\tpath = a\\n\\turl = ext::%s\\n[submodule \"-u\"]\\n\\tpath = ../b\\n\
         \\turl = -u%s\\n\\tupdate = !%s\\n' \"$EVIL\" \"$EVIL\" \"$EVIL\" > .gitmodules; \
         h=$(git rev-parse HEAD); git update-index --add --cacheinfo 160000,$h,a; \
         mkdir -p a .git/modules/a; printf '[core]\\n\\tfsmonitor = %s\\n' \"$EVIL\" > .git/modules/a/config; \
         git submodule init; git commit -q -am modules; rm -f \"$MARK\"; echo changed >> a.txt",
    );
    plant("echo '[core]' > list; ln -s \"$REPO/.git/config\" .gitmodules; git add -A; exit 0");
}
