//! Owns the tests of what is promised: held and proven, or refused by its name.

use std::collections::BTreeSet;

use cofferdam_sandbox::{Access, Guarantee, Layer, Network, Rights, ViewMode};
use serde_json::Value;

use crate::setting::{Setting, as_everyone, launch_with_file, rule, tmpfs};

fn features(result: &Value) -> BTreeSet<String> {
    let list = result["enforcement"]["features"].as_array();
    let list = list.unwrap_or_else(|| panic!("{result}"));
    let words = list.iter().map(|word| word.as_str().unwrap().to_owned());
    words.collect()
}

#[test]
fn everything_that_is_claimed_was_attempted_from_inside() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&["true"]);
        policy.out_of_reach = vec![setting.precious().into()];
        policy.promised = promised();
        let result = setting.launch("launch", &policy);
        let tried = result["enforcement"]["tried"].as_array();
        let tried: BTreeSet<&str> = tried
            .unwrap_or_else(|| panic!("{result}"))
            .iter()
            .map(|one| one["guarantee"].as_str().unwrap())
            .collect();
        let expected = [
            "no_write_outside",
            "no_metadata_change_outside",
            "no_read_of_secrets",
            "no_trace_outside",
            "no_signal_outside",
            "no_network",
            "no_host_sockets",
            "no_new_namespaces",
            "no_new_mounts",
        ];
        assert_eq!(tried, expected.into());
    });
}

/// All but what no ordinary user can have everywhere.
fn promised() -> BTreeSet<Guarantee> {
    let all = Guarantee::ALL.iter().copied();
    all.filter(|one| *one != Guarantee::BoundedResources)
        .collect()
}

#[test]
fn a_secret_that_a_rule_uncovers_stops_the_start() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&["true"]);
        policy.out_of_reach = vec![setting.precious().into()];
        policy.files.push(rule(&setting.outside(), Rights::Read));
        let result = setting.launch("launch", &policy);
        assert_eq!(result["error"], "canary", "{result}");
        let text = result["text"].as_str().unwrap();
        assert!(text.contains("no_read_of_secrets"), "{text}");
        assert!(text.contains("precious"), "{text}");
    });
}

#[test]
fn what_is_out_of_reach_and_hidden_is_held_twice() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&["true"]);
        policy.out_of_reach = vec![setting.precious().into()];
        let shown = features(&setting.launch("launch", &policy));
        assert!(!shown.contains("hidden-paths"), "{shown:?}");
        let cover = tmpfs(&setting.outside(), Access::ReadOnly);
        policy.view.mounts.push(cover);
        let hidden = features(&setting.launch("launch", &policy));
        assert!(hidden.contains("hidden-paths"), "{hidden:?}");
        assert!(setting.unharmed());
    });
}

#[test]
fn refuses_what_is_promised_and_held_by_nobody() {
    as_everyone(|setting| {
        let mut policy = in_place(setting);
        policy.promised = promised();
        let result = setting.launch("launch", &policy);
        assert_eq!(result["error"], "unheld", "{result}");
        let text = result["text"].as_str().unwrap();
        for part in [
            "no_metadata_change_outside",
            "no_host_sockets",
            "needs read-only view",
        ] {
            assert!(text.contains(part), "{text}");
        }
        policy.promised.remove(&Guarantee::NoMetadataChangeOutside);
        policy.promised.remove(&Guarantee::NoHostSockets);
        let result = setting.launch("launch", &policy);
        assert_eq!(result["code"], 0, "{result}");
    });
}

fn in_place(setting: &Setting) -> cofferdam_sandbox::Policy {
    let mut policy = setting.policy(&["true"]);
    policy.view.mode = ViewMode::InPlace;
    policy.view.mounts.clear();
    policy.required.remove(&Layer::Mounts);
    policy
}

#[test]
fn a_gateway_leads_to_the_launcher_and_nowhere_else() {
    as_everyone(|setting| {
        let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let inside = [
            "say=127.0.0.1:4321".to_owned(),
            format!("tcp={}", host.local_addr().unwrap()),
            "tcp=127.0.0.1:4322".to_owned(),
        ];
        let mut policy = setting.attempts(&inside);
        policy.network = Network::Gateway { port: 4321 };
        let result = setting.launch("gateway", &policy);
        assert_eq!(result["heard"], "out", "{result}");
        let outcomes: Value = serde_json::from_str(result["stdout"].as_str().unwrap()).unwrap();
        assert_eq!(outcomes[&inside[0]], "ok", "{outcomes}");
        for closed in &inside[1..] {
            assert_ne!(outcomes[closed], "ok", "{outcomes}");
        }
        host.set_nonblocking(true).unwrap();
        assert!(host.accept().is_err());
    });
}

#[test]
fn a_gateway_needs_a_network_namespace() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&["true"]);
        policy.network = Network::Gateway { port: 4321 };
        policy.waived.insert(Layer::Network);
        policy.required.remove(&Layer::Network);
        let result = setting.launch("launch", &policy);
        assert_eq!(result["error"], "unavailable", "{result}");
        assert!(result["text"].as_str().unwrap().contains("network"));
    });
}

#[test]
fn standard_input_is_no_way_to_a_file_of_the_host() {
    as_everyone(|setting| {
        let attempts = [
            "write=/proc/self/fd/0",
            "truncate=/dev/stdin",
            "chmod=/proc/self/fd/0",
        ]
        .map(str::to_owned);
        let mut policy = setting.attempts(&attempts);
        let (result, text) = launch_with_file(setting, &policy);
        assert_eq!(result["code"], 0, "{result}");
        assert!(text.ends_with("\nthe rest"), "{text}");
        policy.command.argv = vec!["cat".into()];
        let (result, _) = launch_with_file(setting, &policy);
        assert_eq!(result["stdout"], "the rest", "{result}");
    });
}

#[test]
fn no_descriptor_leads_to_a_mount_of_the_host() {
    use std::os::unix::fs::MetadataExt;
    as_everyone(|setting| {
        // To what it is: were it the host's, only the time of change would move.
        let attempts = ["chmod-to=666,/proc/self/fd/0".to_owned()];
        let changed = || {
            let facts = std::fs::metadata("/dev/null").unwrap();
            (facts.ctime(), facts.ctime_nsec())
        };
        let before = changed();
        setting.outcomes(&setting.attempts(&attempts));
        assert_eq!(changed(), before);
    });
}

#[test]
fn the_keeper_is_not_limited_from_inside() {
    as_everyone(|setting| {
        let descriptors = 7;
        let attempts = [format!("call={},1,{descriptors}", libc::SYS_prlimit64)];
        assert_eq!(setting.outcomes(&setting.attempts(&attempts)), ["1"]);
    });
}
