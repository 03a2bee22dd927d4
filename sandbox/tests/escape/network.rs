//! Owns the attempts to reach sockets outside, judged by who was reached.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::process::Command;

use cofferdam_sandbox::Access;

use crate::cage::{Cage, Kind, everywhere, in_views, with};
use crate::setting::{assert_all_work, tmpfs};

/// Whether somebody connected.
fn reached(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    listener.accept().is_ok()
}

fn reached_by_path(listener: &UnixListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    listener.accept().is_ok()
}

fn received(socket: &UnixDatagram) -> bool {
    socket.set_nonblocking(true).unwrap();
    socket.recv(&mut [0; 8]).is_ok()
}

/// T29: no listener of the host is reached over TCP, by either family, nor by
/// an address of the one written as of the other.
#[test]
fn no_listener_outside_is_reached() {
    everywhere(|cage| {
        let four = TcpListener::bind("0.0.0.0:0").unwrap();
        let six = TcpListener::bind("[::1]:0").unwrap();
        let ports = [&four, &six].map(|listener| listener.local_addr().unwrap().port());
        let addresses = [
            format!("127.0.0.1:{}", ports[0]),
            format!("0.0.0.0:{}", ports[0]),
            format!("127.255.255.254:{}", ports[0]),
            format!("[::ffff:127.0.0.1]:{}", ports[0]),
            format!("[::1]:{}", ports[1]),
            format!("[::]:{}", ports[1]),
        ];
        let mut attempts: Vec<_> = addresses.iter().map(|to| format!("tcp={to}")).collect();
        attempts.extend(addresses.iter().map(|to| format!("fast-open={to}")));
        // TCP over several paths, and with its number said aloud.
        attempts.extend([262, 6].map(|number| format!("connect=1,{number},{}", addresses[0])));
        cage.assert_denied(&attempts);
        assert!(!reached(&four) && !reached(&six), "{:?}", cage.kind);
    });
}

/// T29: there is no interface by which another machine could be reached.
#[test]
fn there_is_no_interface_but_its_own() {
    in_views(|cage| cage.assert_works(&["interfaces".to_owned()]));
}

/// T30: no datagram arrives, and no protocol without ports can be spoken.
#[test]
fn no_datagram_arrives_outside() {
    everywhere(|cage| {
        let four = UdpSocket::bind("127.0.0.1:0").unwrap();
        let six = UdpSocket::bind("[::1]:0").unwrap();
        let addresses = [&four, &six].map(|socket| socket.local_addr().unwrap());
        let attempts: Vec<_> = addresses
            .iter()
            .flat_map(|to| [format!("datagram={to}"), format!("udp={to}")])
            .chain([136, 33, 132].map(|number| format!("connect=2,{number},{}", addresses[0])))
            .collect();
        // In a network of its own a datagram is sent, and nobody is there.
        cage.outcomes(&attempts);
        for socket in [&four, &six] {
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut [0; 8]).is_err(), "{:?}", cage.kind);
        }
        // ICMP, raw, packet, SCTP, DCCP.
        let sockets = [
            "2,2,1", "2,3,1", "2,3,255", "17,3,768", "17,2,0", "2,1,132", "2,6,33",
        ];
        cage.assert_denied(&sockets.map(|socket| format!("socket={socket}")));
    });
}

/// Sockets of the host by path, beneath what is outside.
struct Paths {
    stream: UnixListener,
    datagram: UnixDatagram,
}

impl Paths {
    fn new(cage: &Cage<'_>) -> Self {
        let outside = cage.setting.outside();
        let stream = UnixListener::bind(outside.join("s")).unwrap();
        let datagram = UnixDatagram::bind(outside.join("d")).unwrap();
        symlink(outside.join("s"), cage.setting.work().join("link")).unwrap();
        cage.setting.own();
        Self { stream, datagram }
    }
}

fn path_attempts(cage: &Cage<'_>) -> Vec<String> {
    let outside = cage.setting.outside();
    let (outside, work) = (outside.to_str().unwrap(), cage.setting.work());
    let work = work.to_str().unwrap();
    vec![
        format!("unix={outside}/s"),
        format!("unix={work}/link"),
        format!("unix={work}/../outside/s"),
        format!("unix=/proc/self/root{outside}/s"),
        with("unix-from", &[outside, "s"]),
        with("unix-from", &[work, "../outside/s"]),
        format!("unix-datagram={outside}/d"),
        format!("unix-message={outside}/d"),
        format!("unix-messages={outside}/d"),
        format!("link={outside}/s,{work}/taken"),
        format!("rename={outside}/s,{work}/taken"),
    ]
}

/// T31: no socket that the view hides is reached by its path: by a link, by a
/// short name, as a stream or as a datagram.
#[test]
fn no_path_leads_to_a_socket_outside() {
    in_views(|cage| {
        let paths = Paths::new(cage);
        let attempts = path_attempts(cage);
        let mut policy = cage.attempts(&attempts);
        policy
            .view
            .mounts
            .push(tmpfs(&cage.setting.outside(), Access::ReadOnly));
        let outcomes = cage.outcomes_of(&policy);
        let through: Vec<_> = attempts
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.parse::<i32>().is_err())
            .collect();
        assert!(through.is_empty(), "{through:?}");
        assert!(!reached_by_path(&paths.stream) && !received(&paths.datagram));
    });
}

/// T31 where nothing hides the socket: that it is reached is told.
#[test]
fn a_socket_that_stays_visible_is_told() {
    everywhere(|cage| {
        let paths = Paths::new(cage);
        let result = cage.launch(&cage.attempts(&path_attempts(cage)));
        let holes = result["enforcement"]["holes"]
            .as_array()
            .unwrap_or_else(|| panic!("{result}"));
        let told = holes
            .iter()
            .any(|hole| hole.as_str().unwrap().contains("unix socket"));
        let reached = reached_by_path(&paths.stream) || received(&paths.datagram);
        assert!(told || !reached, "reached and not told: {result}");
        // By no means does a socket get another name.
        assert!(!cage.setting.work().join("taken").exists());
    });
}

/// T32: no socket without a path is reached, whatever its name is made of.
#[test]
fn no_hidden_name_is_reached() {
    everywhere(|cage| {
        let unique = format!(
            "cage-{}-{:?}-{:?}",
            std::process::id(),
            cage.setting.who,
            cage.kind
        );
        let names = [
            unique.clone().into_bytes(),
            format!("{unique}\0with\0zeros").into_bytes(),
            format!("\0{unique}").into_bytes(),
        ];
        let listeners: Vec<_> = names
            .iter()
            .map(|name| {
                UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
            })
            .collect();
        let name = SocketAddr::from_abstract_name(format!("{unique}-d")).unwrap();
        let datagram = UnixDatagram::bind_addr(&name).unwrap();
        let hex = |name: &[u8]| {
            name.iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let mut attempts: Vec<_> = names
            .iter()
            .map(|name| format!("abstract-hex={}", hex(name)))
            .collect();
        let name = hex(format!("{unique}-d").as_bytes());
        attempts.push(format!("abstract-datagram={name}"));
        cage.assert_denied(&attempts);
        assert!(!listeners.iter().any(reached_by_path) && !received(&datagram));
    });
}

/// T34: sockets of rare families cannot be made; of the kernel's own only the
/// one that tells routes and addresses, and it changes none.
#[test]
fn no_rare_family_can_be_spoken() {
    everywhere(|cage| {
        let families = [
            libc::AF_VSOCK,
            libc::AF_ALG,
            libc::AF_BLUETOOTH,
            libc::AF_KEY,
            libc::AF_CAN,
            libc::AF_TIPC,
            libc::AF_XDP,
            libc::AF_RDS,
            libc::AF_NFC,
            libc::AF_PPPOX,
            libc::AF_IB,
            libc::AF_LLC,
            libc::AF_AX25,
            libc::AF_X25,
        ];
        let mut attempts: Vec<_> = families
            .iter()
            .flat_map(|family| [1, 2, 3, 5].map(|kind| format!("socket={family},{kind},0")))
            .collect();
        let netlink = (1..=22).map(|protocol| format!("socket={},3,{protocol}", libc::AF_NETLINK));
        attempts.extend(netlink);
        cage.assert_denied(&attempts);
        cage.assert_works(&[format!("socket={},3,0", libc::AF_NETLINK)]);
        cage.assert_denied(&["change-route".to_owned()]);
    });
}

/// T35: what a command listens on, nobody outside reaches; inside it can.
#[test]
fn a_listener_inside_is_not_the_hosts() {
    everywhere(|cage| {
        // A port that is free on the host, and to which it can be bound.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        let attempts = [format!("tcp-listen=127.0.0.1:{port}")];
        let policy = cage.attempts(&attempts);
        let while_taken = cage.outcomes_of(&policy);
        // Bound on the host already: only in a network of its own it is free.
        match cage.kind {
            Kind::View | Kind::InPlace => assert_all_work(&attempts, &while_taken),
            Kind::Bare => assert_eq!(while_taken, ["1"]),
        }
    });
}

/// T36, T37: nothing but sockets opens sockets.
#[test]
fn no_ring_can_be_had() {
    everywhere(|cage| {
        let calls = [
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
        ];
        let attempts = calls.map(|call| format!("call={call},1,0,0"));
        assert_eq!(cage.outcomes(&attempts), ["1", "1", "1"]);
    });
}

/// T59: a manager of services that would start something outside by a socket
/// is a listener with a path like any other; here it hears nothing.
#[test]
fn no_manager_of_services_hears_anything() {
    in_views(|cage| {
        let place = cage.setting.outside().join("private");
        let manager = UnixListener::bind(&place).unwrap();
        cage.setting.own();
        let mut policy = cage.policy(&[
            "sh",
            "-c",
            "systemd-run --user true; systemd-run true; at now < /dev/null; crontab -l; exit 0",
        ]);
        policy
            .view
            .mounts
            .push(tmpfs(&cage.setting.outside(), Access::ReadOnly));
        let address = format!("unix:path={}", place.display());
        policy
            .command
            .env
            .push(("DBUS_SESSION_BUS_ADDRESS".into(), address.into()));
        assert_eq!(cage.launch(&policy)["code"], 0);
        assert!(!reached_by_path(&manager));
    });
}

/// T29, T30: the canaries themselves: without a cage each is reached.
#[test]
fn without_a_cage_the_canaries_are_reached() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = [tcp.local_addr().unwrap(), udp.local_addr().unwrap()];
    let status = Command::new(crate::setting::FIXTURE)
        .args([
            "try",
            &format!("connect=1,0,{}", to[0]),
            &format!("datagram={}", to[1]),
        ])
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let (mut stream, _) = tcp.accept().unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    assert_eq!((byte, udp.recv(&mut [0; 8]).unwrap()), (*b"x", 1));
}
