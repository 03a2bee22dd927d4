//! Owns what the launcher lays out for the canaries to reach for.
//!
//! A listener on the loopback and one with an abstract name, both of this
//! process, and its number. Whoever gets to one of them from inside has left
//! the cage. They live until the command is started and leave nothing behind:
//! neither has a path. Nothing is ever accepted.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// How the bait is reached, as the stage is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bait {
    /// The launcher's number, in its own PID namespace.
    pub(crate) launcher: u32,
    /// A port of the loopback; none where the machine has no such interface.
    pub(crate) port: Option<u16>,
    /// An abstract name.
    pub(crate) name: Vec<u8>,
}

/// The listeners themselves.
#[derive(Debug)]
pub(crate) struct Laid {
    pub(crate) bait: Bait,
    // Only held: their existence is what the canaries look for.
    _port: Option<TcpListener>,
    _name: UnixListener,
}

/// Lays out the bait.
pub(crate) fn lay() -> io::Result<Laid> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok();
    // Unique on the machine: the number, and how many this process made before.
    static MADE: AtomicU64 = AtomicU64::new(0);
    let name = format!(
        "cofferdam-bait-{}-{}",
        std::process::id(),
        MADE.fetch_add(1, Ordering::Relaxed)
    );
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let bait = Bait {
        launcher: std::process::id(),
        port: port
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
            .map(|address| address.port()),
        name: name.into_bytes(),
    };
    Ok(Laid {
        bait,
        _port: port,
        _name: listener,
    })
}
