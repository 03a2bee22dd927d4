//! Owns the attempts on the process that renames directories for a command.
//!
//! As the superuser there is none: the kernel renames, and the same must hold.

use std::fs;
use std::path::Path;

use cofferdam_sandbox::{Access, Directories, Mount, Otherwise, Policy, Rights};
use serde_json::Value;

use crate::cage::in_views;
use crate::canary::Print;
use crate::setting::{Setting, rule};

/// A policy with a merged directory `merged`, in which the script begins.
fn merging(setting: &Setting, script: &str) -> Policy {
    let base = setting.root.path();
    let target = setting.work().join("merged");
    for path in ["lower/dir/sub", "lower/nest/dir/sub", "upper", "store"] {
        fs::create_dir_all(base.join(path)).unwrap();
    }
    fs::create_dir_all(&target).unwrap();
    fs::write(base.join("lower/dir/file"), "mine").unwrap();
    fs::write(base.join("lower/nest/dir/file"), "mine").unwrap();
    setting.own();
    let prelude = "
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
os.chdir('merged')
";
    let mut policy = setting.policy(&["python3", "-c", &format!("{prelude}{script}")]);
    policy.view.mounts.push(Mount::Overlay {
        lower: vec![base.join("lower").into()],
        upper: base.join("upper").into(),
        work: base.join("store").into(),
        target: target.into(),
        access: Access::ReadWrite,
        directories: Directories::Renamed,
        otherwise: Otherwise::Refuse,
    });
    policy
}

fn said(result: &Value) -> &str {
    assert_eq!(result["code"], 0, "{result}");
    result["stdout"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"))
}

/// T02: a directory is renamed by somebody else, who then finds another path
/// than was asked for; what it leads to stays as it is all the same.
#[test]
fn a_path_that_is_swapped_leads_the_mover_nowhere() {
    in_views(|cage| {
        let setting = cage.setting;
        let outside = setting.outside();
        for path in ["dir/sub", "empty"] {
            fs::create_dir_all(outside.join(path)).unwrap();
        }
        fs::write(outside.join("dir/file"), "precious").unwrap();
        let script = format!(
            "
os.symlink({:?}, 'link')
stop = False
def swap():
    while not stop:
        for flags in [2, 2]: libc.renameat2(-100, b'nest', -100, b'link', flags)
        for one in [b'nest/dir/sub', b'nest/dir']:
            libc.renameat2(-100, one, -100, b'link', 2); libc.renameat2(-100, b'link', -100, one, 2)
threads = [threading.Thread(target=swap) for _ in range(2)]
[one.start() for one in threads]
moves = [(b'nest/dir', b'nest/other'), (b'nest/other', b'nest/dir'), (b'nest/dir', b'taken'),
    (b'taken', b'nest/dir'), (b'dir', b'nest/given'), (b'nest/given', b'dir'),
    (b'nest/empty', b'empty'), (b'nest/dir/sub', b'sub'), (b'sub', b'nest/dir/sub')]
for round in range(60):
    for old, new in moves: libc.renameat2(-100, old, -100, new, 0)
stop = True; [one.join() for one in threads]
print('done')",
            outside.to_str().unwrap()
        );
        let mut policy = merging(setting, &script);
        policy.files.push(rule(&outside, Rights::Read));
        let before = Print::of(&outside);
        assert_eq!(said(&cage.launch(&policy)), "done\n");
        before.assert_same(&outside);
        assert_eq!(
            print_of(&setting.root.path().join("lower")),
            ["mine", "mine"]
        );
    });
}

/// What the files beneath hold.
fn print_of(lower: &Path) -> [String; 2] {
    ["dir/file", "nest/dir/file"].map(|name| fs::read_to_string(lower.join(name)).unwrap())
}

/// T02: nor does a directory go where a rule forbids it, or come from there.
#[test]
fn the_mover_moves_nothing_past_a_rule() {
    in_views(|cage| {
        let script = "
def move(old, new):
    failed = libc.renameat2(-100, old, -100, new, 0)
    return ctypes.get_errno() if failed else 0
print(move(b'dir', b'other') != 0, move(b'nest/dir', b'dir/dir') != 0, move(b'dir/sub', b'sub') != 0)
print(move(b'nest/dir', b'nest/other'), sorted(os.listdir('nest/other')), os.listdir('dir'))";
        let mut policy = merging(cage.setting, script);
        let (work, merged) = (cage.setting.work(), cage.setting.work().join("merged"));
        policy.files.retain(|rule| rule.path.0 != work);
        policy.files.extend([
            rule(&work, Rights::Read),
            rule(&merged.join("nest"), Rights::ReadWrite),
        ]);
        let result = cage.launch(&policy);
        let said = said(&result).lines().collect::<Vec<_>>();
        assert_eq!(said[0], "True True True", "{result}");
        assert!(said[1].starts_with("0 ['file', 'sub'] ["), "{result}");
    });
}

/// T21, T23: the process that renames is neither ended, nor held up, nor looked
/// into; it goes on. All of it happens in the cage's own PID namespace.
#[test]
fn the_mover_is_out_of_reach() {
    in_views(|cage| {
        let script = "
def parent(pid):
    with open(f'/proc/{pid}/stat') as file: return file.read().rsplit(')', 1)[1].split()[1]
others = [int(one) for one in os.listdir('/proc')
    if one.isdigit() and int(one) not in (1, os.getpid()) and parent(one) == '1']
through = []
for pid in others:
    for signal in [0, 9, 15, 19]:
        try: os.kill(pid, signal); through.append(f'signal {signal}')
        except PermissionError: pass
    for name in ['mem', 'maps', 'environ', 'root/', 'cwd/', 'fd', 'fd/0']:
        try: os.close(os.open(f'/proc/{pid}/{name}', os.O_RDONLY)); through.append(name)
        except OSError: pass
    try:
        handle = os.pidfd_open(pid)
        if libc.syscall(438, handle, 0, 0) >= 0: through.append('descriptor')
        if libc.syscall(424, handle, 9, 0, 0) == 0: through.append('signal by handle')
    except OSError: pass
    if libc.ptrace(0x4206, pid, 0, 0) == 0: through.append('trace')
print(len(others), through)
os.rename('dir', 'other'); print(sorted(os.listdir('other')))";
        let result = cage.launch(&merging(cage.setting, script));
        let mediated = cage.setting.who == crate::setting::Who::Ordinary
            || !rustix::process::geteuid().is_root();
        let expected = format!("{} []\n['file', 'sub']\n", u8::from(mediated));
        assert_eq!(said(&result), expected, "{result}");
    });
}
