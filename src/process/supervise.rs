//! Waits for a confined child to end, whatever ends it.
//!
//! Owns the order stop → grace → kill → proof that the cage is empty. Returns
//! only with that proof, so that capture may begin; there is no way to be
//! handed an exit while something still runs.
//!
//! ```text
//! running ──▶ ended by itself
//!    │ deadline, cancel ──▶ TERM to all ──▶ grace ──▶ KILL to all ──▶ ended
//!    │ hard cancel, flood ────────────────────────▶ KILL to all ──▶ ended
//! ```

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cofferdam_sandbox::{Confined, Denial, Killer, LimitHit};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::output::{Flood, LineSink, OutputLog, Stream, pump};
use crate::model::{Clock, Deadline, ExitStatus};

/// Why the launcher ended an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Its deadline passed.
    Deadline,
    /// It was cancelled.
    Cancelled,
}

/// How an agent's process tree ended.
#[derive(Debug)]
pub struct Ended {
    /// How the command itself ended.
    pub exit: ExitStatus,
    /// Why the launcher ended it; `None` when it ended by itself.
    pub stopped: Option<StopReason>,
    /// Processor time of the whole tree, in milliseconds.
    pub cpu_ms: u64,
    /// What was refused and recorded.
    pub denials: Vec<Denial>,
    /// The limit that cut it short, if one did.
    pub limit: Option<LimitHit>,
    /// Every limit that was reached, as far as that is counted.
    pub hits: Vec<LimitHit>,
}

/// What the supervisor watches for.
#[derive(Debug, Clone)]
pub struct Supervision {
    /// The instant at which the agent must have ended.
    pub deadline: Option<Deadline>,
    /// Asks for a graceful end.
    pub cancel: CancellationToken,
    /// Asks for the end at once.
    pub kill: CancellationToken,
    /// Between TERM and KILL.
    pub grace: Duration,
    /// The most that it may print, in bytes.
    pub output: u64,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// Waits until the cage is proven empty.
///
/// What is refused meanwhile goes to `denied`, on a thread that may block.
///
/// # Errors
/// The proof could not be had; what the child wrote must not be trusted as final.
pub async fn supervise(
    mut child: Confined,
    watch: &Supervision,
    sink: Arc<dyn LineSink>,
    log: Option<OutputLog>,
    denied: impl FnMut(&Denial) + Send + 'static,
) -> anyhow::Result<Ended> {
    let log = Arc::new(Mutex::new(log));
    let flood = Arc::new(Flood::over(watch.output));
    let pumps: Vec<JoinHandle<()>> = [
        (child.take_stdout(), Stream::Out),
        (child.take_stderr(), Stream::Err),
    ]
    .into_iter()
    .filter_map(|(fd, stream)| {
        let pump = pump(fd?, stream, sink.clone(), log.clone(), flood.clone());
        Some(tokio::spawn(pump))
    })
    .collect();
    let killer = child.killer();
    let mut end = tokio::task::spawn_blocking(move || child.wait_telling(denied));
    let (ended, stopped) = tokio::select! {
        ended = &mut end => (ended, None),
        reason = stop_asked(watch) => {
            stop(&killer, watch, &mut end).await;
            (end.await, Some(reason))
        }
        () = flood.passed() => {
            killer.kill();
            (end.await, None)
        }
    };
    drain(pumps, DRAIN).await;
    if let Some(log) = log.lock().unwrap_or_else(PoisonError::into_inner).take() {
        log.finish();
    }
    let ended = ended??;
    let flooded = flood.hit();
    let mut hits = ended.hits;
    hits.extend(flooded.clone());
    Ok(Ended {
        exit: ExitStatus {
            code: ended.code,
            signal: ended.signal,
        },
        stopped,
        cpu_ms: ended.cpu_ms,
        denials: ended.denials,
        limit: ended.limit.or(flooded),
        hits,
    })
}

/// How long what an agent printed may take once nothing of it runs any more.
const DRAIN: Duration = Duration::from_secs(10);

/// Waits for the pumps, which end with the cage. A sink that does not take
/// what they bring must not hold the run up: its output is given up then. A
/// pump that panicked has only lost output as well.
async fn drain(pumps: Vec<JoinHandle<()>>, longest: Duration) {
    let limit = tokio::time::Instant::now() + longest;
    for mut pump in pumps {
        if tokio::time::timeout_at(limit, &mut pump).await.is_err() {
            tracing::warn!("the output of an agent was not taken in time and is incomplete");
            pump.abort();
        }
    }
}

async fn stop_asked(watch: &Supervision) -> StopReason {
    let deadline = async {
        match watch.deadline {
            Some(deadline) => sleep_until(deadline, watch.clock.as_ref()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = watch.kill.cancelled() => StopReason::Cancelled,
        () = watch.cancel.cancelled() => StopReason::Cancelled,
        () = deadline => StopReason::Deadline,
    }
}

/// Sleeps in short stretches: a suspended machine or a moved clock must not
/// carry an agent past its instant.
async fn sleep_until(deadline: Deadline, clock: &dyn Clock) {
    const STRETCH: Duration = Duration::from_secs(1);
    loop {
        let left = deadline.remaining(clock.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(STRETCH)).await;
    }
}

async fn stop<T>(killer: &Killer, watch: &Supervision, end: &mut JoinHandle<T>) {
    if !watch.kill.is_cancelled() {
        killer.terminate();
        tokio::select! {
            () = watch.kill.cancelled() => {}
            () = tokio::time::sleep(watch.grace) => {}
            () = finished(end) => return,
        }
    }
    killer.kill();
}

/// Resolves when the task is finished, without taking its result.
async fn finished<T>(task: &JoinHandle<T>) {
    const LOOK: Duration = Duration::from_millis(10);
    while !task.is_finished() {
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::drain;

    #[tokio::test]
    async fn output_that_nobody_takes_holds_nothing_up() {
        let stuck = tokio::spawn(std::future::pending());
        let task = stuck.abort_handle();
        drain(vec![stuck], Duration::ZERO).await;
        while !task.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}
