//! Role files: what stands in them, key by key.
//!
//! Owns the form of `[role.NAME]`, `[instruction.NAME]`, `[credential.NAME]`
//! and `[[assert]]`. A missing or empty list means nothing is allowed; an
//! unknown key, an unknown tool or a wrong value is refused with its line.
//! Which of the roles may be used, and whose file it is, is decided in
//! `role_set`.

use std::collections::BTreeMap;
use std::path::Path;

use super::builtin;
use super::document::{Item, Section, Source};
use super::error::{ConfigError, Place};
use super::tool_names::{TOOLS, tool_class};
use super::values::{parse_count, parse_duration, parse_size, parse_usd};
use super::words;
use crate::model::{
    Budget, Contract, Label, ModelChoice, ResourceLimits, Setup, SetupAuthor, Tainted,
};

/// A secret that can be granted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The command that makes one.
    pub mint: String,
    /// The command that takes it back.
    pub revoke: Option<String>,
    /// How long it is good for, as people write it.
    pub lifetime: Option<String>,
}

/// A statement about a role that `roles check` holds it to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    /// Where it stands.
    pub place: Place,
    /// The role.
    pub role: String,
    /// What it must not be able to do.
    pub cannot: Vec<Ability>,
}

/// Something that an assertion can rule out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Read the repository.
    Read,
    /// Change the repository.
    Write,
    /// Run programs.
    Execute,
    /// Reach anything over the network.
    Network,
    /// Start other agents.
    Spawn,
    /// Be granted secrets.
    Credentials,
}

const ABILITIES: [(&str, Ability); 6] = [
    ("read", Ability::Read),
    ("write", Ability::Write),
    ("execute", Ability::Execute),
    ("network", Ability::Network),
    ("spawn", Ability::Spawn),
    ("credentials", Ability::Credentials),
];

impl Ability {
    /// Its word in role files.
    #[must_use]
    pub fn word(self) -> &'static str {
        ABILITIES
            .iter()
            .find(|(_, ability)| *ability == self)
            .map_or("", |(word, _)| word)
    }

    /// Whether a contract grants it, in any of the ways in which it could.
    #[must_use]
    pub fn is_granted_by(self, contract: &Contract) -> bool {
        use super::ToolClass;
        let has = |class| {
            contract
                .tools
                .iter()
                .any(|tool| tool_class(tool) == Some(class))
        };
        match self {
            Self::Read => !contract.read.is_empty() || has(ToolClass::Read),
            Self::Write => contract.is_writer() || has(ToolClass::Write),
            Self::Execute => contract.execute || has(ToolClass::Execute),
            Self::Network => contract.network != crate::model::NetworkAccess::None,
            Self::Spawn => !contract.spawn.is_empty() || has(ToolClass::Spawn),
            Self::Credentials => !contract.credentials.is_empty(),
        }
    }
}

/// A role and where it is defined.
#[derive(Debug, Clone, PartialEq)]
pub struct Defined {
    /// The contract.
    pub contract: Contract,
    /// Where its table starts; `None` for a built-in role.
    pub place: Option<Place>,
}

/// Everything that one role file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoleFile {
    /// Its roles by name.
    pub roles: BTreeMap<String, Defined>,
    /// Its instructions by name.
    pub instructions: BTreeMap<String, String>,
    /// Its credentials by name.
    pub credentials: BTreeMap<String, Credential>,
    /// Its assertions.
    pub assertions: Vec<Assertion>,
}

impl RoleFile {
    /// Reads a role file.
    ///
    /// # Errors
    /// Names file, line and key of the first thing that is wrong.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let source = Source::new(file, text);
        let mut outer = source.parse()?;
        let mut roles = BTreeMap::new();
        for (name, item) in outer.section("role")?.into_items() {
            check_name(&name, &item)?;
            let place = item.place();
            let contract = role(&name, item.section()?)?;
            let place = Some(place);
            roles.insert(name, Defined { contract, place });
        }
        let mut instructions = BTreeMap::new();
        for (name, item) in outer.section("instruction")?.into_items() {
            instructions.insert(name, instruction(item)?);
        }
        let mut credentials = BTreeMap::new();
        for (name, item) in outer.section("credential")?.into_items() {
            check_name(&name, &item)?;
            credentials.insert(name, credential(item.section()?)?);
        }
        let mut assertions = Vec::new();
        for section in outer.sections("assert")? {
            assertions.push(assertion(section)?);
        }
        outer.finish()?;
        Ok(Self {
            roles,
            instructions,
            credentials,
            assertions,
        })
    }
}

fn check_name(name: &str, item: &Item<'_>) -> Result<(), ConfigError> {
    let fits = !name.is_empty()
        && name.len() <= 64
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits {
        return Ok(());
    }
    Err(item.wrong("a name of 1 to 64 letters, digits, `_` and `-`"))
}

fn role(name: &str, mut section: Section<'_>) -> Result<Contract, ConfigError> {
    let mut contract = builtin::nothing(name);
    if let Some(context) = section.word("context", &words::CONTEXT)? {
        contract.context = context;
    }
    contract.instructions = section.texts("instructions")?;
    contract.tools = tools(&mut section, "tools")?;
    contract.write = section.globs("write")?;
    contract.read = section.globs("read")?;
    contract.execute = section.flag("execute")?.unwrap_or(false);
    if let Some(network) = section.word("network", &words::NETWORK)? {
        contract.network = network;
    }
    contract.credentials = section.texts("credentials")?;
    contract.spawn = section.texts("spawn")?;
    contract.budget = budget(section.section("budget")?)?;
    contract.limits = limits(section.section("limits")?)?;
    // What an agent returns is never better than untrusted, so the key can
    // only say that; it stands in the file to be read by people.
    if let Some(label) = section.word("trust_out", &[("untrusted", Label::Untrusted)])? {
        contract.trust_out = label;
    }
    if let Some(on_failure) = section.word("on_failure", &words::ON_FAILURE)? {
        contract.on_failure = on_failure;
    }
    if let Some(approve) = section.word("approve", &words::APPROVE)? {
        contract.approve = approve;
    }
    let mut tainted = section.section("when_tainted")?;
    contract.when_tainted = Tainted {
        deny: tools(&mut tainted, "deny")?,
        integrate: tainted
            .word("integrate", &[("hold", "hold")])?
            .map(str::to_owned),
    };
    tainted.finish()?;
    if let Some(item) = section.take("model") {
        contract.model = Some(model(item.section()?)?);
    }
    if let Some(item) = section.take("setup") {
        contract.setup = Some(setup(item)?);
    }
    section.finish()?;
    Ok(contract)
}

fn tools(section: &mut Section<'_>, key: &'static str) -> Result<Vec<String>, ConfigError> {
    let Some(item) = section.take(key) else {
        return Ok(Vec::new());
    };
    let names = item.texts()?;
    if let Some(unknown) = names.iter().find(|name| tool_class(name).is_none()) {
        let known: Vec<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
        return Err(item.wrong(&format!(
            "names of tools ({}), found `{unknown}`",
            known.join(" ")
        )));
    }
    Ok(names)
}

fn budget(mut section: Section<'_>) -> Result<Budget, ConfigError> {
    let count = |item: Item<'_>| {
        let digits = item
            .digits()
            .ok_or_else(|| item.wrong(&format!("a whole number, found {}", item.kind())))?;
        parse_count("budget", &digits).map_err(|error| item.refused(&error))
    };
    let turns = section.take("turns").map(count).transpose()?;
    let tokens = section.take("tokens").map(count).transpose()?;
    let usd = match section.take("usd") {
        None => None,
        Some(item) => {
            let number = item.number().ok_or_else(|| {
                item.wrong(&format!("an amount in dollars, found {}", item.kind()))
            })?;
            parse_usd("usd", &number).map_err(|error| item.refused(&error))?;
            number.parse::<f64>().ok()
        }
    };
    let wall = match section.take("wall") {
        None => None,
        Some(item) => {
            let text = item.text()?;
            parse_duration("wall", &text).map_err(|error| item.refused(&error))?;
            Some(text)
        }
    };
    section.finish()?;
    Ok(Budget {
        turns,
        tokens,
        usd,
        wall,
    })
}

fn limits(mut section: Section<'_>) -> Result<ResourceLimits, ConfigError> {
    let size = |item: Item<'_>| {
        let text = match item.digits() {
            Some(digits) => digits,
            None => item.text()?,
        };
        parse_size("limits", &text).map_err(|error| item.refused(&error))
    };
    let memory_bytes = section.take("memory").map(size).transpose()?;
    let disk_bytes = section.take("disk").map(size).transpose()?;
    let output_bytes = section.take("output").map(size).transpose()?;
    let processes = match section.take("processes") {
        None => None,
        Some(item) => {
            let digits = item
                .digits()
                .ok_or_else(|| item.wrong(&format!("a whole number, found {}", item.kind())))?;
            Some(parse_count("processes", &digits).map_err(|error| item.refused(&error))?)
        }
    };
    section.finish()?;
    Ok(ResourceLimits {
        memory_bytes,
        processes,
        disk_bytes,
        output_bytes,
    })
}

/// A set-up command: its text alone, or a table that gives it a time. Whose file
/// it is stands with the set of all roles.
fn setup(item: Item<'_>) -> Result<Setup, ConfigError> {
    let filled = |item: &Item<'_>| {
        let text = item.text()?;
        if text.trim().is_empty() || text.contains('\0') {
            return Err(item.wrong("a command for the shell"));
        }
        Ok(text)
    };
    if !item.is_table() {
        return Ok(Setup::new(&filled(&item)?, None, SetupAuthor::Person));
    }
    let mut section = item.section()?;
    let command = filled(&section.require("command")?)?;
    let wall = match section.take("wall") {
        None => None,
        Some(item) => {
            let text = item.text()?;
            Some(parse_duration("wall", &text).map_err(|error| item.refused(&error))?)
        }
    };
    section.finish()?;
    Ok(Setup::new(&command, wall, SetupAuthor::Person))
}

fn model(mut section: Section<'_>) -> Result<ModelChoice, ConfigError> {
    let name = section.require("name")?.text()?;
    let max_output_tokens = match section.take("max_output_tokens") {
        None => None,
        Some(item) => {
            let digits = item
                .digits()
                .ok_or_else(|| item.wrong(&format!("a whole number, found {}", item.kind())))?;
            Some(parse_count("max_output_tokens", &digits).map_err(|error| item.refused(&error))?)
        }
    };
    let temperature = match section.take("temperature") {
        None => None,
        Some(item) => {
            let wrong = || item.wrong(&format!("a number from 0 to 2, found {}", item.kind()));
            let number: f64 = item
                .number()
                .and_then(|text| text.parse().ok())
                .ok_or_else(wrong)?;
            if !(0.0..=2.0).contains(&number) {
                return Err(wrong());
            }
            Some(number)
        }
    };
    section.finish()?;
    Ok(ModelChoice {
        name,
        max_output_tokens,
        temperature,
    })
}

fn instruction(item: Item<'_>) -> Result<String, ConfigError> {
    if !item.is_table() {
        return item.text();
    }
    let mut section = item.section()?;
    let text = section.require("text")?.text()?;
    section.finish()?;
    Ok(text)
}

fn credential(mut section: Section<'_>) -> Result<Credential, ConfigError> {
    let mint = section.require("mint")?.text()?;
    let revoke = section.text("revoke")?;
    let lifetime = match section.take("lifetime") {
        None => None,
        Some(item) => {
            let text = item.text()?;
            parse_duration("lifetime", &text).map_err(|error| item.refused(&error))?;
            Some(text)
        }
    };
    section.finish()?;
    Ok(Credential {
        mint,
        revoke,
        lifetime,
    })
}

fn assertion(mut section: Section<'_>) -> Result<Assertion, ConfigError> {
    let role = section.require("role")?;
    let place = role.place();
    let role = role.text()?;
    let item = section.require("cannot")?;
    let mut cannot = Vec::new();
    for word in item.texts()? {
        let ability = super::values::parse_word("cannot", &word, &ABILITIES)
            .map_err(|error| item.refused(&error))?;
        cannot.push(ability);
    }
    if cannot.is_empty() {
        return Err(item.wrong("at least one ability; an empty list asserts nothing"));
    }
    section.finish()?;
    Ok(Assertion {
        place,
        role,
        cannot,
    })
}
