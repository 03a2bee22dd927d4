//! Many threads and random schedules: no limit is ever passed, all comes back.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use tokio_util::sync::CancellationToken;

use super::super::{Counts, Live, NotLive};
use super::{admit, registry};
use crate::model::AgentId;

#[test]
fn sixty_four_threads_never_pass_a_limit_and_all_places_return() {
    const MAX_LIVE: u32 = 4;
    const MAX_TOTAL: u32 = 300;
    let registry = registry(2, MAX_TOTAL, MAX_LIVE);
    let (now, most, started) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..64_u32 {
            let (registry, now, most, started) = (&registry, &now, &most, &started);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build()
                    .expect("because the machine can run one");
                let cancel = CancellationToken::new();
                for round in 0..20_u32 {
                    let Ok(admitted) = admit(registry, None) else {
                        continue;
                    };
                    let mut live = runtime
                        .block_on(admitted.live_place(&cancel))
                        .expect("because nobody cancels");
                    let running = now.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(running, Ordering::SeqCst);
                    std::thread::yield_now();
                    if (thread + round) % 3 > 0 {
                        live.started();
                        started.fetch_add(1, Ordering::SeqCst);
                    }
                    now.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    let (most, started) = (most.into_inner(), started.into_inner());
    assert!((1..=MAX_LIVE).contains(&most), "{most} ran at once");
    assert!(started <= MAX_TOTAL, "{started} were started");
    assert_eq!(
        registry.counts(),
        Counts {
            total: started,
            available: MAX_LIVE,
            ..Counts::default()
        }
    );
}

type Waiting = Pin<Box<dyn Future<Output = Result<Live, NotLive>>>>;

/// A fixed sequence of numbers, so that every run tries the same schedules.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}

#[derive(Default)]
struct World {
    waiting: BTreeMap<AgentId, Waiting>,
    live: Vec<Live>,
}

impl World {
    fn look(&mut self) {
        let ids: Vec<AgentId> = self.waiting.keys().cloned().collect();
        for id in ids {
            let Some(mut wait) = self.waiting.remove(&id) else {
                continue;
            };
            match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => {
                    self.waiting.insert(id, wait);
                }
                Poll::Ready(Ok(live)) => self.live.push(live),
                Poll::Ready(Err(_)) => {}
            }
        }
    }
}

#[test]
fn no_schedule_passes_a_limit_or_loses_a_place() {
    const MAX_LIVE: u32 = 2;
    const MAX_TOTAL: u32 = 12;
    for seed in 0..300 {
        let registry = registry(2, MAX_TOTAL, MAX_LIVE);
        let mut numbers = Numbers(seed);
        let mut world = World::default();
        for _ in 0..60 {
            match numbers.below(7) {
                0..=2 => {
                    let parent = world
                        .live
                        .first()
                        .map(|live| live.admitted().agent().clone());
                    let parent = parent.filter(|_| numbers.below(2) == 0);
                    if let Ok(admitted) = admit(&registry, parent.as_ref()) {
                        let id = admitted.agent().clone();
                        let wait =
                            async move { admitted.live_place(&CancellationToken::new()).await };
                        world.waiting.insert(id, Box::pin(wait));
                    }
                }
                3 if !world.live.is_empty() => {
                    let at = numbers.below(world.live.len());
                    world.live[at].started();
                }
                4 if !world.live.is_empty() => {
                    let at = numbers.below(world.live.len());
                    drop(world.live.swap_remove(at));
                }
                5 if !world.live.is_empty() => {
                    let at = numbers.below(world.live.len());
                    world.live[at].yield_place();
                }
                6 if !world.waiting.is_empty() => {
                    drop(world.waiting.pop_first());
                }
                _ => world.look(),
            }
            let counts = registry.counts();
            assert!(counts.live <= MAX_LIVE, "seed {seed}: {counts:?}");
            assert!(counts.total <= MAX_TOTAL, "seed {seed}: {counts:?}");
            assert_eq!(counts.available, MAX_LIVE - counts.live, "seed {seed}");
        }
        world.waiting.clear();
        world.live.clear();
        let counts = registry.counts();
        let idle = Counts {
            total: counts.total,
            available: MAX_LIVE,
            ..Counts::default()
        };
        assert_eq!(counts, idle, "seed {seed}");
    }
}
