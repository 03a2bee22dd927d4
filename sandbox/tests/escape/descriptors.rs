//! Owns the tests of what a command inherits besides its three streams.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use cofferdam_sandbox::Policy;
use cofferdam_shim::take_away;
use serde_json::Value;

use crate::cage::{Cage, everywhere, launch_without};
use crate::setting::{FIXTURE, Who};

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
        assert!(
            lines.len() == 3 && lines.iter().all(|line| line.starts_with("pipe:")),
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

/// T46: a launcher that passes on what it reads passes on no way to write it.
#[test]
fn what_the_launcher_reads_is_not_written() {
    everywhere(|cage| {
        let input = cage.setting.outside().join("input");
        let script = "cat > /dev/null; echo changed >&0; echo changed > /proc/self/fd/0; exit 0";
        let policy = cage.policy(&["sh", "-c", script]);
        let text = serde_json::to_string(&policy).unwrap() + "\nthe rest\n";
        fs::write(&input, &text).unwrap();
        cage.setting.own();
        let mut command = Command::new(FIXTURE);
        let both_ways = fs::File::options().read(true).write(true).open(&input);
        command.arg("feed").stdin(both_ways.unwrap());
        if cage.setting.who == Who::Ordinary {
            command.uid(1000).gid(1000);
        }
        take_away(&cage.lacks(), &mut command).unwrap();
        assert!(command.output().unwrap().status.success());
        let left = fs::read_to_string(&input).unwrap();
        let added = left.strip_prefix(&text);
        assert_eq!(added, Some(""), "{:?} of {:?}", cage.kind, cage.setting.who);
    });
}
