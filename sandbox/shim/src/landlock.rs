//! Owns the answers of an older Landlock.
//!
//! The question for the version is answered with that version, and a set of
//! rules that names what came later is refused as the older kernel refuses it.
//! All else goes on to the real kernel. A caller whose memory may not be read
//! (one that hides from an ordinary user) is believed to name nothing later.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// The flag of the question for the version.
const VERSION: u64 = 1;

/// Lets the kernel go on with the call.
const CONTINUE: u32 = 1;

/// A question of the kernel's; the layout is its own.
#[repr(C)]
struct Question {
    id: u64,
    pid: u32,
    flags: u32,
    call: i32,
    table: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// An answer to it; the layout is the kernel's.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`, with the sizes of
/// the two structures above.
const RECEIVE: u64 = 0xC050_2100;
const SEND: u64 = 0xC018_2101;

/// Answers until nobody is left who could ask.
pub(crate) fn answer(from: &UnixStream, version: u32) {
    let Some(listener) = listener(from) else {
        // The command was never started, or could not be.
        return;
    };
    loop {
        let mut entry = [PollFd::new(&listener, PollFlags::IN)];
        match poll(&mut entry, None) {
            Ok(_) if entry[0].revents().contains(PollFlags::IN) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Ok(_) | Err(_) => return,
        }
        if let Some(question) = receive(&listener) {
            let response = respond(&question, version);
            // Whoever asked may have been killed meanwhile.
            let _ = control(&listener, SEND, (&raw const response).cast_mut().cast());
        }
    }
}

fn respond(question: &Question, version: u32) -> Response {
    let answer = |value, error, flags| Response {
        id: question.id,
        value,
        error,
        flags,
    };
    let [attributes, size, flags, ..] = question.arguments;
    if flags == VERSION && attributes == 0 && size == 0 {
        return answer(i64::from(version), 0, 0);
    }
    if flags != 0 {
        return answer(0, -libc::EINVAL, 0);
    }
    match attributes_of(question.pid, attributes, size) {
        Some(words) => match refusal(words, version) {
            Some(errno) => answer(0, -errno, 0),
            None => answer(0, 0, CONTINUE),
        },
        None => answer(0, 0, CONTINUE),
    }
}

/// What an older kernel says to these rights of files, of ports, and scopes.
fn refusal([files, ports, scopes]: [u64; 3], version: u32) -> Option<i32> {
    let first_files = match version {
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    // A kernel that has not heard of a member wants it to be zero.
    if version < 4 && ports != 0 || version < 6 && scopes != 0 {
        return Some(libc::E2BIG);
    }
    let unknown = files >> first_files != 0 || ports >> 2 != 0 || scopes >> 2 != 0;
    unknown.then_some(libc::EINVAL)
}

fn attributes_of(pid: u32, address: u64, size: u64) -> Option<[u64; 3]> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = [0; 24];
    let wanted = usize::try_from(size).ok()?.min(bytes.len());
    memory.read_exact_at(&mut bytes[..wanted], address).ok()?;
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    };
    Some([word(0), word(8), word(16)])
}

fn listener(from: &UnixStream) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        from,
        &mut [io::IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )
    .ok()?;
    ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

#[expect(
    unsafe_code,
    reason = "the structure is plain numbers that the kernel fills in"
)]
fn receive(listener: &OwnedFd) -> Option<Question> {
    // SAFETY: all members are numbers, for which zero is a value.
    let mut question: Question = unsafe { std::mem::zeroed() };
    control(listener, RECEIVE, (&raw mut question).cast()).then_some(question)
}

#[expect(unsafe_code, reason = "no safe crate has these two requests")]
fn control(listener: &OwnedFd, request: u64, structure: *mut libc::c_void) -> bool {
    // SAFETY: callers pass the structure that belongs to the request, and it
    // outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), request as _, structure) == 0 }
}

#[test]
fn the_structures_have_the_kernels_sizes() {
    assert_eq!((size_of::<Question>(), size_of::<Response>()), (80, 24));
}
