//! Tests of the room as a whole, on real repositories, with git as the judge.

mod fixture;

use std::fs;

use jiff::Timestamp;

use self::fixture::Fixture;
use super::{Error, ObjectFormat, RegisteredHead, Registration, Renames, TreeEdit};
use crate::model::{AgentId, ChangeKind, ObjectId, RepoPath, TreeMode};

fn path(text: &str) -> RepoPath {
    RepoPath::from_bytes(text.as_bytes()).expect("because it is plain")
}

fn put(at: &str, oid: &ObjectId) -> TreeEdit {
    TreeEdit::Put {
        path: path(at),
        mode: TreeMode::File,
        oid: oid.clone(),
    }
}

fn remove(at: &str) -> TreeEdit {
    TreeEdit::Remove { path: path(at) }
}

#[test]
fn finds_a_repository_and_says_what_else_stands_there() {
    let fixture = Fixture::new();
    let repo = fixture
        .discover(&fixture.top.join("d/y"))
        .expect("because it lies in one");
    assert_eq!(repo.top(), fixture.top);
    assert_eq!(repo.git_dir(), fixture.top.join(".git"));
    assert_eq!(repo.common_dir(), fixture.top.join(".git"));
    assert_eq!(
        repo.head().expect("because git runs"),
        Some(fixture.oid("HEAD"))
    );
    assert_eq!(
        repo.head_ref().expect("because git runs").as_deref(),
        Some("refs/heads/main")
    );
    let linked = fixture
        .home
        .path()
        .canonicalize()
        .expect("ours")
        .join("linked \n tree");
    fixture.git(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        &linked.display().to_string(),
    ]);
    let other = fixture.discover(&linked).expect("because it is a worktree");
    assert_eq!(other.top(), linked);
    assert_eq!(other.common_dir(), repo.common_dir());
    assert_ne!(other.git_dir(), repo.git_dir());
    assert_eq!(other.head_ref().expect("because git runs"), None);
    let bare = fixture.home.path().join("bare");
    fixture.git(&["init", "-q", "--bare", &bare.display().to_string()]);
    assert!(matches!(fixture.discover(&bare), Err(Error::Bare { .. })));
    for none in [fixture.home.path().to_owned(), fixture.top.join("missing")] {
        assert!(matches!(
            fixture.discover(&none),
            Err(Error::NotARepository { .. })
        ));
    }
    assert!(matches!(
        repo.resolve_commit("--all"),
        Err(Error::Revision { .. })
    ));
}

#[test]
fn an_unborn_branch_has_no_head() {
    let fixture = Fixture::with(&[]);
    let repo = fixture.repo();
    assert_eq!(repo.head().expect("because git runs"), None);
    assert_eq!(
        repo.head_ref().expect("because git runs").as_deref(),
        Some("refs/heads/main")
    );
}

#[test]
fn edits_give_the_trees_that_git_writes() {
    let fixture = Fixture::new();
    let objects = fixture.objects();
    let base = fixture.oid("HEAD^{tree}");
    let blob = objects
        .write_blob(b"new\n")
        .expect("because the disk takes it");
    let cases: &[(&str, Vec<TreeEdit>, &[&str])] = &[
        ("nothing", vec![], &["a", "d.c", "d/x", "d/y/z"]),
        (
            "remove the last of a directory",
            vec![remove("d/y/z")],
            &["a", "d.c", "d/x"],
        ),
        (
            "file to directory",
            vec![put("a/b/c", &blob), remove("a")],
            &["a/b/c", "d.c", "d/x", "d/y/z"],
        ),
        (
            "directory to file",
            vec![put("d", &blob), remove("d/x"), remove("d/y/z")],
            &["a", "d", "d.c"],
        ),
        ("remove a directory", vec![remove("d")], &["a", "d.c"]),
        (
            "remove what is not there",
            vec![remove("q/r")],
            &["a", "d.c", "d/x", "d/y/z"],
        ),
        (
            "everything",
            vec![remove("a"), remove("d.c"), remove("d/x"), remove("d/y/z")],
            &[],
        ),
    ];
    for (name, edits, expected) in cases {
        let tree = objects
            .edit_tree(&base, edits)
            .expect("because it can be edited");
        let paths: Vec<String> = objects
            .entries(&tree)
            .expect("because it was just written")
            .iter()
            .map(|entry| entry.path.to_string())
            .collect();
        assert_eq!(paths, *expected, "{name}");
        fixture.git(&["read-tree", tree.as_str()]);
        let written = fixture.git(&["write-tree"]);
        assert_eq!(written, tree.as_str(), "{name}");
    }
    assert_eq!(objects.empty_tree().expect("because it is written"), {
        let empty = objects.edit_tree(&base, &cases[6].1);
        empty.expect("because it can be edited")
    });
    fixture.git(&["read-tree", "HEAD"]);
    fixture.git(&["fsck", "--strict"]);
}

#[test]
fn an_entry_is_found_by_its_path_and_contradictions_are_refused() {
    let fixture = Fixture::new();
    let objects = fixture.objects();
    let base = fixture.oid("HEAD^{tree}");
    let blob = fixture.oid("HEAD:a");
    assert!(matches!(
        objects.edit_tree(&base, &[put("n", &blob), put("n/m", &blob)]),
        Err(Error::Contradiction { .. })
    ));
    let found = objects
        .entry(&base, &path("d/y/z"))
        .expect("because it is readable");
    assert_eq!(
        found.map(|entry| entry.oid),
        Some(fixture.oid("HEAD:d/y/z"))
    );
    for none in ["d", "d/y", "a/b", "q"] {
        let found = objects
            .entry(&base, &path(none))
            .expect("because it is readable");
        assert_eq!(found, None, "{none}");
    }
}

#[test]
fn a_path_differs_as_git_says() {
    let fixture = Fixture::new();
    let objects = fixture.objects();
    let base = fixture.oid("HEAD^{tree}");
    let blob = fixture.oid("HEAD:d/x");
    let edits = [
        remove("d/x"),
        put("moved", &blob),
        TreeEdit::Put {
            path: path("a"),
            mode: TreeMode::Executable,
            oid: fixture.oid("HEAD:a"),
        },
        TreeEdit::Put {
            path: path("d.c"),
            mode: TreeMode::Symlink,
            oid: blob.clone(),
        },
        put("d/y/z", &blob),
    ];
    let tree = objects
        .edit_tree(&base, &edits)
        .expect("because it can be edited");
    let listed = |renames| -> Vec<(String, ChangeKind, Option<String>)> {
        let changes = objects
            .diff(&base, &tree, renames)
            .expect("because both are there");
        changes
            .into_iter()
            .map(|change| (change.path.text().to_owned(), change.kind, change.from))
            .collect()
    };
    let plain = |at: &str, kind| (at.to_owned(), kind, None);
    assert_eq!(
        listed(Renames::Find),
        [
            plain("a", ChangeKind::Mode),
            plain("d.c", ChangeKind::Type),
            plain("d/y/z", ChangeKind::Modified),
            (
                "moved".to_owned(),
                ChangeKind::Renamed,
                Some("d/x".to_owned())
            ),
        ]
    );
    assert_eq!(
        listed(Renames::None),
        [
            plain("a", ChangeKind::Mode),
            plain("d.c", ChangeKind::Type),
            plain("d/x", ChangeKind::Deleted),
            plain("d/y/z", ChangeKind::Modified),
            plain("moved", ChangeKind::Added),
        ]
    );
}

#[test]
fn refs_move_only_from_where_they_are_believed_to_be() {
    for format in [&[][..], &["--ref-format=reftable"]] {
        let fixture = Fixture::with(format);
        fixture.git(&["commit", "-q", "--allow-empty", "-m", "one"]);
        let repo = fixture.repo();
        let (one, name) = (fixture.oid("HEAD"), "refs/cofferdam/r/a");
        let tree = repo.objects().and_then(|objects| objects.tree_of(&one));
        let commit = |message| {
            let objects = repo.objects().expect("because they are readable");
            let tree = tree.as_ref().expect("because it is there");
            objects
                .commit(
                    tree,
                    std::slice::from_ref(&one),
                    message,
                    Timestamp::UNIX_EPOCH,
                )
                .expect("because the disk takes it")
        };
        let (two, three) = (commit("two"), commit("three"));
        assert_eq!(commit("two"), two);
        repo.create_ref(name, &one).expect("because it is new");
        let moved = |result| matches!(result, Err(Error::RefMoved { .. }));
        let exists = repo.create_ref(name, &two);
        assert!(matches!(&exists, Err(Error::RefExists { name: found }) if found == name));
        assert!(exists.is_err_and(|error| error.is_usage()));
        assert!(moved(repo.move_ref(name, &two, &three)));
        repo.move_ref(name, &one, &two)
            .expect("because it stands there");
        assert!(moved(repo.move_ref("refs/cofferdam/none", &one, &two)));
        assert!(moved(repo.delete_ref(name, &one)));
        repo.create_ref("refs/cofferdam/r/b", &three)
            .expect("because it is new");
        assert_eq!(
            repo.refs_under("refs/cofferdam/")
                .expect("because git runs"),
            [
                (name.to_owned(), two.clone()),
                ("refs/cofferdam/r/b".to_owned(), three.clone())
            ]
        );
        let both = [
            (name.to_owned(), two),
            ("refs/cofferdam/r/b".to_owned(), three),
            ("refs/cofferdam/gone".to_owned(), one),
        ];
        repo.delete_refs(&both).expect("because absent is fine");
        repo.delete_refs(&both).expect("because absent is fine");
        assert_eq!(
            repo.refs_under("refs/cofferdam/")
                .expect("because git runs"),
            []
        );
    }
}

#[test]
fn many_writers_move_their_own_refs_at_once() {
    let fixture = Fixture::new();
    let repo = fixture.repo();
    let oid = fixture.oid("HEAD");
    std::thread::scope(|scope| {
        for number in 0..24 {
            let (repo, oid) = (&repo, &oid);
            scope.spawn(move || {
                let name = format!("refs/cofferdam/{number}");
                repo.create_ref(&name, oid).expect("because it is new");
                repo.delete_ref(&name, oid).expect("because it is there");
            });
        }
    });
    assert_eq!(
        repo.refs_under("refs/cofferdam").expect("because git runs"),
        []
    );
}

#[test]
fn blobs_keep_their_bytes_and_missing_ones_are_named() {
    let fixture = Fixture::new();
    fs::write(fixture.top.join(".gitattributes"), "* text=auto eol=crlf\n").expect("ours");
    let objects = fixture.objects();
    let bytes = b"a\r\nb\n\0";
    let oid = objects
        .write_blob(bytes)
        .expect("because the disk takes it");
    let file = fixture.top.join("raw");
    fs::write(&file, bytes).expect("because it is ours");
    assert_eq!(
        objects.write_blob_file(&file).expect("because it is there"),
        oid
    );
    assert_eq!(
        objects.read_blob(&oid).expect("because it was written"),
        bytes
    );
    assert_eq!(objects.blob_size(&oid).expect("because it was written"), 6);
    let link = fixture.top.join("link");
    std::os::unix::fs::symlink("raw", &link).expect("because nothing is there");
    assert!(objects.write_blob_file(&link).is_err());
    let digits = "1234567890".repeat(7);
    let digits = &digits[..fixture.repo().object_format().id_length() * 2];
    let missing: ObjectId = digits.parse().expect("because it has as many digits");
    let error = objects
        .read_blob(&missing)
        .expect_err("because it is missing");
    assert_eq!(error.to_string(), format!("read the blob {digits}"));
}

#[test]
fn objects_of_the_longer_hash_are_what_git_makes_them() {
    let fixture = Fixture::with(&["--object-format=sha256"]);
    fs::write(fixture.top.join("a.txt"), "alpha\n").expect("because it is ours");
    fixture.git(&["add", "-A"]);
    fixture.git(&["commit", "-q", "-m", "one"]);
    let repo = fixture.repo();
    assert_eq!(repo.object_format(), ObjectFormat::Sha256);
    let objects = repo.objects().expect("because both hashes are known");
    let tree = objects.tree_of(&fixture.oid("HEAD"));
    assert_eq!(
        tree.expect("because it is there"),
        fixture.oid("HEAD^{tree}")
    );
    let blob = objects
        .write_blob(b"alpha\n")
        .expect("because it takes more");
    assert_eq!(blob, fixture.oid("HEAD:a.txt"));
    let empty = objects.empty_tree().expect("because it takes more");
    assert_eq!(empty.as_str(), ObjectFormat::Sha256.empty_tree());
    // Packed objects are found as loose ones are.
    fixture.git(&["gc", "-q"]);
    let objects = repo.objects().expect("because both hashes are known");
    assert_eq!(
        objects.read_blob(&blob).ok().as_deref(),
        Some(&b"alpha\n"[..])
    );
    let large = vec![b'x'; 5 << 20];
    let path = fixture.top.join("large");
    fs::write(&path, &large).expect("because it is ours");
    let streamed = objects
        .write_blob_file(&path)
        .expect("because it takes more");
    assert_eq!(
        streamed.as_str(),
        fixture.git(&["hash-object", "large"]).trim()
    );
    fixture.git(&["fsck", "--strict"]);
    // The library would read beyond an id of the other hash.
    let other: ObjectId = ObjectFormat::Sha1
        .empty_tree()
        .parse()
        .expect("because it is one");
    assert!(objects.read_blob(&other).is_err() && !objects.contains(&other));
}

#[test]
fn a_registered_worktree_is_listed_and_in_gits_good_order() {
    for format in [&[][..], &["--ref-format=reftable"]] {
        let fixture = Fixture::with(format);
        fixture.git(&["commit", "-q", "--allow-empty", "-m", "one"]);
        let repo = fixture.repo();
        let (agent, tree) = (AgentId::from_bits(7), fixture.top.join("../tree"));
        let head = RegisteredHead::Detached(fixture.oid("HEAD"));
        // A second time replaces the first.
        for _ in 0..2 {
            Registration::register(&repo, &agent, &head, &tree).expect("because it is ours");
        }
        let ours = Registration::ours(&repo).expect("because it can be listed");
        assert_eq!(ours, [(agent.clone(), tree)]);
        fixture.git(&["worktree", "prune"]);
        let list = fixture.git(&["worktree", "list", "--porcelain"]);
        assert!(list.contains(&format!("HEAD {}\ndetached\n", fixture.oid("HEAD"))));
        assert!(list.contains("locked cofferdam agent a-0000000000000007"));
        fixture.git(&["fsck", "--strict"]);
        fixture.git(&["gc", "-q", "--prune=now"]);
        assert!(Registration::unregister(&repo, &agent).expect("because it is ours"));
        assert!(!Registration::unregister(&repo, &agent).expect("because gone is fine"));
        assert!(!fixture.top.join(".git/worktrees").exists());
        fixture.git(&["fsck", "--strict"]);
    }
}

#[test]
fn a_blob_of_any_size_and_storage_becomes_a_file() {
    let fixture = Fixture::new();
    let objects = fixture.objects();
    // Not compressible, so that it is stored whole when packed.
    let mut state = 1_u64;
    let large: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56).to_le_bytes()[0]
    })
    .take(17 << 20)
    .collect();
    for bytes in [&b""[..], b"small\n", &large] {
        let oid = objects.write_blob(bytes).expect("because it takes more");
        for (packed, hint) in [(false, None), (true, Some(bytes.len() as u64))] {
            if packed {
                fixture.git(&["tag", &format!("blob-{}", bytes.len()), oid.as_str()]);
                fixture.git(&["repack", "-adq"]);
            }
            let path = fixture.top.join("out");
            let mut out = std::fs::File::create(&path).expect("because it is ours");
            objects
                .copy_blob(&oid, hint, (&mut out, &path))
                .expect("because it is there");
            assert!(std::fs::read(&path).is_ok_and(|found| found == bytes));
        }
    }
    let none = "0123456789012345678901234567890123456789".parse();
    let path = fixture.top.join("out");
    let mut out = std::fs::File::create(&path).expect("because it is ours");
    let none = none.expect("because it is an id");
    assert!(objects.copy_blob(&none, None, (&mut out, &path)).is_err());
}

/// What a prune took away after it was taken over is missed.
#[test]
fn a_tip_of_which_something_is_gone_is_not_connected() {
    let fixture = Fixture::new();
    fs::write(fixture.top.join("a"), "other\n").expect("because it is ours");
    fixture.git(&["commit", "-qam", "two"]);
    let (tip, known) = (fixture.oid("HEAD"), [fixture.oid("HEAD~1")]);
    let repo = fixture.repo();
    let ask = |known: &[ObjectId]| repo.is_connected(&tip, known).expect("because git runs");
    assert!(ask(&known));
    let blob = fixture.oid("HEAD:a").to_string();
    let (shard, name) = blob.split_at(2);
    let path = fixture.top.join(".git/objects").join(shard).join(name);
    fs::remove_file(path).expect("because git wrote it loose");
    assert!(!ask(&known));
    assert!(ask(std::slice::from_ref(&tip)));
}
