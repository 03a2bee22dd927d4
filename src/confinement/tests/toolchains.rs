//! Toolchains and caches: what is shown where, and what never is.

use std::path::{Path, PathBuf};

use cofferdam_sandbox::{Mount, Otherwise, Rights};

use super::super::{
    CACHES, CacheMount, MASKS, NEVER, TOOLCHAINS, masks, may_be_read, may_hold_packages,
};
use super::{Machine, STATE};
use crate::config::builtin;

/// Everything that any table entry could show, all of it there.
fn everything() -> Machine {
    let mut machine = Machine::new();
    let home = machine.home.clone();
    for toolchain in TOOLCHAINS {
        let directory = home.join(toolchain.directory);
        for part in toolchain.parts {
            machine.directories.insert(directory.join(part));
        }
        machine.directories.insert(directory);
    }
    for secret in NEVER {
        machine.files.insert(home.join(secret));
    }
    for (number, cache) in CACHES.iter().enumerate() {
        machine.directories.insert(cache.place(&home, &|_| None));
        let own = Path::new(STATE).join("caches").join(number.to_string());
        machine.caches.push(CacheMount {
            lower: cache.place(&home, &|_| None),
            upper: own.join("upper"),
            work: own.join("work"),
            target: machine.view.home.join(cache.directory),
        });
    }
    machine
}

#[test]
fn no_entry_of_any_table_reaches_a_secret() {
    for mode in [
        crate::model::ViewMode::Mounted,
        crate::model::ViewMode::InPlace,
    ] {
        let mut machine = everything();
        machine.view.mode = mode;
        if mode == crate::model::ViewMode::InPlace {
            machine.view.mounts.clear();
            machine.waive(&["no_metadata_change_outside", "no_host_sockets"]);
        }
        let policy = machine
            .policy(&builtin::writer())
            .expect("because everything fits");
        let shown = policy.view.mounts.iter().flat_map(|mount| match mount {
            Mount::Overlay { lower, .. } => lower.clone(),
            Mount::Bind { source, .. } => vec![source.clone()],
            Mount::Tmpfs { .. } => Vec::new(),
        });
        let shown: Vec<PathBuf> = shown
            .chain(policy.files.iter().map(|rule| rule.path.clone()))
            .map(|path| path.0)
            .collect();
        for secret in NEVER {
            let secret = machine.home.join(secret);
            for path in &shown {
                assert!(
                    !secret.starts_with(path) && !path.starts_with(&secret),
                    "{} shows {}",
                    path.display(),
                    secret.display()
                );
            }
        }
    }
}

#[test]
fn no_variable_leads_to_a_secret() {
    let home = Path::new("/home/me");
    for secret in NEVER {
        let secret = home.join(secret);
        let above = secret.parent().expect("because it lies in the home");
        for place in [&secret, &secret.join("below"), &above.to_path_buf()] {
            assert!(!may_be_read(home, place), "{}", place.display());
        }
    }
    for place in ["/", "/home", "/home/me", "relative", "/opt/../home/me/.ssh"] {
        assert!(!may_be_read(home, Path::new(place)), "{place}");
    }
    for place in ["/home/me/.cargo/registry", "/opt/cargo", "/home/me/go"] {
        assert!(may_be_read(home, Path::new(place)), "{place}");
    }
}

#[test]
fn no_variable_leads_into_the_system_or_to_what_is_covered() {
    let covered = [PathBuf::from("/usr/local/etc/a/token")];
    for place in [
        "/",
        "/dev/shm",
        "/etc",
        "/etc/security",
        "/home",
        "/opt",
        "/proc/1/root",
        "/run/user/0",
        "/usr",
        "/usr/local",
        "/usr/local/etc",
        "/usr/local/etc/a",
        "/usr/local/etc/a/token",
        "/var",
        "/var/lib",
    ] {
        assert!(!may_hold_packages(Path::new(place), &covered), "{place}");
    }
    for place in [
        "/cache",
        "/go/pkg/mod",
        "/home/me/go/pkg/mod",
        "/opt/cargo/registry",
        "/usr/local/cargo/registry",
        "/var/cache/pip",
    ] {
        assert!(may_hold_packages(Path::new(place), &covered), "{place}");
    }
}

#[test]
fn every_mask_belongs_to_a_toolchain_and_follows_its_variable() {
    for (name, _) in MASKS {
        assert!(
            TOOLCHAINS.iter().any(|one| one.directory == *name),
            "{name}"
        );
    }
    let set = |value: &str| [("NVM_DIR".into(), value.into())].into();
    let root_of_nvm = |value: &str| {
        let variables = set(value);
        let mut all = masks(Path::new("/home/me"), &variables);
        all.find(|(_, pattern)| *pattern == "versions/node/*/etc/npmrc")
            .map(|(root, _)| root)
    };
    assert_eq!(root_of_nvm("/opt/nvm"), Some("/opt/nvm".into()));
    assert_eq!(root_of_nvm("/etc"), Some("/home/me/.nvm".into()));
}

#[test]
fn toolchains_are_read_and_executed_where_they_are() {
    let policy = everything()
        .policy(&builtin::writer())
        .expect("because everything fits");
    for toolchain in [".cargo/bin", ".rustup", ".nvm", ".local/share/uv/python"] {
        let path = Path::new("/home/me").join(toolchain);
        let rule = policy.files.iter().find(|rule| rule.path.0 == path);
        assert_eq!(
            rule.map(|rule| rule.rights),
            Some(Rights::ReadExecute),
            "{toolchain}"
        );
    }
}

#[test]
fn caches_are_shown_in_the_private_home_after_it_and_take_changes() {
    let machine = everything();
    let policy = machine
        .policy(&builtin::writer())
        .expect("because everything fits");
    let home = policy
        .view
        .mounts
        .iter()
        .position(|mount| mount.target().0 == machine.view.home)
        .expect("because the home is mounted");
    for cache in &machine.caches {
        let wanted = Mount::Overlay {
            lower: vec![cache.lower.as_path().into()],
            upper: cache.upper.as_path().into(),
            work: cache.work.as_path().into(),
            target: cache.target.as_path().into(),
            access: cofferdam_sandbox::Access::ReadWrite,
            directories: cofferdam_sandbox::Directories::Copied,
            otherwise: Otherwise::ReadOnly,
        };
        let place = policy.view.mounts.iter().position(|mount| *mount == wanted);
        assert!(place > Some(home), "{}", cache.target.display());
        assert!(cache.target.starts_with(&machine.view.home));
    }
}

#[test]
fn in_place_caches_are_only_read() {
    let mut machine = everything();
    machine.view.mode = crate::model::ViewMode::InPlace;
    machine.view.mounts.clear();
    machine.waive(&["no_metadata_change_outside", "no_host_sockets"]);
    let policy = machine
        .policy(&builtin::writer())
        .expect("because everything fits");
    assert!(policy.view.mounts.is_empty());
    for cache in &machine.caches {
        let covering = policy
            .files
            .iter()
            .find(|rule| cache.lower.starts_with(&rule.path.0));
        assert_eq!(
            covering.map(|rule| rule.rights),
            Some(Rights::ReadExecute),
            "{}",
            cache.lower.display()
        );
    }
}

#[test]
fn a_cache_is_where_its_variable_says() {
    let home = Path::new("/home/me");
    let cache = |name: &str| {
        CACHES
            .iter()
            .find(|cache| cache.directory == name)
            .expect("because it is in the table")
    };
    let place = |name: &str, set: &[(&str, &str)]| {
        let variable = |wanted: &str| {
            let found = set.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| PathBuf::from(value))
        };
        cache(name).place(home, &variable)
    };
    let registry = ".cargo/registry";
    assert_eq!(place(registry, &[]), home.join(registry));
    assert_eq!(
        place(registry, &[("CARGO_HOME", "/opt/cargo")]),
        Path::new("/opt/cargo/registry")
    );
    // A relative value would mean another place for each directory.
    assert_eq!(
        place(registry, &[("CARGO_HOME", "cargo")]),
        home.join(registry)
    );
    assert_eq!(
        place("go/pkg/mod", &[("GOPATH", "/g"), ("GOMODCACHE", "/m")]),
        Path::new("/m/")
    );
    assert_eq!(
        place("go/pkg/mod", &[("GOPATH", "/g")]),
        Path::new("/g/pkg/mod")
    );
}
