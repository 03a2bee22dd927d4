//! Takes features of the kernel away from a program, one by one, for tests.
//!
//! Owns the list of features and the command that starts without them: a
//! system call filter is installed before the program is executed, so that
//! all it starts lives on such a machine too. Only tests use this; it confines
//! nothing, and a program that wants to get around it can.
//!
//! - `features`: what is taken away, as rules for calls
//! - `filter`: the rules as a filter, and its installation
//! - `landlock`: who answers for an older Landlock

mod features;
mod filter;
mod landlock;

use std::io;
use std::os::unix::net::UnixStream;
use std::process::Command;

pub use features::Feature;

/// Makes a command start without some features of the kernel.
///
/// Where Landlock is made older, a thread of this process answers for the
/// kernel until every process that the command started has ended.
///
/// # Errors
/// Fails if there are no sockets. That the filter cannot be installed is an
/// error of the command's own start.
pub fn take_away(features: &[Feature], command: &mut Command) -> io::Result<()> {
    if features.is_empty() {
        return Ok(());
    }
    let version = features.iter().find_map(|feature| match feature {
        Feature::LandlockSince(version) => Some(*version),
        _ => None,
    });
    let program = filter::Program::new(features);
    let (ours, theirs) = UnixStream::pair()?;
    if let Some(version) = version {
        std::thread::spawn(move || landlock::answer(&ours, version));
    }
    filter::install_before_exec(command, program, theirs);
    Ok(())
}
