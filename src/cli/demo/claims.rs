//! What the demo claims, and how each claim is checked.
//!
//! A claim is text and whether it holds; it is made from the state of files,
//! refs, processes and sockets, never from what an agent or the record says
//! alone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::sample::{CANARY, CHANGED, LAST_WORDS, SECRET, Sample};
use crate::cli::failure::Failure;
use crate::executor::Executor;
use crate::model::{AgentRecord, IntegrationStatus, RunRecord};

/// One claim.
pub(super) struct Claim {
    pub(super) text: String,
    pub(super) holds: bool,
}

/// The claims so far.
#[derive(Default)]
pub(super) struct Claims {
    open: Vec<Claim>,
    failed: usize,
}

impl Claims {
    fn claim(&mut self, text: impl Into<String>, holds: bool) {
        self.failed += usize::from(!holds);
        self.open.push(Claim {
            text: text.into(),
            holds,
        });
    }

    /// The claims that were not told yet.
    pub(super) fn take(&mut self) -> Vec<Claim> {
        std::mem::take(&mut self.open)
    }

    /// How many did not hold.
    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    /// The results that belong in the tree are there.
    pub(super) fn merged(&mut self, sample: &Sample, record: &RunRecord, heard: &str) {
        let menu = sample.read("src/menu.txt");
        self.claim(
            "two agents edited src/menu.txt at once, and both edits are in it",
            menu.contains("dish 2: oysters\n")
                && menu.contains("dish 19: lemon cake\n")
                && menu.lines().count() == 20,
        );
        self.claim(
            "docs/ was written by one agent and moved by the next, which started only after that had landed",
            sample.read("handbook/guide.md").contains("oysters") && !sample.repository().join("docs").exists(),
        );
        let test = sample.repository().join("tests/menu.sh");
        let executable =
            fs::metadata(&test).is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
        let committed = heard.contains("tests|Add a test\n");
        self.claim(
            "a test was added with its execute bit; the commit its agent made stayed out of your branch",
            executable
                && committed
                && sample.git(&["rev-list", "--count", "main"]).trim() == "1",
        );
        self.claim(
            "your own edits are as you left them: README.md edited, notes.txt untracked",
            sample.read("README.md").contains("Edited, not committed.")
                && sample
                    .git(&["status", "--porcelain", "notes.txt"])
                    .starts_with("??"),
        );
        self.claim(
            "your index holds nothing that you did not put there",
            sample.git(&["diff", "--cached", "--name-only"]).is_empty(),
        );
        let lamp = sample.read("config.ini");
        let red = agent(record, "red-lamp").map(|agent| agent.integration.status);
        let green = agent(record, "green-lamp");
        self.claim(
            "the first lamp landed, the second conflicts and is held: config.ini has one colour and no markers",
            lamp.contains("red") && !lamp.contains("green") && !lamp.contains("<<<<") && red == Some(IntegrationStatus::Landed),
        );
        let kept = green
            .and_then(|agent| agent.result.reference.clone())
            .unwrap_or_default();
        self.claim(
            "the held result is kept under a ref of its own",
            !kept.is_empty()
                && sample
                    .git(&["show", &format!("{kept}:config.ini")])
                    .contains("green"),
        );
    }

    /// Nothing stands in the tree but what the others made, although the
    /// intruder came to its last line.
    pub(super) fn alone(&mut self, sample: &Sample, heard: &str) {
        let status = sample.git(&["status", "--porcelain=v1", "-uall"]);
        self.claim(
            "the intruder came to its last line, and no path is changed but those of the others and your own",
            heard.contains(&format!("intruder|{LAST_WORDS}\n"))
                && status.lines().collect::<Vec<_>>() == CHANGED,
        );
    }

    /// What the intruder tried did not happen.
    pub(super) fn escapes(&mut self, sample: &mut Sample, heard: &str) {
        let canary = sample.canary();
        self.claim(
            "overwriting a file outside: the file reads as before",
            fs::read_to_string(&canary).is_ok_and(|text| text == CANARY),
        );
        self.claim(
            "changing its mode: it is 0644 as before",
            fs::metadata(&canary).is_ok_and(|data| data.permissions().mode() & 0o7777 == 0o644),
        );
        self.claim(
            "reading ~/.ssh and a token of the environment: neither was heard in any agent's output",
            !heard.contains(SECRET) && heard.contains("intruder|token: \n"),
        );
        self.claim(
            "planting a hook: the repository's hooks are as before",
            sample.hooks_unchanged(),
        );
        let config = sample.git(&["config", "--list", "--local"]);
        self.claim(
            "planting a program in git's config: the repository's config does not name it",
            config.contains("user.name") && !config.contains("fsmonitor"),
        );
        let victim = sample.victim();
        self.claim(
            format!("killing process {victim}, one of yours: it still answers, and ended when it was told to"),
            sample.victim_answers(),
        );
        // Where there is no loopback there is nothing to claim.
        if let Some(reached) = sample.was_reached() {
            self.claim("connecting to a port of the host: nobody came", !reached);
        }
        self.claim(
            "leaving a process behind: none is left",
            processes_under(sample.root()).is_empty(),
        );
    }

    /// Nothing is left but what is listed, and after `gc` not even that.
    pub(super) fn left(&mut self, sample: &Sample, executor: &Executor) -> Result<(), Failure> {
        let worktrees = sample.git(&["worktree", "list", "--porcelain"]);
        self.claim(
            "no worktree but your own is registered",
            worktrees.matches("worktree ").count() == 1,
        );
        self.claim(
            "nothing is mounted on the host",
            fs::read_to_string("/proc/self/mountinfo")
                .is_ok_and(|mounts| !mounts.contains(&*sample.root().to_string_lossy())),
        );
        self.claim(
            "no run, workspace or lease is left",
            executor
                .state()
                .list_runs()
                .is_ok_and(|runs| runs.is_empty()),
        );
        let refs = sample.git(&["for-each-ref", "--format=%(refname)", "refs/cofferdam/"]);
        let count = refs.lines().count();
        let repo = executor.repository(&sample.repository())?;
        let reclaimed = executor.reclaim(Some(&repo), Duration::ZERO)?;
        let after = sample.git(&["for-each-ref", "--format=%(refname)", "refs/cofferdam/"]);
        self.claim(
            format!("{count} results were kept under refs, for 7 days; `cofferdam gc --older 0s` took them away"),
            count > 0 && after.is_empty() && reclaimed.left.is_empty(),
        );
        self.claim(
            "the repository is sound: git fsck agrees",
            sample
                .git(&["fsck", "--strict", "--no-dangling"])
                .trim()
                .is_empty(),
        );
        Ok(())
    }
}

fn agent<'a>(record: &'a RunRecord, name: &str) -> Option<&'a AgentRecord> {
    record.agents.iter().find(|agent| agent.name == name)
}

/// Processes that stand in the demo's directory, by their current directory or
/// their environment, other than this one.
fn processes_under(root: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let needle = root.as_os_str().as_encoded_bytes();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            let place = Path::new("/proc").join(pid.to_string());
            let stands = fs::read_link(place.join("cwd")).is_ok_and(|cwd| cwd.starts_with(root));
            let carries = fs::read(place.join("environ"))
                .is_ok_and(|text| text.windows(needle.len()).any(|part| part == needle));
            stands || carries
        })
        .collect()
}
