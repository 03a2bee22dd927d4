//! Owns the tests of directories renamed in a merged one, by the kernel or for it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cofferdam_sandbox::{Directories, Layer, Otherwise, Policy, Rights};
use serde_json::{Value, json};

use crate::overlay::{Merged, print};
use crate::setting::{Setting, Who, as_everyone, rule};

/// Calls `renameat2`; what became of it.
const PRELUDE: &str = r#"
import ctypes, errno, os, stat, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2
def move(old, new, flags=0, at=-100, to=-100):
    failed = libc.renameat2(at, os.fsencode(old), to, os.fsencode(new), flags)
    return errno.errorcode[ctypes.get_errno()] if failed else 'ok'
def names(path):
    found = []
    for at, dirs, files in os.walk(path):
        found += [os.path.relpath(os.path.join(at, one), path) for one in dirs + files]
    return ' '.join(sorted(found))
os.chdir('merged')
"#;

fn policy(setting: &Setting, merged: &Merged, script: &str) -> Policy {
    let mut policy = setting.policy(&["python3", "-c", &format!("{PRELUDE}{script}")]);
    let mount = merged.mount_with(Otherwise::Refuse, Directories::Renamed);
    policy.view.mounts.push(mount);
    policy
        .files
        .push(rule(Path::new("/dev/urandom"), Rights::Device));
    policy
}

/// Runs a script in a merged directory that is furnished by `lay`; what it
/// printed, line by line.
fn moved(setting: &Setting, lay: impl Fn(&Path), script: &str) -> Vec<String> {
    let merged = Merged::new(setting, OsStr::new("store"));
    lay(&merged.lower);
    setting.own();
    let before = print(&merged.lower);
    let result = setting.launch("launch", &policy(setting, &merged, script));
    assert_eq!(print(&merged.lower), before);
    assert_eq!(result["enforcement"]["view_notes"], json!([]), "{result}");
    assert_eq!(result["denials"], json!([]), "{result}");
    for place in [&merged.target, &merged.upper, &merged.work, &merged.lower] {
        fs::remove_dir_all(place).unwrap();
    }
    lines(&result)
}

fn lines(result: &Value) -> Vec<String> {
    assert_eq!(result["code"], 0, "{result}");
    let text = result["stdout"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"));
    text.lines().map(str::to_owned).collect()
}

fn nothing(_: &Path) {}

/// Tries scripts that each begin with the same directories; what each printed.
fn assert_each(setting: &Setting, cases: &[(&str, &str)]) {
    for (script, expected) in cases {
        let said = moved(setting, nothing, script);
        assert_eq!(said.join("\n"), *expected, "{:?}: {script}", setting.who);
    }
}

#[test]
fn a_directory_beneath_is_renamed_with_all_that_is_in_it() {
    as_everyone(|setting| {
        assert_each(
            setting,
            &[
                (
                    "print(move('dir', 'other')); print(names('other'))
print(os.path.exists('dir'), open('other/deep/end').read())",
                    "ok\ndeep deep/end inner\nFalse dir/deep/end",
                ),
                (
                    "print(move('dir/deep', 'dir/other')); print(names('dir'))",
                    "ok\ninner other other/end",
                ),
                (
                    "os.mkdir('new'); print(move('dir', 'new/dir')); print(names('new'))
print(move('new', 'newer')); print(names('newer'))",
                    "ok\ndir dir/deep dir/deep/end dir/inner\nok\ndir dir/deep dir/deep/end dir/inner",
                ),
                // What was made, changed and removed before.
                (
                    "open('dir/inner', 'a').write('+'); open('dir/made', 'w').write('made')
os.unlink('dir/deep/end'); os.makedirs('dir/new/er'); open('dir/new/er/file', 'w')
print(move('dir', 'other')); print(names('other'))
print(open('other/inner').read(), open('other/made').read())
os.mkdir('dir'); print(names('dir') == '')",
                    "ok\ndeep inner made new new/er new/er/file\ndir/inner+ made\nTrue",
                ),
                // Back and forth.
                (
                    "print(*[move(a, b) for a, b in [('dir', 'a'), ('a', 'dir')] * 3])
print(names('dir'))",
                    "ok ok ok ok ok ok\ndeep deep/end inner",
                ),
                (
                    "os.rename('dir', 'other'); print(names('other'))",
                    "deep deep/end inner",
                ),
                (
                    "subprocess.run(['mv', '-T', 'dir', 'other'], check=True); print(names('other'))",
                    "deep deep/end inner",
                ),
            ],
        );
    });
}

#[test]
fn what_stands_in_the_way_is_judged_as_everywhere() {
    as_everyone(|setting| {
        assert_each(
            setting,
            &[
                (
                    "os.mkdir('empty'); print(move('dir', 'empty')); print(names('empty'))",
                    "ok\ndeep deep/end inner",
                ),
                // One that is empty because what lies beneath was removed.
                (
                    "os.unlink('dir/deep/end'); os.mkdir('full'); open('full/file', 'w')
print(move('full', 'dir/deep')); print(names('dir'))",
                    "ok\ndeep deep/file inner",
                ),
                (
                    "os.mkdir('full'); open('full/file', 'w'); print(move('dir', 'full'))
print(names('full'), names('dir'))",
                    "ENOTEMPTY\nfile deep deep/end inner",
                ),
                (
                    "print(move('dir', 'file'), move('file', 'dir'))",
                    "ENOTDIR EISDIR",
                ),
                (
                    "os.mkdir('empty'); print(move('dir', 'empty', NOREPLACE))
print(move('dir', 'free', NOREPLACE)); print(names('free'))",
                    "EEXIST\nok\ndeep deep/end inner",
                ),
                (
                    "print(move('dir', 'dir/deep/dir'), move('dir/deep', 'dir'), move('.', 'dot'),
move('dir/.', 'dot'), move('dir/..', 'dot'), move('dir', 'dir'), move('missing', 'dir'),
move('dir', 'missing/dir'), move('', 'dir'), move('dir', ''), move('file/', 'dot'))",
                    "EINVAL ENOTEMPTY EBUSY EBUSY EBUSY ok ENOENT ENOENT ENOENT ENOENT ENOTDIR",
                ),
                (
                    "print(move('dir/', 'other//')); print(names('other'))",
                    "ok\ndeep deep/end inner",
                ),
                (
                    "print(move('dir', '../dir'), os.path.exists('../dir'))",
                    "EXDEV False",
                ),
                (
                    "print(move('dir', 'other', 64), move('dir', 'other', 3))",
                    "EINVAL EINVAL",
                ),
                (
                    "print(libc.rename(1, b'other'), ctypes.get_errno() == errno.EFAULT)
print(move('dir', 'x' * 300), move('dir', 'x/' * 3000))",
                    "-1 True\nENAMETOOLONG ENAMETOOLONG",
                ),
                (
                    "os.mkdir('shut', 0o555); print(move('dir', 'shut/dir')); print(names('dir'))",
                    "EACCES\ndeep deep/end inner",
                ),
            ],
        );
    });
}

#[test]
fn two_names_are_exchanged() {
    as_everyone(|setting| {
        assert_each(
            setting,
            &[
                (
                    "os.mkdir('new'); open('new/file', 'w'); print(move('dir', 'new', EXCHANGE))
print(names('.'))",
                    "ok\ndir dir/file file gone mode moved new new/deep new/deep/end new/inner",
                ),
                (
                    "print(move('dir/deep', 'file', EXCHANGE)); print(names('.'))",
                    "ok\ndir dir/deep dir/inner file file/end gone mode moved",
                ),
                (
                    "print(move('file', 'dir', EXCHANGE)); print(names('.'), open('dir').read())",
                    "ok\ndir file file/deep file/deep/end file/inner gone mode moved file",
                ),
                (
                    "print(move('dir', 'missing', EXCHANGE), move('dir', 'dir/deep', EXCHANGE))
print(move('file', 'gone', EXCHANGE)); print(open('file').read())",
                    "ENOENT EINVAL\nok\ngone",
                ),
            ],
        );
    });
}

#[test]
fn paths_start_where_the_caller_says() {
    as_everyone(|setting| {
        assert_each(
            setting,
            &[
                (
                    "a, b = os.open('dir', os.O_PATH), os.open('.', os.O_RDONLY)
print(move('deep', 'other', 0, a, b)); print(names('.'))",
                    "ok\ndir dir/inner file gone mode moved other other/end",
                ),
                (
                    "here = os.getcwd(); os.chdir('/'); print(move(here + '/dir', here + '/other'))
print(names(here))",
                    "ok\nfile gone mode moved other other/deep other/deep/end other/inner",
                ),
                (
                    "os.symlink('dir', 'link'); print(move('link/deep', 'link/../other'))
print(names('other'), os.path.islink('link'), move('link/', 'x'))",
                    "ok\nend True ENOTDIR",
                ),
                (
                    "file = os.open('file', os.O_RDONLY)
print(move('deep', 'x', 0, file), move('deep', 'x', 0, 999), move('dir', 'x', 0, -100, 999))",
                    "ENOTDIR EBADF EBADF",
                ),
                // Threads, and children that have none of the first one's descriptors.
                (
                    "t = threading.Thread(target=lambda: print(move('dir', 'other'))); t.start(); t.join()
subprocess.run(['mv', '-nT', 'other/deep', 'third'], check=True, close_fds=True); print(names('third'))",
                    "ok\nend",
                ),
            ],
        );
    });
}

#[test]
fn everything_keeps_its_properties() {
    as_everyone(|setting| {
        let lay = |lower: &Path| {
            let at = |name: &str| lower.join("dir").join(name);
            fs::create_dir(at("shut")).unwrap();
            fs::write(at("shut/file"), "shut").unwrap();
            std::os::unix::fs::symlink("inner", at("link")).unwrap();
            for (name, mode) in [("shut", 0o555), ("", 0o2750)] {
                fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).unwrap();
            }
            let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
            for name in ["deep", "shut", "deep/end", ""] {
                fs::File::open(at(name)).unwrap().set_modified(old).unwrap();
            }
        };
        let script = "
os.mkfifo('dir/fifo'); os.link('dir/inner', 'dir/hard'); os.setxattr('dir', 'user.mine', b'kept')
os.utime('dir', (5, 6))
def facts(path):
    found = os.lstat(path)
    return oct(found.st_mode), found.st_mtime, found.st_uid, found.st_gid
before = [facts('dir/' + one) for one in ['', 'deep', 'shut', 'deep/end', 'shut/file', 'link', 'fifo']]
print(move('dir', 'other'))
after = [facts('other/' + one) for one in ['', 'deep', 'shut', 'deep/end', 'shut/file', 'link', 'fifo']]
print(before == after or (before, after), os.getxattr('other', 'user.mine'), os.readlink('other/link'))
open('other/hard', 'a').write('+'); print(open('other/inner').read(), os.stat('other/hard').st_nlink, names('other'))";
        assert_eq!(
            moved(setting, lay, script),
            [
                "ok",
                "True b'kept' inner",
                "dir/inner+ 2 deep deep/end fifo hard inner link shut shut/file"
            ]
        );
    });
}

#[test]
fn one_of_two_at_once_wins_and_nothing_is_lost() {
    as_everyone(|setting| {
        let lay = |lower: &Path| {
            for number in 0..40 {
                fs::write(lower.join(format!("dir/{number}")), "").unwrap();
            }
        };
        let script = "
for round in range(5):
    said = []
    both = [threading.Thread(target=lambda to=to: said.append(move('dir', to))) for to in 'ab']
    [one.start() for one in both]; [one.join() for one in both]
    won = [to for to in 'ab' if os.path.exists(to)]
    print(*sorted(said), len(won), len(os.listdir(won[0])), os.path.exists('dir'))
    print(move(won[0], 'dir'))";
        let expected = ["ENOENT ok 1 42 False", "ok"].repeat(5);
        assert_eq!(moved(setting, lay, script), expected);
    });
}

#[test]
fn what_others_put_there_meanwhile_is_not_lost() {
    as_everyone(|setting| {
        let script = "
made, stop = 0, False
def work():
    global made
    while not stop:
        for at in ['dir', 'other']:
            try: open(f'{at}/made-{made}', 'x').close(); made += 1; break
            except FileNotFoundError: pass
maker = threading.Thread(target=work); maker.start()
said = set(move(*pair) for pair in [('dir', 'other'), ('other', 'dir')] * 20)
stop = True; maker.join()
found = [one for at in ['dir', 'other'] if os.path.isdir(at) for one in os.listdir(at)]
print(said <= {'ok', 'EXDEV', 'EEXIST', 'ENOTEMPTY', 'ENOENT'} or said)
print(made == len([one for one in found if one.startswith('made')]), 'inner' in found)";
        assert_eq!(moved(setting, nothing, script), ["True", "True True"]);
    });
}

#[test]
fn a_caller_that_is_killed_leaves_it_whole() {
    as_everyone(|setting| {
        let lay = |lower: &Path| {
            for number in 0..500 {
                fs::write(lower.join(format!("dir/deep/{number}")), "").unwrap();
            }
        };
        let script = "
child = os.fork()
if child == 0:
    move('dir', 'other'); os._exit(0)
while not os.path.exists('other'): pass
os.kill(child, 9); os.waitpid(child, 0)
# The next one waits for what was begun.
os.mkdir('more'); print(move('more', 'less'))
while os.path.exists('dir') and os.path.exists('other'): pass
whole = 'other' if os.path.exists('other') else 'dir'
print(len(os.listdir(whole + '/deep')))";
        assert_eq!(moved(setting, lay, script), ["ok", "501"]);
    });
}

#[test]
fn git_moves_directories() {
    as_everyone(|setting| {
        let lay = |lower: &Path| {
            let script = "git init -q . && git add . && \
                 git -c user.name=a -c user.email=a@b commit -qm one";
            let mut git = std::process::Command::new("sh");
            git.args(["-c", script])
                .env_clear()
                .env("PATH", "/usr/bin:/bin");
            git.env("GIT_CONFIG_GLOBAL", "/dev/null")
                .envs([
                    ("GIT_CONFIG_COUNT", "1"),
                    ("GIT_CONFIG_KEY_0", "safe.directory"),
                ])
                .env("GIT_CONFIG_VALUE_0", "*")
                .current_dir(lower);
            assert!(git.status().unwrap().success());
        };
        let script = "
os.environ.update(GIT_CONFIG_GLOBAL='/dev/null', HOME='/nowhere')
def git(*words): subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *words], check=True)
git('mv', 'dir', 'other'); git('status', '--porcelain'); git('commit', '-qam', 'two')
git('mv', 'other/deep', 'deep'); git('commit', '-qm', 'three')
git('ls-files'); git('fsck'); git('status', '--porcelain')";
        assert_eq!(
            moved(setting, lay, script),
            [
                "R  dir/deep/end -> other/deep/end",
                "R  dir/inner -> other/inner",
                "deep/end",
                "file",
                "gone",
                "mode",
                "moved",
                "other/inner"
            ]
        );
    });
}

/// What only the kernel renames: nobody may do for a caller what the caller's
/// own rules forbid, and there is no mover where there is no filter.
fn renamed_by_the_kernel_alone(setting: &Setting) -> &'static str {
    let root = rustix::process::geteuid().is_root();
    match setting.who {
        Who::Myself if root => "ok",
        Who::Myself | Who::Ordinary => "EXDEV",
    }
}

#[test]
fn whoever_takes_on_rules_of_its_own_is_not_served_beyond_them() {
    as_everyone(|setting| {
        let script = "
import struct
print(move('dir', 'other'))
# Rules about sockets; with any rules the kernel asks for one about moves.
rules = libc.syscall(444, struct.pack('Q', 1 << 9), 8, 0)
print(rules > 0 and libc.syscall(446, rules, 0))
print(move('second', 'third'), move('file', 'filed'), names('other'))";
        let lay = |lower: &Path| fs::create_dir(lower.join("second")).unwrap();
        assert_eq!(
            moved(setting, lay, script),
            [
                "ok",
                "0",
                &format!(
                    "{} ok deep deep/end inner",
                    renamed_by_the_kernel_alone(setting)
                )
            ]
        );
    });
}

#[test]
fn where_nobody_renames_for_it_the_report_says_so() {
    as_everyone(|setting| {
        let merged = Merged::new(setting, OsStr::new("store"));
        let mut policy = policy(setting, &merged, "print(move('dir', 'other'))");
        policy.waived.insert(Layer::Seccomp);
        policy.required.remove(&Layer::Seccomp);
        let result = setting.launch("launch", &policy);
        let expected = renamed_by_the_kernel_alone(setting);
        assert_eq!(lines(&result), [expected]);
        let notes = &result["enforcement"]["view_notes"];
        let target = merged.target.display();
        let told = match expected {
            "ok" => json!([]),
            _ => json!([format!(
                "directories that lie beneath `{target}` cannot be renamed: the filter was waived"
            )]),
        };
        assert_eq!(*notes, told);
    });
}

#[test]
fn as_many_processes_as_without() {
    as_everyone(|setting| {
        let merged = Merged::new(setting, OsStr::new("store"));
        let script = "
made = 0
try:
    while made < 100:
        if os.fork() == 0: time.sleep(1000)
        made += 1
except OSError: pass
print(made)";
        let mut counts = Vec::new();
        for directories in [Directories::Copied, Directories::Renamed] {
            let mut policy = policy(setting, &merged, script);
            policy.view.mounts.pop();
            let mount = merged.mount_with(Otherwise::Refuse, directories);
            policy.view.mounts.push(mount);
            policy.limits.processes = Some(20);
            counts.push(setting.launch("launch", &policy)["stdout"].clone());
        }
        assert_eq!(counts[0], counts[1]);
    });
}

/// Without file rules nothing keeps the command from ending the mover.
#[test]
fn the_end_of_the_mover_leaves_renames_to_the_kernel() {
    as_everyone(|setting| {
        let merged = Merged::new(setting, OsStr::new("store"));
        let script = "
def ended():
    for pid in os.listdir('/proc'):
        if pid.isdigit() and int(pid) not in (1, os.getpid()):
            os.kill(int(pid), 9)
            while os.path.exists(f'/proc/{pid}'): pass
ended(); print(move('dir', 'other'), move('file', 'filed'), move('dir', 'file'))";
        let mut policy = policy(setting, &merged, script);
        policy.waived.insert(Layer::Landlock);
        policy.required.remove(&Layer::Landlock);
        let result = setting.launch("launch", &policy);
        let expected = renamed_by_the_kernel_alone(setting);
        let last = if expected == "ok" { "ENOENT" } else { "EXDEV" };
        assert_eq!(lines(&result), [format!("{expected} ok {last}")]);
    });
}

#[test]
fn what_cannot_be_moved_whole_stays_whole() {
    as_everyone(|setting| {
        let shut = |lower: &Path| {
            for number in 0..50 {
                fs::write(lower.join(format!("dir/{number}")), "").unwrap();
            }
            let path = lower.join("dir/shut");
            fs::create_dir(&path).unwrap();
            fs::set_permissions(path, PermissionsExt::from_mode(0o311)).unwrap();
        };
        let deep = |lower: &Path| {
            fs::create_dir_all(lower.join("dir").join("d/".repeat(300))).unwrap();
        };
        let lays: [&dyn Fn(&Path); 2] = [&shut, &deep];
        for lay in lays {
            let script = "
before = names('dir'), os.stat('dir').st_mtime, os.stat('dir').st_mode
said = move('dir', 'other')
at = 'other' if said == 'ok' else 'dir'
print(said, (names(at), os.stat(at).st_mtime, os.stat(at).st_mode) == before, len(os.listdir('.')))";
            let expected = format!("{} True 5", renamed_by_the_kernel_alone(setting));
            assert_eq!(moved(setting, lay, script), [expected]);
        }
    });
}
