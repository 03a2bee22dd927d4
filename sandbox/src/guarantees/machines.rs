//! Owns what ordinary machines hold, and the document that says so.
//!
//! A machine here is a list of features that it lacks. Nothing is decided by
//! it: on a real machine everything is tried. The list is for people who want
//! to know beforehand what has to be given up by name.

use std::collections::BTreeSet;

use super::feature::Feature;
use super::name::Guarantee;
use super::table::{alternatives, held};

/// How it is known that a machine behaves as its line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verified {
    /// The suite ran on such a machine.
    Here,
    /// The suite ran on a machine made to answer as this one does.
    Shim,
    /// Nobody ran anything; it follows from the kernel's documentation.
    No,
}

/// A kind of machine that people have.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// What it is called.
    pub name: &'static str,
    /// The newest version of Landlock that it has.
    pub landlock: u32,
    /// Whether namespaces can be made there.
    pub namespaces: Namespaces,
    /// Whether it can drop the bounding set without a user namespace.
    pub privileged: Privileged,
    /// How that is known.
    pub verified: Verified,
}

/// Whether namespaces can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespaces {
    /// All of them.
    Yes,
    /// None, or none with any privilege in it.
    No,
}

/// Whether the launcher holds capabilities of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privileged {
    /// It is the superuser, if only of a container.
    Yes,
    /// It is an ordinary user.
    No,
}

const fn machine(
    name: &'static str,
    landlock: u32,
    (namespaces, privileged): (Namespaces, Privileged),
    verified: Verified,
) -> Machine {
    Machine {
        name,
        landlock,
        namespaces,
        privileged,
        verified,
    }
}

/// The machines that are told about.
pub const MACHINES: &[Machine] = &[
    machine(
        "Linux 6.18, ordinary user",
        7,
        (Namespaces::Yes, Privileged::No),
        Verified::Here,
    ),
    machine(
        "Linux 6.18, superuser",
        7,
        (Namespaces::Yes, Privileged::Yes),
        Verified::Here,
    ),
    machine(
        "Debian 12 (Linux 6.1)",
        2,
        (Namespaces::Yes, Privileged::No),
        Verified::Shim,
    ),
    machine(
        "Ubuntu 24.04 (Linux 6.8), restricted user namespaces",
        4,
        (Namespaces::No, Privileged::No),
        Verified::Shim,
    ),
    machine(
        "Ubuntu 24.04 (Linux 6.8), superuser or allowed by AppArmor",
        4,
        (Namespaces::Yes, Privileged::Yes),
        Verified::Shim,
    ),
    machine(
        "container, superuser, default filter, Linux 6.12",
        6,
        (Namespaces::No, Privileged::Yes),
        Verified::Shim,
    ),
    machine(
        "container, ordinary user, default filter, Linux 6.12",
        6,
        (Namespaces::No, Privileged::No),
        Verified::Shim,
    ),
    machine(
        "Landlock 9 (Linux 7.1), no namespaces",
        9,
        (Namespaces::No, Privileged::No),
        Verified::No,
    ),
    machine(
        "Landlock 10 (Linux 7.2), ordinary user",
        10,
        (Namespaces::Yes, Privileged::No),
        Verified::No,
    ),
];

impl Machine {
    /// What is in force there; limits are left out, since they depend on how
    /// the program is started.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        let landlock = Feature::OF_LANDLOCK
            .iter()
            .filter(|(since, _)| *since <= self.landlock)
            .map(|(_, feature)| *feature);
        let mut features: BTreeSet<Feature> = landlock.collect();
        features.extend([
            Feature::CallFilter,
            Feature::NoCapabilities,
            Feature::ProcessLimits,
            Feature::Launcher,
        ]);
        match self.namespaces {
            Namespaces::Yes => features.extend([
                Feature::View,
                Feature::HiddenPaths,
                Feature::OwnProcfs,
                Feature::OwnDevices,
                Feature::PidNamespace,
                Feature::UserNamespace,
                Feature::NamespaceQuota,
                Feature::NetworkNamespace,
                Feature::LockedCapabilities,
            ]),
            Namespaces::No => features.extend([
                Feature::InternetRefused,
                Feature::PriorityFilter,
                Feature::SubReaper,
            ]),
        }
        match self.privileged {
            Privileged::Yes => features.extend([Feature::LockedCapabilities]),
            Privileged::No => {}
        }
        features
    }

    /// The guarantees that have to be given up by name there.
    #[must_use]
    pub fn to_waive(&self) -> Vec<Guarantee> {
        let held = held(&self.features());
        held.into_iter()
            .filter(|(guarantee, holders)| {
                // Its lack is no reason to refuse.
                holders.is_empty() && *guarantee != Guarantee::BoundedResources
            })
            .map(|(guarantee, _)| guarantee)
            .collect()
    }
}

/// The documentation of all of it, as it stands in `GUARANTEES.md`.
#[must_use]
pub fn document() -> String {
    let mut lines = vec![
        "# Guarantees".to_owned(),
        String::new(),
        "Made from the table in `src/guarantees/`; a test compares the two.".to_owned(),
        String::new(),
        "## Who holds what".to_owned(),
        String::new(),
        "Any one of the columns holds the guarantee; `+` joins what is needed together.".to_owned(),
        String::new(),
        "| guarantee | says | held by |".to_owned(),
        "| --- | --- | --- |".to_owned(),
    ];
    for guarantee in Guarantee::ALL {
        let ways: Vec<String> = alternatives(*guarantee)
            .iter()
            .map(|alternative| {
                let words: Vec<String> = alternative
                    .iter()
                    .map(|one| format!("{} ({})", one.holder().word(), one.phrase()))
                    .collect();
                words.join(" + ")
            })
            .collect();
        lines.push(format!(
            "| `{guarantee}` | {} | {} |",
            guarantee.sentence(),
            ways.join("; ")
        ));
    }
    lines.extend([
        String::new(),
        "## On ordinary machines".to_owned(),
        String::new(),
        "With no network asked for. What is to be waived is given by name, and is recorded."
            .to_owned(),
        String::new(),
        "| machine | Landlock | held twice | held once | to be waived by name | verified |"
            .to_owned(),
        "| --- | --- | --- | --- | --- | --- |".to_owned(),
    ]);
    lines.extend(MACHINES.iter().map(line));
    lines.push(String::new());
    lines.join("\n")
}

fn line(machine: &Machine) -> String {
    let held = held(&machine.features());
    let count = |least: usize, most: usize| {
        held.values()
            .filter(|holders| (least..=most).contains(&holders.len()))
            .count()
    };
    let waived: Vec<String> = machine
        .to_waive()
        .iter()
        .map(|one| format!("`{one}`"))
        .collect();
    let waived = if waived.is_empty() {
        "nothing".to_owned()
    } else {
        waived.join(", ")
    };
    format!(
        "| {} | {} | {} | {} | {waived} | {} |",
        machine.name,
        machine.landlock,
        count(2, usize::MAX),
        count(1, 1),
        match machine.verified {
            Verified::Here => "yes",
            Verified::Shim => "features taken away on Linux 6.18",
            Verified::No => "unverified",
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_says_what_the_table_says() {
        let written = include_str!("../../GUARANTEES.md");
        assert!(
            written == document(),
            "write this to sandbox/GUARANTEES.md:\n{}",
            document()
        );
    }

    #[test]
    fn every_guarantee_is_held_twice_where_the_kernel_allows_it() {
        let all: BTreeSet<Feature> = Feature::ALL.into_iter().collect();
        let once: Vec<Guarantee> = held(&all)
            .into_iter()
            .filter(|(_, holders)| holders.len() < 2)
            .map(|(guarantee, _)| guarantee)
            .collect();
        // Landlock has no right for metadata, nothing but the launcher stands
        // between its own environment and descriptors and the command, and
        // limits are one layer with several mechanisms.
        assert_eq!(
            once,
            [
                Guarantee::NoMetadataChangeOutside,
                Guarantee::NoInheritedDescriptors,
                Guarantee::NoInheritedEnvironment,
                Guarantee::BoundedResources,
            ]
        );
    }

    #[test]
    fn no_machine_lacks_what_file_rules_hold() {
        for machine in MACHINES {
            let waived = machine.to_waive();
            assert!(!waived.contains(&Guarantee::NoWriteOutside), "{machine:?}");
            assert!(!waived.contains(&Guarantee::NoReadOfSecrets), "{machine:?}");
        }
    }
}
