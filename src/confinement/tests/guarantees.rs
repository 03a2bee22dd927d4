//! Promises: what is refused, and what can be given up.

use std::collections::BTreeSet;

use cofferdam_sandbox::guarantees::Holder;
use cofferdam_sandbox::{Enforcement, Feature, Guarantee, Layer};

use super::super::{Waivers, held, shortfalls};
use super::full;
use crate::config::known_waivers;
use crate::model::NetworkAccess;

/// A machine on which what a layer gives is missing. A sub-reaper stands in
/// where there is no PID namespace, as it does in the stage.
fn without(layer: Layer) -> Enforcement {
    let mut enforcement = full();
    enforcement
        .features
        .retain(|feature| feature.holder() != Holder::Layer(layer));
    if layer == Layer::Namespaces {
        enforcement.features.insert(Feature::SubReaper);
        enforcement.features.insert(Feature::PriorityFilter);
    }
    enforcement
}

fn short(enforcement: &Enforcement, waived: &[&str], network: NetworkAccess) -> Vec<&'static str> {
    let names: Vec<String> = waived.iter().map(|name| (*name).to_owned()).collect();
    let waivers = Waivers::parse(&names).expect("because the names are known");
    let mut features = enforcement.features.clone();
    features.retain(|feature| match feature.holder() {
        Holder::Layer(layer) => !waivers.layers().contains(&layer),
        Holder::Launcher => true,
    });
    shortfalls(&features, &waivers.promised(network, &features))
        .iter()
        .map(|shortfall| shortfall.guarantee.word())
        .collect()
}

#[test]
fn every_promise_and_every_layer_can_be_given_up_by_its_name() {
    let names: Vec<&str> = Layer::ALL
        .into_iter()
        .map(Layer::word)
        .chain(Guarantee::ALL.iter().map(|one| one.word()))
        .chain(["ledger"])
        .collect();
    assert_eq!(known_waivers(), names);
    let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let waivers = Waivers::parse(&all).expect("because the names are known");
    let nothing = BTreeSet::new();
    assert!(waivers.promised(NetworkAccess::None, &nothing).is_empty());
}

#[test]
fn a_machine_with_every_layer_holds_every_promise() {
    let held = held(&full());
    assert!(held.values().all(|holders| !holders.is_empty()), "{held:?}");
    assert_eq!(held["no_write_outside"], ["landlock", "mounts"]);
    assert_eq!(held["no_signal_outside"], ["namespaces", "landlock"]);
    assert_eq!(
        held["no_host_sockets"],
        ["mounts", "network", "seccomp", "landlock"]
    );
    assert_eq!(held["no_inherited_environment"], ["launcher"]);
    assert_eq!(held["nothing_survives"], ["namespaces"]);
    assert!(short(&full(), &[], NetworkAccess::None).is_empty());
}

#[test]
fn each_missing_layer_costs_the_promises_that_only_it_holds() {
    for (layer, lost) in [
        (Layer::Landlock, &[][..]),
        (
            Layer::Mounts,
            &["no_metadata_change_outside", "no_host_sockets"],
        ),
        (Layer::Namespaces, &[]),
        (Layer::Seccomp, &["no_host_sockets"]),
        (Layer::Capabilities, &["no_new_privileges"]),
        (Layer::Network, &["no_network"]),
        (Layer::Limits, &[]),
    ] {
        let enforcement = without(layer);
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
    assert!(short(&without(Layer::Network), &[], NetworkAccess::Open).is_empty());
}

#[test]
fn giving_a_layer_up_gives_up_nothing_that_another_holds() {
    let all = Waivers::default().promised(NetworkAccess::None, &full().features);
    let lost = |layer: Layer| -> Vec<&'static str> {
        let waivers = Waivers::parse(&[layer.word().to_owned()]).expect("because it is a layer");
        let promised = waivers.promised(NetworkAccess::None, &without(layer).features);
        all.difference(&promised).map(|one| one.word()).collect()
    };
    assert!(lost(Layer::Landlock).is_empty());
    assert_eq!(
        lost(Layer::Mounts),
        ["no_metadata_change_outside", "no_host_sockets"]
    );
    assert!(lost(Layer::Namespaces).is_empty());
}

#[test]
fn a_shortfall_says_what_is_needed_and_how_to_get_it() {
    let enforcement = without(Layer::Mounts);
    let waivers = Waivers::default();
    let features = &enforcement.features;
    let short = shortfalls(features, &waivers.promised(NetworkAccess::None, features));
    let text = short[0].to_string();
    for part in [
        "`no_metadata_change_outside` needs read-only view",
        "allow this user mount namespaces",
        "--allow-degraded no_metadata_change_outside",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_all_that_there_are() {
    let error = Waivers::parse(&["everything".to_owned()]).expect_err("because it is no name");
    for name in ["landlock", "no_network", "nothing_survives", "ledger"] {
        assert!(error.to_string().contains(name), "{error}");
    }
}
