//! Policies of a writer and a reader, and what is refused.

use cofferdam_sandbox::{
    Access, Counted, Disk, FileRule, Layer, Limits, Mount, Network, Policy, Rights, ViewMode,
};

use super::super::{Error, explain_contract};
use super::{Machine, STATE, view};
use crate::config::builtin;
use crate::model::{Contract, NetworkAccess, ResourceLimits};
use std::path::Path;

fn rule(path: &str, rights: Rights) -> FileRule {
    FileRule {
        path: std::path::Path::new(path).into(),
        rights,
    }
}

fn hide(target: &str) -> Mount {
    Mount::Tmpfs {
        target: std::path::Path::new(target).into(),
        access: Access::ReadOnly,
        bytes: 0,
    }
}

fn bind(source: &str, target: &str, access: Access) -> Mount {
    Mount::Bind {
        source: std::path::Path::new(source).into(),
        target: std::path::Path::new(target).into(),
        access,
    }
}

fn made(machine: &Machine, contract: &Contract) -> Policy {
    let policy = machine.policy(contract).expect("because everything fits");
    policy
        .check()
        .expect("because the sandbox accepts its shape");
    policy
}

fn rights(policy: &Policy, path: &str) -> Option<Rights> {
    policy
        .files
        .iter()
        .find(|rule| rule.path.0 == std::path::Path::new(path))
        .map(|rule| rule.rights)
}

#[test]
fn a_writers_files_are_the_system_its_toolchains_and_its_workspace() {
    let policy = made(&Machine::new(), &builtin::writer());
    let home = format!("{STATE}/home");
    assert_eq!(
        policy.files,
        [
            rule("/usr", Rights::ReadExecute),
            rule("/bin", Rights::ReadExecute),
            rule("/lib64", Rights::ReadExecute),
            rule("/proc", Rights::Read),
            rule("/sys", Rights::Read),
            rule("/etc", Rights::Read),
            rule("/dev/null", Rights::Device),
            rule("/dev/urandom", Rights::Device),
            rule("/dev/tty", Rights::Device),
            rule("/dev/ptmx", Rights::Device),
            rule("/dev/pts", Rights::Device),
            rule("/dev/shm", Rights::ReadWrite),
            rule("/home/me/.cargo/bin", Rights::ReadExecute),
            rule("/home/me/.rustup", Rights::ReadExecute),
            rule("/home/me/bin", Rights::ReadExecute),
            rule("/opt/cofferdam/cofferdam", Rights::ReadExecute),
            rule("/tmp", Rights::ReadWriteExecute),
            rule("/var/tmp", Rights::ReadWriteExecute),
            rule(&home, Rights::ReadWriteExecute),
            rule("/home/me/repo/.git", Rights::ReadExecute),
            rule("/home/me/repo", Rights::ReadWriteExecute),
        ]
    );
}

#[test]
fn a_writers_mounts_hide_first_and_show_the_workspace_last() {
    let policy = made(&Machine::new(), &builtin::writer());
    let (home, tmp) = (format!("{STATE}/home"), format!("{STATE}/tmp"));
    assert_eq!(policy.view.mode, ViewMode::Mounted);
    assert_eq!(
        policy.view.mounts,
        [
            hide("/home"),
            hide("/root"),
            hide("/run"),
            hide("/var"),
            bind("/dev/null", "/etc/shadow", Access::ReadOnly),
            hide("/etc/sudoers.d"),
            bind(&tmp, "/tmp", Access::ReadWrite),
            bind(&tmp, "/var/tmp", Access::ReadWrite),
            // A socket of the host in what stays visible; the other is hidden.
            bind("/dev/null", "/opt/daemon/socket", Access::ReadOnly),
            bind(&home, &home, Access::ReadWrite),
            bind(&format!("{STATE}/tree"), "/home/me/repo", Access::ReadWrite),
            bind(
                &format!("{STATE}/git"),
                "/home/me/repo/.git",
                Access::ReadOnly
            ),
        ]
    );
    assert_eq!(policy.network, Network::None);
    assert_eq!(policy.limits.processes, Some(4096));
    let required: Vec<Layer> = policy.required.iter().copied().collect();
    assert_eq!(
        required,
        [
            Layer::Landlock,
            Layer::Mounts,
            Layer::Namespaces,
            Layer::Seccomp,
            Layer::Capabilities,
            Layer::Network,
            Layer::Limits
        ]
    );
}

/// Where the null device is put.
fn covered(policy: &Policy) -> Vec<&Path> {
    let mounts = policy.view.mounts.iter();
    let covered = mounts.filter_map(|mount| match mount {
        Mount::Bind { source, target, .. } if source.0 == Path::new("/dev/null") => {
            Some(target.0.as_path())
        }
        Mount::Bind { .. } | Mount::Tmpfs { .. } | Mount::Overlay { .. } => None,
    });
    covered.collect()
}

#[test]
fn what_is_shown_again_has_its_sockets_and_logins_covered() {
    let mut machine = Machine::new();
    machine.directories.insert("/data".into());
    machine.files.insert("/etc/private.key".into());
    machine.directories.insert("/tmp/tools".into());
    machine.directories.insert("/home/me/repo/bin".into());
    machine.directories.insert("/home/me/linked".into());
    machine
        .links
        .insert("/home/me/linked".into(), "/data/real".into());
    machine.variables.insert(
        "PATH".into(),
        "/home/me/bin:/tmp/tools:/home/me/repo/bin:/home/me/linked".into(),
    );
    machine.sockets = [
        "/data/real/s",
        "/data/hidden",
        "/dev/log",
        "/home/me/bin/deep/s",
        "/home/me/bins/s",
        "/home/me/repo/bin/s",
        "/tmp/tools/s",
        "/tmp/s",
    ]
    .map(Into::into)
    .to_vec();
    machine.login_files = vec![
        "/home/me/.rustup/x/pip.conf".into(),
        "/home/me/miniconda3/pip.conf".into(),
    ];
    let policy = made(&machine, &builtin::writer());
    let expected = [
        "/etc/shadow",
        "/etc/private.key",
        "/data/real/s",
        "/home/me/linked/s",
        "/home/me/bin/deep/s",
        "/tmp/tools/s",
        "/home/me/.rustup/x/pip.conf",
    ];
    assert_eq!(covered(&policy), expected.map(Path::new));
    let place = |path: &str| {
        let mut mounts = policy.view.mounts.iter();
        mounts.position(|mount| mount.target().0 == Path::new(path))
    };
    // What hides a directory comes first: its parts are shown right behind it.
    assert!(place("/home") < place("/home/me/bin/deep/s"));
    assert!(place("/tmp") < place("/tmp/tools/s"));
}

#[test]
fn a_reader_writes_nothing_but_its_private_directories() {
    let policy = made(&Machine::new(), &builtin::reader());
    let written: Vec<&FileRule> = policy
        .files
        .iter()
        .filter(|rule| rule.rights.access() == Access::ReadWrite)
        .collect();
    let home = format!("{STATE}/home");
    assert_eq!(
        written,
        [
            &rule("/dev/shm", Rights::ReadWrite),
            &rule("/tmp", Rights::ReadWriteExecute),
            &rule("/var/tmp", Rights::ReadWriteExecute),
            &rule(&home, Rights::ReadWriteExecute),
        ]
    );
    assert_eq!(rights(&policy, "/home/me/repo"), Some(Rights::ReadExecute));
    let tree = format!("{STATE}/tree");
    assert!(
        policy
            .view
            .mounts
            .contains(&bind(&tree, "/home/me/repo", Access::ReadOnly))
    );
}

#[test]
fn a_role_that_reads_nothing_sees_nothing_of_the_repository() {
    let blind = Contract {
        read: Vec::new(),
        ..builtin::reader()
    };
    let policy = made(&Machine::new(), &blind);
    assert_eq!(rights(&policy, "/home/me/repo"), None);
    assert_eq!(rights(&policy, "/home/me/repo/.git"), None);
}

#[test]
fn no_rule_reaches_a_credential_or_the_home_directory() {
    let mut machine = Machine::new();
    for name in [".ssh", ".aws", ".config", ".local", ".docker"] {
        machine.directories.insert(machine.home.join(name));
    }
    machine.variables.insert(
        "PATH".into(),
        "/:/home:/home/me:/home/me/.ssh/bin:/home/me/.aws:/home/me/../me:.:".into(),
    );
    machine.directories.insert("/home/me/.ssh/bin".into());
    let policy = made(&machine, &builtin::writer());
    for secret in [
        "/home/me/.ssh/id_ed25519",
        "/home/me/.ssh/bin/x",
        "/home/me/.aws/credentials",
        "/home/me/.config/gh/hosts.yml",
        "/home/me/.docker/config.json",
        "/home/me/.cargo/credentials.toml",
        "/home/me/.netrc",
        "/home/other/x",
        "/root/x",
    ] {
        let reached = policy
            .files
            .iter()
            .find(|rule| std::path::Path::new(secret).starts_with(&rule.path.0));
        assert_eq!(reached, None, "{secret}");
    }
}

#[test]
fn a_repository_beneath_tmp_has_its_target_made_in_memory() {
    let mut machine = Machine::new();
    machine.view = view("/tmp/x/repo");
    machine.cwd = "/tmp/x/repo".into();
    let policy = made(&machine, &builtin::writer());
    let place = |wanted: &Mount| policy.view.mounts.iter().position(|mount| mount == wanted);
    let tmp = format!("{STATE}/tmp");
    let private = Mount::Tmpfs {
        target: std::path::Path::new("/tmp").into(),
        access: Access::ReadWrite,
        bytes: 2 << 30,
    };
    let tree = bind(&format!("{STATE}/tree"), "/tmp/x/repo", Access::ReadWrite);
    assert!(place(&private) < place(&tree) && place(&private).is_some());
    // The other directory is still the agent's own on disk.
    assert!(place(&bind(&tmp, "/var/tmp", Access::ReadWrite)).is_some());
    let value = |name: &str| {
        policy
            .command
            .env
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
    };
    assert_eq!(value("TMPDIR"), Some("/var/tmp".into()));
}

#[test]
fn in_place_nothing_is_mounted_and_no_terminal_of_the_person_is_given() {
    let mut machine = Machine::new();
    machine.view.mode = crate::model::ViewMode::InPlace;
    machine.view.mounts.clear();
    let error = machine
        .policy(&builtin::writer())
        .expect_err("because attributes outside could change");
    let Error::Short(short) = error else {
        panic!("because promises are not held: {error}");
    };
    let names: Vec<&str> = short
        .iter()
        .map(|shortfall| shortfall.guarantee.word())
        .collect();
    assert_eq!(names, ["no_metadata_change_outside", "no_host_sockets"]);
    machine.waive(&["no_metadata_change_outside", "no_host_sockets"]);
    let policy = made(&machine, &builtin::writer());
    assert!(policy.view.mounts.is_empty());
    assert!(!policy.required.contains(&Layer::Mounts));
    for device in ["/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm", "/tmp"] {
        assert_eq!(rights(&policy, device), None, "{device}");
    }
    let tmp = format!("{STATE}/tmp");
    assert_eq!(rights(&policy, &tmp), Some(Rights::ReadWriteExecute));
    assert_eq!(policy.limits.processes, None);
}

#[test]
fn a_program_named_by_its_path_may_be_executed_and_nothing_beside_it() {
    let mut machine = Machine::new();
    machine.command = vec!["/home/me/tool".into()];
    let policy = made(&machine, &builtin::writer());
    assert_eq!(rights(&policy, "/home/me/tool"), Some(Rights::ReadExecute));
    for within in ["./run.sh", "/home/me/repo/run.sh", "sh"] {
        machine.command = vec![within.into()];
        let policy = made(&machine, &builtin::writer());
        assert_eq!(policy.files.len(), 21, "{within}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut machine = Machine::new();
    machine.cwd = "/home/me/repository".into();
    assert!(matches!(
        machine.policy(&builtin::writer()),
        Err(Error::CwdOutside { .. })
    ));
    let mut machine = Machine::new();
    machine.command.clear();
    assert_eq!(machine.policy(&builtin::writer()), Err(Error::NoProgram));
    let mut machine = Machine::new();
    machine.waive(&["mounts"]);
    assert_eq!(machine.policy(&builtin::writer()), Err(Error::MountsWaived));
    let gateway = Contract {
        network: NetworkAccess::Gateway,
        ..builtin::writer()
    };
    assert_eq!(Machine::new().policy(&gateway), Err(Error::NoGateway));
}

#[test]
fn an_open_network_brings_the_resolver_and_is_no_promise() {
    let mut machine = Machine::new();
    machine.directories.insert("/run/systemd/resolve".into());
    let open = Contract {
        network: NetworkAccess::Open,
        ..builtin::writer()
    };
    let policy = made(&machine, &open);
    assert_eq!(policy.network, Network::Open);
    assert!(!policy.required.contains(&Layer::Network));
    assert_eq!(rights(&policy, "/run/systemd/resolve"), Some(Rights::Read));
    let closed = made(&machine, &builtin::writer());
    assert_eq!(rights(&closed, "/run/systemd/resolve"), None);
}

#[test]
fn limits_reach_the_kernel() {
    let machine = Machine::new();
    let policy = machine.with_input(&builtin::writer(), |input| {
        let mut input = *input;
        input.limits = ResourceLimits {
            memory_bytes: Some(1 << 30),
            processes: Some(7),
            disk_bytes: Some(1 << 20),
            output_bytes: None,
        };
        super::super::policy(&input).expect("because everything fits")
    });
    assert_eq!(
        (
            policy.limits.memory_bytes,
            policy.limits.processes,
            policy.limits.file_bytes
        ),
        (Some(1 << 30), Some(7), Some(1 << 20))
    );
    let disk = policy.limits.disk.expect("because there is one");
    assert_eq!((disk.bytes, disk.files), (Some(1 << 20), Some(10_000)));
    assert_eq!(disk.counted, Counted::All);
}

#[test]
fn an_agent_without_limits_leaves_half_of_the_machine_to_others() {
    let limits = made(&Machine::new(), &builtin::writer()).limits;
    assert_eq!(
        limits,
        Limits {
            memory_bytes: Some(4 << 30),
            processes: Some(4096),
            cpu_seconds: None,
            open_files: Some(65_536),
            file_bytes: Some(16 << 30),
            disk: Some(Disk {
                directories: vec![Path::new(STATE).into()],
                bytes: Some(50 << 30),
                files: Some(1 << 19),
                counted: Counted::Added,
            }),
        }
    );
}

#[test]
fn contracts_and_policies_are_explained_from_what_is_enforced() {
    let words = explain_contract(&builtin::reader());
    assert_eq!(words[0], "reads: the whole repository");
    assert_eq!(
        words[1],
        "changes: nothing but its private home and temporary directory"
    );
    assert_eq!(words[3], "reaches: nothing over the network");
    let words = made(&Machine::new(), &builtin::reader()).words();
    assert!(words.contains(&"has no network".to_owned()));
    assert!(words.contains(&"finds empty /home /root /run /var /etc/sudoers.d".to_owned()));
    assert!(words.contains(
        &"starts only with landlock mounts namespaces seccomp capabilities network limits in full force"
            .to_owned()
    ));
}
