//! Plain files whose blocks are the parent's, on file systems that can.
//!
//! A disk image of our own is mounted for the time of a test. Who may not
//! mount, and every file system that cannot share blocks, is refused with a
//! reason.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use super::fixture::{Fixture, agent, put};
use crate::model::{ViewMode, WorkspaceChoice};
use crate::workspace::{Access, Backend, Error, Ground, Order, Snapshot, Stop, Workspace, choose};

const MIB: u64 = 1 << 20;

/// A file system in a file; unmounted and detached when it is dropped.
struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    /// `None` where this user may not mount.
    fn mounted(kind: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("because /tmp takes a directory");
        let (image, at) = (dir.path().join("image"), dir.path().join("at"));
        fs::create_dir(&at).expect("because it is ours");
        let file = fs::File::create(&image).expect("because it is ours");
        file.set_len(512 * MIB).expect("because it is sparse");
        let made = run(&format!("mkfs.{kind}"), &[&image]);
        assert!(made.status.success(), "{made:?}");
        let mount = run("mount", &[Path::new("-o"), Path::new("loop"), &image, &at]);
        if !rustix::process::geteuid().is_root() {
            assert!(!mount.status.success(), "only root may mount an image");
            return None;
        }
        assert!(mount.status.success(), "{mount:?}");
        Some(Self { dir })
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("at")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = run("umount", &[&self.path()]);
        if !unmounted.status.success() {
            // A test that failed may still hold a file.
            drop(run("umount", &[Path::new("-l"), &self.path()]));
        }
    }
}

fn run(program: &str, args: &[&Path]) -> Output {
    Command::new(program)
        .args(args)
        .env(
            "PATH",
            "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
        )
        .output()
        .expect("because the tools of the file systems are installed")
}

fn reflink(fixture: &Fixture, state: &Path) -> Result<(Arc<dyn Backend>, String), Error> {
    let repo = fixture.repo();
    let ground = Ground {
        repo: &repo,
        state,
        bases: &fixture.state.join("bases"),
        mode: ViewMode::InPlace,
        merges: Err("nothing is mounted"),
        warm: None,
    };
    choose(WorkspaceChoice::Reflink, ground)
}

fn create(fixture: &Fixture, taken: &Snapshot) -> Workspace {
    let (backend, reason) = reflink(fixture, &fixture.state).expect("because blocks are shared");
    assert_eq!(
        reason,
        "reflink: unchanged files share their blocks with the parent's"
    );
    let dir = fixture.agent_dir(1);
    fs::create_dir_all(&dir).expect("because it is ours");
    let order = Order {
        repo: &fixture.repo(),
        snapshot: taken,
        agent: &agent(1),
        dir: &dir,
        mode: ViewMode::InPlace,
        carry: &[],
        writer: Access::Writer,
        stop: Stop::NEVER,
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    backend.create(&order).expect("because it fits")
}

/// The blocks of a file that it shares with another, by what the kernel says.
fn shares_blocks(path: &Path) -> bool {
    let told = run("filefrag", &[Path::new("-v"), path]);
    String::from_utf8_lossy(&told.stdout).contains("shared")
}

fn settle(fixture: &Fixture) {
    // Files that are as young as the index are not believed.
    let index = fixture.top.join(".git/index");
    let later = index
        .metadata()
        .and_then(|metadata| metadata.modified())
        .expect("because it is there")
        + std::time::Duration::from_secs(2);
    fs::File::options()
        .write(true)
        .open(index)
        .and_then(|file| file.set_modified(later))
        .expect("because it is ours");
}

#[test]
fn copies_share_blocks_and_nothing_else() {
    for kind in ["xfs", "btrfs"] {
        let Some(disk) = Disk::mounted(kind) else {
            continue;
        };
        let fixture = Fixture::on(&disk.path());
        let big = vec![b'x'; 8 << 20];
        fixture.write_raw(b"src/big", &big);
        fixture.commit("big");
        settle(&fixture);
        fixture.write("a.txt", "edited\n");
        fixture.write("new", "untracked\n");
        let taken = fixture.snapshot();
        let workspace = create(&fixture, &taken);
        let tree = &workspace.tree;
        let (ours, theirs) = (tree.join("src/big"), fixture.top.join("src/big"));
        assert!(shares_blocks(&ours), "{kind}");
        let time = |path: &Path| {
            let metadata = path.metadata().expect("because it is there");
            (metadata.mtime(), metadata.mtime_nsec(), metadata.len())
        };
        assert_eq!(time(&ours), time(&theirs));
        let status = ["status", "--porcelain=v2", "-z", "--untracked-files=all"];
        assert_eq!(fixture.git_in(tree, &status), fixture.git(&status));
        assert_eq!(
            fixture.oracle_of(tree, &fixture.top.join(".git")),
            taken.tree
        );
        assert!(fixture.capture(&workspace).changes.is_empty());
        // What either side writes, the other does not see.
        let write = |path: &Path, text: &[u8]| {
            fs::File::options()
                .write(true)
                .open(path)
                .and_then(|file| file.write_all_at(text, 4096))
                .expect("because it is ours");
        };
        write(&ours, b"agent");
        assert!(fs::read(&theirs).is_ok_and(|bytes| bytes == big));
        write(&theirs, b"person");
        let read = fs::read(&ours).expect("because it is there");
        assert_eq!(&read[4096..4101], b"agent");
        assert_eq!(read[4101], b'x');
        put(tree, b"src/lib.rs", b"agent\n");
        let changes = fixture.capture(&workspace).changes;
        let mut paths: Vec<&str> = changes.changes.iter().map(|one| one.path.text()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["src/big", "src/lib.rs"]);
        crate::workspace::dispose(&workspace.dir).expect("because it is ours");
        assert!(!workspace.dir.exists());
    }
}

#[test]
fn a_parent_that_changes_after_the_snapshot_is_not_cloned() {
    for kind in ["xfs", "btrfs"] {
        let Some(disk) = Disk::mounted(kind) else {
            continue;
        };
        let fixture = Fixture::on(&disk.path());
        fixture.write("gone/file", "gone\n");
        fixture.commit("gone");
        settle(&fixture);
        let taken = fixture.snapshot();
        fixture.write("src/lib.rs", "pub fn two() {}\n");
        fixture.remove("run.sh");
        fixture.link("run.sh", "/etc/passwd");
        fs::remove_dir_all(fixture.top.join("gone")).expect("because it is there");
        fixture.link("gone", "/etc");
        let workspace = create(&fixture, &taken);
        let oracle = fixture.oracle_of(&workspace.tree, &fixture.top.join(".git"));
        assert_eq!(oracle, taken.tree, "{kind}");
    }
}

#[test]
fn a_file_system_that_shares_no_blocks_is_refused_with_the_reason() {
    let fixture = Fixture::new();
    let Some(disk) = Disk::mounted("ext4") else {
        return;
    };
    let other = Fixture::on(&disk.path());
    let why = |fixture: &Fixture, state: &Path| {
        let error = reflink(fixture, state).expect_err("because it cannot");
        assert!(error.is_usage());
        error.to_string()
    };
    assert!(why(&other, &other.state).contains("cannot share blocks between files"));
    assert!(why(&fixture, &other.state).contains("lies on another file system"));
}
