//! Owns what the stage and the command inherit: nothing but three descriptors.
//!
//! Called first of all, before anything else is opened.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use super::LayerError;
use crate::sys::process::{Range, close_range, place, take_stdin};

/// Takes the life line off standard input.
pub(crate) fn take_line() -> std::io::Result<OwnedFd> {
    take_stdin()
}

/// Closes everything that was inherited but the life line.
pub(crate) fn close_others(line: &OwnedFd) -> Result<(), LayerError> {
    let number =
        u32::try_from(line.as_raw_fd()).expect("because the kernel gave a valid descriptor");
    close_range(3, number - 1, Range::Close)
        .map_err(LayerError::step("close inherited descriptors"))?;
    close_range(number + 1, u32::MAX, Range::Close)
        .map_err(LayerError::step("close inherited descriptors"))
}

/// Puts what the launcher passed on standard input; an empty one if it passed nothing.
///
/// That is a pipe that has ended. The null device, opened out here, would be a
/// file of the host's own mount, whose mode and times its owner could change
/// through the descriptor.
pub(crate) fn set_stdin(mut passed: Vec<OwnedFd>) -> Result<(), LayerError> {
    let input = match passed.pop() {
        Some(input) => input,
        None => {
            let (read, _ends_here) =
                pipe_with(PipeFlags::CLOEXEC).map_err(LayerError::step("make an empty input"))?;
            read
        }
    };
    place(&input, 0).map_err(LayerError::step("set standard input"))
}

/// Makes sure that the command gets the three standard descriptors only.
pub(crate) fn seal() -> Result<(), LayerError> {
    close_range(3, u32::MAX, Range::CloseOnExec).map_err(LayerError::step("seal descriptors"))
}
