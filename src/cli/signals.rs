//! The person's signals while a run is on.
//!
//! Owns their meaning: the first asks for a graceful end (agents get TERM, the
//! grace period, then KILL; their work is captured), the second kills at
//! once, the third ends this program where it stands and leaves the rest to
//! the journal. The exit code tells the first one.

use std::sync::atomic::Ordering;

use tokio::signal::unix::{SignalKind, signal};

use super::print;
use crate::executor::Control;

/// Listens for signals and turns them into words for the run.
///
/// # Errors
/// The handlers cannot be installed; without them a signal would leak.
pub(super) fn listen(control: &Control) -> std::io::Result<()> {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    for kind in kinds {
        let mut stream = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if sender.send(kind.as_raw_value()).is_err() {
                    return;
                }
            }
        });
    }
    let control = control.clone();
    tokio::spawn(async move {
        let mut count = 0_u32;
        while let Some(number) = received.recv().await {
            count += 1;
            match count {
                1 => {
                    control.signal.store(number, Ordering::SeqCst);
                    print::err_line(
                        "cofferdam: ending the agents and keeping their work; once more to kill them at once",
                    );
                    control.cancel.cancel();
                }
                2 => {
                    print::err_line(
                        "cofferdam: killing the agents; once more to leave clean-up to the next command",
                    );
                    control.cancel.cancel();
                    control.kill.cancel();
                }
                _ => leave_now(number),
            }
        }
    });
    Ok(())
}

/// Ends the process without unwinding; the journal stands, and the kernel ends
/// the agents with this process.
#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the third signal asks for exactly this"
)]
fn leave_now(number: i32) -> ! {
    std::process::exit(128 + number)
}
