//! Owns the tests of what a confined command cannot do, and of what it must be able to.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use cofferdam_sandbox::{
    Access, FileRule, Layer, Limits, Mount, Network, Policy, Rights, ViewMode,
};
use serde_json::{Value, json};

use crate::setting::{
    FIXTURE, Setting, as_everyone, assert_all_denied, assert_all_work, attempt, bind, rule, tmpfs,
};

#[test]
fn changes_nothing_outside() {
    as_everyone(|setting| {
        let (precious, outside, work) = (setting.precious(), setting.outside(), setting.work());
        let before = fs::metadata(&precious).unwrap();
        let attempts = [
            attempt("write", &[&precious]),
            attempt("open-write", &[&precious]),
            attempt("truncate", &[&precious]),
            attempt("unlink", &[&precious]),
            attempt("mkdir", &[&outside.join("made")]),
            attempt("rename", &[&precious, &work.join("taken")]),
            attempt("rename", &[&work, &outside.join("moved")]),
            attempt("link", &[&precious, &work.join("linked")]),
            attempt("symlink", &[&work, &outside.join("link")]),
            attempt("chmod", &[&precious]),
            attempt("utimes", &[&precious]),
        ];
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
        assert!(setting.unharmed());
        let after = fs::metadata(&precious).unwrap();
        assert_eq!(
            (before.permissions(), before.modified().unwrap()),
            (after.permissions(), after.modified().unwrap())
        );
    });
}

#[test]
fn reads_nothing_without_a_rule() {
    as_everyone(|setting| {
        let attempts = [
            attempt("read", &[&setting.precious()]),
            attempt("list", &[&setting.outside()]),
            attempt("list", &[Path::new("/")]),
        ];
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
    });
}

#[test]
fn follows_no_link_out() {
    as_everyone(|setting| {
        let link = setting.work().join("link");
        std::os::unix::fs::symlink(setting.precious(), &link).unwrap();
        let attempts = [
            attempt("read", &[&link]),
            attempt("write", &[&link]),
            attempt(
                "read",
                &[&Path::new("/proc/self/root")
                    .join(setting.precious().strip_prefix("/").unwrap())],
            ),
        ];
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
        assert!(setting.unharmed());
    });
}

#[test]
fn works_freely_inside() {
    as_everyone(|setting| {
        let path = |name: &str| setting.work().join(name);
        for name in ["a", "b"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("a/file"), "text").unwrap();
        setting.own();
        let script = format!(
            "set -e; {FIXTURE} try write=new > /dev/null; mv a/file b/file; ln b/file a/link; mv b a/b; \
             ln -s a s; chmod 700 a; touch a/t; rm new; echo ok > /dev/null; echo done"
        );
        let result = setting.launch("launch", &setting.policy(&["sh", "-c", &script]));
        assert_eq!(result["stdout"], "done\n", "{result}");
        assert_eq!(fs::read(path("a/b/file")).unwrap(), b"text");
        assert_eq!(fs::read(path("a/link")).unwrap(), b"text");
    });
}

#[test]
fn has_pairs_terminals_and_shared_memory() {
    as_everyone(|setting| {
        let name = format!("cage-{}", std::process::id());
        let shared = Path::new("/dev/shm").join(&name);
        let attempts = [
            "pair".to_owned(),
            "pty".to_owned(),
            attempt("write", &[&shared]),
        ];
        let mut policy = setting.attempts(&attempts);
        for path in ["/dev/ptmx", "/dev/pts"] {
            policy.files.push(rule(Path::new(path), Rights::Device));
        }
        policy
            .files
            .push(rule(Path::new("/dev/shm"), Rights::ReadWrite));
        assert_all_work(&attempts, &setting.outcomes(&policy));
        assert!(!shared.exists(), "shared memory is the host's");
    });
}

#[test]
fn reaches_no_process_outside() {
    as_everyone(|setting| {
        let pid = std::process::id();
        let attempts = [
            format!("kill={pid}"),
            format!("call={},{pid},0", libc::SYS_pidfd_open),
            format!("call={},16,{pid}", libc::SYS_ptrace),
            format!("call={},{pid}", libc::SYS_getpgid),
            format!("call={},0,{pid}", libc::SYS_getpriority),
            format!("read=/proc/{pid}/environ"),
            format!("list=/proc/{pid}/root"),
            // Its own init: a process outside its rules.
            "kill=1".to_owned(),
            "read=/proc/1/environ".to_owned(),
            "list=/proc/1/root".to_owned(),
            "open-write=/proc/1/mem".to_owned(),
        ];
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
    });
}

#[test]
fn reaches_no_network() {
    as_everyone(|setting| {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let name = format!("cage-{}-{:?}", std::process::id(), setting.who);
        let unnamed =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let path = setting.outside().join("socket");
        let named = UnixListener::bind(&path).unwrap();
        setting.own();
        let attempts = [
            format!("tcp={}", tcp.local_addr().unwrap()),
            format!("udp={}", udp.local_addr().unwrap()),
            format!("abstract={name}"),
            attempt("unix", &[&path]),
        ];
        let mut policy = setting.attempts(&attempts);
        policy
            .view
            .mounts
            .push(tmpfs(&setting.outside(), Access::ReadOnly));
        assert_all_denied(&attempts, &setting.outcomes(&policy));
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        unnamed.set_nonblocking(true).unwrap();
        named.set_nonblocking(true).unwrap();
        assert!(tcp.accept().is_err() && unnamed.accept().is_err() && named.accept().is_err());
        assert!(udp.recv(&mut [0; 8]).is_err());
    });
}

#[test]
fn reaches_the_network_when_it_is_open() {
    as_everyone(|setting| {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("open-{}-{:?}", std::process::id(), setting.who);
        let _unnamed =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let attempts = [
            format!("tcp={}", tcp.local_addr().unwrap()),
            format!("abstract={name}"),
        ];
        let mut policy = setting.attempts(&attempts);
        policy.network = Network::Open;
        policy.required.remove(&Layer::Network);
        // The abstract socket stays out of reach by Landlock's scope.
        assert_eq!(setting.outcomes(&policy), ["ok", "1"]);
    });
}

#[test]
fn refuses_rare_families_of_sockets() {
    as_everyone(|setting| {
        let attempts: Vec<_> = [
            (libc::AF_PACKET, 3, 0),
            (libc::AF_VSOCK, 1, 0),
            (libc::AF_ALG, 5, 0),
            (libc::AF_BLUETOOTH, 3, 0),
            (libc::AF_KEY, 3, 2),
            (libc::AF_NETLINK, 3, libc::NETLINK_AUDIT),
            (libc::AF_NETLINK, 3, libc::NETLINK_KOBJECT_UEVENT),
        ]
        .iter()
        .map(|(family, kind, protocol)| format!("socket={family},{kind},{protocol}"))
        .collect();
        let outcomes = setting.outcomes(&setting.attempts(&attempts));
        assert_eq!(outcomes, vec!["1"; attempts.len()]);
        let route = [
            format!("socket={},3,0", libc::AF_NETLINK),
            format!("socket={},1,0", libc::AF_UNIX),
        ];
        assert_all_work(&route, &setting.outcomes(&setting.attempts(&route)));
    });
}

#[test]
fn has_no_privilege() {
    as_everyone(|setting| {
        let result = setting.launch("launch", &setting.policy(&["cat", "/proc/self/status"]));
        let status: BTreeMap<_, _> = result["stdout"]
            .as_str()
            .unwrap()
            .lines()
            .filter_map(|line| line.split_once(":\t"))
            .collect();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status[set], "0000000000000000", "{set}");
        }
        assert_eq!((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"));
    });
}

#[test]
fn writes_no_switch_of_the_kernel() {
    as_everyone(|setting| {
        let attempts = [
            "open-write=/proc/sys/kernel/core_pattern",
            "open-write=/proc/sys/fs/protected_hardlinks",
            "open-write=/proc/sys/vm/drop_caches",
            "open-write=/proc/self/uid_map",
            "open-write=/sys/kernel/mm/ksm/run",
        ]
        .map(str::to_owned);
        // A rule for all of it, so that what denies is the mount.
        let mut policy = setting.attempts(&attempts[..3]);
        policy
            .files
            .push(rule(Path::new("/proc/sys"), Rights::ReadWrite));
        assert_all_denied(&attempts[..3], &setting.outcomes(&policy));
        assert_all_denied(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
    });
}

#[test]
fn denies_dangerous_calls() {
    as_everyone(|setting| {
        let namespaces = [
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWNS,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWNET,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWUTS,
            libc::CLONE_NEWCGROUP,
        ];
        let mut attempts: Vec<_> = namespaces
            .iter()
            .map(|flag| format!("call={},{flag}", libc::SYS_clone))
            .collect();
        attempts.extend(
            namespaces
                .iter()
                .map(|flag| format!("call={},{flag}", libc::SYS_unshare)),
        );
        for number in [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_mount_setattr,
            libc::SYS_setns,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_kcmp,
            libc::SYS_pidfd_getfd,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_swapon,
            libc::SYS_reboot,
            libc::SYS_settimeofday,
            libc::SYS_sethostname,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_fanotify_init,
            libc::SYS_syslog,
            libc::SYS_open_by_handle_at,
        ] {
            attempts.push(format!("call={number}"));
        }
        attempts.push(format!("call={},{}", libc::SYS_personality, 0x004_0000));
        // With upper bits that a careless comparison overlooks.
        let input = i64::try_from(libc::TIOCSTI).unwrap();
        attempts.push(format!("call={},0,{input}", libc::SYS_ioctl));
        attempts.push(format!("call={},0,{}", libc::SYS_ioctl, input | 1 << 40));
        let outcomes = setting.outcomes(&setting.attempts(&attempts));
        let wrong: Vec<_> = attempts
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| *outcome != "1")
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

#[test]
fn hides_calls_that_no_filter_can_see() {
    as_everyone(|setting| {
        let mut attempts = vec![format!("call={}", libc::SYS_clone3)];
        if cfg!(target_arch = "x86_64") {
            attempts.push(format!("call={}", 0x4000_0000 | 39)); // getpid of the x32 table
        }
        let outcomes = setting.outcomes(&setting.attempts(&attempts));
        assert_eq!(outcomes, vec![libc::ENOSYS.to_string(); attempts.len()]);
        let fine = [format!(
            "call={},{}",
            libc::SYS_personality,
            0xFFFF_FFFF_i64
        )];
        assert_all_work(&fine, &setting.outcomes(&setting.attempts(&fine)));
    });
}

#[test]
fn inherits_no_descriptor() {
    // The launcher leaks one on purpose.
    as_everyone(|setting| {
        let attempts = ["descriptors".to_owned()];
        assert_all_work(&attempts, &setting.outcomes(&setting.attempts(&attempts)));
    });
}

#[test]
fn has_exactly_the_environment_given() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&[FIXTURE, "environ"]);
        policy.command.env = vec![("ONE".into(), "1".into()), ("TWO".into(), "a=b c\n".into())];
        let result = setting.launch("launch", &policy);
        let environ: Value = serde_json::from_str(result["stdout"].as_str().unwrap()).unwrap();
        assert_eq!(environ, json!({ "ONE": "1", "TWO": "a=b c\n" }));
    });
}

#[test]
fn shows_a_bind_inside_a_hidden_directory() {
    as_everyone(|setting| {
        // The whole root is hidden; the work is shown at a place that the host
        // has not, and a file with a rule comes back by itself.
        let hidden = setting.root.path();
        let shown = hidden.join("new/place");
        let mut policy = setting.policy(&[
            "sh",
            "-c",
            &format!(
                "ls {0}; cat {1}; ls {0}/new; echo x > made",
                hidden.display(),
                setting.precious().display()
            ),
        ]);
        policy.command.cwd = shown.clone().into();
        policy.view.mounts = vec![
            tmpfs(hidden, Access::ReadOnly),
            bind(&setting.work(), &shown, Access::ReadWrite),
        ];
        policy
            .files
            .retain(|rule: &FileRule| rule.path.as_ref() as &Path != setting.work());
        policy.files.push(rule(&shown, Rights::ReadWrite));
        policy.files.push(rule(&setting.precious(), Rights::Read));
        policy.files.push(rule(hidden, Rights::Read));
        let result = setting.launch("launch", &policy);
        assert_eq!(
            result["stdout"], "new\noutside\npreciousplace\n",
            "{result}"
        );
        assert_eq!(fs::read(setting.work().join("made")).unwrap(), b"x\n");
        assert!(
            setting.unharmed() && !shown.exists(),
            "the host's directory changed"
        );
    });
}

#[test]
fn keeps_a_directory_read_only_inside_a_writable_one() {
    as_everyone(|setting| {
        let kept = setting.work().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "text").unwrap();
        setting.own();
        let attempts = [
            attempt("write", &[&kept.join("file")]),
            attempt("chmod", &[&kept.join("file")]),
            attempt("rename", &[&kept, &setting.work().join("aside")]),
        ];
        let mut policy = setting.attempts(&attempts);
        policy
            .view
            .mounts
            .push(bind(&kept, &kept, Access::ReadOnly));
        assert_all_denied(&attempts, &setting.outcomes(&policy));
        assert_eq!(fs::read(kept.join("file")).unwrap(), b"text");
    });
}

#[test]
fn writes_where_a_rule_says_so_without_a_mount() {
    as_everyone(|setting| {
        let attempts = [attempt("write", &[&setting.work().join("file")])];
        let mut policy = setting.attempts(&attempts);
        policy.view.mounts.clear();
        assert_all_work(&attempts, &setting.outcomes(&policy));
    });
}

#[test]
fn holds_without_namespaces_and_mounts() {
    as_everyone(|setting| {
        let pid = std::process::id();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let attempts = [
            attempt("write", &[&setting.precious()]),
            attempt("read", &[&setting.precious()]),
            format!("kill={pid}"),
            format!("list=/proc/{pid}/root"),
            "open-write=/proc/sys/kernel/core_pattern".to_owned(),
            format!("tcp={}", tcp.local_addr().unwrap()),
        ];
        let mut policy = setting.attempts(&attempts);
        policy.view.mode = ViewMode::InPlace;
        policy.view.mounts.clear();
        policy.waived.insert(Layer::Namespaces);
        policy.required = [Layer::Landlock, Layer::Seccomp].into();
        assert_all_denied(&attempts, &setting.outcomes(&policy));
        let result = setting.launch("launch", &policy);
        assert_eq!(result["emptied"], "subreaper-swept");
        assert_eq!(
            result["enforcement"]["layers"]["mounts"]["status"],
            "absent"
        );
        assert_eq!(
            result["enforcement"]["layers"]["namespaces"]["status"],
            "waived"
        );
        assert!(setting.unharmed());
    });
}

#[test]
fn sets_limits_and_calls_them_partial() {
    as_everyone(|setting| {
        let mut policy =
            setting.policy(&["sh", "-c", "ulimit -n; ulimit -t; ulimit -c; ulimit -f"]);
        policy.limits = Limits {
            open_files: Some(64),
            cpu_seconds: Some(7),
            file_bytes: Some(1 << 20),
            memory_bytes: Some(1 << 32),
            processes: Some(50),
        };
        let result = setting.launch("launch", &policy);
        assert_eq!(result["stdout"], "64\n7\n0\n2048\n", "{result}");
        assert_eq!(
            result["enforcement"]["layers"]["limits"]["status"],
            "partial"
        );
    });
}

#[test]
fn bounds_a_private_directory() {
    as_everyone(|setting| {
        let private = setting.work().join("private");
        fs::create_dir(&private).unwrap();
        setting.own();
        let mut policy = setting.policy(&[
            "sh",
            "-c",
            "head -c 4000000 /dev/zero > private/big; wc -c < private/big",
        ]);
        policy.view.mounts.push(Mount::Tmpfs {
            target: private.clone().into(),
            access: Access::ReadWrite,
            bytes: 1 << 16,
        });
        policy
            .files
            .push(rule(Path::new("/dev/zero"), Rights::Device));
        let result = setting.launch("launch", &policy);
        assert_eq!(result["stdout"], "65536\n", "{result}");
        assert_eq!(fs::read_dir(&private).unwrap().count(), 0);
    });
}

#[test]
fn makes_no_mount_on_the_host() {
    as_everyone(|setting| {
        let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut policy = setting.policy(&["true"]);
        policy
            .view
            .mounts
            .push(tmpfs(&setting.outside(), Access::ReadOnly));
        assert_eq!(setting.launch("launch", &policy)["code"], 0);
        assert_eq!(before, fs::read_to_string("/proc/self/mountinfo").unwrap());
    });
}

#[test]
fn holds_on_a_machine_without_namespaces() {
    // A cage is such a machine: its filter forbids them.
    as_everyone(|setting| {
        let attempts = [
            attempt("write", &[&setting.precious()]),
            attempt("read", &[&setting.precious()]),
            "tcp-listen=127.0.0.1:0".to_owned(),
            "udp=127.0.0.1:9".to_owned(),
            format!("call={},{}", libc::SYS_unshare, libc::CLONE_NEWUSER),
        ];
        let mut inner = setting.attempts(&attempts);
        inner.view.mode = ViewMode::InPlace;
        inner.view.mounts.clear();
        inner.required = [Layer::Landlock, Layer::Seccomp].into();
        let result = nested(setting, "launch", &inner);
        assert_eq!(result["emptied"], "subreaper-swept", "{result}");
        let status = |layer: &str| result["enforcement"]["layers"][layer]["status"].clone();
        assert_eq!(
            (status("namespaces"), status("mounts"), status("network")),
            (json!("absent"), json!("absent"), json!("partial"))
        );
        let outcomes: BTreeMap<String, String> =
            serde_json::from_str(result["stdout"].as_str().unwrap()).unwrap();
        let outcomes: Vec<_> = attempts
            .iter()
            .map(|attempt| outcomes[attempt].clone())
            .collect();
        assert_all_denied(&attempts, &outcomes);
    });
}

#[test]
fn refuses_on_a_machine_without_namespaces_what_needs_them() {
    as_everyone(|setting| {
        let result = nested(setting, "launch", &setting.policy(&["true"]));
        assert_eq!(result["error"], "unavailable", "{result}");
        assert!(
            result["text"].as_str().unwrap().contains("mounts"),
            "{result}"
        );
        let result = nested(setting, "probe", &setting.policy(&["true"]));
        let status = |layer: &str| result["enforcement"]["layers"][layer]["status"].clone();
        assert_eq!(
            (status("namespaces"), status("mounts")),
            (json!("absent"), json!("absent")),
            "{result}"
        );
        assert_eq!(
            (status("landlock"), status("seccomp")),
            (json!("full"), json!("full")),
            "{result}"
        );
    });
}

/// Launches in a cage from within a cage.
fn nested(setting: &Setting, mode: &str, inner: &Policy) -> Value {
    let file = setting.work().join("inner.json");
    fs::write(&file, serde_json::to_vec(inner).unwrap()).unwrap();
    setting.own();
    let script = format!("exec {FIXTURE} {mode} < inner.json");
    let result = setting.launch("launch", &setting.policy(&["sh", "-c", &script]));
    serde_json::from_str(result["stdout"].as_str().unwrap()).unwrap_or_else(|_| panic!("{result}"))
}

#[test]
fn mounts_nothing_of_the_machine() {
    as_everyone(|setting| {
        let place = setting.outside();
        let wrong = [
            bind(Path::new("/"), &place, Access::ReadOnly),
            bind(Path::new("/proc"), &place, Access::ReadOnly),
            bind(Path::new("/sys"), &place, Access::ReadWrite),
            bind(&place, Path::new("/proc/sys"), Access::ReadOnly),
        ];
        for mount in wrong {
            let mut policy = setting.policy(&["true"]);
            policy.view.mounts.push(mount);
            assert_eq!(setting.launch("launch", &policy)["error"], "policy");
        }
    });
}

#[test]
fn reads_what_the_launcher_reads_only_if_told() {
    as_everyone(|setting| {
        let policy = setting.policy(&["cat"]);
        assert_eq!(setting.launch("feed", &policy)["stdout"], "the rest");
        assert_eq!(setting.launch("launch", &policy)["stdout"], "");
    });
}

#[test]
fn hides_devices_but_those_with_a_rule() {
    as_everyone(|setting| {
        let name = Path::new("/dev/shm").join(format!("hidden-{}", std::process::id()));
        fs::write(&name, "the host's").unwrap();
        let shared = Path::new("/dev/shm/made");
        let attempts = [
            "pty".to_owned(),
            attempt("write", &[Path::new("/dev/null")]),
            attempt("write", &[shared]),
            attempt("stat", &[&name]),
            attempt("stat", &[Path::new("/dev/zero")]),
        ];
        let mut policy = setting.attempts(&attempts);
        policy
            .view
            .mounts
            .push(tmpfs(Path::new("/dev"), Access::ReadOnly));
        for path in ["/dev/ptmx", "/dev/pts"] {
            policy.files.push(rule(Path::new(path), Rights::Device));
        }
        policy
            .files
            .push(rule(Path::new("/dev/shm"), Rights::ReadWrite));
        let outcomes = setting.outcomes(&policy);
        fs::remove_file(&name).unwrap();
        assert_eq!(outcomes, ["ok", "ok", "ok", "2", "2"]);
        assert!(!shared.exists());
    });
}
