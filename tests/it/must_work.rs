//! What must work inside: the tools that a coding agent lives by.
//!
//! Real tools of this machine in an agent, as everyone there is, judged by
//! what landed in the parent's tree. Rust and what it builds upon is in
//! `caches`; git is in `inside` too. A tool that is missing fails its test:
//! `.ci/run` installs them.

use serde_json::Value;

use crate::support::{Repo, TestEnv, only_agent};

/// Runs a script as an agent and demands that its work landed.
#[track_caller]
fn works(repo: &Repo<'_>, script: &str) -> Value {
    let record = repo
        .agent(&format!("set -e\n{script}"))
        .expect_code(0)
        .json();
    let agent = only_agent(&record);
    assert_eq!(agent["outcome"], "succeeded", "{agent:#}");
    assert_eq!(agent["integration"]["status"], "landed", "{agent:#}");
    record
}

#[test]
fn git_adds_commits_and_tells() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.expect_unchanged();
        works(
            &repo,
            "echo one > one.txt; git add one.txt; s=$(git status --porcelain=v1); \
             echo \"$s\" > staged.txt; \
             git commit -q -m one; git log -1 --format='%an <%ae> %s' > log.txt; \
             git mv b.txt docs/b.txt; git rm -q a.txt; git commit -q -m two; git status -s > s.txt",
        );
        assert_eq!(repo.text("staged.txt"), "A  one.txt\n");
        assert_eq!(repo.text("log.txt"), "Test <test@example.invalid> one\n");
        assert!(repo.has("docs/b.txt") && !repo.has("a.txt"));
    }
}

#[test]
fn make_compiles_in_parallel() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let units: Vec<String> = (0..8).map(|number| format!("unit{number}")).collect();
        for (number, unit) in units.iter().enumerate() {
            repo.write(
                format!("{unit}.c"),
                format!("int {unit}(void) {{ return {number}; }}\n"),
            );
        }
        let list = |text: &dyn Fn(&str) -> String| -> String {
            units.iter().map(|unit| text(unit)).collect()
        };
        repo.write(
            "main.c",
            format!(
                "#include <stdio.h>\n{}int main(void) {{ printf(\"%d\\n\", 0{}); return 0; }}\n",
                list(&|unit| format!("int {unit}(void);\n")),
                list(&|unit| format!(" + {unit}()")),
            ),
        );
        repo.write(
            "Makefile",
            format!(
                "target/sum: target/main.o{}\n\tgcc -o $@ $^\n\
                 target/%.o: %.c\n\t@mkdir -p target\n\tgcc -O1 -c -o $@ $<\n",
                list(&|unit| format!(" target/{unit}.o"))
            ),
        );
        works(&repo, "make -j4; ./target/sum > sum.txt");
        assert_eq!(repo.text("sum.txt"), "28\n");
    }
}

#[test]
fn npm_installs_and_node_runs_threads_and_children() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.write(".gitignore", "target/\nnode_modules/\n");
        repo.write(
            "dep/package.json",
            r#"{"name": "dep", "version": "1.0.0", "main": "index.js"}"#,
        );
        repo.write("dep/index.js", "exports.word = 'from dep';\n");
        repo.write(
            "package.json",
            r#"{"name": "app", "version": "1.0.0", "scripts": {"test": "node test.js"}}"#,
        );
        repo.write(
            "test.js",
            "const { Worker } = require('worker_threads');\n\
             const { execFileSync } = require('child_process');\n\
             const worker = new Worker(\
               \"require('worker_threads').parentPort.postMessage(6 * 7)\", { eval: true });\n\
             worker.on('message', number => {\n\
               const child = execFileSync(process.execPath, ['-p', '1 + 1']).toString().trim();\n\
               const text = `${require('dep').word} ${number} ${child}\\n`;\n\
               require('fs').writeFileSync('out.txt', text);\n\
             });\n",
        );
        works(
            &repo,
            "npm install ./dep --offline --no-audit --no-fund; npm test",
        );
        assert_eq!(repo.text("out.txt"), "from dep 42 2\n");
        assert!(repo.text("package.json").contains("\"dep\""));
    }
}

/// Makes a wheel of one module with nothing but the standard library.
const WHEEL: &str = r#"
import zipfile
with zipfile.ZipFile("greeting-1.0-py3-none-any.whl", "w") as wheel:
    info = "greeting-1.0.dist-info/"
    wheel.writestr("greeting.py", "word = 'from a wheel'\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
"#;

const PROCESSES: &str = r#"
import multiprocessing as mp
from multiprocessing import shared_memory

def square(number):
    return number * number

def add(counter, gate):
    for _ in range(100):
        with gate:
            counter.value += 1

if __name__ == "__main__":
    with mp.Pool(4) as pool:
        squares = sum(pool.map(square, range(10)))
    counter, gate = mp.Value("i", 0, lock=False), mp.Semaphore(1)
    workers = [mp.Process(target=add, args=(counter, gate)) for _ in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    block = shared_memory.SharedMemory(create=True, size=16)
    block.buf[0] = 7
    other = shared_memory.SharedMemory(name=block.name)
    seen = other.buf[0]
    other.close()
    block.unlink()
    open("processes.txt", "w").write(f"{squares} {counter.value} {seen}\n")
"#;

#[test]
fn python_makes_environments_installs_and_runs_processes() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.write("wheel.py", WHEEL);
        repo.write("processes.py", PROCESSES);
        works(
            &repo,
            "python3 wheel.py; python3 -m venv target/venv; \
             target/venv/bin/pip install -q --no-index --disable-pip-version-check \
                 ./greeting-1.0-py3-none-any.whl; \
             target/venv/bin/python -c 'import greeting; print(greeting.word)' > word.txt; \
             python3 processes.py",
        );
        assert_eq!(repo.text("word.txt"), "from a wheel\n");
        assert_eq!(repo.text("processes.txt"), "285 400 7\n");
    }
}

#[test]
fn sqlite_writes_ahead_and_locks() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        works(
            &repo,
            "mkdir target; cd target\n\
             sqlite3 s.db 'PRAGMA journal_mode=WAL; CREATE TABLE t(x);' > ../mode.txt\n\
             add() { i=0; while [ $i -lt 20 ]; do \
                 sqlite3 -cmd '.timeout 60000' s.db 'INSERT INTO t VALUES(1);'; i=$((i + 1)); done; }\n\
             add & one=$!; add & two=$!; wait $one; wait $two\n\
             sqlite3 s.db 'SELECT count(*) FROM t;' > ../count.txt\n\
             python3 -c '\n\
import sqlite3\n\
one, two = (sqlite3.connect(\"l.db\", timeout=0, isolation_level=None) for _ in range(2))\n\
one.execute(\"BEGIN EXCLUSIVE\")\n\
try: two.execute(\"BEGIN EXCLUSIVE\")\n\
except sqlite3.OperationalError as error: print(error)' > ../lock.txt",
        );
        assert_eq!(repo.text("mode.txt"), "wal\n");
        assert_eq!(repo.text("count.txt"), "40\n");
        assert_eq!(repo.text("lock.txt"), "database is locked\n");
    }
}

/// Drives a shell on a terminal of its own: stops a job, lists it, ends it.
const JOBS: &str = r#"
import os, pty, signal
signal.alarm(100)
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
seen = b""
def until(word):
    global seen
    while word not in seen:
        seen += os.read(terminal, 4096)
    seen = seen.split(word, 1)[1]
def say(text):
    os.write(terminal, text)
say(b"echo rea''dy\n")
until(b"ready")
say(b"sh -c 'echo run''ning; exec sleep 1000'\n")
until(b"running")
assert os.tcgetpgrp(terminal) != pid
say(b"\x1a")
until(b"Stopped")
say(b"jobs\n")
until(b"Stopped")
say(b"bg; kill %1; wait; echo e''nd; exit\n")
until(b"end")
_, status = os.waitpid(pid, 0)
open("jobs.txt", "w").write("jobs are controlled\n")
"#;

#[test]
fn terminals_work_with_job_control() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.write("jobs.py", JOBS);
        works(
            &repo,
            "script -qec 'test -t 0 && test -t 1 && tty > tty.txt && echo x > /dev/tty' /dev/null; \
             python3 jobs.py; ls /dev/pts > left.txt",
        );
        assert!(repo.text("tty.txt").starts_with("/dev/pts/"));
        assert_eq!(repo.text("jobs.txt"), "jobs are controlled\n");
        // Only the agent's own terminals are there, and they are closed.
        assert_eq!(repo.text("left.txt"), "ptmx\n");
    }
}

#[test]
fn tmux_starts_sessions_and_ends() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        works(
            &repo,
            "tmux -f /dev/null new-session -d -s keep 'sleep 1000'; \
             tmux new-session -d -s one 'tty > one.txt; tmux wait-for -S done'; \
             tmux wait-for done; tmux ls -F '#{session_name}' | grep -x keep > kept.txt; \
             tmux kill-server; ! tmux ls 2> /dev/null",
        );
        assert!(repo.text("one.txt").starts_with("/dev/pts/"));
        assert_eq!(repo.text("kept.txt"), "keep\n");
    }
}

const SOCKETS: &str = r#"
import os, socket, threading
def serve(listener):
    connection, _ = listener.accept()
    connection.sendall(connection.recv(9).upper())
    connection.close()
def ask(family, address):
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen()
    threading.Thread(target=serve, args=(listener,)).start()
    client = socket.socket(family)
    client.connect(listener.getsockname())
    client.sendall(b"hello")
    return client.recv(9).decode()
answers = [
    ask(socket.AF_INET, ("127.0.0.1", 0)),
    ask(socket.AF_INET, ("127.0.0.1", int(os.environ["PORT"]))),
    ask(socket.AF_UNIX, "target/socket"),
    ask(socket.AF_UNIX, os.environ["TMPDIR"] + "/socket"),
    ask(socket.AF_UNIX, "\0abstract"),
]
if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
    answers.append(ask(socket.AF_INET6, ("::1", 0)))
one, two = socket.socketpair()
one.send(b"pair")
answers.append(two.recv(9).decode())
open("answers.txt", "w").write(" ".join(sorted(set(answers))) + "\n")
"#;

#[test]
fn sockets_of_its_own_answer() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.write("sockets.py", SOCKETS);
        works(&repo, "mkdir target; python3 sockets.py");
        assert_eq!(repo.text("answers.txt"), "HELLO pair\n");
    }
}

#[test]
fn files_move_and_link_across_directories() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let record = works(
            &repo,
            "mkdir -p x/y; mv a.txt x/y/moved.txt; ln x/y/moved.txt docs/linked.txt; \
             echo through >> docs/linked.txt; tail -n 1 x/y/moved.txt | grep -qx through; \
             echo own > x/own; ln x/own docs/own; test x/own -ef docs/own; rm x/own docs/own; \
             mv docs x/docs; ln -s y/moved.txt x/soft; \
             cp b.txt \"$TMPDIR\"; mv \"$TMPDIR/b.txt\" x/back.txt; rm b.txt; chmod 755 x/back.txt; \
             truncate -s 4 x/back.txt",
        );
        assert!(repo.text("x/y/moved.txt").starts_with("a 1\n"));
        assert_eq!(repo.text("x/docs/linked.txt"), repo.text("x/soft"));
        assert_eq!(repo.text("x/docs/guide.md"), "# Guide\n\nHow to use it.\n");
        assert_eq!(repo.text("x/back.txt"), "b 1\n");
        assert_eq!(repo.mode("x/back.txt"), 0o755);
        assert!(!repo.has("a.txt") && !repo.has("docs"));
        assert_eq!(record["cleanup"]["complete"], true);
    }
}
