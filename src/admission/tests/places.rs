//! The queue: order, ends of a wait, and what a wait leaves behind.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::{Ask, Counts, Live, NotLive, Registry, Standing};
use super::{admit, clock, fresh_id, registry};
use crate::config::builtin;
use crate::model::{Clock as _, Deadline, Gate, LaunchLimits};

/// Looks once at a wait: done or not.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn live(registry: &Registry) -> Live {
    let admitted = admit(registry, None).expect("because the limits allow it");
    let cancel = CancellationToken::new();
    match poll(pin!(admitted.live_place(&cancel))) {
        Poll::Ready(Ok(live)) => live,
        other => panic!("because a place is free: {other:?}"),
    }
}

#[test]
fn places_go_round_in_the_order_of_asking() {
    let registry = registry(2, 16, 1);
    let cancel = CancellationToken::new();
    let holder = live(&registry);
    let one = admit(&registry, None).expect("because the total is 16");
    let two = admit(&registry, None).expect("because the total is 16");
    let (first, second) = (one.agent().clone(), two.agent().clone());
    let mut one = Box::pin(one.live_place(&cancel));
    let mut two = Box::pin(two.live_place(&cancel));
    assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
    assert_eq!(
        (registry.standing(&first), registry.standing(&second)),
        (
            Some(Standing::Queued { position: 1 }),
            Some(Standing::Queued { position: 2 })
        )
    );
    drop(holder);
    assert!(poll(two.as_mut()).is_pending(), "nobody overtakes");
    let newcomer = admit(&registry, None).expect("because the total is 16");
    let mut newcomer = Box::pin(newcomer.live_place(&cancel));
    assert!(poll(newcomer.as_mut()).is_pending());
    let Poll::Ready(Ok(place)) = poll(one.as_mut()) else {
        panic!("because the place was handed over");
    };
    assert_eq!(registry.standing(&first), Some(Standing::Live));
    drop(place);
    assert!(matches!(poll(two.as_mut()), Poll::Ready(Ok(_))));
}

#[test]
fn a_wait_that_is_dropped_leaves_nothing_even_with_the_place_in_its_hand() {
    let registry = registry(2, 16, 1);
    let cancel = CancellationToken::new();
    let holder = live(&registry);
    let one = admit(&registry, None).expect("because the total is 16");
    let two = admit(&registry, None).expect("because the total is 16");
    let mut one = Box::pin(one.live_place(&cancel));
    let mut two = Box::pin(two.live_place(&cancel));
    assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
    drop(holder);
    // The place is already the first one's, who goes away without taking it.
    drop(one);
    assert!(matches!(poll(two.as_mut()), Poll::Ready(Ok(_))));
    drop(two);
    assert_eq!(
        registry.counts(),
        Counts {
            available: 1,
            ..Counts::default()
        }
    );
}

#[test]
fn every_cancellation_ends_a_wait_and_gives_all_back() {
    type Cancel = fn(&Registry, &Live, &CancellationToken, &crate::model::AgentId);
    let ways: [Cancel; 4] = [
        |_, _, own, _| own.cancel(),
        |registry, _, _, _| registry.cancel_all(),
        |registry, parent, _, _| assert!(registry.cancel(parent.admitted().agent())),
        |registry, _, _, agent| assert!(registry.cancel(agent)),
    ];
    for (at, way) in ways.into_iter().enumerate() {
        let registry = registry(2, 16, 1);
        let cancel = CancellationToken::new();
        let parent = live(&registry);
        let child =
            admit(&registry, Some(parent.admitted().agent())).expect("because depth 1 exists");
        let id = child.agent().clone();
        let mut child = Box::pin(child.live_place(&cancel));
        assert!(poll(child.as_mut()).is_pending());
        way(&registry, &parent, &cancel, &id);
        let Poll::Ready(Err(error)) = poll(child.as_mut()) else {
            panic!("because way {at} cancels it");
        };
        assert_eq!(error, NotLive::Cancelled);
        assert_eq!(registry.counts().queued, 0);
        assert_eq!(registry.counts().total, 1, "only the parent");
        assert_eq!(registry.standing(&id), None);
    }
}

#[test]
fn nobody_is_admitted_after_a_cancellation() {
    let registry = registry(2, 16, 1);
    registry.cancel_all();
    assert!(registry.is_cancelled());
    let refusal = admit(&registry, None).expect_err("because everything is cancelled");
    assert_eq!(refusal.gate, Gate::Cancelled);
}

#[test]
fn cancellation_reaches_below_an_agent_that_has_finished() {
    let registry = registry(2, 16, 4);
    let root = live(&registry);
    let mut middle = admit(&registry, Some(root.admitted().agent())).expect("because it may");
    middle.started();
    let leaf = admit(&registry, Some(middle.agent())).expect("because it may");
    assert_eq!(
        registry.descendants(root.admitted().agent()),
        [middle.agent().clone(), leaf.agent().clone()]
    );
    let id = middle.agent().clone();
    drop(middle);
    assert_eq!(registry.standing(&id), Some(Standing::Ended));
    assert!(leaf.cancelled().is_cancelled(), "its parent is gone");
    assert!(!root.admitted().cancelled().is_cancelled());
}

#[test]
fn a_waiting_parent_gives_its_place_to_its_child_and_takes_it_back() {
    let registry = registry(2, 16, 1);
    let cancel = CancellationToken::new();
    let mut parent = live(&registry);
    let child = admit(&registry, Some(parent.admitted().agent())).expect("because it may");
    let mut child = Box::pin(child.live_place(&cancel));
    assert!(
        poll(child.as_mut()).is_pending(),
        "the parent holds the place"
    );
    parent.yield_place();
    parent.yield_place();
    let Poll::Ready(Ok(child)) = poll(child.as_mut()) else {
        panic!("because the parent gave its place back");
    };
    assert_eq!(
        registry.counts(),
        Counts {
            live: 1,
            waiting: 1,
            total: 2,
            ..Counts::default()
        }
    );
    {
        let mut back = Box::pin(parent.retake(&cancel));
        assert!(poll(back.as_mut()).is_pending());
        drop(child);
        assert!(matches!(poll(back.as_mut()), Poll::Ready(Ok(()))));
    }
    assert!(matches!(
        poll(pin!(parent.retake(&cancel))),
        Poll::Ready(Ok(()))
    ));
    assert_eq!(registry.counts().live, 1);
    drop(parent);
    assert_eq!(registry.counts().available, 1);
}

#[test]
fn finishing_twice_is_finishing_once() {
    let registry = registry(2, 16, 2);
    let other = live(&registry);
    let mut agent = live(&registry);
    agent.started();
    let id = agent.admitted().agent().clone();
    registry.finish(&id);
    registry.finish(&id);
    drop(agent);
    registry.finish(&fresh_id());
    assert_eq!(
        registry.counts(),
        Counts {
            live: 1,
            total: 2,
            available: 1,
            ..Counts::default()
        }
    );
    drop(other);
    assert_eq!(registry.counts().available, 2);
}

#[tokio::test]
async fn a_deadline_ends_a_wait() {
    let limits = LaunchLimits {
        max_live: 1,
        ..LaunchLimits::default()
    };
    // The clock stands, so the instant lies ahead however slow the machine is;
    // the wait itself is as long as the clock says is left.
    let clock = clock();
    let registry = Registry::new(limits, clock.clone());
    let cancel = CancellationToken::new();
    let holder = admit(&registry, None)
        .expect("because the limits allow it")
        .live_place(&cancel)
        .await
        .expect("because a place is free");
    let soon = Deadline::at(clock.now() + Duration::from_millis(20));
    let late = registry
        .admit(Ask {
            id: fresh_id(),
            parent: None,
            contract: &builtin::writer(),
            deadline: Some(soon),
        })
        .expect("because the instant lies ahead");
    let error = late
        .live_place(&cancel)
        .await
        .expect_err("because the place stays taken");
    assert!(
        matches!(&error, NotLive::Refused(refusal) if refusal.gate == Gate::Deadline),
        "{error}"
    );
    drop(holder);
    assert_eq!(registry.counts().available, 1);
}
