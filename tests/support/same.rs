//! Whether an agent gets exactly the parent's bytes, and gives its own back.
//!
//! Owns one script that lists a working tree with the hashes of its files,
//! run outside by the test and inside as an agent, for every backend. Knows
//! nothing of how a workspace is made.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use super::{Repo, Run, TestEnv, only_agent, text};

/// The backends that have to give the same; a new one is one word here.
const BACKENDS: [&str; 3] = ["checkout", "overlay", "reflink"];

/// Those of them that can be had where tests run. One that cannot is refused,
/// with a reason, and never replaced by another.
pub(crate) fn backends() -> &'static [&'static str] {
    static HAD: OnceLock<Vec<&str>> = OnceLock::new();
    HAD.get_or_init(|| {
        let env = TestEnv::new();
        let repo = env.repo();
        let had = |backend: &&str| {
            let run = run_in(&env, repo.root(), backend, "true");
            if run.code == 0 {
                let record = run.json();
                return text(only_agent(&record), "workspace").starts_with(backend);
            }
            let error = run.expect_error(2);
            let told = format!("use the workspace backend `{backend}`: ");
            assert!(text(&error, "message").contains(&told), "{error:#}");
            false
        };
        let had: Vec<_> = BACKENDS.into_iter().filter(had).collect();
        assert!(had.contains(&"checkout"), "it works everywhere: {had:?}");
        had
    })
}

/// Lists everything but ignored files and git's own: names, kinds, content,
/// links, what is executable, and what git makes of it.
const LISTING: &str = r#"
top=$(git rev-parse --show-toplevel && printf x) && cd "${top%?x}" || exit 90
t=$(mktemp -d) || exit 91
git ls-files -z -c -o --exclude-standard | sort -zu > "$t/names"
{
  tr '\0' '\n' < "$t/names"; echo
  xargs -0r stat --printf='%F %n\0' -- < "$t/names"
  find . -name .git -prune -o -type f -perm -100 -printf '%p\0' | sort -z
  find . -name .git -prune -o -type l -printf '%p > %l\0' | sort -z
  xargs -0r sha256sum -z -- < "$t/names"
  git status --porcelain=v1 -uall -z
  git diff --cached --raw --abbrev=40 -z
  git rev-parse -q --verify HEAD
} 2> "$t/errors" | sha256sum | cut -c1-64
rm -r "$t"
"#;

/// The shell that lists and writes what it found into a new file, and proves
/// that it may write beside it.
fn agent_script() -> String {
    format!("hash=$({LISTING}) || exit 92; echo \"$hash\" > \"$TOP/made by agent\"")
}

/// Runs an agent with a backend in a directory of a repository.
pub(crate) fn run_in(env: &TestEnv, directory: &Path, backend: &str, script: &str) -> Run {
    env.cofferdam_in(
        directory,
        [
            "run",
            "--json",
            "--workspace",
            backend,
            "--",
            "sh",
            "-c",
            script,
        ],
    )
}

impl Repo<'_> {
    /// Demands that agents of every backend get exactly what stands here, seen
    /// from the top and from `start`, and that what they write lands.
    #[track_caller]
    pub(crate) fn expect_same_inside(&self, start: &Path) {
        for backend in backends() {
            self.expect_same_with(start, backend);
        }
    }

    #[track_caller]
    fn expect_same_with(&self, start: &Path, backend: &str) {
        let mut listing = self.env().command("sh");
        listing.args(["-c", LISTING]).current_dir(self.root());
        let expected = self.env().finish(&mut listing).expect_code(0).stdout;
        let status = self.status();
        let script = agent_script();
        let script =
            format!("TOP=$(git rev-parse --show-toplevel && printf x); TOP=${{TOP%?x}}; {script}");
        let run = run_in(self.env(), start, backend, &script).expect_code(0);
        let record: Value = run.json();
        let agent = only_agent(&record);
        assert_eq!(agent["integration"]["status"], "landed", "{agent:#}");
        assert_eq!(
            self.text("made by agent"),
            expected,
            "{backend} in {}: the agent saw something else",
            self.root().display()
        );
        self.delete("made by agent");
        assert_eq!(self.status(), status, "{backend}: something else changed");
        let workspace = agent["workspace"].as_str().unwrap_or_default();
        assert!(workspace.starts_with(backend), "{workspace}");
    }
}
