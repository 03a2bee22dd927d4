//! Attempts to get out by what lands: links, and files that a host would run.
//!
//! Owns results that look harmless one by one. What git itself reads is in
//! `escape_git`.

use std::fs;

use crate::support::{TestEnv, only_agent, paths, shown, text};

/// T73: what tools of the host run without being asked lands with a warning
/// that names it; an ordinary file has none.
#[test]
fn what_a_host_would_run_is_named() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let record = repo
            .agent(
                "mkdir -p .vscode .husky .cargo .claude sub; echo x > .envrc; echo x > plain.txt; \
                 echo {} > .vscode/tasks.json; echo x > .husky/pre-commit; echo x > .cargo/config.toml; \
                 echo x > build.rs; echo x > sub/conftest.py; echo {} > .claude/settings.json; \
                 echo x > CLAUDE.md; echo '* filter=x' > .gitattributes; echo x > .gitmodules",
            )
            .json();
        let warnings = only_agent(&record)["integration"]["warnings"].clone();
        let mut runs = warnings.clone();
        if let Some(list) = runs.as_array_mut() {
            list.retain(|warning| warning["kind"] == "runs_on_host");
        }
        assert_eq!(
            paths(&runs),
            [
                ".cargo/config.toml",
                ".claude/settings.json",
                ".envrc",
                ".gitattributes",
                ".gitmodules",
                ".husky/pre-commit",
                ".vscode/tasks.json",
                "CLAUDE.md",
                "build.rs",
                "sub/conftest.py",
            ],
            "{warnings:#}"
        );
    }
}

/// T04, T72: a link to the outside that one result left is not followed when
/// the next one lands beneath its name.
#[test]
fn a_link_that_landed_is_not_followed() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        env.put(&env.outside().join("guide.md"), "the person's\n");
        let held = repo
            .agent_integrating(
                "hold",
                "echo agent > docs/guide.md; echo agent > docs/new.md",
            )
            .expect_code(0)
            .json();
        let outside = env.outside();
        let link = repo.agent(&format!("rm -r docs; ln -s '{}' docs", shown(&outside)));
        assert!([0, 5].contains(&link.code), "{}", link.stderr);
        let applied = repo.cofferdam(["apply", text(only_agent(&held), "id")]);

        assert!([0, 5].contains(&applied.code), "{}", applied.stderr);
        let names: Vec<_> = fs::read_dir(&outside)
            .expect("because it is there")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(names, ["guide.md"]);
        let kept = fs::read_to_string(outside.join("guide.md")).expect("because it is there");
        assert_eq!(kept, "the person's\n");
    }
}

/// T04: a link that an agent puts in place of a directory while it works is a
/// link in its result, and is not looked through when that is captured.
#[test]
fn a_link_in_place_of_a_directory_is_captured_as_a_link() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        env.put(&env.home().join("docs/secret.txt"), "the person's secret\n");
        let record = repo
            .agent_integrating(
                "hold",
                &format!("rm -r docs; ln -s '{}/docs' docs", shown(&env.home())),
            )
            .expect_code(0)
            .json();
        let tree = text(&only_agent(&record)["result"], "tree");
        let listed = repo.git(["ls-tree", "-r", tree]);
        assert!(
            listed.contains("120000") && !listed.contains("secret"),
            "{listed}"
        );
    }
}

/// T74: where the parent moved on while an agent worked, its result takes
/// nothing back.
#[test]
fn a_result_from_an_old_base_takes_nothing_back() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let mut run = repo.ready(
            &["--json", "--stdin"],
            "echo ready; read go; echo agent > agent.txt; exit 0",
        );
        repo.edit("a.txt", "a 1\n", "a one\n");
        repo.write("person.txt", "person\n");
        repo.commit_all("meanwhile");
        run.say("go");
        run.wait().expect_code(0);
        assert!(repo.text("a.txt").starts_with("a one\n"));
        assert!(repo.has("person.txt") && repo.has("agent.txt"));
    }
}
