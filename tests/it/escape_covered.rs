//! Attempts to reach single files that lie in what an agent may read.
//!
//! Owns what is covered one by one: settings that others may not read,
//! sockets, what logs a person in within a toolchain, and variables that would
//! show any of it elsewhere. Judged by what landed and by who was connected to.
//! Nothing is put into the system's own directories.

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;

use crate::support::{Repo, TestEnv, shown};

/// Runs a script as an agent, with variables of the person's.
#[track_caller]
fn agent(env: &TestEnv, repo: &Repo<'_>, variables: &[(&str, &str)], script: &str) {
    let mut program = env.program();
    program
        .args(["run", "--json", "--", "sh", "-c", script])
        .envs(variables.iter().copied())
        .current_dir(repo.root());
    env.finish(&mut program).expect_code(0);
}

#[test]
fn settings_that_others_may_not_read_are_covered_at_any_depth() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        // Whoever runs the test: root finds all, anybody else what he can.
        let listed = std::process::Command::new("find")
            .args(["/etc", "/usr/local/etc", "-type", "f", "-size", "+0"])
            .args(["!", "-perm", "-004"])
            .output()
            .expect("because every system has find");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains("/etc/shadow\n"), "{listed}");
        repo.write("list.txt", &listed);
        agent(
            &env,
            &repo,
            &[],
            "while read -r file; do head -c 1 \"$file\" > \"$TMPDIR/one\" 2> /dev/null; \
             test -s \"$TMPDIR/one\" && echo \"$file\"; done < list.txt > read.txt; \
             wc -l < list.txt > tried.txt",
        );
        assert_eq!(repo.text("read.txt"), "");
        let tried = listed.lines().count().to_string();
        assert_eq!(repo.text("tried.txt").trim(), tried);
    }
}

#[test]
fn a_socket_in_a_directory_of_path_is_covered() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let tools = env.home().join("tools");
        env.put(&tools.join("beside"), "shown\n");
        let real = env.home().join("real");
        env.make_dir(&real.join("deep"));
        let link = env.home().join("link");
        std::os::unix::fs::symlink(&real, &link).expect("because it is new");
        let sockets = [tools.join("socket"), real.join("deep/socket")];
        let listeners = sockets.each_ref().map(|path| {
            let listener = UnixListener::bind(path).expect("because nothing stands there");
            listener
                .set_nonblocking(true)
                .expect("because it is a socket");
            env.own(path);
            listener
        });
        let path = format!("{}:{}:/usr/bin:/bin", shown(&tools), shown(&link));
        let again = link.join("deep/socket");
        let names = [&sockets[0], &sockets[1], &again].map(|path| shown(path).to_owned());
        let script = format!(
            "cat '{0}/beside' > seen.txt; ls -d '{1}' >> seen.txt; \
             python3 - {2} << 'END'\n\
             import socket, sys\n\
             for path in sys.argv[1:]:\n    \
                 try:\n        \
                     socket.socket(socket.AF_UNIX).connect(path)\n    \
                 except OSError:\n        \
                     pass\n\
             END\n",
            shown(&tools),
            shown(&again),
            names.map(|name| format!("'{name}'")).join(" "),
        );
        agent(&env, &repo, &[("PATH", &path)], &script);
        // Its directory is shown, by each of its names.
        assert_eq!(repo.text("seen.txt"), format!("shown\n{}\n", shown(&again)));
        for listener in listeners {
            let accepted = listener.accept().map(drop).map_err(|error| error.kind());
            assert_eq!(accepted, Err(ErrorKind::WouldBlock));
        }
    }
}

#[test]
fn what_logs_in_within_a_toolchain_is_covered() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let home = env.home();
        for (name, text) in [
            (".nvm/versions/node/v20/etc/npmrc", "secret"),
            (".nvm/versions/node/v20/bin/x", "shown\n"),
            (".pyenv/versions/3/pip.conf", "secret"),
            ("miniconda3/envs/one/.condarc", "secret"),
            (".local/share/uv/python/cpython/pip.conf", "secret"),
        ] {
            env.put(&home.join(name), text);
        }
        let script = format!(
            "cd '{}'; cat .nvm/versions/node/v20/*/* .pyenv/versions/3/* \
             miniconda3/envs/one/.condarc .local/share/uv/python/cpython/* \
             > \"$COFFERDAM_REPO/seen.txt\" 2> /dev/null; :",
            shown(&home)
        );
        agent(&env, &repo, &[], &script);
        assert_eq!(repo.text("seen.txt"), "shown\n");
    }
}

#[test]
fn a_variable_for_packages_shows_nothing_of_the_system() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let variables = [("GOMODCACHE", "/etc"), ("PIP_CACHE_DIR", "/usr/local")];
        agent(
            &env,
            &repo,
            &variables,
            "ls -A \"$HOME/go/pkg/mod\" \"$HOME/.cache/pip\" > seen.txt 2> /dev/null; :",
        );
        assert_eq!(repo.text("seen.txt"), "");
    }
}
