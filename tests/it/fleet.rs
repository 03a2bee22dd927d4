//! Fleets on real input, with plain git as the judge.
//!
//! Owns: eight writers with real programs on the project's own repository and
//! on one of ten thousand files. The same edits are made in branches of a
//! scratch clone and merged there by `git merge`; files, kept results and
//! conflicts have to be the same.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Repo, TestEnv, agent, paths, shown};

/// One writer: its name and what it does.
type Writer = (&'static str, String);

/// What plain git made of the same edits.
struct Judgement {
    tree: String,
    conflicts: Vec<(&'static str, Vec<String>)>,
}

/// Edits of every kind; no file name is written down, so that the repository
/// may grow. Each takes a part of the Rust files, and the parts overlap.
fn writers(rustfmt: &Path) -> Vec<Writer> {
    let files = |select: &str, action: &str| {
        format!(
            "set -e; git ls-files '*.rs' | grep -v '[^a-zA-Z0-9_/.+-]' | awk '{select}' | {action}"
        )
    };
    let together = |select: &str, program: &str| files(select, &format!("xargs -r {program}"));
    let each =
        |select: &str, action: &str| files(select, &format!("while read -r f; do {action}; done"));
    vec![
        (
            "header",
            together("NR % 4 == 0", "sed -i '1i // A first line.'"),
        ),
        (
            "footer",
            together("NR % 2 == 0", "sed -i '$a // A last line.'"),
        ),
        (
            "format",
            // What does not parse on its own stays as it is.
            each(
                "NR % 7 == 1 && NR < 100",
                &format!(
                    "'{}' --edition 2024 --config max_width=70 --config-path /dev/null \
                     < \"$f\" > new 2>/dev/null && cat new > \"$f\" || :; rm new",
                    shown(rustfmt)
                ),
            ),
        ),
        (
            "rename",
            each(
                "NR % 9 == 2 && NR < 400",
                "git mv \"$f\" \"${f%.rs}_moved.rs\"",
            ),
        ),
        (
            "codemod",
            together(
                "NR % 3 == 1",
                "sed -i 's/\\bSelf\\b/Own/g; s/\\blet \\b/let  /'",
            ),
        ),
        (
            "words",
            "git ls-files '*.toml' '*.md' | grep -v ' ' | xargs -r sed -i \
             's/[[:space:]]*$//; s/version/edition/'; echo done > WORDS"
                .to_owned(),
        ),
        ("remove", together("NR % 11 == 5", "git rm -q")),
        (
            "remake",
            each(
                "NR % 13 == 6 && NR < 600",
                "head -c 600 \"$f\" > new; mv new \"$f\"; chmod +x \"$f\"",
            ),
        ),
    ]
}

/// The real program, not the proxy that looks for a toolchain in HOME.
fn rustfmt() -> PathBuf {
    let output = std::process::Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .expect("because the tests are built by rustc");
    let root = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Path::new(&root).join("bin/rustfmt")
}

/// Makes the same edits in branches of a clone and merges them with git.
fn judge(env: &TestEnv, repo: &Repo<'_>, writers: &[Writer]) -> Judgement {
    let clone = env.adopt(env.root().join("judge"));
    repo.git(["clone", "-q", "--no-hardlinks", ".", shown(clone.root())]);
    clone.git(["checkout", "-q", "-B", "merged"]);
    let base = clone.git(["rev-parse", "HEAD"]).trim().to_owned();
    for (name, script) in writers {
        clone.git(["checkout", "-q", "-b", name, &base]);
        env.finish(
            env.command("sh")
                .args(["-c", script])
                .current_dir(clone.root()),
        )
        .expect_code(0);
        clone.git(["add", "-A"]);
        clone.git(["commit", "-q", "-m", name]);
    }
    clone.git(["checkout", "-q", "merged"]);
    let mut conflicts = Vec::new();
    for (name, _) in writers {
        if clone.try_git(["merge", "-q", "--no-edit", name]).code == 0 {
            continue;
        }
        let unmerged = clone.git(["diff", "--name-only", "--diff-filter=U"]);
        conflicts.push((*name, unmerged.lines().map(str::to_owned).collect()));
        clone.git(["merge", "--abort"]);
    }
    Judgement {
        tree: clone.git(["rev-parse", "HEAD^{tree}"]).trim().to_owned(),
        conflicts,
    }
}

/// Runs the writers as a fleet and compares with what plain git made.
fn compare(env: &TestEnv, repo: &Repo<'_>) {
    let writers = writers(&rustfmt());
    let judgement = judge(env, repo, &writers);
    let plan: String = writers
        .iter()
        .map(|(name, script)| {
            format!("[[task]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n")
        })
        .collect();
    let plan = repo.plan(&plan);
    repo.expect_unchanged();
    let run = repo.cofferdam(["run", "--json", shown(&plan)]);
    let record = run.json();

    for (name, _) in &writers {
        let integration = &agent(&record, name)["integration"];
        let by_git = judgement.conflicts.iter().find(|(held, _)| held == name);
        let status = if by_git.is_some() { "held" } else { "landed" };
        assert_eq!(integration["status"], status, "{name}: {integration:#}");
        if let Some((_, unmerged)) = by_git {
            let mut told = paths(&integration["conflicts"]);
            told.dedup();
            for path in unmerged {
                assert!(
                    told.contains(&path.as_str()),
                    "{name}: {path} is not in {told:?}"
                );
            }
        }
    }
    assert_eq!(repo.tree_of_files(), judgement.tree);
    let code = if judgement.conflicts.is_empty() { 0 } else { 5 };
    run.expect_code(code);
}

#[test]
fn eight_writers_on_the_projects_own_repository_make_what_git_makes() {
    let env = TestEnv::new();
    let repo = env.adopt(env.root().join("repo"));
    let project = env!("CARGO_MANIFEST_DIR");
    env.finish(
        env.command("git")
            .args([
                "-c",
                "safe.directory=*",
                "clone",
                "-q",
                "--no-hardlinks",
                project,
            ])
            .arg(repo.root()),
    )
    .expect_code(0);
    compare(&env, &repo);
}

#[test]
fn eight_writers_on_ten_thousand_files_make_what_git_makes() {
    let env = TestEnv::new();
    let repo = env.unborn_repo();
    let files = vendor(repo.root());
    assert!(files >= 10_000, "only {files} files");
    repo.git(["add", "-A", "-f"]);
    repo.git(["commit", "-q", "-m", "vendored"]);
    compare(&env, &repo);
}

/// Puts the sources of all dependencies below `root`, and some of them twice
/// where they are fewer than ten thousand files; returns how many there are.
fn vendor(root: &Path) -> usize {
    let first = root.join("vendor");
    let output = std::process::Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["vendor", "--locked", "--versioned-dirs", "--quiet"])
        .arg(&first)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("because the tests are run by cargo");
    assert!(
        output.status.success(),
        "vendor the dependencies: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut count = count_files(&first);
    let mut crates: Vec<_> = fs::read_dir(&first)
        .expect("because cargo made it")
        .map(|entry| entry.expect("because it can be listed").path())
        .collect();
    crates.sort();
    let again = root.join("again");
    for source in crates {
        if count >= 10_000 {
            break;
        }
        let name = source.file_name().expect("because it was listed");
        count += copy(&source, &again.join(name));
    }
    count
}

fn count_files(directory: &Path) -> usize {
    fs::read_dir(directory)
        .expect("because it was listed")
        .map(|entry| entry.expect("because it can be listed").path())
        .map(|path| if path.is_dir() { count_files(&path) } else { 1 })
        .sum()
}

fn copy(source: &Path, target: &Path) -> usize {
    if !source.is_dir() {
        fs::copy(source, target).expect("because the file was listed");
        return 1;
    }
    fs::create_dir_all(target).expect("because the copy's parent is there");
    fs::read_dir(source)
        .expect("because it was listed")
        .map(|entry| entry.expect("because it can be listed"))
        .map(|entry| copy(&entry.path(), &target.join(entry.file_name())))
        .sum()
}
