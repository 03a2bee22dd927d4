//! All roles of a run: built-in, of the person, of the repository.
//!
//! Owns who may define what. A file that the person names may define any
//! role; one found in the repository only roles within the built-in `writer`.
//! A built-in name is never redefined, and a role of the person's file wins
//! over one of the repository's. Names that roles refer to must exist.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::authority::{Excess, is_within};
use super::builtin::{BUILT_IN, fixer, reader, writer};
use super::error::{ConfigError, Place};
use super::roles::{Assertion, Credential, Defined, RoleFile};
use crate::model::{Contract, SetupAuthor};

/// All roles that a run may use.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleSet {
    roles: BTreeMap<String, Defined>,
    instructions: BTreeMap<String, String>,
    credentials: BTreeMap<String, Credential>,
    assertions: Vec<Assertion>,
}

impl RoleSet {
    /// The built-in roles alone.
    #[must_use]
    pub fn built_in() -> Self {
        let roles = [writer(), reader(), fixer()].map(|contract| {
            let name = contract.role.clone();
            let place = None;
            (name, Defined { contract, place })
        });
        Self {
            roles: roles.into(),
            instructions: BTreeMap::new(),
            credentials: BTreeMap::new(),
            assertions: Vec::new(),
        }
    }

    /// Reads the repository's role file and the one that the person named,
    /// each as its path and its text.
    ///
    /// # Errors
    /// Names file, line and key of what is unknown, wrong, wider than a
    /// repository may grant, or refers to nothing.
    pub fn load(
        repo_file: Option<(PathBuf, String)>,
        roles_file: Option<(PathBuf, String)>,
    ) -> Result<Self, ConfigError> {
        let mut set = Self::built_in();
        if let Some((path, text)) = repo_file {
            let mut file = RoleFile::parse(&path, &text)?;
            check_repository(&file)?;
            for defined in file.roles.values_mut() {
                if let Some(setup) = &mut defined.contract.setup {
                    setup.author = SetupAuthor::Repository;
                }
            }
            set.add(file)?;
        }
        if let Some((path, text)) = roles_file {
            set.add(RoleFile::parse(&path, &text)?)?;
        }
        set.check_references()?;
        Ok(set)
    }

    /// The contract of a role.
    ///
    /// # Errors
    /// An unknown name is refused with the names that there are.
    pub fn require(&self, name: &str) -> Result<&Contract, ConfigError> {
        self.role(name).ok_or_else(|| ConfigError::Usage {
            what: format!("the role `{name}`, which is not defined"),
            key: "role".to_owned(),
            hint: format!("known roles are {}", self.known()),
        })
    }

    /// The contract of a role; `None` where no role has that name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Contract> {
        self.roles.get(name).map(|defined| &defined.contract)
    }

    /// All roles by name.
    pub fn roles(&self) -> impl Iterator<Item = &Defined> {
        self.roles.values()
    }

    /// The text of an instruction.
    #[must_use]
    pub fn instruction(&self, name: &str) -> Option<&str> {
        self.instructions.get(name).map(String::as_str)
    }

    /// A credential that can be granted.
    #[must_use]
    pub fn credential(&self, name: &str) -> Option<&Credential> {
        self.credentials.get(name)
    }

    /// The assertions that do not hold, each with what the role can do.
    #[must_use]
    pub fn broken_assertions(&self) -> Vec<(&Assertion, Vec<&'static str>)> {
        let broken = self.assertions.iter().filter_map(|assertion| {
            let contract = self.role(&assertion.role)?;
            let granted: Vec<&'static str> = assertion
                .cannot
                .iter()
                .filter(|ability| ability.is_granted_by(contract))
                .map(|ability| ability.word())
                .collect();
            (!granted.is_empty()).then_some((assertion, granted))
        });
        broken.collect()
    }

    fn known(&self) -> String {
        let names: Vec<String> = self.roles.keys().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    }

    fn add(&mut self, file: RoleFile) -> Result<(), ConfigError> {
        for (name, defined) in &file.roles {
            if BUILT_IN.contains(&name.as_str()) {
                return Err(at(
                    defined,
                    "",
                    format!("another name: `{name}` is built in"),
                ));
            }
        }
        self.roles.extend(file.roles);
        self.instructions.extend(file.instructions);
        self.credentials.extend(file.credentials);
        self.assertions.extend(file.assertions);
        Ok(())
    }

    fn check_references(&self) -> Result<(), ConfigError> {
        for defined in self.roles.values() {
            let contract = &defined.contract;
            if let Some(unknown) = contract
                .spawn
                .iter()
                .find(|name| !self.roles.contains_key(*name))
            {
                let expected = format!("roles that exist ({}), found `{unknown}`", self.known());
                return Err(at(defined, "spawn", expected));
            }
            if let Some(unknown) = contract
                .instructions
                .iter()
                .find(|name| !self.instructions.contains_key(*name))
            {
                let expected = format!("`[instruction.\"{unknown}\"]` in the file");
                return Err(at(defined, "instructions", expected));
            }
            if let Some(unknown) = contract
                .credentials
                .iter()
                .find(|name| !self.credentials.contains_key(*name))
            {
                let expected = format!("`[credential.{unknown}]` in the file");
                return Err(at(defined, "credentials", expected));
            }
        }
        for assertion in &self.assertions {
            if self.role(&assertion.role).is_none() {
                return Err(ConfigError::Key {
                    place: assertion.place.clone(),
                    expected: format!(
                        "a role that exists ({}), found `{}`",
                        self.known(),
                        assertion.role
                    ),
                    hint: String::new(),
                });
            }
        }
        Ok(())
    }
}

/// A repository's own file grants nothing that `writer` does not have, and
/// no secret can be minted by a command that it names.
fn check_repository(file: &RoleFile) -> Result<(), ConfigError> {
    let bound = writer();
    // A role may start roles of its own file: each of them is itself within
    // the bound, so naming them widens nothing.
    for defined in file.roles.values() {
        let mut contract = defined.contract.clone();
        contract.spawn.retain(|name| !file.roles.contains_key(name));
        is_within(&contract, &bound).map_err(|excess| too_wide(defined, &excess))?;
    }
    match file.credentials.keys().next() {
        None => Ok(()),
        Some(name) => Err(ConfigError::Usage {
            what: format!("the credential `{name}` of the repository's own role file"),
            key: format!("credential.{name}"),
            hint: "define it in a file of your own and pass that with `--roles`".to_owned(),
        }),
    }
}

fn too_wide(defined: &Defined, excess: &Excess) -> ConfigError {
    let expected = format!(
        "a role within the built-in `writer`, but {} is not within {}",
        excess.asked, excess.allowed
    );
    let mut error = at(defined, excess.component, expected);
    if let ConfigError::Key { hint, .. } = &mut error {
        "pass a file of your own with `--roles` to grant more".clone_into(hint);
    }
    error
}

fn at(defined: &Defined, key: &str, expected: String) -> ConfigError {
    let mut place = defined.place.clone().unwrap_or_else(|| Place {
        file: PathBuf::from("built-in roles"),
        line: 0,
        key: format!("role.{}", defined.contract.role),
    });
    if !key.is_empty() {
        place.key = format!("{}.{key}", place.key);
    }
    ConfigError::Key {
        place,
        expected,
        hint: String::new(),
    }
}
