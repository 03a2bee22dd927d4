//! Owns the tests of what is refused, and of how the refusal reads.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cofferdam_sandbox::{Access, HostPath, Layer, Policy, Rights, ViewMode};

use crate::setting::{Setting, Who, as_everyone, bind, rule, tmpfs};

#[test]
fn names_a_missing_command() {
    as_everyone(|setting| {
        for program in ["no-such-program", "/no/such/program"] {
            let result = setting.launch("launch", &setting.policy(&[program]));
            assert_eq!(result["error"], "command");
            assert!(
                result["text"].as_str().unwrap().contains(program),
                "{result}"
            );
        }
    });
}

#[test]
fn tells_a_command_that_may_not_be_executed() {
    as_everyone(|setting| {
        let script = setting.work().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        setting.own();
        let result = setting.launch("launch", &setting.policy(&[script.to_str().unwrap()]));
        assert_eq!(result["error"], "command");
        assert!(
            result["text"]
                .as_str()
                .unwrap()
                .contains("Permission denied"),
            "{result}"
        );
    });
}

#[test]
fn runs_a_script_without_a_first_line_by_the_shell() {
    as_everyone(|setting| {
        let script = setting.work().join("script");
        fs::write(&script, "echo \"$1\"\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        setting.own();
        let result = setting.launch("launch", &setting.policy(&["./script", "said"]));
        assert_eq!(result["stdout"], "said\n", "{result}");
    });
}

#[test]
fn names_a_missing_path_with_a_rule() {
    as_everyone(|setting| {
        let missing = setting.work().join("missing");
        let mut policy = setting.policy(&["true"]);
        policy.files.push(rule(&missing, Rights::Read));
        assert_policy_error(setting, &policy, missing.to_str().unwrap());
    });
}

#[test]
fn names_a_missing_mount_source_and_target() {
    as_everyone(|setting| {
        let missing = setting.root.path().join("missing");
        let mut policy = setting.policy(&["true"]);
        policy
            .view
            .mounts
            .push(bind(&missing, &setting.outside(), Access::ReadOnly));
        assert_policy_error(setting, &policy, missing.to_str().unwrap());
        let mut policy = setting.policy(&["true"]);
        policy.view.mounts.push(tmpfs(&missing, Access::ReadOnly));
        assert_policy_error(setting, &policy, missing.to_str().unwrap());
        assert!(!missing.exists());
    });
}

#[test]
fn refuses_a_target_behind_a_link_made_by_a_command() {
    as_everyone(|setting| {
        // What a bind shows may hold links that an earlier command planted.
        std::os::unix::fs::symlink("/etc", setting.outside().join("link")).unwrap();
        let mut policy = setting.policy(&["true"]);
        policy.view.mounts = vec![
            bind(&setting.outside(), &setting.work(), Access::ReadWrite),
            tmpfs(&setting.work().join("link"), Access::ReadOnly),
        ];
        assert_policy_error(setting, &policy, "link");
    });
}

#[test]
fn names_a_missing_working_directory() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&["true"]);
        policy.command.cwd = setting.work().join("missing").into();
        assert_policy_error(setting, &policy, "missing");
    });
}

#[test]
fn refuses_a_layer_that_is_required_and_short() {
    as_everyone(|setting| {
        let mut policy = setting.policy(&["true"]);
        // A policy without limits has nothing that the layer could hold.
        policy.required.insert(Layer::Limits);
        let result = setting.launch("launch", &policy);
        assert_eq!(result["error"], "unavailable");
        assert!(
            result["text"].as_str().unwrap().contains("limits"),
            "{result}"
        );
        let mut policy = setting.policy(&["true"]);
        policy.view.mode = ViewMode::InPlace;
        policy.view.mounts.clear();
        let result = setting.launch("launch", &policy);
        assert_eq!(result["error"], "unavailable");
        assert!(
            result["text"].as_str().unwrap().contains("mounts"),
            "{result}"
        );
    });
}

#[test]
fn starts_nothing_when_it_refuses() {
    as_everyone(|setting| {
        let trace = setting.work().join("trace");
        let mut policy = setting.policy(&["touch", trace.to_str().unwrap()]);
        // A policy without limits has nothing that the layer could hold.
        policy.required.insert(Layer::Limits);
        assert_eq!(setting.launch("launch", &policy)["error"], "unavailable");
        assert!(!trace.exists());
    });
}

/// Makes one thing of a policy wrong.
type Spoil = fn(&mut Policy);

#[test]
fn finds_what_is_wrong_with_a_shape() {
    let setting = Setting::new(Who::Myself);
    let wrong: [(&str, Spoil); 8] = [
        ("argv", |policy| policy.command.argv.clear()),
        ("..", |policy| {
            policy
                .files
                .push(rule(Path::new("/tmp/../etc"), Rights::Read))
        }),
        ("relative", |policy| {
            policy.command.cwd = PathBuf::from("relative").into()
        }),
        ("NUL", |policy| {
            policy
                .command
                .argv
                .push(OsString::from_vec(vec![b'N', b'U', b'L', 0]))
        }),
        ("A=B", |policy| {
            policy.command.env.push(("A=B".into(), "c".into()))
        }),
        ("open_files", |policy| policy.limits.open_files = Some(0)),
        ("waived", |policy| policy.waived = [Layer::Landlock].into()),
        ("in place", |policy| policy.view.mode = ViewMode::InPlace),
    ];
    for (word, spoil) in wrong {
        let mut policy = setting.policy(&["true"]);
        spoil(&mut policy);
        assert!(policy.check().is_err(), "{word}");
        assert_eq!(
            setting.launch("launch", &policy)["error"],
            "policy",
            "{word}"
        );
    }
}

#[test]
fn survives_json_with_names_that_are_not_text() {
    let setting = Setting::new(Who::Myself);
    let mut policy = setting.policy(&["true"]);
    let odd = OsString::from_vec(vec![b'/', 0xFF, b'\n', b'"']);
    policy.command.argv.push(odd.clone());
    policy.command.env.push(("ODD".into(), odd.clone()));
    policy.files.push(rule(Path::new(&odd), Rights::Device));
    let text = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
    let plain = serde_json::to_string(&HostPath::from(Path::new("/plain"))).unwrap();
    assert_eq!(plain, "\"/plain\"");
    let more = text.replacen('{', "{\"unknown\":1,", 1);
    assert!(serde_json::from_str::<Policy>(&more).is_err());
}

#[test]
fn knows_layers_by_name() {
    for layer in Layer::ALL {
        assert_eq!(layer.to_string().parse::<Layer>(), Ok(layer));
        assert_eq!(serde_json::to_value(layer).unwrap(), layer.word());
    }
    assert!("firewall".parse::<Layer>().is_err());
}

#[test]
fn probes_every_layer() {
    as_everyone(|setting| {
        let result = setting.launch("probe", &setting.policy(&["true"]));
        let layers = result["enforcement"]["layers"]
            .as_object()
            .unwrap_or_else(|| panic!("{result}"));
        assert_eq!(layers.len(), Layer::ALL.len());
        // A machine that lacks one says why.
        for (layer, status) in layers {
            let full = status["status"] == "full";
            assert!(
                full || status["reason"].is_string() || status["missing"].is_array(),
                "{layer}: {status}"
            );
        }
    });
}

fn assert_policy_error(setting: &Setting, policy: &Policy, name: &str) {
    let result = setting.launch("launch", policy);
    assert_eq!(result["error"], "policy", "{result}");
    assert!(result["text"].as_str().unwrap().contains(name), "{result}");
}
