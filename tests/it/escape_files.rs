//! Attempts to reach files outside of the copy, judged by the host's state.
//!
//! Owns reading, writing and changing what belongs to the person. Every agent
//! here ends well whether or not an attempt failed: what counts is what the
//! host looks like afterwards. No attempt would harm the machine if there were
//! no cage at all: a kernel setting is opened and not written, mounts are tried
//! only in a namespace that is not the host's, and files are tried by names
//! that the test takes away again.

use std::fs;

use crate::support::{TestEnv, TreePrint, only_apart, only_below, shown};

const SECRET: &str = "the person's secret";

/// Runs one script with `OUT`, `HOME_OF_PERSON` and `REPO` set to the host's
/// paths, and demands that nothing outside of the repository moved.
#[track_caller]
fn attempt(script: &str) {
    for env in TestEnv::identities() {
        let repo = env.repo();
        env.put(&env.outside().join("file"), "the person's\n");
        env.put(&env.home().join(".ssh/id"), SECRET);
        env.put(&env.home().join(".bashrc"), "# the person's\n");
        let stamp = env.finish(
            env.command("touch")
                .args(["-d", "2001-02-03"])
                .arg(env.outside().join("file")),
        );
        stamp.expect_code(0);
        repo.expect_unchanged();
        let before = [env.outside(), env.home()].map(|path| TreePrint::with_times(&path));
        let tree_before = repo.print();
        let settings = [
            ("OUT", env.outside()),
            ("HOME_OF_PERSON", env.home()),
            ("REPO", repo.root().to_owned()),
        ]
        .map(|(name, path)| format!("{name}={}", shown(&path)));
        let run = env.finish(
            env.program()
                .args(["run", "--integrate", "hold"])
                .args([
                    "--env",
                    &settings[0],
                    "--env",
                    &settings[1],
                    "--env",
                    &settings[2],
                ])
                .args([
                    "--",
                    "sh",
                    "-c",
                    &format!("{}\n{script}\nexit 0", only_below(&env)),
                ])
                .current_dir(repo.root()),
        );
        let run = run.expect_code(0);

        let after = [env.outside(), env.home()].map(|path| TreePrint::with_times(&path));
        for (before, after) in before.iter().zip(&after) {
            before.expect_same(after);
        }
        tree_before.expect_same(&repo.print());
        assert!(
            !run.stderr.contains(SECRET),
            "a secret got out: {}",
            run.stderr
        );
    }
}

#[test]
fn nothing_outside_can_be_written_made_or_removed() {
    attempt(
        "echo x > \"$OUT/new\"; echo x >> \"$OUT/file\"; rm -f \"$OUT/file\"; mkdir \"$OUT/dir\"; \
         mv \"$OUT/file\" \"$OUT/moved\"; ln -s / \"$OUT/link\"; mkfifo \"$OUT/pipe\"; \
         echo x >> \"$HOME_OF_PERSON/.bashrc\"; truncate -s 0 \"$OUT/file\"",
    );
}

#[test]
fn nothing_outside_can_be_linked_in_and_written() {
    attempt(
        "ln \"$OUT/file\" hard && echo x >> hard; ln -s \"$OUT\" away && echo x > away/new; \
         ln -s \"$OUT/file\" soft && echo x >> soft; rm -rf docs; ln -s \"$OUT\" docs; \
         echo x > docs/guide.md; mv \"$OUT/file\" stolen",
    );
}

#[test]
fn modes_owners_and_times_outside_cannot_be_changed() {
    attempt(
        "chmod 777 \"$OUT/file\" \"$OUT\"; chown 1:1 \"$OUT/file\"; touch \"$OUT/file\"; \
         python3 -c 'import os; os.setxattr(os.environ[\"OUT\"] + \"/file\", \"user.x\", b\"x\")'; \
         python3 -c 'import os; os.utime(os.environ[\"OUT\"] + \"/file\", (1, 1))'",
    );
}

#[test]
fn secrets_in_the_persons_home_cannot_be_read() {
    attempt(
        "cat \"$HOME_OF_PERSON/.ssh/id\"; cp \"$HOME_OF_PERSON/.ssh/id\" stolen && cat stolen; \
         ln \"$HOME_OF_PERSON/.ssh/id\" linked && cat linked; \
         for p in /proc/[0-9]*; do cat \"$p/root$HOME_OF_PERSON/.ssh/id\"; \
         cat \"$p/cwd/../home/.ssh/id\"; done; cat ../home/.ssh/id",
    );
}

#[test]
fn mounts_cannot_be_made_or_taken_away() {
    attempt(&format!(
        "{}; mount -t tmpfs none \"$OUT\"; umount \"$REPO\"; umount -l \"$REPO\"; \
         mount -o remount,rw /; mount -o remount,bind,rw \"$OUT\"; echo x > \"$OUT/new\"; \
         unshare -rm sh -c 'mount -o remount,rw / ; umount -l \"$REPO\"; echo x > \"$OUT/new\"'; \
         unshare -Ur chroot /proc/1/root sh -c 'echo x > \"$OUT/new\"'; \
         echo x > \"$REPO/.git/config\"",
        only_apart("mnt")
    ));
}

#[test]
fn an_inherited_descriptor_leads_nowhere() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        env.put(&env.outside().join("file"), SECRET);
        let script = "exec 8<\"$1/file\" 9<\"$1\"; shift; exec \"$@\"";
        let agent = "for d in 7 8 9; do cat <&$d; cat /proc/self/fd/$d/file; done; \
                     ls -l /proc/self/fd; exit 0";
        let run = env.finish(
            env.command("sh")
                .args(["-c", script, "sh"])
                .arg(env.outside())
                .arg(env.program_path())
                .args(["run", "--", "sh", "-c", agent])
                .current_dir(repo.root()),
        );
        let run = run.expect_code(0);
        assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    }
}

#[test]
fn the_systems_own_files_cannot_be_written() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let name = env.root().file_name().expect("because it has a name");
        let name = name.to_str().expect("because it is plain");
        let places = [
            "/tmp",
            "/var/tmp",
            "/dev/shm",
            "/etc",
            "/usr/local/bin",
            "/",
        ];
        let made = places.map(|place| format!("{place}/{name}-x"));
        let script = made
            .each_ref()
            .map(|path| format!("echo x > {path};"))
            .concat();
        let run = repo.agent(&format!("{script} exit 0"));
        let found: Vec<_> = made
            .iter()
            .filter(|path| fs::remove_file(path).is_ok())
            .collect();
        assert!(found.is_empty(), "{found:?} were made");
        run.expect_code(0);
    }
}

#[test]
fn kernel_settings_cannot_be_opened_for_writing() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        repo.agent(
            "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname \
             /proc/sysrq-trigger /sys/kernel/mm/ksm/run /dev/kmsg /dev/mem; do \
             if test -e \"$f\" && (: >> \"$f\") 2>/dev/null; then echo \"$f\"; fi; done > opened.txt",
        )
        .expect_code(0);
        assert_eq!(repo.text("opened.txt"), "");
    }
}

#[test]
fn another_agents_copy_and_the_state_cannot_be_reached() {
    for env in TestEnv::identities() {
        let repo = env.repo();
        let plan = repo.plan(&format!(
            "[[task]]\nname = \"victim\"\ncommand = [\"sh\", \"-c\", \"echo mine > victim.txt; sleep 2\"]\n\
             [[task]]\nname = \"thief\"\ncommand = [\"sh\", \"-c\", \"\"\"\n\
             find '{state}' -type f 2>/dev/null | while read -r f; do echo x >> \"$f\"; done\n\
             find '{state}' -name victim.txt 2>/dev/null | while read -r f; do cat \"$f\"; done > seen.txt\n\
             rm -rf '{state}'; exit 0\"\"\"]\n",
            state = shown(&env.state()),
        ));
        repo.cofferdam(["run", "--json", shown(&plan)])
            .expect_code(0);
        assert_eq!(repo.text("victim.txt"), "mine\n");
        assert_eq!(repo.text("seen.txt"), "");
    }
}
