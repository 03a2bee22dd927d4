//! Owns the tests on machines that lack a feature of the kernel, each in turn.
//!
//! One table says for every feature what a cage that requires everything is
//! refused for, what the probe tells, and with which waivers a cage starts all
//! the same. What it still promises then is tried. To change an expectation,
//! change its row.

use std::fs;

use cofferdam_sandbox::{Layer, Policy};
use cofferdam_shim::Feature;
use serde_json::Value;

use crate::cage::{in_place, launch_without, on};
use crate::canary::{Print, Victim};
use crate::setting::{FIXTURE, Setting, Who, as_everyone, rule};

/// What comes of a start that requires every layer in full.
#[derive(Debug, Clone, Copy)]
enum Strict {
    /// It starts: the feature is not needed.
    Starts,
    /// It is refused for want of this layer.
    Lacks(Layer),
    /// It is refused by a step of the helper that names this.
    Fails(&'static str),
}

/// How the policy of a cage that starts all the same differs.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Nothing is waived; what cannot be had is no longer required.
    Unrequired(&'static [Layer]),
    /// These layers are waived by name.
    Waived(&'static [Layer]),
    /// No view, and these are no longer required.
    InPlace,
    /// There is none: without the feature nothing starts.
    None,
}

/// What a machine without a feature does.
struct Row {
    feature: Feature,
    /// For the superuser, then for an ordinary user.
    strict: [Strict; 2],
    /// Layers that the probe must not call full, for each of them.
    short: [&'static [Layer]; 2],
    way: [Way; 2],
}

const fn both(feature: Feature, strict: Strict, short: &'static [Layer], way: Way) -> Row {
    Row {
        feature,
        strict: [strict, strict],
        short: [short, short],
        way: [way, way],
    }
}

use Layer::{Landlock, Mounts, Namespaces, Network, Seccomp};
use Strict::{Fails, Lacks, Starts};

/// All but those of the kernel's rules for files and calls.
const NAMESPACED: &[Layer] = &[Mounts, Namespaces, Network];

fn table() -> Vec<Row> {
    let without_rules = Way::Waived(&[Landlock]);
    let weaker_rules = Way::Unrequired(&[Landlock]);
    let mut rows = vec![
        both(
            Feature::Landlock,
            Lacks(Landlock),
            &[Landlock],
            without_rules,
        ),
        both(
            Feature::LandlockSwitch,
            Lacks(Landlock),
            &[Landlock],
            without_rules,
        ),
        both(
            Feature::LandlockSince(1),
            Lacks(Landlock),
            &[Landlock],
            without_rules,
        ),
        both(
            Feature::LandlockSince(2),
            Lacks(Landlock),
            &[Landlock],
            without_rules,
        ),
    ];
    rows.extend([3, 4, 5].map(|version| {
        let feature = Feature::LandlockSince(version);
        both(feature, Lacks(Landlock), &[Landlock], weaker_rules)
    }));
    rows.extend(
        [6, 7].map(|version| both(Feature::LandlockSince(version), Starts, &[], Way::None)),
    );
    rows.extend([
        both(Feature::Namespaces, Lacks(Mounts), NAMESPACED, Way::InPlace),
        Row {
            feature: Feature::UserNamespaces,
            // Who has the privilege needs none to make the others.
            strict: [Starts, Lacks(Mounts)],
            short: [&[], NAMESPACED],
            way: [Way::None, Way::InPlace],
        },
        both(
            Feature::PowerInUserNamespaces,
            Lacks(Mounts),
            NAMESPACED,
            Way::InPlace,
        ),
        both(Feature::Mounts, Lacks(Mounts), &[Mounts], Way::InPlace),
        both(
            Feature::MountDescriptors,
            Lacks(Mounts),
            &[Mounts],
            Way::InPlace,
        ),
        both(
            Feature::NetworkNamespaces,
            Lacks(Network),
            &[Network],
            Way::Unrequired(&[Network]),
        ),
        both(
            Feature::Seccomp,
            Lacks(Seccomp),
            &[Seccomp],
            Way::Waived(&[Seccomp]),
        ),
        both(
            Feature::Pidfd,
            Fails("Function not implemented"),
            &[],
            Way::None,
        ),
        both(
            Feature::Openat2,
            Fails("Function not implemented"),
            &[],
            Way::None,
        ),
        both(Feature::CloseRange, Fails("helper"), &[], Way::None),
    ]);
    rows
}

/// Runs a case for every user and every row.
fn on_each_machine(case: impl Fn(&Setting, &Row, usize)) {
    for row in table() {
        as_everyone(|setting| {
            let privileged = rustix::process::geteuid().is_root() && setting.who == Who::Myself;
            case(setting, &row, usize::from(!privileged));
        });
    }
}

/// T45: the table has every feature that can be taken away.
#[test]
fn every_feature_has_its_row() {
    let rows: Vec<_> = table().iter().map(|row| row.feature).collect();
    assert_eq!(rows, Feature::all());
}

/// T45: where a layer is required and the machine has it not, the start is
/// refused with the layer's name, and nothing was started or changed.
#[test]
fn what_is_required_and_missing_is_refused_by_name() {
    on_each_machine(|setting, row, who| {
        let trace = setting.work().join("trace");
        let policy = setting.policy(&["touch", trace.to_str().unwrap()]);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let before = Print::of(setting.root.path());
        let result = launch_without(&[row.feature], setting, "launch", &policy);
        let text = result["text"].as_str().unwrap_or_default();
        let name = row.feature;
        match row.strict[who] {
            Starts => {
                assert_eq!(result["code"], 0, "{name}: {result}");
                assert!(trace.exists());
                return;
            }
            Lacks(layer) => {
                assert_eq!(result["error"], "unavailable", "{name}: {result}");
                assert!(text.contains(&format!("`{layer}`")), "{name}: {result}");
            }
            Fails(word) => {
                assert!(result["error"].is_string(), "{name}: {result}");
                assert!(text.contains(word), "{name}: {result}");
            }
        }
        before.assert_same(setting.root.path());
        let after = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert_eq!(mounts, after, "{name}");
    });
}

/// T45: the probe tells of each layer what the machine gives, and why not more.
#[test]
fn the_probe_tells_the_truth() {
    on_each_machine(|setting, row, who| {
        let policy = setting.policy(&["true"]);
        let result = launch_without(&[row.feature], setting, "probe", &policy);
        let name = row.feature;
        if let Fails(word) = row.strict[who] {
            assert!(
                result["text"].as_str().unwrap().contains(word),
                "{name}: {result}"
            );
            return;
        }
        let layers = &result["enforcement"]["layers"];
        for layer in Layer::ALL {
            let status = &layers[layer.word()];
            let full = status["status"] == "full";
            // The probe sets no limit; and the bounding set is nobody's to
            // empty but the superuser's or a user namespace's.
            let exempt = matches!(layer, Layer::Limits | Layer::Capabilities);
            assert!(
                exempt || full != row.short[who].contains(&layer),
                "{name}, {:?}: {layer} is {status}",
                setting.who
            );
            let why = status["reason"].is_string() || status["missing"].is_array();
            assert!(full || why, "{name}: {layer} is {status}");
        }
    });
}

/// The policy by which a cage starts all the same; none if there is no way.
fn policy_of(way: Way, policy: Policy) -> Option<Policy> {
    let mut policy = policy;
    match way {
        Way::None => return None,
        Way::InPlace => return Some(in_place(policy, &[])),
        Way::Unrequired(layers) => {
            for layer in layers {
                policy.required.remove(layer);
            }
        }
        Way::Waived(layers) => {
            for layer in layers {
                policy.required.remove(layer);
                policy.waived.insert(*layer);
            }
        }
    }
    Some(policy)
}

/// T45: with what is missing given up by name the cage starts, the report says
/// what is weaker, and what is still promised holds when it is tried.
#[test]
fn what_is_left_of_the_cage_holds() {
    on_each_machine(|setting, row, who| {
        let mut victim = Victim::new(setting);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (precious, pid) = (setting.precious(), victim.pid());
        let attempts = [
            on("write", &precious),
            on("truncate", &precious),
            on("unlink", &precious),
            on("mkdir", &setting.outside().join("new")),
            format!("open-write=/proc/{pid}/mem"),
            format!("read=/proc/{pid}/environ"),
            format!("tcp={}", listener.local_addr().unwrap()),
            "open-write=/proc/sys/kernel/core_pattern".to_owned(),
        ];
        let mut policy = setting.attempts(&attempts);
        policy
            .files
            .push(rule(&setting.outside(), cofferdam_sandbox::Rights::Read));
        let Some(policy) = policy_of(row.way[who], policy) else {
            return;
        };
        let before = Print::of(&setting.outside());
        let result = launch_without(&[row.feature], setting, "launch", &policy);
        let name = row.feature;
        before.assert_same(&setting.outside());
        victim.assert_alive();
        assert!(listener.accept().is_err(), "{name}");
        assert_weaker(&result, row, who);
        let outcomes: Value = result["stdout"]
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_else(|| panic!("{name}, {:?}: {result}", setting.who));
        let through: Vec<_> = attempts
            .iter()
            .filter(|attempt| outcomes[attempt] == "ok")
            .collect();
        assert!(through.is_empty(), "{name}, {:?}: {through:?}", setting.who);
    });
}

/// Asserts that the report of a start calls no layer full that is not.
#[track_caller]
fn assert_weaker(result: &Value, row: &Row, who: usize) {
    let layers = &result["enforcement"]["layers"];
    for layer in row.short[who] {
        let status = layers[layer.word()]["status"].as_str();
        assert!(
            status.is_some_and(|status| status != "full"),
            "{}: {layer} is {status:?} in {result}",
            row.feature
        );
    }
}

/// T45: without a view, signals are held by Landlock's scope, and where that
/// is not there yet, the report does not call Landlock full.
#[test]
fn signals_in_place_are_held_by_the_scope_or_told() {
    for version in 3..=7 {
        as_everyone(|setting| {
            let victim = Victim::new(setting);
            let attempts = [
                format!("signal={},0", victim.pid()),
                format!("signal-by-handle={}", victim.pid()),
            ];
            let lacks = [Feature::Namespaces, Feature::LandlockSince(version)];
            let mut policy = in_place(setting.attempts(&attempts), &[]);
            policy.required.remove(&Layer::Landlock);
            let result = launch_without(&lacks, setting, "launch", &policy);
            let text = result["stdout"]
                .as_str()
                .unwrap_or_else(|| panic!("{result}"));
            let told = result["enforcement"]["layers"]["landlock"]["status"] == "partial";
            let held = !text.contains("\"ok\"");
            assert!(held || told, "version {version}: {result}");
            assert_eq!(told, version < 6, "version {version}: {result}");
        });
    }
}

/// T45: more than one feature at once, as in a container of the usual kind.
#[test]
fn a_container_without_landlock_is_refused() {
    as_everyone(|setting| {
        let lacks = [Feature::Namespaces, Feature::Mounts, Feature::Landlock];
        let policy = in_place(setting.policy(&[FIXTURE, "try"]), &[]);
        let result = launch_without(&lacks, setting, "launch", &policy);
        assert_eq!(result["error"], "unavailable", "{result}");
        assert!(
            result["text"].as_str().unwrap().contains("`landlock`"),
            "{result}"
        );
    });
}
