//! Owns the tests of which connections a confined command can make.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use cofferdam_sandbox::{Access, Layer, Network};

use crate::setting::{as_everyone, assert_all_denied, assert_all_work, attempt, tmpfs};

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
            format!("abstract={name}"),
            attempt("unix", &[&path]),
            // Sent into its own loopback, where nobody listens: it is judged
            // by what arrives here.
            format!("udp={}", udp.local_addr().unwrap()),
        ];
        let mut policy = setting.attempts(&attempts);
        policy
            .view
            .mounts
            .push(tmpfs(&setting.outside(), Access::ReadOnly));
        assert_all_denied(&attempts[..3], &setting.outcomes(&policy)[..3]);
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        unnamed.set_nonblocking(true).unwrap();
        named.set_nonblocking(true).unwrap();
        assert!(tcp.accept().is_err() && unnamed.accept().is_err() && named.accept().is_err());
        assert!(udp.recv(&mut [0; 8]).is_err());
    });
}

#[test]
fn talks_to_itself_on_a_loopback_of_its_own() {
    as_everyone(|setting| {
        let policy = setting.attempts(&["tcp-listen=127.0.0.1:0".to_owned()]);
        assert_eq!(setting.outcomes(&policy), ["ok"]);
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
