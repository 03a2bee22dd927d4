//! Each gate, their order, and the depth rule against its grid.

use std::time::Duration;

use super::super::gates::child_depth;
use super::super::{Ask, Counts, GATES, Registry};
use super::{admit, clock, fresh_id, registry};
use crate::config::builtin;
use crate::config::values::parse_depth;
use crate::model::{Clock as _, Contract, Deadline, Gate, LaunchLimits};

#[test]
fn the_depth_rule_equals_its_grid() {
    let grid = include_str!("../../../fixtures/depth_grid_own.csv");
    let mut cells = 0;
    for line in grid.lines().skip(1) {
        let cell: Vec<&str> = line.split(',').collect();
        let (caller, config, allowed) = (cell[0], cell[1], cell[2]);
        let text = match config.strip_prefix("str:") {
            Some(text) => text,
            None if config == "unset" => "2",
            None => config,
        };
        let caller: u32 = caller.parse().expect("because the grid holds depths");
        match (parse_depth("--max-depth", text), allowed) {
            (Err(_), "na") => {}
            (Ok(limit), "true" | "false") => {
                let passes = child_depth(caller, limit).is_some();
                assert_eq!(passes.to_string(), allowed, "{line}");
            }
            (parsed, _) => panic!("because the grid says otherwise: {line}, {parsed:?}"),
        }
        cells += 1;
    }
    assert_eq!(cells, 72);
    assert_eq!(LaunchLimits::default().max_depth, 2);
}

#[test]
fn depth_counts_ancestors_and_zero_means_no_delegation() {
    let flat = registry(0, 16, 4);
    let root = admit(&flat, None).expect("because the first agent has depth 0");
    let refusal = admit(&flat, Some(root.agent())).expect_err("because nobody delegates");
    assert_eq!(
        refusal.to_string(),
        "refused: an agent at depth 0 asks for a deeper one (limit 0, set by `--max-depth`); complete the task with your own tools"
    );
    let deep = registry(2, 16, 4);
    let zero = admit(&deep, None).expect("because it is the first");
    let one = admit(&deep, Some(zero.agent())).expect("because depth 1 exists");
    let two = admit(&deep, Some(one.agent())).expect("because depth 2 exists");
    assert_eq!((zero.depth(), one.depth(), two.depth()), (0, 1, 2));
    let refusal = admit(&deep, Some(two.agent())).expect_err("because depth 3 does not exist");
    assert_eq!(refusal.gate, Gate::Depth);
}

#[test]
fn the_total_counts_the_whole_life_and_is_given_back_only_unstarted() {
    let registry = registry(2, 2, 4);
    let mut first = admit(&registry, None).expect("because the total is 2");
    let second = admit(&registry, None).expect("because the total is 2");
    let refusal = admit(&registry, None).expect_err("because both are taken");
    assert_eq!(
        (
            refusal.gate,
            refusal.setting.as_str(),
            refusal.limit.as_str()
        ),
        (Gate::Total, "--max-total", "2")
    );
    drop(second);
    assert_eq!(registry.counts().total, 1);
    first.started();
    drop(first);
    assert_eq!(registry.counts().total, 1);
    drop(admit(&registry, None).expect("because the second was never started"));
    let mut last = admit(&registry, None).expect("because nothing was started");
    last.started();
    drop(last);
    assert!(admit(&registry, None).is_err(), "a sequence is bounded too");
    assert_eq!(
        registry.counts(),
        Counts {
            total: 2,
            available: 4,
            ..Counts::default()
        }
    );
}

#[test]
fn an_agent_that_is_not_known_or_has_ended_starts_nobody() {
    let registry = registry(2, 16, 4);
    let refusal = admit(&registry, Some(&fresh_id())).expect_err("because it is forged");
    assert_eq!(refusal.gate, Gate::Authority);
    let mut parent = admit(&registry, None).expect("because it is the first");
    parent.started();
    let id = parent.agent().clone();
    drop(parent);
    // What is below an ended agent is cancelled, so that gate is the first.
    let refusal = admit(&registry, Some(&id)).expect_err("because it has ended");
    assert_eq!(refusal.gate, Gate::Cancelled);
    let taken = registry
        .admit(Ask {
            id,
            parent: None,
            contract: &builtin::writer(),
            deadline: None,
        })
        .expect_err("because the id is taken");
    assert_eq!(taken.gate, Gate::Authority);
}

fn under(registry: &Registry, parent: &Contract, child: &Contract) -> Result<(), Gate> {
    let parent = registry
        .admit(Ask {
            id: fresh_id(),
            parent: None,
            contract: parent,
            deadline: None,
        })
        .expect("because the first agent is not compared");
    registry
        .admit(Ask {
            id: fresh_id(),
            parent: Some(parent.agent()),
            contract: child,
            deadline: None,
        })
        .map(drop)
        .map_err(|refusal| refusal.gate)
}

#[test]
fn a_child_lies_within_its_parent_and_has_a_role_that_it_may_start() {
    let registry = registry(2, 16, 4);
    let (writer, reader) = (builtin::writer(), builtin::reader());
    let narrow = Contract {
        write: vec!["docs/**".into()],
        ..builtin::writer()
    };
    for (parent, child, verdict) in [
        (&writer, &writer, Ok(())),
        (&writer, &reader, Ok(())),
        (&writer, &narrow, Ok(())),
        (&reader, &reader, Err(Gate::Authority)),
        (&narrow, &writer, Err(Gate::Authority)),
    ] {
        assert_eq!(under(&registry, parent, child), verdict);
    }
}

#[test]
fn the_deadline_is_the_earliest_and_never_starts_anew() {
    let clock = clock();
    let at = |seconds| Deadline::at(clock.now() + Duration::from_secs(seconds));
    let limits = LaunchLimits {
        deadline: Some(at(100)),
        ..LaunchLimits::default()
    };
    let registry = Registry::new(limits, clock.clone());
    let ask = |wall: Option<&str>, deadline, parent| {
        let mut contract = builtin::writer();
        contract.budget.wall = wall.map(str::to_owned);
        registry.admit(Ask {
            id: fresh_id(),
            parent,
            contract: &contract,
            deadline,
        })
    };
    let root = ask(None, Some(at(200)), None).expect("because 100 s are left");
    assert_eq!(root.deadline(), Some(at(100)));
    let parent = ask(Some("30s"), None, None).expect("because 30 s are left");
    assert_eq!(parent.deadline(), Some(at(30)));
    let expected = at(30);
    clock.advance(Duration::from_secs(10));
    let child =
        ask(Some("30s"), None, Some(parent.agent())).expect("because 20 s are left to its parent");
    assert_eq!(child.deadline(), Some(expected));
    let unclear = ask(Some("soon"), None, None).expect_err("because that is no duration");
    assert_eq!(unclear.gate, Gate::Deadline);
    clock.advance(Duration::from_secs(90));
    let late = ask(None, None, None).expect_err("because it is the instant itself");
    assert_eq!(
        (late.gate, late.setting.as_str()),
        (Gate::Deadline, "--deadline")
    );
}

#[test]
fn the_queue_is_bounded() {
    let limits = LaunchLimits {
        max_live: 1,
        queue_len: 2,
        ..LaunchLimits::default()
    };
    let registry = Registry::new(limits, clock());
    let held: Vec<_> = (0..3)
        .map(|_| admit(&registry, None).expect("because one runs and two queue"))
        .collect();
    let refusal = admit(&registry, None).expect_err("because the queue is full");
    assert_eq!(refusal.gate, Gate::Live);
    drop(held);
    assert!(admit(&registry, None).is_ok());
}

/// Breaks every gate at once and mends them one by one: what refuses next is
/// always the next of the table.
#[test]
fn the_first_refusal_is_the_first_of_the_table() {
    assert_eq!(
        GATES,
        [
            "cancelled",
            "identity",
            "depth",
            "authority",
            "total",
            "live",
            "budget",
            "deadline"
        ]
    );
    let clock = clock();
    let refused = |mended: usize| {
        let is = |gate: usize| mended > gate;
        let limits = LaunchLimits {
            max_depth: u32::from(is(2)),
            max_total: if is(4) { 9 } else { 1 },
            max_live: 1,
            queue_len: if is(5) { 9 } else { 0 },
            deadline: None,
        };
        let registry = Registry::new(limits, clock.clone());
        let parent = admit(&registry, None).expect("because it is the first");
        let stranger = fresh_id();
        if !is(0) {
            registry.cancel_all();
        }
        let mut child = builtin::writer();
        if !is(3) {
            child.role = "wizard".to_owned();
        }
        child.budget.turns = Some(u64::from(is(6)));
        let past = Deadline::at(clock.now());
        registry
            .admit(Ask {
                id: fresh_id(),
                parent: Some(if is(1) { parent.agent() } else { &stranger }),
                contract: &child,
                deadline: (!is(7)).then_some(past),
            })
            .map(drop)
            .map_err(|refusal| refusal.gate)
    };
    let verdicts: Vec<_> = (0..=GATES.len()).map(refused).collect();
    assert_eq!(
        verdicts,
        [
            Err(Gate::Cancelled),
            Err(Gate::Authority),
            Err(Gate::Depth),
            Err(Gate::Authority),
            Err(Gate::Total),
            Err(Gate::Live),
            Err(Gate::Budget),
            Err(Gate::Deadline),
            Ok(())
        ]
    );
}
