//! The thread on which confined children are made.
//!
//! A death signal is tied to the thread that made the child, not to the
//! process: a child made on a pool's thread would be killed when the pool
//! shrinks. So one thread makes them all and lives as long as its owner.

use std::sync::mpsc;
use std::thread;

use cofferdam_sandbox::{Confined, Helper, Input, Policy, SpawnError};
use tokio::sync::oneshot;

/// The spawner's thread has ended, which it only does with its owner.
#[derive(Debug, thiserror::Error)]
#[error("reach the thread that makes children: it has ended")]
pub struct SpawnerGone;

struct Job {
    policy: Policy,
    input: Input,
    reply: oneshot::Sender<Result<Confined, SpawnError>>,
}

/// Makes confined children on one long-lived thread.
#[derive(Debug, Clone)]
pub struct Spawner {
    jobs: mpsc::Sender<Job>,
}

impl Spawner {
    /// Starts the thread. It ends when the last clone of the spawner is dropped.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub fn start(helper: Helper) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name("spawner".to_owned())
            .spawn(move || {
                for job in queue {
                    let made = cofferdam_sandbox::spawn(&job.policy, job.input, &helper);
                    // A requester that was cancelled in between drops its end; the
                    // child in the undelivered answer is killed by its own drop.
                    drop(job.reply.send(made));
                }
            })?;
        Ok(Self { jobs })
    }

    /// Makes one child and returns once its command is executing.
    ///
    /// # Errors
    /// The thread is gone, or the child could not be made as the policy says.
    pub async fn spawn(
        &self,
        policy: Policy,
        input: Input,
    ) -> Result<Result<Confined, SpawnError>, SpawnerGone> {
        let (reply, answer) = oneshot::channel();
        self.jobs
            .send(Job {
                policy,
                input,
                reply,
            })
            .map_err(|_| SpawnerGone)?;
        answer.await.map_err(|_| SpawnerGone)
    }
}
