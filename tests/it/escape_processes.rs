//! Attempts to reach processes and the network, and to outlive the run.
//!
//! Owns signals, sockets, tracing and descendants; judged by whether the
//! victim lives, whether anybody connected, and by the leak oracle. Signals go
//! to the test's own victims; one to everybody only where there is a process
//! namespace of the agent's own, because without it that would be the machine.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::support::{Running, Signal, TestEnv, only_agent, only_apart, processes_of, shown};

/// A process of the same person that does nothing until it is told.
fn victim(env: &TestEnv) -> Running {
    Running::start(&mut env.command("cat"))
}

#[test]
fn no_process_outside_can_be_signalled() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let mut victim = victim(&env);
        let mut run = repo.ready(
            &["--json", "--stdin"],
            "echo ready; read victim; read launcher; kill -9 $victim $launcher; \
             kill -s STOP $launcher; echo done > done.txt; exit 0",
        );
        run.say(&victim.pid().to_string());
        let launcher = run.pid().to_string();
        run.say(&launcher);
        run.wait().expect_code(0);

        assert_eq!(repo.text("done.txt"), "done\n");
        victim.say("alive");
        assert_eq!(victim.wait().expect_code(0).stdout, "alive\n");
    }
}

#[test]
fn a_signal_to_everybody_reaches_the_agent_alone() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let mut victim = victim(&env);
        let record = repo
            .agent(&format!(
                "{}; echo kept > n.txt; sleep 1000 & kill -9 -1; kill -9 $$",
                only_apart("pid")
            ))
            .expect_code(1)
            .json();

        assert_eq!(only_agent(&record)["outcome"], "crashed");
        assert_eq!(record["cleanup"]["complete"], true);
        victim.say("alive");
        assert_eq!(victim.wait().expect_code(0).stdout, "alive\n");
    }
}

#[test]
fn processes_outside_cannot_be_traced_or_looked_into() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let mut victim = Running::start(env.command("cat").env("TOKEN", "the person's secret"));
        let mut run = repo.ready(
            &["--stdin"],
            "echo ready; read victim; cat /proc/$victim/environ /proc/*/environ; \
             python3 -c 'import ctypes, sys; libc = ctypes.CDLL(None); \
             print(\"attached\" if libc.ptrace(16, int(sys.argv[1]), 0, 0) == 0 else \"no\")' \
             $victim > traced.txt; exit 0",
        );
        run.say(&victim.pid().to_string());
        let run = run.wait().expect_code(0);

        assert!(
            !run.stderr.contains("the person's secret"),
            "{}",
            run.stderr
        );
        assert_eq!(repo.text("traced.txt"), "no\n");
        victim.say("alive");
        assert_eq!(victim.wait().expect_code(0).stdout, "alive\n");
    }
}

#[test]
fn no_socket_outside_can_be_reached() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let tcp = TcpListener::bind("127.0.0.1:0").expect("because loopback is there");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("because loopback is there");
        let path = env.outside().join("socket");
        let unix = UnixListener::bind(&path).expect("because nothing stands there");
        env.own(&path);
        let name = format!("cofferdam-test-{}", env.root().display());
        let address = SocketAddr::from_abstract_name(&name).expect("because the name is short");
        let hidden = UnixListener::bind_addr(&address).expect("because the name is unused");
        for socket in [&unix, &hidden] {
            socket
                .set_nonblocking(true)
                .expect("because it is a socket");
        }
        tcp.set_nonblocking(true).expect("because it is a socket");
        udp.set_nonblocking(true).expect("because it is a socket");
        let port = |address: std::io::Result<std::net::SocketAddr>| {
            address.expect("because it is bound").port()
        };
        let script = format!(
            r#"cat > probe.py <<'END'
import socket
def attempt(kind, type, address):
    s = socket.socket(kind, type)
    s.settimeout(5)
    s.connect(address)
    s.send(b"x")
for kind, type, address in [
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {tcp})),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", {udp})),
    (socket.AF_UNIX, socket.SOCK_STREAM, "{path}"),
    (socket.AF_UNIX, socket.SOCK_STREAM, "\0{name}"),
]:
    try:
        attempt(kind, type, address)
    except OSError as error:
        print(error)
END
python3 probe.py; echo tried > tried.txt"#,
            tcp = port(tcp.local_addr()),
            udp = port(udp.local_addr()),
            path = shown(&path),
        );
        repo.agent(&script).expect_code(0);

        assert_eq!(repo.text("tried.txt"), "tried\n");
        assert!(tcp.accept().is_err(), "somebody connected by TCP");
        assert!(udp.recv(&mut [0; 8]).is_err(), "a datagram came");
        assert!(unix.accept().is_err(), "somebody connected by path");
        assert!(
            hidden.accept().is_err(),
            "somebody connected by abstract name"
        );
    }
}

#[test]
fn descendants_do_not_outlive_the_agent() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let record = repo
            .agent(
                "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP INT; \
                 while :; do sleep 1; done' >/dev/null 2>&1 &); done; \
                 nohup sleep 1000 >/dev/null 2>&1 & echo new > n.txt",
            )
            .expect_code(0)
            .json();

        assert_eq!(record["cleanup"]["complete"], true);
        assert_eq!(processes_of(&env), [""; 0]);
        assert_eq!(repo.text("n.txt"), "new\n");
    }
}

#[test]
fn a_descendant_that_keeps_the_output_open_does_not_hold_up_the_run() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.agent("setsid sleep 1000 & echo new > n.txt")
        .expect_code(0);
    assert_eq!(repo.text("n.txt"), "new\n");
}

#[test]
fn files_do_not_change_any_more_once_they_are_captured() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .agent("(while :; do date +%N > racing.txt; done) >/dev/null 2>&1 & sleep 0.2; exit 0")
        .expect_code(0)
        .json();
    let tree = crate::support::text(&only_agent(&record)["result"], "tree");
    assert_eq!(repo.show(tree, "racing.txt"), repo.text("racing.txt"));
}

#[test]
fn an_agent_that_stops_itself_is_ended_by_its_deadline() {
    let env = TestEnv::new();
    let repo = env.repo();
    let record = repo
        .cofferdam([
            "run",
            "--json",
            "--deadline",
            "4s",
            "--",
            "sh",
            "-c",
            "kill -s STOP $$",
        ])
        .expect_code(6)
        .json();
    assert_eq!(only_agent(&record)["outcome"], "timed_out");
}

#[test]
fn privileges_cannot_be_gained() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.agent(
            "grep -E '^(NoNewPrivs|CapEff|CapBnd|Seccomp):' /proc/self/status | tr -d '\\t' \
             > status.txt",
        )
        .expect_code(0);
        assert_eq!(
            repo.text("status.txt"),
            "CapEff:0000000000000000\nCapBnd:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n"
        );
    }
}

#[test]
fn a_launcher_that_is_told_to_stop_takes_every_descendant_with_it() {
    let env = TestEnv::new();
    let repo = env.repo();
    let run = repo.ready(&[], "setsid sleep 1000 & echo ready; sleep 1000");
    run.signal(Signal::TERM);
    run.wait().expect_code(143);
    assert_eq!(processes_of(&env), [""; 0]);
}
