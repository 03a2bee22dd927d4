//! Owns the tests that a tree has no more memory than it may.
//!
//! Each hungry command has a bound of its own that the machine survives.

use std::fs;
use std::path::Path;

use cofferdam_sandbox::{Access, Layer, Limits, Mount, ViewMode};
use serde_json::Value;

use crate::limits::{MIB, assert_ended_by, consume, launch_beside_another};
use crate::setting::as_everyone;

/// Whether this machine lets the launcher make control groups: then the kernel
/// holds memory and processes, else the watchdog does.
fn by_kernel(result: &Value) -> bool {
    let by = result["enforcement"]["limits"]["memory"].as_str();
    by.is_some_and(|by| by.starts_with("cgroup"))
}

#[test]
fn a_tree_that_takes_too_much_memory_ends_and_is_told_why() {
    as_everyone(|setting| {
        let private = setting.work().join("private");
        fs::create_dir(&private).unwrap();
        setting.own();
        let file = private.join("file");
        for (what, place) in [
            ("anonymous", Path::new("")),
            ("memfd", Path::new("")),
            ("file", &file),
        ] {
            let limits = Limits {
                memory_bytes: Some(256 * MIB),
                processes: Some(64),
                ..Limits::default()
            };
            let mut policy = consume(setting, what, 1024 * MIB, place, limits);
            policy.command.argv.push("stay".into());
            policy.view.mounts.push(Mount::Tmpfs {
                target: private.as_path().into(),
                access: Access::ReadWrite,
                bytes: 2048 * MIB,
            });
            let result = launch_beside_another(setting, &policy);
            assert_ended_by(&result, "memory", 256 * MIB);
            let status = &result["enforcement"]["layers"]["limits"]["status"];
            let whole = if by_kernel(&result) {
                "full"
            } else {
                "partial"
            };
            assert_eq!(status, whole, "{result}");
        }
    });
}

#[test]
fn a_tree_without_namespaces_of_its_own_is_measured_as_well() {
    as_everyone(|setting| {
        let limits = Limits {
            memory_bytes: Some(256 * MIB),
            ..Limits::default()
        };
        let mut policy = consume(setting, "anonymous", 1024 * MIB, Path::new(""), limits);
        policy.view.mode = ViewMode::InPlace;
        policy.view.mounts.clear();
        policy.waived.insert(Layer::Namespaces);
        policy.required = [Layer::Landlock].into();
        let result = setting.launch("launch", &policy);
        assert_ended_by(&result, "memory", 256 * MIB);
        assert_eq!(result["emptied"], "subreaper-swept", "{result}");
    });
}

#[test]
fn reserving_address_space_is_no_use_of_memory() {
    as_everyone(|setting| {
        // What runtimes do: a terabyte of addresses, of which little is used.
        let script = "import mmap; m = mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | \
                      mmap.MAP_ANONYMOUS | 0x4000, prot=0); print('reserved')";
        let mut policy = setting.policy(&["python3", "-c", script]);
        policy.limits.memory_bytes = Some(256 * MIB);
        let result = setting.launch("launch", &policy);
        let has_python = !result["error"].is_string();
        if has_python {
            assert_eq!(result["stdout"], "reserved\n", "{result}");
        }
    });
}

#[test]
fn many_small_processes_take_no_more_memory_than_one() {
    as_everyone(|setting| {
        let limits = Limits {
            memory_bytes: Some(512 * MIB),
            ..Limits::default()
        };
        // More than are looked at closely, and those alone stay below.
        let policy = consume(setting, "crowd", 700 * MIB, Path::new(""), limits);
        let result = setting.launch("launch", &policy);
        assert_ended_by(&result, "memory", 512 * MIB);
    });
}
