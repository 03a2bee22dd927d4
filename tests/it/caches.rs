//! What an agent builds upon: toolchains that it reads, caches that it changes.
//!
//! Real toolchains of this machine and caches that real tools filled, in the
//! home of the test's world. Judged by what landed, by what the person's home
//! holds afterwards and by the leak oracle.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::support::{Repo, TestEnv, only_agent, shown};

/// Serves a directory over HTTP on the loopback interface until it is dropped.
struct Server {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new(root: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("because loopback has free ports");
        let address = listener.local_addr().expect("because it is bound");
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let thread = std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if told.load(Ordering::SeqCst) {
                    return;
                }
                answer(connection, &root);
            }
        });
        Self {
            address,
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn answer(mut connection: TcpStream, root: &Path) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && connection.read(&mut byte).unwrap_or(0) == 1 {
        request.push(byte[0]);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request
        .split(' ')
        .nth(1)
        .unwrap_or("/")
        .trim_start_matches('/');
    let (status, body) = match std::fs::read(root.join(path)) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // Who asked may have gone; then nobody misses the answer.
    drop(connection.write_all(&[head.as_bytes(), &body].concat()));
}

/// Runs a shell script of the person's.
#[track_caller]
fn person(env: &TestEnv, directory: &Path, script: &str) -> String {
    let mut command = env.command("sh");
    command.args(["-ec", script]).current_dir(directory);
    let command = command.envs(rust(env));
    env.finish(command).expect_code(0).stdout
}

/// Runs a script as an agent.
#[track_caller]
fn agent(env: &TestEnv, repo: &Repo<'_>, script: &str) -> Value {
    let mut program = env.program();
    program
        .args(["run", "--json", "--", "sh", "-ec", script])
        .envs(rust(env))
        .current_dir(repo.root());
    env.finish(&mut program).expect_code(0).json()
}

/// Where the person of this world has Rust, as variables.
///
/// Whoever runs the tests has it where it is. Another user cannot look there,
/// so he gets one in his home, of the same files.
fn rust(env: &TestEnv) -> Vec<(&'static str, String)> {
    let home = env.home().join(".rustup");
    if !env.acts_as_another() {
        return Vec::new();
    }
    let own = home.join("toolchains/own");
    if !own.exists() {
        env.make_dir(&home.join("toolchains"));
        let script = "from=$(rustc --print sysroot); mkdir \"$1\"; \
             cp -al \"$from/bin\" \"$from/lib\" \"$1\" 2> /dev/null || \
             cp -a \"$from/bin\" \"$from/lib\" \"$1\"";
        let status = std::process::Command::new("sh")
            .args(["-ec", script, "sh", shown(&own)])
            .status()
            .expect("because every system has a shell");
        assert!(status.success(), "copy the toolchain");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    vec![
        ("RUSTUP_HOME", shown(&home).to_owned()),
        ("PATH", format!("{}/bin:{path}", shown(&own))),
    ]
}

/// Everything below a directory that must not change, a line each.
fn print(env: &TestEnv, directory: &Path) -> String {
    person(
        env,
        directory,
        "find . -printf '%p %m %T@ %s\\n' | LC_ALL=C sort; \
         find . -type f -exec cat {} + | cksum",
    )
}

/// A repository whose program needs a package of a registry; the person has
/// fetched it, and the registry is gone.
fn with_fetched_package(env: &TestEnv) -> Repo<'_> {
    let served = env.outside().join("served");
    env.put(
        &served.join("greeting/Cargo.toml"),
        "[package]\nname = \"greeting\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
         description = \"greets\"\nlicense = \"MIT\"\n[workspace]\n",
    );
    env.put(
        &served.join("greeting/src/lib.rs"),
        "pub fn word() -> &'static str { \"fetched\" }\n",
    );
    let sum = person(
        env,
        &served.join("greeting"),
        "cargo package -q --no-verify --allow-dirty --offline; \
         cp target/package/greeting-0.1.0.crate ..; sha256sum ../greeting-0.1.0.crate",
    );
    let sum = sum.split(' ').next().expect("because it printed one");
    env.put(
        &served.join("index/gr/ee/greeting"),
        format!(
            "{{\"name\":\"greeting\",\"vers\":\"0.1.0\",\"deps\":[],\"cksum\":\"{sum}\",\
             \"features\":{{}},\"yanked\":false}}\n"
        ),
    );
    let server = Server::new(served.clone());
    let at = server.address;
    env.put(
        &served.join("index/config.json"),
        format!("{{\"dl\": \"http://{at}/{{crate}}-{{version}}.crate\"}}"),
    );
    let repo = env.repo();
    repo.write(
        ".cargo/config.toml",
        format!("[registries.near]\nindex = \"sparse+http://{at}/index/\"\n"),
    );
    repo.write(
        "Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
         [dependencies]\ngreeting = { version = \"0.1\", registry = \"near\" }\n",
    );
    repo.write(
        "build.rs",
        "fn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    \
         std::fs::write(out + \"/made.rs\", \"\\\"built\\\"\").unwrap();\n}\n",
    );
    repo.write(
        "src/main.rs",
        "fn main() {\n    let made = include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));\n    \
         println!(\"{} {made}\", greeting::word());\n}\n",
    );
    person(env, repo.root(), "cargo fetch -q");
    repo
}

#[test]
fn cargo_builds_offline_upon_what_the_person_fetched() {
    for env in TestEnv::identities() {
        let repo = with_fetched_package(&env);
        // As after a clean-up of the cache: the agent has to unpack.
        person(&env, &env.home(), "rm -r .cargo/registry/src");
        let before = print(&env, &env.home().join(".cargo"));
        let record = agent(
            &env,
            &repo,
            "cargo build -q --offline; ./target/debug/app > out.txt; cargo test -q --offline; \
             printf 'fn main() { println!(\"compiled\"); }' > \"$TMPDIR/one.rs\"; \
             rustc -o \"$TMPDIR/one\" \"$TMPDIR/one.rs\"; \"$TMPDIR/one\" >> out.txt; \
             test -d \"$CARGO_HOME/registry/src\"",
        );
        assert_eq!(only_agent(&record)["outcome"], "succeeded");
        assert_eq!(repo.text("out.txt"), "fetched built\ncompiled\n");
        assert_eq!(print(&env, &env.home().join(".cargo")), before);
        assert_eq!(only_agent(&record).get("view_notes"), None);
    }
}

#[test]
fn npm_installs_offline_what_the_person_fetched() {
    for env in TestEnv::identities() {
        let served = env.outside().join("served");
        env.put(
            &served.join("greeting/package.json"),
            r#"{"name": "greeting", "version": "1.0.0", "main": "index.js"}"#,
        );
        env.put(
            &served.join("greeting/index.js"),
            "module.exports = 'fetched';\n",
        );
        // Not where the test's oracle looks: node keeps compiled code there.
        let npm = |directory: &Path, arguments: &str| {
            let script = format!("TMPDIR=\"$HOME\" npm --no-audit --no-fund {arguments}");
            person(&env, directory, &script)
        };
        let packed: Value =
            serde_json::from_str(&npm(&served.join("greeting"), "pack --json --silent"))
                .expect("because npm prints what it packed");
        let server = Server::new(served.clone());
        let at = server.address;
        let tarball = format!("http://{at}/greeting/greeting-1.0.0.tgz");
        let dist = json!({ "tarball": tarball, "integrity": packed[0]["integrity"] });
        let version = json!({ "name": "greeting", "version": "1.0.0", "dist": dist });
        let package = json!({
            "name": "greeting",
            "dist-tags": { "latest": "1.0.0" },
            "versions": { "1.0.0": version },
        });
        env.put(&served.join("npm/greeting"), package.to_string());
        let repo = env.repo();
        repo.write(".gitignore", "node_modules/\n");
        repo.write("package.json", r#"{"name": "app", "version": "1.0.0"}"#);
        let registry = format!("--registry=http://{at}/npm/");
        npm(repo.root(), &format!("install {registry} greeting"));
        person(&env, repo.root(), "rm -r node_modules");
        drop(server);
        let before = print(&env, &env.home().join(".npm/_cacache"));
        agent(
            &env,
            &repo,
            "npm ci --offline --no-audit --no-fund; node -p 'require(\"greeting\")' > out.txt",
        );
        assert_eq!(repo.text("out.txt"), "fetched\n");
        assert_eq!(print(&env, &env.home().join(".npm/_cacache")), before);
    }
}

#[test]
fn a_toolchain_behind_a_link_is_found() {
    for env in TestEnv::identities() {
        let repo = with_fetched_package(&env);
        let moved = env.outside().join("moved, cargo:home");
        person(
            &env,
            &env.home(),
            &format!("mv .cargo '{0}'; ln -s '{0}' .cargo", shown(&moved)),
        );
        let before = print(&env, &moved);
        agent(
            &env,
            &repo,
            "cargo build -q --offline; ./target/debug/app > out.txt; \
             chmod -R u+w \"$CARGO_HOME/registry\"; rm -r \"$CARGO_HOME\"/registry/*",
        );
        assert_eq!(repo.text("out.txt"), "fetched built\n");
        assert_eq!(print(&env, &moved), before);
    }
}

#[test]
fn without_mounts_caches_are_only_read() {
    for env in TestEnv::identities() {
        let repo = with_fetched_package(&env);
        let before = print(&env, &env.home().join(".cargo"));
        let mut program = env.program();
        let waived = ["mounts", "no_metadata_change_outside", "no_host_sockets"];
        program.args(["run", "--json"]);
        for name in waived {
            program.args(["--allow-degraded", name]);
        }
        program
            .args([
                "--",
                "sh",
                "-ec",
                "cargo build -q --offline; ./target/debug/app > out.txt; \
                 ! touch \"$CARGO_HOME/registry/new\" 2> /dev/null; \
                 ! rm -r \"$CARGO_HOME\"/registry/* 2> /dev/null",
            ])
            .envs(rust(&env))
            .current_dir(repo.root());
        env.finish(&mut program).expect_code(0);
        assert_eq!(repo.text("out.txt"), "fetched built\n");
        assert_eq!(print(&env, &env.home().join(".cargo")), before);
    }
}

/// A cache of each kind of place, filled as a tool would.
const CACHES: [&str; 5] = [
    ".cargo/registry",
    ".npm/_cacache",
    ".cache/pip",
    ".m2/repository",
    "go/pkg/mod",
];

#[test]
fn caches_take_changes_that_go_with_the_agent() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        for cache in CACHES {
            env.put(&env.home().join(cache).join("dir/kept"), "kept\n");
        }
        let before = print(&env, &env.home());
        // What is left there has no permission at all.
        let script = CACHES.map(|cache| {
            format!(
                "cd \"$HOME/{cache}\"; cat dir/kept >> \"$COFFERDAM_REPO/seen.txt\"; \
                 echo more >> dir/kept; mkdir -p made/below; echo new > made/below/file; \
                 mv dir/kept made/moved; chmod 0 made/below/file made/below made dir; \
                 chmod 555 .;"
            )
        });
        let record = agent(&env, &repo, &script.concat());
        assert_eq!(repo.text("seen.txt"), "kept\n".repeat(CACHES.len()));
        assert_eq!(print(&env, &env.home()), before);
        assert_eq!(record["cleanup"]["complete"], true, "{record:#}");
        // The next agent starts from what the person has.
        agent(
            &env,
            &repo,
            "cat ~/go/pkg/mod/dir/kept > again.txt; ls ~/go/pkg/mod >> again.txt",
        );
        assert_eq!(repo.text("again.txt"), "kept\ndir\n");
    }
}

/// Where tools keep what logs a person in, beneath the home directory.
const SECRETS: [&str; 24] = [
    ".aws/credentials",
    ".cargo/config.toml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gh/hosts.yml",
    ".config/git/credentials",
    ".config/pip/pip.conf",
    ".docker/config.json",
    ".dotnet/corefx/cryptography/x509stores/my/key.pfx",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg/secring.gpg",
    ".gradle/gradle.properties",
    ".kube/config",
    ".local/share/uv/credentials/credentials.toml",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".ssh/id_ed25519",
    ".terraform.d/credentials.tfrc.json",
    ".yarnrc.yml",
];

#[test]
fn no_file_with_credentials_is_there() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        for secret in SECRETS {
            env.put(&env.home().join(secret), "a secret");
        }
        // With toolchains and caches beside them, and links from within.
        for shown in [
            ".cargo/registry/index/x",
            ".cargo/bin/x",
            ".m2/repository/x",
            ".npm/_cacache/x",
            ".dotnet/sdk/x",
            ".local/share/uv/python/x",
            ".tool-versions",
        ] {
            env.put(&env.home().join(shown), "no secret");
        }
        person(
            &env,
            &env.home(),
            "ln -s ../../.npmrc .cargo/registry/link; ln -s \"$HOME/.ssh\" .npm/_cacache/link; \
             ln -s ../.ssh .cargo/git",
        );
        let home = shown(&env.home()).to_owned();
        let attempts = SECRETS.map(|secret| {
            format!("for p in '{home}/{secret}' \"$HOME/{secret}\"; do cat \"$p\" || :; done; ")
        });
        let links = "cat ~/.cargo/registry/link ~/.npm/_cacache/link/id_ed25519 || :; \
             cat ~/.cargo/git/id_ed25519 || :; ";
        let script = format!(
            "exec 3> all.txt; ({}{links}) >&3 2> /dev/null; cat ~/.tool-versions >&3",
            attempts.concat()
        );
        agent(&env, &repo, &script);
        assert_eq!(repo.text("all.txt"), "no secret");
    }
}
