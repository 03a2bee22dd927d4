//! Owns the rules as instructions, and their installation before an exec.
//!
//! The filter stands before the program is executed and after the user was
//! changed, so it is inherited by all and needs no privilege.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{c_long, sock_filter, sock_fprog};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::features::{Answer, Feature, Rule, When};

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Where the kernel puts the call's number, its table and its arguments.
const NUMBER: u32 = 0;
const TABLE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Instructions for the kernel.
pub(crate) struct Program {
    code: Vec<sock_filter>,
    listens: bool,
}

impl Program {
    pub(crate) fn new(features: &[Feature]) -> Self {
        let rules: Vec<Rule> = features
            .iter()
            .flat_map(|feature| feature.rules())
            .collect();
        let mut code = vec![
            say(LOAD, TABLE),
            jump(JUMP_IF_EQUAL, ARCH, 1, 0),
            say(RETURN, libc::SECCOMP_RET_ALLOW),
            say(LOAD, NUMBER),
        ];
        for rule in &rules {
            code.extend(instructions(*rule));
        }
        code.push(say(RETURN, libc::SECCOMP_RET_ALLOW));
        let listens = rules.iter().any(|rule| rule.answer == Answer::Ask);
        Self { code, listens }
    }
}

fn instructions(rule: Rule) -> Vec<sock_filter> {
    let call = number(rule.call);
    let answer = match rule.answer {
        Answer::Error(errno) => libc::SECCOMP_RET_ERRNO | errno.unsigned_abs(),
        Answer::Ask => libc::SECCOMP_RET_USER_NOTIF,
    };
    let (argument, comparison, value) = match rule.when {
        When::Always => {
            return vec![jump(JUMP_IF_EQUAL, call, 0, 1), say(RETURN, answer)];
        }
        When::Has(argument, bits) => (argument, JUMP_IF_BITS, bits),
        When::Is(argument, value) => (argument, JUMP_IF_EQUAL, value),
    };
    vec![
        jump(JUMP_IF_EQUAL, call, 0, 4),
        // The lower half: both machines keep it first.
        say(LOAD, ARGUMENTS + 8 * argument),
        jump(comparison, value, 0, 1),
        say(RETURN, answer),
        say(LOAD, NUMBER),
    ]
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).expect("because system call numbers are small")
}

fn say(code: u16, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Has the command install the program last of all, and hand over the
/// descriptor by which its questions are heard.
#[expect(
    unsafe_code,
    reason = "a filter is inherited by an exec only if it is installed between fork and exec"
)]
pub(crate) fn install_before_exec(command: &mut Command, program: Program, hearer: UnixStream) {
    let install = move || {
        if let Some(listener) = install(&program)? {
            hand_over(&hearer, &listener)?;
        }
        Ok(())
    };
    // SAFETY: after the fork only system calls are made; nothing is allocated.
    unsafe {
        command.pre_exec(install);
    }
}

#[expect(unsafe_code, reason = "the call takes a pointer to the instructions")]
fn install(program: &Program) -> io::Result<Option<OwnedFd>> {
    let code = sock_fprog {
        len: u16::try_from(program.code.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.code.as_ptr().cast_mut(),
    };
    let flags = if program.listens {
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
    } else {
        0
    };
    // Who has privilege keeps it: a machine that lacks a feature does not take
    // set-user-id programs away as well.
    if !rustix::process::geteuid().is_root() {
        rustix::thread::set_no_new_privs(true)?;
    }
    // SAFETY: the structure and the instructions outlive the call, which
    // copies them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const code,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    if !program.listens {
        return Ok(None);
    }
    let descriptor = i32::try_from(result).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the call has just made it, and it closes with an exec.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

fn hand_over(hearer: &UnixStream, listener: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let handed = [listener.as_fd()];
    message.push(SendAncillaryMessage::ScmRights(&handed));
    sendmsg(
        hearer,
        &[io::IoSlice::new(b"l")],
        &mut message,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}
