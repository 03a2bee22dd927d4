//! Owns what the command reads: nothing, or a copy of what the launcher reads.
//!
//! The command never gets the launcher's own descriptor. That may be a file of
//! the host, opened for writing too, or a terminal whose other readers could
//! be fed; by `/proc/self/fd` it could even be opened again. It gets a pipe.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// What the command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Null,
    /// What the launcher itself reads, through a pipe. It is read ahead of the
    /// command: what the command leaves in the pipe is lost.
    Piped,
}

/// The read end of a pipe into which a thread copies this process's input.
///
/// The thread ends with the input, or when nobody can read the pipe any more.
pub(crate) fn piped() -> io::Result<OwnedFd> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || copy(&write))?;
    Ok(read)
}

fn copy(write: &OwnedFd) {
    let stdin = io::stdin();
    let mut chunk = [0; 64 << 10];
    loop {
        // The second entry reports nothing but that the last reader is gone.
        let mut entries = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(write, PollFlags::empty()),
        ];
        match poll(&mut entries, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        if !entries[1].revents().is_empty() {
            return;
        }
        match rustix::io::read(&stdin, &mut chunk) {
            Ok(0) => return,
            Ok(read) => {
                if !pass_on(write, &chunk[..read]) {
                    return;
                }
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}

/// Writes all of it; false when nobody reads any more.
fn pass_on(write: &OwnedFd, mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        match rustix::io::write(write, rest) {
            Ok(written) => rest = &rest[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
