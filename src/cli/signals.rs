//! The runtime, and the person's signals while it is on.
//!
//! Owns the one place where the executor's threads are made, and the meaning
//! of signals: the first asks for a graceful end (agents get TERM, the
//! grace period, then KILL; their work is captured), the second kills at
//! once, the third ends this program where it stands and leaves the rest to
//! the journal. The exit code tells the first one.

use std::sync::atomic::Ordering;

use tokio::signal::unix::{SignalKind, signal};

use super::failure::Failure;
use super::print;
use crate::executor::{self, Control};
use crate::model::ExitCode;

/// Carries work out under the person's signals. Where a signal made it fail,
/// the exit code tells the signal.
pub(super) fn under<T, F>(work: impl FnOnce(Control) -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, executor::Error>>,
{
    let internal = |what: &str, error: std::io::Error| {
        Failure::new(ExitCode::Internal, format!("failed to {what}: {error}"))
    };
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| internal("start the executor's threads", error))?;
    threads.block_on(async {
        let control = Control::default();
        listen(&control).map_err(|error| internal("install signal handlers", error))?;
        let signal = control.signal.clone();
        match (work(control).await, signal.load(Ordering::SeqCst)) {
            (Ok(done), _) => Ok(done),
            (Err(error), 0) => Err(error.into()),
            (Err(error), number) => Err(Failure::new(ExitCode::Signal(number), error.chain())),
        }
    })
}

/// Listens for signals and turns them into words for the run.
///
/// # Errors
/// The handlers cannot be installed; without them a signal would leak.
fn listen(control: &Control) -> std::io::Result<()> {
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
                    control.cancel.cancel();
                    print::err_line(
                        "cofferdam: ending the agents and keeping their work; once more to kill them at once",
                    );
                }
                2 => {
                    control.cancel.cancel();
                    control.kill.cancel();
                    print::err_line(
                        "cofferdam: killing the agents; once more to leave clean-up to the next command",
                    );
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
