//! Repositories that are not plain directories with plain files.
//!
//! Owns: wherever a repository lies, whatever its git directory looks like and
//! however its files are named, an agent gets exactly the parent's bytes, git
//! says inside what it says outside, and what the agent makes lands. Every
//! test runs with every backend that works here; see `Repo::expect_same_inside`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::support::{Repo, Signal, TestEnv, backends, only_agent, run_in, shown, text};

/// Puts a bit of everything into a repository: committed, staged, changed,
/// deleted, untracked, ignored, a link and a program.
fn fill(repo: &Repo<'_>) {
    for name in ["a.txt", "b.txt", "gone.txt", "sub/c.txt"] {
        repo.write(name, format!("content of {name}\n"));
    }
    repo.write(".gitignore", "ignored\n");
    symlink("a.txt", repo.path("link")).expect("because nothing stands there");
    repo.write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(repo.path("run.sh"), fs::Permissions::from_mode(0o755))
        .expect("because the test wrote it");
    repo.commit_all("begin");
    repo.write("a.txt", "changed\n");
    repo.write("b.txt", "staged\n");
    repo.git(["add", "b.txt"]);
    repo.delete("gone.txt");
    repo.write("sub/new.txt", "untracked\n");
    repo.write("ignored", "ignored\n");
}

/// A filled repository at a path.
fn filled(env: &TestEnv, path: PathBuf) -> Repo<'_> {
    env.make_dir(&path);
    let repo = env.adopt(path);
    repo.git(["init", "-q", "-b", "main"]);
    fill(&repo);
    repo
}

#[test]
fn a_run_may_start_below_the_top_and_a_repository_lie_within_another() {
    for env in TestEnv::identities() {
        let outer = env.repo();
        let inner = filled(&env, outer.path("some/where/inner"));
        let before = outer.git(["rev-parse", "HEAD"]);
        inner.expect_same_inside(inner.root());
        inner.expect_same_inside(&inner.path("sub"));
        let script = "test \"${PWD##*/}\" = sub && test -f c.txt && echo x > here";
        for backend in backends(&env) {
            run_in(&env, &inner.path("sub"), backend, script).expect_code(0);
            assert_eq!(inner.text("sub/here"), "x\n");
            inner.delete("sub/here");
        }
        assert_eq!(outer.git(["rev-parse", "HEAD"]), before);
        assert!(!outer.has("here") && outer.added_refs().is_empty());
    }
}

#[test]
fn a_repository_may_be_reached_by_a_link() {
    let env = TestEnv::new();
    let repo = filled(&env, env.root().join("real/repo"));
    let link = env.outside().join("link");
    symlink(env.root().join("real"), &link).expect("because nothing stands there");
    repo.expect_same_inside(&link.join("repo"));
    repo.expect_same_inside(&link.join("repo/sub"));
    let run = env.cofferdam_in(
        &env.outside(),
        [
            "run",
            "--repo",
            shown(&link.join("repo")),
            "--",
            "test",
            "-f",
            "a.txt",
        ],
    );
    run.expect_code(0);
}

/// Names that a path may have and that something may take for its own syntax:
/// shells, git's lists, options of mounts.
const NAMES: [&[u8]; 14] = [
    b"with space",
    b"new\nline",
    b"quote'd",
    b"double\"d",
    b"caf\xe9",
    b"co:lon",
    b"back\\slash",
    b"com,ma",
    b"-dash",
    b"trailing ",
    b"lowerdir=x,upperdir=y:z",
    b"\\054\\072",
    b"%s$HOME`id`",
    b"#hash!~{x}*?[y]",
];

#[test]
fn a_repository_may_have_any_path() {
    for env in TestEnv::identities() {
        for name in NAMES {
            let path = env.outside().join(OsStr::from_bytes(name));
            let repo = filled(&env, path.join("repo"));
            repo.expect_same_inside(&repo.path("sub"));
        }
    }
}

#[test]
fn the_state_directory_may_have_any_path() {
    let env = TestEnv::new();
    let repo = filled(&env, env.root().join("repo"));
    for name in NAMES {
        let state = env.outside().join(OsStr::from_bytes(name));
        for backend in backends(&env) {
            let run = env.finish(
                env.program()
                    .args(["run", "--json", "--workspace", backend, "--", "sh", "-c"])
                    .arg("grep -q changed a.txt && test ! -e gone.txt && echo more >> sub/c.txt")
                    .env("COFFERDAM_STATE_DIR", &state)
                    .current_dir(repo.root()),
            );
            let record = run.expect_code(0).json();
            assert_eq!(only_agent(&record)["integration"]["status"], "landed");
        }
        env.finish(
            env.program()
                .args(["gc", "--older", "0s"])
                .env("COFFERDAM_STATE_DIR", &state)
                .current_dir(repo.root()),
        )
        .expect_code(0);
    }
    let lines = repo.text("sub/c.txt").lines().count();
    assert_eq!(lines, 1 + NAMES.len() * backends(&env).len());
}

#[test]
fn a_linked_worktree_may_be_the_parent() {
    let env = TestEnv::new();
    let main = env.repo();
    let path = env.outside().join("linked");
    main.git(["worktree", "add", "-q", "-b", "side", shown(&path)]);
    let linked = env.adopt(path);
    fill(&linked);
    let before = main.print();
    linked.expect_same_inside(&linked.path("sub"));
    for backend in backends(&env) {
        let script = "git worktree list | wc -l > count; git branch -D main >&2; true";
        run_in(&env, linked.root(), backend, script).expect_code(0);
        linked.delete("count");
    }
    before.expect_same(&main.print());
    linked.cofferdam(["gc", "--older", "0s"]).expect_code(0);
    main.git(["worktree", "remove", "--force", shown(linked.root())]);
}

#[test]
fn the_git_directory_may_lie_elsewhere() {
    let env = TestEnv::new();
    let path = env.root().join("apart");
    env.make_dir(&path);
    let repo = env.adopt(path);
    let git = env.outside().join("git dir");
    repo.git([
        "init",
        "-q",
        "-b",
        "main",
        "--separate-git-dir",
        shown(&git),
    ]);
    fill(&repo);
    repo.expect_same_inside(&repo.path("sub"));
    repo.cofferdam(["gc", "--older", "0s"]).expect_code(0);
    assert_eq!(repo.added_refs(), Vec::<String>::new());
}

#[test]
fn a_submodule_may_be_the_parent() {
    let env = TestEnv::new();
    let outer = env.repo();
    let source = env.outside().join("source");
    outer.git(["clone", "-q", shown(outer.root()), shown(&source)]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"];
    outer.git([&add[..], &[shown(&source), "sub"]].concat());
    outer.commit_all("with a submodule");
    let inner = env.adopt(outer.path("sub"));
    fill(&inner);
    inner.expect_same_inside(&inner.path("sub"));
    inner.cofferdam(["gc", "--older", "0s"]).expect_code(0);
    // And the one around it, whose submodule is not the commit that it names.
    let before = outer.status();
    for backend in backends(&env) {
        run_in(&env, outer.root(), backend, "echo x > n.txt").expect_code(0);
        outer.delete("n.txt");
    }
    assert_eq!(outer.status(), before);
}

#[test]
fn a_repository_may_borrow_objects() {
    for relative in [false, true] {
        let env = TestEnv::new();
        let source = filled(&env, env.outside().join("a/source"));
        let path = env.outside().join("b/c/borrower");
        env.make_dir(&env.outside().join("b/c"));
        source.git([
            "clone",
            "-q",
            "--shared",
            shown(source.root()),
            shown(&path),
        ]);
        let repo = env.adopt(path);
        if relative {
            let list = "../../../../../a/source/.git/objects\n";
            repo.write(".git/objects/info/alternates", list);
        }
        repo.git(["fsck"]);
        repo.write("own.txt", "own\n");
        repo.commit_all("own");
        repo.write("a.txt", "changed\n");
        repo.expect_same_inside(repo.root());
        for backend in backends(&env) {
            let script = "git log > log 2>&1; git fsck --no-dangling >> log 2>&1; \
                          if grep 'error' log; then exit 9; fi; rm log";
            run_in(&env, repo.root(), backend, script).expect_code(0);
        }
    }
}

#[test]
fn objects_may_be_named_by_the_longer_hash() {
    for env in TestEnv::identities() {
        let path = env.root().join("long");
        env.make_dir(&path);
        let repo = env.adopt(path);
        repo.git(["init", "-q", "-b", "main", "--object-format=sha256"]);
        fill(&repo);
        repo.expect_same_inside(repo.root());
        repo.commit_all("as agents found it");
        for backend in backends(&env) {
            let script = "git switch -qc work && echo one > one.txt && git add -A && \
                          git commit -qm one && git fsck --strict && echo two > two.txt";
            let run = run_in(&env, repo.root(), backend, script).expect_code(0);
            let agent = only_agent(&run.json()).clone();
            assert_eq!(text(&agent["result"], "tree").len(), 64, "{agent:#}");
            assert_eq!(repo.text("two.txt"), "two\n");
            repo.git(["clean", "-qfd"]);
        }
        // One that conflicts waits, and lands once the person has made way.
        let held = repo.ready(&[], "echo agent > a.txt; echo ready; sleep 2");
        repo.write("a.txt", "person\n");
        held.wait().expect_code(5);
        assert_eq!(repo.text("a.txt"), "person\n");
        repo.git(["checkout", "-q", "a.txt"]);
        let listed = repo.cofferdam(["ls", "--json"]).expect_code(0).json();
        repo.cofferdam(["apply", text(only_agent(&listed), "id")])
            .expect_code(0);
        assert_eq!(repo.text("a.txt"), "agent\n");
        // Work of a launcher that dies is found.
        let run = repo.ready(&[], "echo work > n.txt; echo ready; sleep 1000");
        run.signal(Signal::KILL);
        run.wait().expect_code(137);
        repo.cofferdam(["gc"]).expect_code(0);
        let listed = repo.cofferdam(["ls", "--json"]).expect_code(0).json();
        let name = text(&only_agent(&listed)["result"], "ref").to_owned();
        assert_eq!(repo.show(&name, "n.txt"), "work\n");
        repo.git(["fsck", "--strict"]);
        repo.cofferdam(["gc", "--older", "0s"]).expect_code(0);
        assert_eq!(repo.added_refs(), Vec::<String>::new());
    }
}

#[test]
fn another_repository_may_stand_where_one_was() {
    let env = TestEnv::new();
    let path = env.root().join("again");
    for format in ["sha1", "sha256", "sha1"] {
        env.make_dir(&path);
        let repo = env.adopt(path.clone());
        repo.git([
            "init",
            "-q",
            "-b",
            "main",
            &format!("--object-format={format}"),
        ]);
        fill(&repo);
        repo.expect_same_inside(repo.root());
        let held = repo.agent_integrating("hold", "echo x > held.txt");
        let id = text(only_agent(&held.expect_code(0).json()), "id").to_owned();
        fs::remove_dir_all(&path).expect("because it is the test's");
        env.make_dir(&path);
        let other = match format {
            "sha1" => "sha256",
            _ => "sha1",
        };
        repo.git([
            "init",
            "-q",
            "-b",
            "main",
            &format!("--object-format={other}"),
        ]);
        fill(&repo);
        // What the record names is not there, and nothing worse comes of it.
        let code = repo.cofferdam(["apply", &id]).code;
        assert!((1..=70).contains(&code), "{code}");
        repo.cofferdam(["gc", "--older", "0s"]).expect_code(0);
        fs::remove_dir_all(&path).expect("because it is the test's");
    }
    env.make_dir(&path);
    env.adopt(path).git(["init", "-q"]);
}

#[test]
fn a_clone_may_be_shallow_or_partial() {
    for option in ["--depth=1", "--filter=blob:none"] {
        let env = TestEnv::new();
        let source = filled(&env, env.root().join("source"));
        source.git(["config", "uploadpack.allowFilter", "true"]);
        source.git(["commit", "-q", "-a", "-m", "second"]);
        let path = env.root().join("clone");
        let url = format!("file://{}", shown(source.root()));
        source.git(["clone", "-q", option, &url, shown(&path)]);
        let repo = env.adopt(path);
        repo.write("sub/c.txt", "changed\n");
        repo.expect_same_inside(repo.root());
    }
}

#[test]
fn refs_may_be_stored_in_tables() {
    let env = TestEnv::new();
    let path = env.root().join("tables");
    env.make_dir(&path);
    let repo = env.adopt(path);
    let made = repo.try_git(["init", "-q", "-b", "main", "--ref-format=reftable"]);
    if made.code != 0 {
        // This git knows no such repositories, so none can be met.
        assert!(made.stderr.contains("ref-format"), "{}", made.stderr);
        return;
    }
    fill(&repo);
    repo.git(["tag", "v1"]);
    repo.expect_same_inside(&repo.path("sub"));
    for backend in backends(&env) {
        let script = "git rev-parse v1 main && git branch side && git stash && git stash pop";
        run_in(&env, repo.root(), backend, script).expect_code(0);
    }
    let record = repo.agent_integrating("hold", "echo x > n.txt");
    let record = record.expect_code(0).json();
    let id = text(only_agent(&record), "id").to_owned();
    let reference = text(&only_agent(&record)["result"], "ref").to_owned();
    assert!(repo.added_refs().contains(&reference));
    repo.cofferdam(["apply", &id]).expect_code(0);
    assert_eq!(repo.text("n.txt"), "x\n");
}

#[test]
fn a_repository_may_have_no_commit_or_no_file_or_only_ignored_ones() {
    let env = TestEnv::new();
    let unborn = env.unborn_repo();
    unborn.expect_same_inside(unborn.root());
    unborn.write("a.txt", "untracked\n");
    unborn.write("b.txt", "staged\n");
    unborn.git(["add", "b.txt"]);
    unborn.expect_same_inside(unborn.root());

    let empty = env.adopt(env.root().join("empty"));
    env.make_dir(empty.root());
    empty.git(["init", "-q", "-b", "main"]);
    empty.git(["commit", "-q", "--allow-empty", "-m", "nothing"]);
    empty.expect_same_inside(empty.root());

    let ignored = env.adopt(env.root().join("ignored"));
    env.make_dir(ignored.root());
    ignored.git(["init", "-q", "-b", "main"]);
    ignored.write(".git/info/exclude", "*\n!made*\n");
    ignored.write("target/x", "x\n");
    ignored.expect_same_inside(ignored.root());
    assert_eq!(ignored.text("target/x"), "x\n");
}

#[test]
fn names_may_differ_in_case_only_and_mean_something_to_programs() {
    for env in TestEnv::identities() {
        let repo = env.unborn_repo();
        let long = "l".repeat(255);
        let names: [&[u8]; 27] = [
            b"Case.txt",
            b"case.txt",
            b"CASE.TXT",
            b"Dir/x",
            b"dir/x",
            b"-n",
            b"--",
            b"-rf",
            b":(top)",
            b":(exclude)a",
            b"!bang",
            b"#hash",
            b"new\nline",
            b"tab\there",
            b"trailing.",
            b"trailing ",
            b" leading",
            b"caf\xe9",
            b"\xff\xfe",
            b"quote\"d'",
            b"back\\slash\\",
            b"*",
            b"con",
            b"a:b",
            b"~",
            b"...",
            long.as_bytes(),
        ];
        for (number, name) in names.iter().enumerate() {
            if number % 2 == 0 {
                repo.write(OsStr::from_bytes(name), format!("{number}\n"));
            }
        }
        repo.commit_all("half of them");
        for (number, name) in names.iter().enumerate() {
            repo.write(OsStr::from_bytes(name), format!("now {number}\n"));
        }
        repo.expect_same_inside(repo.root());
    }
}

#[test]
fn files_may_be_named_like_the_programs_own() {
    let env = TestEnv::new();
    let repo = env.unborn_repo();
    for name in [
        "tree/x",
        "objects/x",
        "home/x",
        "tmp/x",
        "caches/0/upper/x",
        "base.json",
        "identities",
        "ready",
        "started",
        "captured",
        "init",
        "brief.json",
        "denials.jsonl",
        "work/work/x",
        "upper/x",
        "lower/x",
        "cofferdam/handle",
        "refs/cofferdam/x",
        ".cofferdam/notes",
        ".gitmodules/x",
        ".wh.file",
        "HEAD",
        "config",
        "index",
    ] {
        repo.write(name, format!("{name}\n"));
    }
    repo.commit_all("all of them");
    repo.write("tree/x", "changed\n");
    repo.delete("ready");
    repo.expect_same_inside(repo.root());
}

#[test]
fn rules_may_be_links_and_directories() {
    let env = TestEnv::new();
    let repo = env.repo();
    repo.write("rules", "*.log\n");
    repo.delete(".gitignore");
    symlink("rules", repo.path(".gitignore")).expect("because it was deleted");
    repo.write("docs/.gitignore/x", "x\n");
    repo.write(
        ".gitattributes",
        "*.txt text eol=crlf\n*.bin filter=nothing\n",
    );
    repo.write("crlf.txt", "a\r\nb\r\n");
    repo.write("mixed.txt", "a\r\nb\n");
    repo.write("x.bin", [0, 13, 10, 255]);
    repo.git(["config", "core.safecrlf", "false"]);
    repo.commit_all("odd rules");
    repo.write("not.log", "git follows no link to rules\n");
    repo.write("mixed.txt", "a\nb\r\n");
    repo.expect_same_inside(repo.root());
}

#[test]
fn paths_may_be_two_hundred_directories_deep() {
    let env = TestEnv::new();
    let repo = env.unborn_repo();
    let deep: PathBuf = std::iter::repeat_n("deeper", 200).collect();
    repo.write(deep.join("tracked"), "tracked\n");
    repo.commit_all("deep");
    repo.write(deep.join("tracked"), "changed\n");
    repo.write(deep.join("untracked"), "untracked\n");
    repo.expect_same_inside(repo.root());
    for backend in backends(&env) {
        let script = format!(
            "cd {} && echo more >> tracked && rm untracked",
            shown(&deep)
        );
        run_in(&env, repo.root(), backend, &script).expect_code(0);
        assert!(repo.text(deep.join("tracked")).ends_with("more\n"));
        repo.write(deep.join("untracked"), "untracked\n");
    }
}

#[test]
fn a_directory_may_hold_thousands_of_files() {
    let env = TestEnv::new();
    let repo = env.unborn_repo();
    for number in 0..4_000 {
        let path = repo.path(format!("many/{number}"));
        if number == 0 {
            repo.write("many/0", "0\n");
        } else {
            fs::write(path, format!("{number}\n")).expect("because its directory was made");
        }
    }
    repo.commit_all("many");
    repo.write("many/7", "changed\n");
    repo.expect_same_inside(repo.root());
    for backend in backends(&env) {
        let record = run_in(
            &env,
            repo.root(),
            backend,
            "rm many/[1-3]*; echo x > many/1",
        )
        .expect_code(5)
        .json();
        assert_eq!(
            only_agent(&record)["integration"]["held_for"][0],
            "mass_delete"
        );
    }
}

#[test]
fn files_may_be_large() {
    let env = TestEnv::new();
    let repo = env.unborn_repo();
    let mut state: u64 = 1;
    let random: Vec<u8> = (0..16 << 17)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .collect();
    repo.write("random.bin", &random);
    repo.write("small.txt", "small\n");
    repo.commit_all("large");
    let sparse = repo.path("sparse.bin");
    env.put(&sparse, "begin");
    let file = fs::OpenOptions::new().write(true).open(&sparse);
    file.and_then(|file| file.set_len(SPARSE))
        .expect("because the disk takes holes");
    repo.expect_same_inside(repo.root());
    for backend in backends(&env) {
        let script = "printf x | dd of=random.bin bs=1 seek=3355443 conv=notrunc 2>/dev/null";
        let record = run_in(&env, repo.root(), backend, script)
            .expect_code(0)
            .json();
        assert_eq!(only_agent(&record)["integration"]["status"], "landed");
        let now = fs::read(repo.path("random.bin")).expect("because it is there");
        assert_eq!((now.len(), now[3_355_443]), (random.len(), b'x'));
        repo.git(["checkout", "-q", "random.bin"]);
    }
}

/// Most of it a hole. A gibibyte gives the same and takes minutes.
const SPARSE: u64 = 128 << 20;

#[test]
fn a_bare_repository_is_no_parent_from_any_of_its_places() {
    let env = TestEnv::new();
    let bare = env.outside().join("bare.git");
    env.finish(env.command("git").args(["init", "-q", "--bare"]).arg(&bare))
        .expect_code(0);
    for place in [Path::new(""), Path::new("objects"), Path::new("refs")] {
        let error = env
            .cofferdam_in(&bare.join(place), ["run", "--json", "--", "true"])
            .expect_error(2);
        assert!(text(&error, "message").contains("bare"), "{error:#}");
    }
    let repo = env.repo();
    env.cofferdam_in(&repo.path(".git"), ["run", "--json", "--", "true"])
        .expect_error(2);
}
