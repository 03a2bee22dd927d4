//! Owns the attempts on processes outside: signals, memory, order, secrets.

use cofferdam_sandbox::Layer;
use serde_json::json;

use crate::cage::{Cage, Kind, everywhere, in_views, without_a_view};
use crate::canary::Victim;
use crate::controls::bare;
use crate::setting::FIXTURE;

/// T21: no call signals a process outside, nor its group, nor by a socket that
/// is said to be owned by it.
#[test]
fn no_process_outside_is_signalled() {
    everywhere(|cage| {
        let mut victim = Victim::new(cage.setting);
        let pid = victim.pid();
        let mut attempts: Vec<_> = ["signal-thread", "signal-task", "queue", "signal-by-handle"]
            .iter()
            .map(|what| format!("{what}={pid}"))
            .collect();
        attempts.extend([9, 15, 19, 0].map(|number| format!("signal={pid},{number}")));
        attempts.push(format!("signal=-{pid},9"));
        cage.assert_denied(&attempts);
        victim.assert_alive();
        // Whether this one is denied, nobody is told.
        cage.outcomes(&[format!("signal-by-owner={pid}")]);
        victim.assert_alive();
    });
}

/// T21: what a command sends to its own group reaches its own alone; beside
/// it, signals among its own processes work.
#[test]
fn a_signal_to_its_group_stays_inside() {
    everywhere(|cage| {
        let script = "trap 'echo heard' USR1; kill -USR1 0; sleep 1000 & kill $!; wait $!; \
                      echo $?; kill -9 0";
        let result = cage.launch(&cage.policy(&["sh", "-c", script]));
        assert_eq!(
            (&result["stdout"], &result["signal"]),
            (&json!("heard\n143\n"), &json!(9)),
            "{:?}: {result}",
            cage.kind
        );
    });
}

/// T23: no process outside is traced, read, written, or bereft of descriptors;
/// nor is the cage's own first process, which holds the line to the launcher.
#[test]
fn no_process_outside_is_looked_into() {
    everywhere(|cage| {
        let mut victim = Victim::new(cage.setting);
        let before = victim.facts();
        let launcher = std::process::id();
        let targets = match cage.kind {
            Kind::View => vec![victim.pid(), launcher, 1],
            Kind::InPlace | Kind::Bare => vec![victim.pid(), launcher],
        };
        let attempts: Vec<_> = targets
            .iter()
            .flat_map(|pid| {
                let mut all: Vec<_> = ["seize", "read-memory", "write-memory", "steal-descriptor"]
                    .iter()
                    .map(|what| format!("{what}={pid}"))
                    .collect();
                all.extend([
                    format!("call={},16,{pid}", libc::SYS_ptrace),
                    format!("call={},{pid},{pid},0", libc::SYS_kcmp),
                    format!("read=/proc/{pid}/mem"),
                    format!("open-write=/proc/{pid}/mem"),
                    format!("read=/proc/{pid}/auxv"),
                ]);
                all
            })
            .collect();
        cage.assert_denied(&attempts);
        assert_eq!(victim.facts(), before);
        victim.assert_alive();
    });
}

fn order_of(pid: u32) -> Vec<String> {
    let mut attempts: Vec<_> = ["nice", "affinity", "scheduler", "ioprio", "rlimit"]
        .iter()
        .map(|what| format!("{what}={pid}"))
        .collect();
    attempts.extend([
        format!("put=/proc/{pid}/oom_score_adj,500"),
        format!("put=/proc/{pid}/coredump_filter,0"),
        format!("put=/proc/{pid}/timerslack_ns,1000000"),
        format!("put=/proc/{pid}/comm,changed"),
        format!("put=/proc/{pid}/clear_refs,1"),
        format!("call={},{pid},0", libc::SYS_setpgid),
    ]);
    attempts
}

/// Tries to order a process outside in every way, and asserts that it stays as it is.
fn keeps_others_in_order(cage: &Cage<'_>) {
    let mut victim = Victim::new(cage.setting);
    let before = victim.facts();
    cage.assert_denied(&order_of(victim.pid()));
    assert_eq!(victim.facts(), before);
    victim.assert_alive();
}

/// T24: no process outside gets another priority, processor, policy or limit.
#[test]
fn no_process_outside_is_put_in_another_order() {
    in_views(keeps_others_in_order);
}

/// T24: its own processes a command may order as it likes.
#[test]
fn its_own_processes_can_be_put_in_another_order() {
    everywhere(|cage| {
        cage.assert_works(
            &["nice", "affinity", "scheduler", "ioprio"].map(|what| format!("{what}=0")),
        );
    });
}

/// T24: nothing makes its own processes more important than they were.
#[test]
fn no_process_raises_itself() {
    everywhere(|cage| {
        cage.assert_denied(&[
            format!("call={},0,0,-5", libc::SYS_setpriority),
            // The class that comes before all others.
            format!("call={},1,0,{}", libc::SYS_ioprio_set, 1 << 13),
            "realtime=0".to_owned(),
        ]);
    });
}

/// T25: the environment, the command line and the memory of processes outside
/// are not there; what a command is told of itself is.
#[test]
fn no_environment_outside_is_read() {
    everywhere(|cage| {
        let mut victim = Victim::new(cage.setting);
        let pid = victim.pid();
        let secret = [
            "environ",
            "maps",
            "smaps",
            "stack",
            "syscall",
            "io",
            "personality",
        ];
        let attempts: Vec<_> = secret
            .iter()
            .map(|name| format!("read=/proc/{pid}/{name}"))
            .collect();
        cage.assert_denied(&attempts);
        victim.assert_alive();
        cage.assert_works(
            &["environ", "maps", "cmdline"].map(|name| format!("read=/proc/self/{name}")),
        );
    });
}

/// T25: in a view of its own a command sees no process but its own.
#[test]
fn no_process_outside_is_listed() {
    in_views(|cage| {
        let script = "for p in /proc/[0-9]*; do echo \"${p#/proc/}\"; done | sort -n | tail -n 1";
        let result = cage.launch(&cage.policy(&["sh", "-c", script]));
        let last: u32 = result["stdout"].as_str().unwrap().trim().parse().unwrap();
        assert!(last < 20, "{result}");
        let pid = std::process::id();
        cage.assert_denied(&[
            format!("stat=/proc/{pid}/cmdline"),
            format!("read=/proc/{pid}/stat"),
        ]);
    });
}

/// Attempts on memory that the host shares by a key; what it holds then.
fn attempts_on_shared_memory(cage: &Cage<'_>) -> (Vec<String>, String) {
    let key = 0x00CA_6E00_u32 + std::process::id() % 0x8000 * 2 + cage.setting.who as u32;
    let on = |what: &str| format!("{what}={key}");
    assert_eq!(bare(cage.setting, &[on("shared-make")]), ["ok"]);
    let outcomes = cage.outcomes(&["shared-look", "shared-write", "shared-remove"].map(on));
    let left = bare(cage.setting, &[on("shared-look")]).remove(0);
    // Gone already where the attempt succeeded.
    bare(cage.setting, &[on("shared-remove")]);
    (outcomes, left)
}

/// T17: memory that processes outside share by a key is neither read nor
/// written nor taken away.
#[test]
fn no_memory_that_others_share_is_reached() {
    in_views(|cage| {
        let (outcomes, left) = attempts_on_shared_memory(cage);
        assert_eq!(left, "precious");
        assert_eq!(outcomes, ["2", "2", "2"]);
    });
}

/// T26: no input is put into a terminal, whatever the upper half of the number
/// says; a terminal of one's own can be had.
#[test]
fn no_terminal_gets_input() {
    everywhere(|cage| {
        let requests = [0x5412_i64, 0x541C];
        let attempts: Vec<_> = requests
            .iter()
            .flat_map(|request| [*request, request | 1 << 32, request | 0x7FFF_FFFF << 32])
            .map(|request| format!("call={},0,{request}", libc::SYS_ioctl))
            .collect();
        assert_eq!(cage.outcomes(&attempts), vec!["1"; attempts.len()]);
    });
}

/// T23 on a machine whose Landlock has no scopes yet: signals are held by the
/// PID namespace alone.
#[test]
fn signals_are_held_by_one_layer_alone() {
    in_views(|cage| {
        let mut victim = Victim::new(cage.setting);
        let pid = victim.pid();
        let mut policy = cage.policy(&[
            FIXTURE,
            "try",
            &format!("signal={pid},9"),
            &format!("signal-by-owner={pid}"),
            &format!("signal-by-handle={pid}"),
        ]);
        policy.waived.insert(Layer::Landlock);
        policy.required.remove(&Layer::Landlock);
        let outcomes = cage.outcomes_of(&policy);
        assert!(outcomes[0] != "ok" && outcomes[2] != "ok", "{outcomes:?}");
        victim.assert_alive();
    });
}

/// T24 without a view: the same, although procfs and numbers are the host's.
#[test]
fn no_process_of_a_shared_namespace_is_put_in_another_order() {
    without_a_view(keeps_others_in_order);
}

/// T17 without a view: memory that others share by a key is out of reach, or
/// the report tells that it is not.
#[test]
fn memory_that_others_share_is_out_of_reach_or_told() {
    without_a_view(|cage| {
        let (outcomes, left) = attempts_on_shared_memory(cage);
        let result = cage.launch(&cage.policy(&["true"]));
        let told = result["enforcement"]["holes"]
            .as_array()
            .unwrap_or_else(|| panic!("{result}"))
            .iter()
            .any(|hole| hole.as_str().unwrap().contains("shared memory"));
        assert!(
            told || left == "precious",
            "{:?}: {outcomes:?}, {left}",
            cage.kind
        );
    });
}
