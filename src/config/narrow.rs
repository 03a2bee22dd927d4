//! One agent's contract: its role, narrowed by what this run asks for.
//!
//! Owns the rule that an option only narrows. What would be wider is refused
//! as a gate refuses it; what nothing could enforce yet is refused by name
//! rather than accepted and ignored. Roles and settings are parsed elsewhere.

use super::error::ConfigError;
use super::setting::Setting;
use super::settings::Settings;
use super::{LEDGER_WAIVER, scope, words};
use crate::model::{ContextMode, Contract, Gate, NetworkAccess, Refusal};

/// The contract of a command agent.
///
/// # Errors
/// Refuses what is wider than the role (exit 3), isolation that is not to be
/// had (exit 4) and what cannot be done or metered (exit 2).
pub(crate) fn contract(role: &Contract, settings: &Settings) -> Result<Contract, ConfigError> {
    let mut contract = role.clone();
    narrow_network(&mut contract, settings)?;
    narrow_limits(&mut contract, settings)?;
    narrow_budget(&mut contract, settings)?;
    check_paths(&contract, settings)?;
    if !contract.execute {
        return Err(wider(
            Gate::Authority,
            format!("the role `{}` may not run programs", contract.role),
            "`execute = false`",
            "role",
            "use a role with `execute = true`",
        ));
    }
    if contract.needs_verify && settings.verify.is_none() {
        return Err(usage(
            &format!("the role `{}` without a verification", contract.role),
            "verify",
            "add `--verify CMD`",
        ));
    }
    check_available(&contract)?;
    Ok(contract)
}

/// What of a role has no effect on a command agent yet; said aloud, so that
/// nobody relies on it.
pub(crate) fn notices(role: &Contract) -> Vec<String> {
    let inert = [
        (role.budget.turns.is_some(), "`budget.turns`"),
        (role.budget.tokens.is_some(), "`budget.tokens`"),
        (role.budget.usd.is_some(), "`budget.usd`"),
        (role.model.is_some(), "`model`"),
        (!role.instructions.is_empty(), "`instructions`"),
    ];
    let mut notices: Vec<String> = inert
        .iter()
        .filter(|(present, _)| *present)
        .map(|(_, key)| {
            format!(
                "{key} of the role `{}` has no effect on a command agent: nothing meters or feeds it",
                role.role
            )
        })
        .collect();
    if !role.read.is_empty() && !role.read.iter().any(|glob| glob == "**") {
        notices.push(format!(
            "`read` of the role `{}` does not hold a command back: it reads its whole copy",
            role.role
        ));
    }
    notices
}

fn wider(gate: Gate, have: String, limit: &str, setting: &str, advice: &str) -> ConfigError {
    ConfigError::Refused(Refusal {
        gate,
        have,
        limit: limit.to_owned(),
        setting: setting.to_owned(),
        advice: advice.to_owned(),
    })
}

fn usage(what: &str, key: &str, hint: &str) -> ConfigError {
    ConfigError::Usage {
        what: what.to_owned(),
        key: key.to_owned(),
        hint: hint.to_owned(),
    }
}

const ONLY_NARROWS: &str = "an option only narrows; use a role that allows it";

fn narrow_network(contract: &mut Contract, settings: &Settings) -> Result<(), ConfigError> {
    if let Some(asked) = settings.network {
        if asked > contract.network {
            return Err(wider(
                Gate::Authority,
                format!("`--network {}` is asked for", words::network(asked)),
                &format!(
                    "`{}` of the role `{}`",
                    words::network(contract.network),
                    contract.role
                ),
                "network",
                ONLY_NARROWS,
            ));
        }
        contract.network = asked;
    }
    match contract.network {
        NetworkAccess::None | NetworkAccess::Open => Ok(()),
        NetworkAccess::Gateway => Err(ConfigError::Isolation {
            what: "there is no gateway yet".to_owned(),
            key: "network".to_owned(),
            hint: "use `--network none`".to_owned(),
        }),
    }
}

fn narrow_limits(contract: &mut Contract, settings: &Settings) -> Result<(), ConfigError> {
    let role = contract.role.clone();
    let limits = &mut contract.limits;
    let asked = [
        (Setting::Memory, settings.memory, &mut limits.memory_bytes),
        (Setting::Procs, settings.procs, &mut limits.processes),
        (Setting::Disk, settings.disk, &mut limits.disk_bytes),
        (Setting::Output, settings.output, &mut limits.output_bytes),
    ];
    for (setting, asked, limit) in asked {
        narrow_number(Gate::Authority, &role, setting, (asked, limit))?;
    }
    Ok(())
}

fn narrow_number(
    gate: Gate,
    role: &str,
    setting: Setting,
    (asked, limit): (Option<u64>, &mut Option<u64>),
) -> Result<(), ConfigError> {
    let Some(asked) = asked else { return Ok(()) };
    match *limit {
        Some(limit) if asked > limit => Err(wider(
            gate,
            format!("`{} {asked}` is asked for", setting.option()),
            &format!("{limit} of the role `{role}`"),
            setting.key(),
            ONLY_NARROWS,
        )),
        Some(_) | None => {
            *limit = Some(asked);
            Ok(())
        }
    }
}

fn narrow_budget(contract: &mut Contract, settings: &Settings) -> Result<(), ConfigError> {
    let asked = [
        (Setting::Turns, settings.turns.is_some()),
        (Setting::Tokens, settings.tokens.is_some()),
        (Setting::Usd, settings.micro_usd.is_some()),
    ];
    let waived = settings
        .allow_degraded
        .iter()
        .any(|name| name == LEDGER_WAIVER);
    if let Some((setting, _)) = asked.iter().find(|(_, asked)| *asked && !waived) {
        return Err(usage(
            &format!(
                "`{}` with a command agent, which nothing meters",
                setting.option()
            ),
            setting.key(),
            "leave it out, or add `--allow-degraded ledger` to run unmetered",
        ));
    }
    let role = contract.role.clone();
    let budget = &mut contract.budget;
    narrow_number(
        Gate::Budget,
        &role,
        Setting::Turns,
        (settings.turns, &mut budget.turns),
    )?;
    narrow_number(
        Gate::Budget,
        &role,
        Setting::Tokens,
        (settings.tokens, &mut budget.tokens),
    )?;
    let Some(micro_usd) = settings.micro_usd else {
        return Ok(());
    };
    let asked = micro_usd as f64 / 1_000_000.0;
    match budget.usd {
        Some(limit) if asked > limit => Err(wider(
            Gate::Budget,
            format!("`--usd {asked}` is asked for"),
            &format!("{limit} of the role `{role}`"),
            "usd",
            ONLY_NARROWS,
        )),
        Some(_) | None => {
            budget.usd = Some(asked);
            Ok(())
        }
    }
}

fn check_paths(contract: &Contract, settings: &Settings) -> Result<(), ConfigError> {
    let outside = settings
        .paths
        .iter()
        .find(|glob| !scope::is_glob_within(glob, &contract.write));
    match outside {
        None => Ok(()),
        Some(glob) => Err(wider(
            Gate::Scope,
            format!("`--paths {glob}` is asked for"),
            &format!(
                "`write = {:?}` of the role `{}`",
                contract.write, contract.role
            ),
            "paths",
            ONLY_NARROWS,
        )),
    }
}

/// What a contract may ask for and nothing can give yet.
fn check_available(contract: &Contract) -> Result<(), ConfigError> {
    let role = &contract.role;
    match contract.context {
        ContextMode::Brief => {}
        ContextMode::Fork => {
            return Err(usage(
                &format!("`context = \"fork\"` of the role `{role}`: it is not available yet"),
                "context",
                "use `context = \"brief\"`",
            ));
        }
    }
    match contract.credentials.first() {
        None => Ok(()),
        Some(name) => Err(usage(
            &format!(
                "the credential `{name}` of the role `{role}`: granting secrets is not available yet"
            ),
            "credentials",
            "leave `credentials` empty",
        )),
    }
}
