//! Whether an agent gets exactly the parent's bytes, and gives its own back.
//!
//! Owns one script that lists a working tree with the hashes of its files,
//! run outside by the test and inside as an agent, for every backend. Knows
//! nothing of how a workspace is made.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Repo, Run, TestEnv, only_agent};

/// The backends that have to give the same, the best first, which is the order
/// in which `auto` takes them; a new one is a line here. Each with shell that
/// tries in an empty directory, without the program, whether the machine has
/// what it stands on.
pub(crate) const BACKENDS: [(&str, &str); 3] = [
    ("overlay", MERGES),
    ("reflink", "echo x > a && cp --reflink=always a b"),
    ("checkout", "true"),
];

/// Merges two directories as whoever this is may: an ordinary user in a
/// namespace of his own, with attributes that he may set.
const MERGES: &str = r#"
mkdir lower upper work merged || exit 90
if [ "$(id -u)" = 0 ]; then own=; more=; else own=--map-root-user; more=,userxattr; fi
unshare $own --mount mount -t overlay none \
  -o "lowerdir=lower,upperdir=upper,workdir=work$more" merged
"#;

/// Whether the machine has what a backend stands on, where the test lies.
pub(crate) fn is_to_be_had(env: &TestEnv, trial: &str) -> bool {
    let place = env.root().join("trial");
    env.make_dir(&place);
    let mut command = env.command("sh");
    command.args(["-c", trial]).current_dir(&place);
    let code = env.finish(&mut command).code;
    fs::remove_dir_all(&place).expect("because what is merged goes with its namespace");
    code == 0
}

/// The backends that work here; that the others are refused is a test of its
/// own.
pub(crate) fn backends(env: &TestEnv) -> Vec<&'static str> {
    BACKENDS
        .into_iter()
        .filter(|(_, trial)| is_to_be_had(env, trial))
        .map(|(name, _)| name)
        .collect()
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
        for backend in backends(self.env()) {
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
