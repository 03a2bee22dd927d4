//! A machine like the inside of a container.
//!
//! Owns: where no namespace can be made and nothing mounted, as root with few
//! capabilities and as an ordinary user, with the state directory on a disk in
//! memory or on a merged one, nothing starts until what nothing holds there is
//! given up by name; then agents get the parent's bytes in plain files, what
//! they make lands, and nothing is left.

use crate::support::{Run, TestEnv, only_agent, only_apart, text};

/// Who runs the program in there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inhabitant {
    /// Root with what container engines leave him.
    Root,
    /// Somebody else, without any capability.
    Ordinary,
}

/// Puts the state directory on a disk in memory, or on a merged one.
const GROUNDS: [&str; 2] = [
    "mount -t tmpfs -o mode=755 none \"$COFFERDAM_STATE_DIR\"",
    "mount -t tmpfs none \"$COFFERDAM_STATE_DIR\"; cd \"$COFFERDAM_STATE_DIR\"; \
     mkdir lower upper work; mount -t overlay none \
     -o lowerdir=lower,upperdir=upper,workdir=work,userxattr \"$COFFERDAM_STATE_DIR\"",
];

/// What engines leave to root.
const KEPT: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,\
                    +net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";

/// What nothing holds without namespaces and mounts.
const UNHELD: [&str; 2] = ["no_metadata_change_outside", "no_host_sockets"];

/// Runs the program in there, and takes away what it left before the
/// directory of its state goes with the mounts.
fn inside(env: &TestEnv, who: Inhabitant, ground: &str, arguments: &[&str]) -> Run {
    // The count of namespaces is this user namespace's own, so the machine's
    // stays what it is.
    let apart = only_apart("user");
    let (count, become_) = match who {
        Inhabitant::Root => (
            0,
            format!("setpriv --bounding-set={KEPT} --inh-caps=-all --"),
        ),
        Inhabitant::Ordinary => (1, "unshare --user --map-user=1000 --map-group=1000".into()),
    };
    let script = format!(
        "{apart}\nset -e; here=$PWD; {ground}; cd \"$here\"\n\
         echo {count} > /proc/sys/user/max_user_namespaces\n\
         exec {become_} sh -c '! unshare --user true 2>/dev/null || exit 95
         ! unshare --mount true 2>/dev/null || exit 94
         code=0; \"$@\" || code=$?
         \"$1\" gc --older 0s >/dev/null 2>&1 || exit 93
         for place in runs trash bases; do
           test -z \"$(ls -A \"$COFFERDAM_STATE_DIR/$place\" 2>/dev/null)\" || exit 92
         done
         exit $code' sh \"$@\""
    );
    env.make_dir(&env.state());
    let mut command = env.command("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "--", "sh", "-c"])
        .args([&script, "sh"])
        .arg(env.program_path())
        .args(arguments)
        .current_dir(env.root().join("repo"));
    env.finish(&mut command)
}

fn in_each(case: impl Fn(&TestEnv, &dyn Fn(&[&str]) -> Run)) {
    for who in [Inhabitant::Root, Inhabitant::Ordinary] {
        for ground in GROUNDS {
            for env in TestEnv::identities() {
                case(&env, &|arguments| inside(&env, who, ground, arguments));
            }
        }
    }
}

#[test]
fn nothing_starts_in_a_container_before_what_nothing_holds_is_given_up() {
    in_each(|env, inside| {
        let repo = env.repo();
        let before = repo.print();
        let script = ["--", "sh", "-c", "echo > n.txt"];
        let error = inside(&[&["run", "--json"], &script[..]].concat()).expect_error(4);
        for name in UNHELD {
            assert!(text(&error, "message").contains(name), "{error:#}");
        }
        for backend in ["overlay", "reflink"] {
            let run = ["run", "--json", "--workspace", backend];
            let waived = UNHELD.map(|name| ["--allow-degraded", name]).concat();
            let error = inside(&[&run[..], &waived, &script].concat()).expect_error(2);
            assert!(text(&error, "message").contains(backend), "{error:#}");
        }
        before.expect_same(&repo.print());
    });
}

#[test]
fn an_agent_in_a_container_gets_the_same_bytes_and_its_changes_land() {
    in_each(|env, inside| {
        let repo = env.repo();
        repo.edit("b.txt", "b 2", "uncommitted");
        repo.write("new.txt", "untracked\n");
        repo.delete("docs/guide.md");
        let waived = UNHELD.map(|name| ["--allow-degraded", name]).concat();
        let script = "set -e; test \"$(git status --porcelain | tr -d '\\n')\" = \
                      ' M b.txt D docs/guide.md?? new.txt'; grep -q uncommitted b.txt; \
                      sed -i 's/a 9/agent 9/' a.txt; git add -A; git commit -qm inside; \
                      mkdir deep; echo made > deep/n.txt; rm new.txt; exit 0";
        let run = ["run", "--json"];
        let record = inside(&[&run[..], &waived, &["--", "sh", "-c", script]].concat());
        let record = record.expect_code(0).json();
        let agent = only_agent(&record);
        assert_eq!(agent["integration"]["status"], "landed", "{agent:#}");
        let workspace = text(agent, "workspace");
        let chosen = "checkout: plain files work on any file system and kernel; \
                      no overlay: no mounts can be made here; no reflink: ";
        assert!(workspace.starts_with(chosen), "{workspace}");
        for name in UNHELD {
            assert_eq!(agent["guarantees"][name], serde_json::json!([]));
        }
        assert!(repo.text("a.txt").contains("agent 9"));
        assert_eq!(repo.text("deep/n.txt"), "made\n");
        assert_eq!(
            repo.status(),
            " M a.txt\n M b.txt\n D docs/guide.md\n?? deep/n.txt\n"
        );
        assert!(!repo.has("new.txt") && !repo.has("docs/guide.md"));
    });
}
