//! Owns the table of guarantees, layers and features of the kernel.
//!
//! A guarantee is held by any one of its alternatives, and an alternative by
//! all of its features together. The table drives the refusal, the report and
//! the documentation; what a machine has is not its business.

use std::collections::{BTreeMap, BTreeSet};

use super::feature::{Feature, Holder};
use super::name::Guarantee;
use crate::policy::Layer;

use Feature::{
    CallFilter, FileRules, HiddenPaths, InternetRefused, Launcher, LockedCapabilities,
    NamespaceQuota, NetworkNamespace, NoCapabilities, OwnDevices, OwnProcfs, PathSocketRule,
    PidNamespace, PriorityFilter, Scopes, SubReaper, TreeLimits, TruncateRule, View,
};

/// What holds a guarantee: any of these, all features of one together.
type Alternatives = &'static [&'static [Feature]];

/// The row of a guarantee.
pub(super) fn alternatives(guarantee: Guarantee) -> Alternatives {
    match guarantee {
        Guarantee::NoWriteOutside => &[&[FileRules], &[View]],
        Guarantee::NoTruncateOutside => &[&[TruncateRule], &[View]],
        // Landlock has no rule for modes, owners, times and attributes.
        Guarantee::NoMetadataChangeOutside => &[&[View]],
        Guarantee::NoReadOfSecrets => &[&[FileRules], &[HiddenPaths]],
        Guarantee::NoSignalOutside => &[&[PidNamespace], &[Scopes]],
        // Landlock denies to trace whatever has fewer rules. The filter
        // denies the calls, and a procfs of one's own the files.
        Guarantee::NoTraceOutside => &[&[PidNamespace], &[FileRules], &[CallFilter, OwnProcfs]],
        Guarantee::NoPriorityChangeOutside => &[&[PidNamespace], &[PriorityFilter]],
        Guarantee::NoNetwork => &[&[NetworkNamespace], &[InternetRefused]],
        // A path is hidden or ruled; an abstract name belongs to a network
        // namespace or is out of scope; other families know no namespace.
        Guarantee::NoHostSockets => &[
            &[View, NetworkNamespace, CallFilter],
            &[View, Scopes, CallFilter],
            &[PathSocketRule, NetworkNamespace, CallFilter],
            &[PathSocketRule, Scopes, CallFilter],
        ],
        // Making one is no right that any rule gives; reaching one needs a
        // rule, or a view that shows none.
        Guarantee::NoHostDevices => &[&[FileRules], &[OwnDevices, NoCapabilities]],
        Guarantee::NoNewNamespaces => &[&[CallFilter], &[NamespaceQuota]],
        // A mount needs a capability, which only a new namespace could give;
        // and Landlock denies every change of mounts to who has file rules.
        Guarantee::NoNewMounts => &[
            &[CallFilter],
            &[FileRules],
            &[NoCapabilities, NamespaceQuota],
        ],
        Guarantee::NoNewPrivileges => &[&[LockedCapabilities], &[NoCapabilities, CallFilter]],
        Guarantee::NoInheritedDescriptors | Guarantee::NoInheritedEnvironment => &[&[Launcher]],
        Guarantee::BoundedResources => &[&[TreeLimits]],
        Guarantee::NothingSurvives => &[&[PidNamespace], &[SubReaper]],
    }
}

/// Who holds each guarantee; an empty list where nobody does.
#[must_use]
pub fn held(features: &BTreeSet<Feature>) -> BTreeMap<Guarantee, Vec<Holder>> {
    Guarantee::ALL
        .iter()
        .map(|guarantee| (*guarantee, holders(*guarantee, features)))
        .collect()
}

/// The layers of all alternatives that are met, without repetition.
fn holders(guarantee: Guarantee, features: &BTreeSet<Feature>) -> Vec<Holder> {
    let met = alternatives(guarantee)
        .iter()
        .filter(|alternative| alternative.iter().all(|one| features.contains(one)));
    let mut holders: Vec<Holder> = Vec::new();
    for feature in met.copied().flatten() {
        if !holders.contains(&feature.holder()) {
            holders.push(feature.holder());
        }
    }
    holders
}

/// Whether a guarantee is held by nobody only because these layers were given
/// up: who gives up a layer gives up what no other holds on that machine.
///
/// `features` are those without the layers.
#[must_use]
pub fn is_given_up_with(
    guarantee: Guarantee,
    layers: &BTreeSet<Layer>,
    features: &BTreeSet<Feature>,
) -> bool {
    let given_up = |feature: &Feature| match feature.holder() {
        Holder::Layer(layer) => layers.contains(&layer),
        Holder::Launcher => false,
    };
    let with_them = Feature::ALL.into_iter().filter(given_up);
    let with_them: BTreeSet<Feature> = features.iter().copied().chain(with_them).collect();
    holders(guarantee, features).is_empty() && !holders(guarantee, &with_them).is_empty()
}

/// What would hold a guarantee, in words.
#[must_use]
pub fn needs(guarantee: Guarantee) -> String {
    let words: Vec<String> = alternatives(guarantee)
        .iter()
        .map(|alternative| {
            let words: Vec<&str> = alternative.iter().map(|one| one.phrase()).collect();
            words.join(" and ")
        })
        .collect();
    words.join(", or ")
}

/// The features that would hold a guarantee with the least that is missing:
/// what a person has to get.
#[must_use]
pub fn missing(guarantee: Guarantee, features: &BTreeSet<Feature>) -> Vec<Feature> {
    alternatives(guarantee)
        .iter()
        .map(|alternative| {
            let lacking = alternative.iter().filter(|one| !features.contains(one));
            lacking.copied().collect::<Vec<_>>()
        })
        .min_by_key(Vec::len)
        .unwrap_or_default()
}
