//! Promises: who holds them, what is refused, what can be given up.

use cofferdam_sandbox::{Enforcement, Layer, Proof, Status};

use super::super::{Waivers, held, shortfalls};
use super::full;
use crate::config::GUARANTEES;
use crate::model::NetworkAccess;

fn without(layers: &[Layer]) -> Enforcement {
    let mut enforcement = full();
    for layer in layers {
        let reason = "gone".to_owned();
        enforcement.layers.insert(*layer, Status::Absent { reason });
        if *layer == Layer::Namespaces {
            enforcement.proof = Proof::SubreaperSwept;
        }
    }
    enforcement
}

fn partly(layer: Layer) -> Enforcement {
    let mut enforcement = full();
    let missing = vec!["some".to_owned()];
    enforcement
        .layers
        .insert(layer, Status::Partial { missing });
    enforcement
}

fn short(enforcement: &Enforcement, waived: &[&str], network: NetworkAccess) -> Vec<&'static str> {
    let names: Vec<String> = waived.iter().map(|name| (*name).to_owned()).collect();
    let waivers = Waivers::parse(&names).expect("because the names are known");
    shortfalls(enforcement, &waivers, network)
        .iter()
        .map(|shortfall| shortfall.guarantee)
        .collect()
}

#[test]
fn the_table_has_exactly_the_promises_that_can_be_waived() {
    let held = held(&full());
    let mut names: Vec<&str> = held.keys().map(String::as_str).collect();
    let mut known = GUARANTEES.to_vec();
    names.sort_unstable();
    known.sort_unstable();
    assert_eq!(names, known);
}

#[test]
fn a_machine_with_every_layer_holds_every_promise() {
    let held = held(&full());
    assert!(held.values().all(|holders| !holders.is_empty()), "{held:?}");
    assert_eq!(held["no_write_outside"], ["landlock", "mounts"]);
    assert_eq!(held["no_signal_outside"], ["namespaces", "landlock"]);
    assert_eq!(held["no_host_sockets"], ["mounts", "network", "landlock"]);
    assert_eq!(held["no_inherited_environment"], ["launcher"]);
    assert_eq!(held["nothing_survives"], ["namespaces"]);
    assert!(short(&full(), &[], NetworkAccess::None).is_empty());
}

#[test]
fn each_missing_layer_costs_the_promises_that_only_it_holds() {
    for (layer, lost) in [
        (Layer::Landlock, &["no_read_of_secrets"][..]),
        (
            Layer::Mounts,
            &["no_metadata_change_outside", "no_host_sockets"],
        ),
        (Layer::Namespaces, &[]),
        (Layer::Seccomp, &[]),
        (Layer::Capabilities, &["no_new_privileges"]),
        (Layer::Network, &["no_network"]),
        (Layer::Limits, &[]),
    ] {
        let enforcement = without(&[layer]);
        assert_eq!(
            short(&enforcement, &[], NetworkAccess::None),
            lost,
            "{layer}"
        );
        assert!(
            short(&enforcement, lost, NetworkAccess::None).is_empty(),
            "{layer}"
        );
        assert!(
            short(&enforcement, &[layer.word()], NetworkAccess::None).is_empty(),
            "{layer}"
        );
    }
    let nobody = held(&without(&[Layer::Mounts]));
    assert!(nobody["no_metadata_change_outside"].is_empty());
    assert_eq!(
        held(&without(&[Layer::Namespaces]))["nothing_survives"],
        ["launcher"]
    );
}

#[test]
fn a_layer_that_falls_short_holds_what_every_kernel_gives() {
    assert!(short(&partly(Layer::Landlock), &[], NetworkAccess::None).is_empty());
    assert!(short(&partly(Layer::Network), &[], NetworkAccess::None).is_empty());
    let mut both = partly(Layer::Landlock);
    both.layers
        .insert(Layer::Namespaces, Status::Partial { missing: vec![] });
    assert_eq!(
        short(&both, &[], NetworkAccess::None),
        ["no_signal_outside"]
    );
    assert!(short(&without(&[Layer::Network]), &[], NetworkAccess::Open).is_empty());
}

#[test]
fn an_unknown_name_is_refused_with_all_that_there_are() {
    let error = Waivers::parse(&["everything".to_owned()]).expect_err("because it is no name");
    for name in ["landlock", "no_network", "nothing_survives", "ledger"] {
        assert!(error.to_string().contains(name), "{error}");
    }
}
