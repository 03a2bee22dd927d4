//! Owns the program that the kernel runs before each call.
//!
//! The kernel walks it once for every number when it is installed, and then
//! once for every call whose arguments decide. So numbers are found by halving
//! ranges of equal verdicts, and what belongs to one number stands at the leaf.
//! Jumps lead forward only and at most 255 instructions far, which a longer
//! one gets over by a step in between.

use libc::sock_filter;

use super::table::TABLE;
use super::verdict::{Case, Test, Verdict};
use super::{Internet, Neighbours, Reach, Recording, Renames};

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Where the kernel puts the number of the call, its table and its arguments.
const NUMBER_AT: u32 = 0;
const TABLE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

#[cfg(target_arch = "x86_64")]
const CALL_TABLE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const CALL_TABLE: u32 = 0xC000_00B7;

const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();

/// The whole program.
///
/// A foreign call table is the end of the process. The numbers of x32 lie
/// above all others, so that they are answered as calls that do not exist.
pub(super) fn program(reach: Reach, recording: Recording) -> Vec<sock_filter> {
    let writer = Writer {
        reach,
        refused: match recording {
            Recording::Listener => libc::SECCOMP_RET_USER_NOTIF,
            Recording::Nobody => EPERM,
        },
        asked: match (reach.renames, recording) {
            (Renames::Keeper, Recording::Listener) => libc::SECCOMP_RET_USER_NOTIF,
            (Renames::Keeper, Recording::Nobody) | (Renames::Kernel, _) => ALLOWED,
        },
    };
    let mut program = vec![
        say(LOAD, TABLE_AT),
        when(JUMP_IF_EQUAL, CALL_TABLE, 1, 0),
        say(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        say(LOAD, NUMBER_AT),
    ];
    program.extend(writer.search(&ranges()));
    program
}

/// Numbers with one verdict, from the first to the next range's.
struct Range {
    first: u32,
    verdict: Verdict,
}

fn ranges() -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let judged = TABLE.iter().map(|call| call.verdict);
    for (first, verdict) in (0..).zip(judged.chain([Verdict::Missing])) {
        if ranges.last().is_none_or(|last| last.verdict != verdict) {
            ranges.push(Range { first, verdict });
        }
    }
    ranges
}

struct Writer {
    reach: Reach,
    /// The answer to a call whose refusal is a fact for the record.
    refused: u32,
    /// The answer to a call that the keeper may make for the command.
    asked: u32,
}

impl Writer {
    /// Finds the range of the loaded number and answers as it says.
    fn search(&self, ranges: &[Range]) -> Vec<sock_filter> {
        let (lower, upper) = ranges.split_at(ranges.len() / 2);
        let Some(middle) = upper.first() else {
            return Vec::new();
        };
        if lower.is_empty() {
            return self.leaf(middle.verdict);
        }
        let lower = self.search(lower);
        let mut code = match u8::try_from(lower.len()) {
            Ok(over) => vec![when(JUMP_IF_AT_LEAST, middle.first, over, 0)],
            Err(_) => {
                let over = u32::try_from(lower.len()).expect("because programs are short");
                vec![when(JUMP_IF_AT_LEAST, middle.first, 0, 1), say(JUMP, over)]
            }
        };
        code.extend(lower);
        code.extend(self.search(upper));
        code
    }

    fn leaf(&self, verdict: Verdict) -> Vec<sock_filter> {
        match verdict {
            Verdict::Allow => vec![say(RETURN, ALLOWED)],
            Verdict::Asked => vec![say(RETURN, self.asked)],
            Verdict::Refuse => vec![say(RETURN, self.refused)],
            Verdict::Quiet => vec![say(RETURN, EPERM)],
            Verdict::Missing => vec![say(RETURN, ENOSYS)],
            Verdict::RefuseIf(cases) => any(cases, self.refused),
            Verdict::OfOthers(cases) => match self.reach.neighbours {
                Neighbours::Apart => vec![say(RETURN, ALLOWED)],
                Neighbours::Near => any(cases, self.refused),
            },
            Verdict::QuietIf(cases) => any(cases, EPERM),
            Verdict::Socket(open, without) => match self.reach.internet {
                Internet::Allowed => any(open, self.refused),
                Internet::Denied => any(without, self.refused),
            },
        }
    }
}

/// Answers so if any case holds, and allows otherwise.
fn any(cases: &[Case], answer: u32) -> Vec<sock_filter> {
    let mut code = Vec::new();
    for case in cases {
        code.extend(all(case, answer));
    }
    code.push(say(RETURN, ALLOWED));
    code
}

/// Answers so if every test holds, and goes on behind otherwise.
fn all(tests: &[Test], answer: u32) -> Vec<sock_filter> {
    // Written from its end, where the length of what is jumped over is known.
    let mut code = vec![say(RETURN, answer)];
    for test in tests.iter().rev() {
        let over = u8::try_from(code.len()).expect("because a case has few tests");
        let mut steps = match *test {
            Test::Any(argument, bits) => {
                vec![load(argument), when(JUMP_IF_ANY, bits, 0, over)]
            }
            Test::Is(argument, value) => {
                vec![load(argument), when(JUMP_IF_EQUAL, value, 0, over)]
            }
            Test::Not(argument, value) => {
                vec![load(argument), when(JUMP_IF_EQUAL, value, over, 0)]
            }
            Test::Part(argument, mask, value) => vec![
                load(argument),
                say(AND, mask),
                when(JUMP_IF_EQUAL, value, 0, over),
            ],
        };
        steps.append(&mut code);
        code = steps;
    }
    code
}

/// Loads the lower half of an argument; both architectures have it first.
fn load(argument: u8) -> sock_filter {
    say(LOAD, ARGUMENTS_AT + 8 * u32::from(argument))
}

fn say(code: u16, k: u32) -> sock_filter {
    when(code, k, 0, 0)
}

fn when(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}
