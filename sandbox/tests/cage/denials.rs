//! Owns the tests of what is recorded of denials: facts, counted and bounded, and nothing else.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use cofferdam_sandbox::{Layer, Limits, Policy, Rights, ViewMode};
use serde_json::{Value, json};

use crate::degraded::nested;
use crate::setting::{FIXTURE, Setting, as_everyone, rule};

/// A program without any library that tries to leave its user namespace.
const STATIC: &str = r#"
static long call(long number, long argument) {
    long result;
#if defined(__x86_64__)
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(argument) : "rcx", "r11", "memory");
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = argument;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8) : "memory");
    result = x0;
#endif
    return result;
}
void _start(void) {
    long refused = call(UNSHARE, 0x10000000);
    call(EXIT, refused == -1 ? 0 : 9);
}
"#;

fn build_static(target: &Path) {
    let mut compiler = Command::new("cc")
        .args(["-static", "-nostdlib", "-O1", "-x", "c", "-"])
        .arg(format!("-DUNSHARE={}", libc::SYS_unshare))
        .arg(format!("-DEXIT={}", libc::SYS_exit_group))
        .arg("-o")
        .arg(target)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = compiler.stdin.take().unwrap();
    text.write_all(STATIC.as_bytes()).unwrap();
    drop(text);
    assert!(compiler.wait().unwrap().success());
}

fn denials(result: &Value) -> &Vec<Value> {
    result["denials"]
        .as_array()
        .unwrap_or_else(|| panic!("{result}"))
}

fn shell(setting: &Setting, script: &str) -> Value {
    setting.launch("launch", &setting.policy(&["sh", "-c", script]))
}

/// Without mounts, and with nothing required that a cage in a cage lacks.
fn in_place(mut policy: Policy) -> Policy {
    policy.view.mode = ViewMode::InPlace;
    policy.view.mounts.clear();
    policy.required = [Layer::Landlock, Layer::Seccomp].into();
    policy
}

#[test]
fn records_what_a_grandchild_and_a_static_program_are_denied() {
    as_everyone(|setting| {
        build_static(&setting.work().join("leaver"));
        setting.own();
        let result = shell(setting, "sh -c './leaver; ./leaver' & wait; ./leaver");
        assert_eq!(result["code"], 0, "{result}");
        let [denial] = &denials(&result)[..] else {
            panic!("{result}");
        };
        let pid = denial["pid"].as_u64().unwrap();
        assert!((2..1000).contains(&pid), "{denial}");
        let expected = json!({
            "number": 0, "layer": "seccomp", "operation": "unshare", "detail": "CLONE_NEWUSER",
            "path": null, "pid": pid, "exe": "leaver", "count": 3,
        });
        assert_eq!(*denial, expected);
        assert_eq!(result["told"][0]["number"], 0, "{result}");
        assert_eq!(result["enforcement"]["unrecorded"], json!({}));
    });
}

#[test]
fn records_without_namespaces_too() {
    as_everyone(|setting| {
        build_static(&setting.work().join("leaver"));
        setting.own();
        let mut policy = in_place(setting.policy(&["sh", "-c", "(./leaver); (./leaver)"]));
        policy.waived.insert(Layer::Namespaces);
        let result = setting.launch("launch", &policy);
        assert_eq!(result["emptied"], "subreaper-swept", "{result}");
        let [denial] = &denials(&result)[..] else {
            panic!("{result}");
        };
        assert_eq!(
            (&denial["exe"], &denial["count"]),
            (&json!("leaver"), &json!(2))
        );
    });
}

#[test]
fn records_the_path_that_was_named() {
    as_everyone(|setting| {
        let file = setting.work().join("file");
        fs::write(&file, "").unwrap();
        setting.own();
        let name = file.to_str().unwrap();
        let attempt = format!("chmod-to=4755,{name}");
        let result = setting.launch("launch", &setting.attempts(&[attempt]));
        let [denial] = &denials(&result)[..] else {
            panic!("{result}");
        };
        assert_eq!(
            (&denial["path"], &denial["detail"]),
            (&json!(name), &json!("mode 4755"))
        );
    });
}

#[test]
fn records_nothing_that_is_no_denial_of_the_filter() {
    as_everyone(|setting| {
        let precious = setting.precious();
        let script = format!(
            "cat {precious}; echo 'sandbox: Operation not permitted, denied'; \
             python3 -c 'import subprocess; subprocess.run([\"true\"])'; \
             touch /etc/x; mkdir /proc/x; kill -0 999; ls /root; false",
            precious = precious.display()
        );
        let result = shell(setting, &script);
        assert_eq!(result["code"], 1, "{result}");
        assert_eq!(result["denials"], json!([]), "{result}");
        // Calls that ordinary programs try, and calls that are not there.
        let attempts: Vec<_> = [
            format!("call={},{}", libc::SYS_personality, 0x004_0000),
            format!("call={}", libc::SYS_io_uring_setup),
            format!("call={}", libc::SYS_kcmp),
            format!("call={}", libc::SYS_clone3),
            "call=9999".to_owned(),
        ]
        .into();
        let result = setting.launch("launch", &setting.attempts(&attempts));
        assert_eq!(result["denials"], json!([]), "{result}");
    });
}

#[test]
fn a_flood_of_denials_is_counted_and_ends() {
    let setting = Setting::new(crate::setting::Who::Myself);
    let attempt = format!("call-often=1000000,{}", libc::SYS_unshare);
    let result = setting.launch("launch", &setting.attempts(&[attempt]));
    let [denial] = &denials(&result)[..] else {
        panic!("{result}");
    };
    assert_eq!(denial["count"], 1_000_000, "{denial}");
    assert_eq!(result["emptied"], "pid-namespace");
    // Not a message each.
    let told = result["told"].as_array().unwrap().len();
    assert!((1..5_000).contains(&told), "{told}");
}

#[test]
fn a_flood_of_different_denials_is_bounded() {
    as_everyone(|setting| {
        let attempts: Vec<_> = (0..100)
            .map(|family| format!("socket={},1,0", 1000 + family))
            .collect();
        let result = setting.launch("launch", &setting.attempts(&attempts));
        let list = denials(&result);
        assert_eq!(list.len(), 17, "{result}");
        let counted: u64 = list.iter().map(|one| one["count"].as_u64().unwrap()).sum();
        assert_eq!(counted, 100);
        assert_eq!(list[16]["detail"], Value::Null);
    });
}

#[test]
fn a_flood_holds_up_no_order() {
    as_everyone(|setting| {
        let one = format!("{FIXTURE} try call-often=0,{}", libc::SYS_unshare);
        let script = format!("{one} & {one} & {one} & wait");
        let mounted = setting.policy(&["sh", "-c", &script]);
        let mut swept = in_place(mounted.clone());
        swept.waived.insert(Layer::Namespaces);
        for policy in [mounted, swept] {
            for mode in ["kill", "terminate", "drop"] {
                let result = setting.launch(mode, &policy);
                assert!(result["error"].is_null(), "{mode}: {result}");
                if mode == "terminate" {
                    assert_eq!(denials(&result).len(), 1, "{result}");
                }
            }
        }
    });
}

#[test]
fn programs_start_by_the_hundred_while_others_are_denied() {
    as_everyone(|setting| {
        let flood = format!("{FIXTURE} try call-often=0,{}", libc::SYS_unshare);
        let script = format!(
            "{flood} > /dev/null & flood=$!; i=0; \
             while [ $i -lt 200 ]; do \
               echo $i | cat | grep -q $i || exit 9; (exit 3); [ $? = 3 ] || exit 8; \
               i=$((i + 1)); \
             done; \
             python3 -c 'import subprocess, os\n\
for i in range(100):\n    subprocess.run([\"true\"], check=True)\n    os.waitpid(os.posix_spawn(\"/bin/true\", [\"true\"], {{}}), 0)' || exit 7; \
             kill $flood"
        );
        let mut policy = setting.policy(&["sh", "-c", &script]);
        policy.limits = Limits {
            processes: Some(200),
            ..Limits::default()
        };
        policy.files.push(rule(Path::new("/dev"), Rights::Device));
        let result = setting.launch("launch", &policy);
        assert_eq!(
            (&result["code"], &result["stderr"]),
            (&json!(0), &json!("")),
            "{result}"
        );
    });
}

#[test]
fn a_cage_in_a_cage_says_that_denials_are_not_recorded() {
    as_everyone(|setting| {
        let attempts = [format!("call={}", libc::SYS_ptrace)];
        let inner = in_place(setting.attempts(&attempts));
        let result = nested(setting, "launch", &inner);
        assert!(
            result["stdout"].as_str().unwrap().contains("\"1\""),
            "{result}"
        );
        assert_eq!(result["denials"], json!([]), "{result}");
        let reason = result["enforcement"]["unrecorded"]["seccomp"].as_str();
        assert!(reason.unwrap().contains("listener"), "{result}");
    });
}
