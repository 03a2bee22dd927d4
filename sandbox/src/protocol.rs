//! Owns the words that launcher and stage exchange over the life line.
//!
//! A frame is a length in four bytes and JSON. The launcher sends one
//! [`Request`], then single bytes ([`TERMINATE`], [`KILL`]); the stage sends
//! [`Report`]s. Its end of file is a message too: the other side is gone. This
//! module knows nothing about what the messages cause.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bait::Bait;
use crate::denial::Denial;
use crate::enforcement::{Enforcement, Proof};
use crate::guarantees::Guarantee;
use crate::layers::merging::Merging;
use crate::limits::{Joining, LimitHit};
use crate::policy::{HostPath, Layer, Policy, PolicyError};

/// Asks for `SIGTERM` to everything inside.
pub(crate) const TERMINATE: u8 = b'T';
/// Asks for the end of everything inside.
pub(crate) const KILL: u8 = b'K';

/// Goes from the command's process to the keeper before any message, with the
/// listener for refused calls. It cannot be a message's first byte alone,
/// because the kernel never joins what comes with a descriptor and what follows.
pub(crate) const LISTENER: &[u8] = b"L";

/// No message is longer; a longer one means that the stream is out of step.
const LONGEST: usize = 64 << 20;

/// What the stage is to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) purpose: Purpose,
    pub(crate) policy: Policy,
    pub(crate) bait: Bait,
    pub(crate) group: Joining,
    /// Directories that are to be merged, to see whether it works.
    pub(crate) merged: Option<HostPath>,
}

/// Whether a command is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Confine and execute; too little confinement is a refusal.
    Run,
    /// Confine as far as it goes, report, and end.
    Probe,
}

/// What the stage tells.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// What became of the directories that were to be merged.
    Merged(Result<Merging, String>),
    /// Every layer is in place.
    Ready(Enforcement),
    /// The command was executed; these came along, in this order.
    Started { handed: Vec<Handed> },
    /// Nothing was started.
    Failed(Failure),
    /// These were refused; those with a known number once more.
    Denied(Vec<Denial>),
    /// A limit was reached and the tree is ended for it.
    Crossed(LimitHit),
    /// A limit was reached, and the tree went on.
    Noticed(LimitHit),
    /// The command ended with this wait status.
    Exited { status: i32 },
    /// Nothing is left.
    Emptied { cpu_ms: u64, proof: Proof },
}

/// What a descriptor is that the stage hands to the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Handed {
    /// A handle of the PID namespace's init.
    Init,
    /// The listener inside, of a policy with a gateway.
    Gateway,
}

/// Why nothing was started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Failure {
    Policy(PolicyError),
    Unavailable {
        layer: Layer,
        reason: String,
    },
    Command {
        errno: i32,
    },
    Unheld {
        guarantees: Vec<Guarantee>,
    },
    Canary {
        guarantee: Guarantee,
        attempt: String,
    },
    Step {
        step: String,
        reason: String,
    },
}

/// Why a message did not come through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("use the life line")]
    Io(#[from] io::Error),
    #[error("understand the other side")]
    Json(#[from] serde_json::Error),
    #[error("read a message whole")]
    Cut,
}

impl ProtocolError {
    /// Whether the other side was waited for in vain.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            Self::Io(error) => error.kind() == io::ErrorKind::WouldBlock,
            Self::Json(_) | Self::Cut => false,
        }
    }
}

/// Spells a message as a frame.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, ProtocolError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - 4).map_err(|_| ProtocolError::Cut)?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Sends a message, and descriptors with it.
pub(crate) fn send<T: Serialize>(
    line: BorrowedFd<'_>,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), ProtocolError> {
    send_bytes(line, &encode(message)?, descriptors)
}

/// Sends frames that are spelt already.
pub(crate) fn send_bytes(
    line: BorrowedFd<'_>,
    mut frame: &[u8],
    mut descriptors: &[BorrowedFd<'_>],
) -> Result<(), ProtocolError> {
    while !frame.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        // Without NOSIGNAL a launcher would die of the death of its helper.
        match sendmsg(
            line,
            &[IoSlice::new(frame)],
            &mut control,
            SendFlags::NOSIGNAL,
        ) {
            Ok(sent) => {
                frame = &frame[sent..];
                descriptors = &[];
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(ProtocolError::Io(errno.into())),
        }
    }
    Ok(())
}

/// Puts frames together from what arrives.
#[derive(Debug)]
pub(crate) struct Reader {
    buffer: Vec<u8>,
    /// Descriptors that came with the bytes so far.
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            buffer: Vec::new(),
            descriptors: Vec::new(),
        }
    }

    /// The next message; none if the other side is gone.
    pub(crate) fn next<T: DeserializeOwned>(
        &mut self,
        line: BorrowedFd<'_>,
    ) -> Result<Option<T>, ProtocolError> {
        loop {
            if let Some(head) = self.buffer.first_chunk::<4>() {
                let length = u32::from_le_bytes(*head) as usize;
                if length > LONGEST {
                    return Err(ProtocolError::Cut);
                }
                if self.buffer.len() >= 4 + length {
                    let message = serde_json::from_slice(&self.buffer[4..4 + length])?;
                    self.buffer.drain(..4 + length);
                    return Ok(Some(message));
                }
            }
            if self.fill(line)? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(ProtocolError::Cut)
                };
            }
        }
    }

    fn fill(&mut self, line: BorrowedFd<'_>) -> Result<usize, ProtocolError> {
        let (bytes, descriptors) = receive(line)?;
        self.descriptors.extend(descriptors);
        self.buffer.extend_from_slice(&bytes);
        Ok(bytes.len())
    }
}

/// Receives what is there, and descriptors with it; nothing at the end.
pub(crate) fn receive(line: BorrowedFd<'_>) -> Result<(Vec<u8>, Vec<OwnedFd>), ProtocolError> {
    let mut chunk = vec![0; 16 << 10];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(
            line,
            &mut [IoSliceMut::new(&mut chunk)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Ok(received) => break received.bytes,
            Err(rustix::io::Errno::INTR) => {}
            // A peer that died with unread bytes resets the line; to the
            // reader that is the same as its end.
            Err(rustix::io::Errno::CONNRESET) => break 0,
            Err(errno) => return Err(ProtocolError::Io(errno.into())),
        }
    };
    chunk.truncate(received);
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            descriptors.extend(sent);
        }
    }
    Ok((chunk, descriptors))
}
