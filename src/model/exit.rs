//! Exit codes of the program.
//!
//! Owns the numbers, which are public contract, and their order of severity:
//! with several causes the most severe one is what the program ends with.

use std::fmt;

/// What the program ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitCode {
    /// Every agent succeeded and its changes are where they were asked to be.
    Success,
    /// An agent failed by itself, or a check failed.
    Failed,
    /// The request or the configuration is wrong; nothing was started.
    Usage,
    /// A gate refused.
    Refused,
    /// Isolation is not available, or the disk is full or read-only.
    Isolation,
    /// A result is held.
    Held,
    /// A limit or a cancellation cut an agent short.
    Partial,
    /// Something could not be cleaned.
    Cleanup,
    /// A fault of the program itself.
    Internal,
    /// Ended by a signal, after clean-up.
    Signal(i32),
}

impl ExitCode {
    /// The number for the shell.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Isolation => 4,
            Self::Held => 5,
            Self::Partial => 6,
            Self::Cleanup => 7,
            Self::Internal => 70,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
        }
    }

    /// Severity: 70, 7, 128+n, 4, 2, 3, 1, 6, 5, 0, the first the worst.
    fn severity(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Held => 1,
            Self::Partial => 2,
            Self::Failed => 3,
            Self::Refused => 4,
            Self::Usage => 5,
            Self::Isolation => 6,
            Self::Signal(_) => 7,
            Self::Cleanup => 8,
            Self::Internal => 9,
        }
    }

    /// The more severe of two.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        if other.severity() > self.severity() {
            other
        } else {
            self
        }
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::ExitCode::{
        Cleanup, Failed, Held, Internal, Isolation, Partial, Refused, Signal, Success, Usage,
    };

    #[test]
    fn the_worst_of_several_causes_wins_in_the_order_of_the_contract() {
        let order = [
            Internal,
            Cleanup,
            Signal(2),
            Isolation,
            Usage,
            Refused,
            Failed,
            Partial,
            Held,
            Success,
        ];
        for (at, worse) in order.iter().enumerate() {
            for better in &order[at..] {
                assert_eq!(worse.worst(*better), *worse);
                assert_eq!(better.worst(*worse), *worse);
            }
        }
        assert_eq!(Signal(15).number(), 143);
    }
}
