//! Who waits for whom.
//!
//! Owns the order in which results are integrated and the signal that a task
//! has landed. The order is the plan's, changed only where a task must follow
//! one that stands later in the plan: otherwise each would wait for the other.

use std::collections::BTreeMap;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::may_overlap;
use crate::model::{Order, TaskRequest};

/// What has become of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pending,
    Landed,
    NotLanded,
}

impl<'a> From<&'a TaskRequest> for Planned<'a> {
    fn from(task: &'a TaskRequest) -> Self {
        Self {
            name: &task.name,
            after: &task.after,
            paths: &task.paths,
            exclusive: task.exclusive,
        }
    }
}

/// Who waits for whom in one run.
#[derive(Debug)]
pub(super) struct Schedule {
    fates: Vec<watch::Sender<Fate>>,
    before: Vec<Option<usize>>,
    after: Vec<Vec<usize>>,
    behind: Vec<Vec<usize>>,
}

/// What the schedule has to know of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned<'a> {
    pub(super) name: &'a str,
    /// Names of tasks that must have landed before it starts.
    pub(super) after: &'a [String],
    /// The paths that it claims; none claims everything.
    pub(super) paths: &'a [String],
    /// Whether it and whoever overlaps with it run one after another.
    pub(super) exclusive: bool,
}

/// A task that had to land before did not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotLanded(pub(super) usize);

impl Schedule {
    /// Makes the schedule of tasks.
    ///
    /// Names are known and free of cycles: the plan was checked when it was read.
    pub(super) fn new(tasks: &[Planned<'_>], order: Order) -> Self {
        let places: BTreeMap<&str, usize> = tasks
            .iter()
            .enumerate()
            .map(|(at, task)| (task.name, at))
            .collect();
        let after: Vec<Vec<usize>> = tasks
            .iter()
            .map(|task| {
                let names = task.after.iter();
                names
                    .filter_map(|name| places.get(name.as_str()).copied())
                    .collect()
            })
            .collect();
        let chain = predecessors(&after);
        let behind = queues(tasks, &chain);
        let before = match order {
            Order::Completion => vec![None; tasks.len()],
            Order::Plan => chain,
        };
        let fates = tasks
            .iter()
            .map(|_| watch::Sender::new(Fate::Pending))
            .collect();
        Self {
            fates,
            before,
            after,
            behind,
        }
    }

    /// Waits until the tasks that this one must not run beside are over,
    /// whatever became of them.
    pub(super) async fn clear_way(&self, task: usize, cancel: &CancellationToken) {
        for earlier in &self.behind[task] {
            self.fate(*earlier, cancel).await;
        }
    }

    /// Waits until every task that this one follows has landed.
    pub(super) async fn prerequisites(
        &self,
        task: usize,
        cancel: &CancellationToken,
    ) -> Result<(), NotLanded> {
        for earlier in &self.after[task] {
            if self.fate(*earlier, cancel).await != Fate::Landed {
                return Err(NotLanded(*earlier));
            }
        }
        Ok(())
    }

    /// Whether the task follows another.
    pub(super) fn follows(&self, task: usize) -> bool {
        !self.after[task].is_empty()
    }

    /// Waits until it is this task's turn to be integrated.
    pub(super) async fn turn(&self, task: usize, cancel: &CancellationToken) {
        // Each one in the chain, not only the nearest: a task that fails early
        // is decided long before its own turn.
        let mut earlier = self.before[task];
        while let Some(at) = earlier {
            self.fate(at, cancel).await;
            earlier = self.before[at];
        }
    }

    /// Says what became of a task; the first word stands. What a later task in
    /// the order waits for is this, so every task says it on every path.
    pub(super) fn decide(&self, task: usize, landed: bool) {
        self.fates[task].send_if_modified(|fate| {
            let first = *fate == Fate::Pending;
            if first {
                *fate = if landed {
                    Fate::Landed
                } else {
                    Fate::NotLanded
                };
            }
            first
        });
    }

    async fn fate(&self, task: usize, cancel: &CancellationToken) -> Fate {
        let mut fate = self.fates[task].subscribe();
        let decided = async {
            match fate.wait_for(|fate| *fate != Fate::Pending).await {
                Ok(fate) => *fate,
                Err(_) => Fate::NotLanded,
            }
        };
        tokio::select! {
            fate = decided => fate,
            () = cancel.cancelled() => Fate::NotLanded,
        }
    }
}

/// For each task the one that is integrated right before it.
///
/// A task's turn comes when the fate of each one before it in this chain is
/// known.
fn predecessors(after: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut before = vec![None; after.len()];
    let mut placed = vec![false; after.len()];
    let mut last = None;
    for _ in 0..after.len() {
        let next = (0..after.len())
            .find(|task| !placed[*task] && after[*task].iter().all(|earlier| placed[*earlier]));
        let Some(next) = next else { break };
        placed[next] = true;
        before[next] = last;
        last = Some(next);
    }
    before
}

/// For each task those before it in the chain that it must not run beside:
/// one of the two is exclusive, and their paths may overlap.
///
/// Only earlier ones, in the order of the chain, so that no two wait for each
/// other.
fn queues(tasks: &[Planned<'_>], chain: &[Option<usize>]) -> Vec<Vec<usize>> {
    let overlap = |one: &Planned<'_>, other: &Planned<'_>| {
        one.paths.is_empty()
            || other.paths.is_empty()
            || one
                .paths
                .iter()
                .any(|a| other.paths.iter().any(|b| may_overlap(a, b)))
    };
    let earlier_of = |task: usize| {
        let mut found = Vec::new();
        let mut earlier = chain[task];
        while let Some(at) = earlier {
            let (one, other) = (&tasks[at], &tasks[task]);
            if (one.exclusive || other.exclusive) && overlap(one, other) {
                found.push(at);
            }
            earlier = chain[at];
        }
        found
    };
    (0..tasks.len()).map(earlier_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(name: &str) -> Planned<'_> {
        Planned {
            name,
            after: &[],
            paths: &[],
            exclusive: false,
        }
    }

    #[test]
    fn an_exclusive_task_queues_with_whoever_overlaps_and_nobody_else() {
        let (docs, guide, src) = (
            ["docs/**".to_owned()],
            ["docs/guide.md".to_owned()],
            ["src/**".to_owned()],
        );
        let tasks = [
            Planned {
                paths: &docs,
                ..planned("a")
            },
            Planned {
                paths: &src,
                ..planned("b")
            },
            Planned {
                paths: &guide,
                exclusive: true,
                ..planned("c")
            },
            Planned {
                paths: &docs,
                ..planned("d")
            },
        ];
        let schedule = Schedule::new(&tasks, Order::Completion);
        assert_eq!(schedule.behind, [vec![], vec![], vec![0], vec![2]]);
    }

    #[test]
    fn plan_order_bends_only_where_a_task_follows_a_later_one() {
        assert_eq!(
            predecessors(&[vec![], vec![], vec![]]),
            [None, Some(0), Some(1)]
        );
        // The first task follows the third: order 1, 2, 0.
        assert_eq!(
            predecessors(&[vec![2], vec![], vec![]]),
            [Some(2), None, Some(1)]
        );
    }

    #[tokio::test]
    async fn a_turn_comes_when_the_one_before_is_decided_and_never_when_that_is_open() {
        let schedule = Schedule::new(&[planned("a"), planned("b"), planned("c")], Order::Plan);
        let cancel = CancellationToken::new();
        schedule.turn(0, &cancel).await;
        let mut turn = Box::pin(schedule.turn(2, &cancel));
        schedule.decide(1, false);
        assert!(
            poll_once(turn.as_mut()).await.is_none(),
            "the first task is still open"
        );
        schedule.decide(0, true);
        turn.await;
    }

    #[tokio::test]
    async fn a_task_is_told_which_of_its_prerequisites_did_not_land() {
        let names = ["a".to_owned()];
        let second = Planned {
            after: &names,
            ..planned("b")
        };
        let schedule = Schedule::new(&[planned("a"), second], Order::Completion);
        let cancel = CancellationToken::new();
        schedule.decide(0, false);
        schedule.decide(0, true);
        assert_eq!(schedule.prerequisites(1, &cancel).await, Err(NotLanded(0)));
    }

    async fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(context) {
                std::task::Poll::Ready(value) => Some(value),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
