//! Owns the tests of what a command inherits besides its three streams.

use cofferdam_sandbox::Policy;
use serde_json::Value;

use crate::cage::{Cage, everywhere, launch_without};

fn leaked(cage: &Cage<'_>, policy: &Policy) -> Value {
    launch_without(&cage.lacks(), cage.setting, "leak", policy)
}

/// T46: whatever the launcher holds (files, directories, handles of paths and
/// processes, sockets, memory, a set of rules) up to the last number there is,
/// the command has three descriptors.
#[test]
fn no_descriptor_of_the_launcher_is_inherited() {
    everywhere(|cage| {
        let attempts = ["descriptors".to_owned()];
        let result = leaked(cage, &cage.attempts(&attempts));
        assert_eq!(
            result["stdout"], "{\"descriptors\":\"ok\"}\n",
            "{:?}: {result}",
            cage.kind
        );
    });
}

/// T46: the three streams lead to nothing but the launcher's pipes.
#[test]
fn the_three_streams_lead_to_no_file() {
    everywhere(|cage| {
        let script = "for n in 0 1 2; do readlink /proc/self/fd/$n; done";
        let result = leaked(cage, &cage.policy(&["sh", "-c", script]));
        let text = result["stdout"]
            .as_str()
            .unwrap_or_else(|| panic!("{result}"));
        let lines: Vec<_> = text.lines().collect();
        let [input, output, error] = lines[..] else {
            panic!("{result}");
        };
        assert!(
            input == "/dev/null" && output.starts_with("pipe:") && error.starts_with("pipe:"),
            "{result}"
        );
    });
}

/// T46: an own socket passes descriptors between own processes, as servers do.
#[test]
fn descriptors_pass_between_own_processes() {
    everywhere(|cage| {
        cage.assert_works(&["pass-descriptor".to_owned(), "pair".to_owned()]);
    });
}
