//! Files that tools of the host run without being asked.
//!
//! Owns the one table of them. A result that changes one may land, and a
//! person is told: the agent was confined, what it left here will not be.

use crate::model::RepoPath;

/// Names that matter in any directory; with a slash, from a directory of
/// that name on; with a slash at the end, everything beneath it.
const RUNS_ON_HOST: &[&str] = &[
    ".envrc",
    ".mise.toml",
    "mise.toml",
    ".tool-versions",
    ".gitattributes",
    ".gitmodules",
    ".vscode/",
    ".idea/",
    ".devcontainer/",
    ".devcontainer.json",
    ".husky/",
    ".githooks/",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    ".github/workflows/",
    ".github/actions/",
    ".gitlab-ci.yml",
    ".circleci/",
    ".ci/",
    ".cargo/config",
    ".cargo/config.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "build.rs",
    "conftest.py",
    "sitecustomize.py",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".claude/",
    ".codex/",
    ".gemini/",
    ".cursor/",
    ".cursorrules",
    ".mcp.json",
    "CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
];

/// Whether a changed path is such a file.
pub(super) fn runs_on_host(path: &RepoPath) -> bool {
    let parts: Vec<&[u8]> = path.components().collect();
    RUNS_ON_HOST.iter().any(|pattern| {
        let beneath = pattern.ends_with('/');
        let names: Vec<&[u8]> = pattern
            .trim_end_matches('/')
            .split('/')
            .map(str::as_bytes)
            .collect();
        match beneath {
            true => parts[..parts.len() - 1]
                .windows(names.len())
                .any(|window| window == names),
            false => parts.ends_with(&names),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_them_in_any_directory_by_whole_names() {
        let runs = |text: &str| {
            runs_on_host(&RepoPath::from_bytes(text.as_bytes()).expect("because it is plain"))
        };
        for yes in [
            ".envrc",
            "sub/.envrc",
            ".vscode/tasks.json",
            "a/.husky/pre-commit",
            ".github/workflows/ci.yml",
            ".cargo/config.toml",
            "crates/x/build.rs",
            "CLAUDE.md",
        ] {
            assert!(runs(yes), "{yes}");
        }
        for no in [
            "src/main.rs",
            "rebuild.rs",
            ".github/x",
            ".vscode",
            "cargo/config.toml",
        ] {
            assert!(!runs(no), "{no}");
        }
    }
}
