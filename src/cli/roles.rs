//! `cofferdam roles`: the contracts, as they will be enforced.
//!
//! Owns listing and printing; reading and checking role files is `config/`'s.

use cofferdam_sandbox::{Policy, PolicyRow};
use serde::Serialize;

use super::args::{RolesArgs, RolesCommand};
use super::failure::Failure;
use super::{print, surroundings};
use crate::config::{self, RoleSet};
use crate::confinement;
use crate::model::{Contract, ExitCode};
use crate::report;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    roles: Vec<&'a Contract>,
}

/// Lists or shows roles.
pub(super) fn roles(args: &RolesArgs) -> Result<ExitCode, Failure> {
    let executor = surroundings::executor()?;
    let repo = surroundings::repository_if_any(&executor, None)?;
    let set = match &repo {
        Some(repo) => config::load_roles(repo.top(), args.roles.as_deref())?,
        None => match &args.roles {
            Some(_) => {
                config::load_roles(&surroundings::current_directory()?, args.roles.as_deref())?
            }
            None => RoleSet::built_in(),
        },
    };
    let chosen: Vec<&Contract> = match &args.command {
        RolesCommand::List => set.roles().map(|defined| &defined.contract).collect(),
        RolesCommand::Show { name } => vec![set.require(name)?],
        RolesCommand::Explain {
            name,
            allow_degraded,
        } => {
            let repo = surroundings::repository(&executor, None)?;
            let contract = set.require(name)?;
            return explain(
                args,
                contract,
                &executor.explain(&repo, contract, allow_degraded)?,
            );
        }
    };
    if args.json {
        print::document(&Document {
            schema: "cofferdam.roles/1",
            roles: chosen,
        });
        return Ok(ExitCode::Success);
    }
    for contract in chosen {
        match &args.command {
            RolesCommand::List => {
                print::out_line(&format!("{:<16} {}", contract.role, one_line(contract)))
            }
            RolesCommand::Show { .. } | RolesCommand::Explain { .. } => {
                print::out(&whole(contract));
            }
        }
    }
    Ok(ExitCode::Success)
}

#[derive(Serialize)]
struct Explained<'a> {
    schema: &'static str,
    role: &'a str,
    contract: Vec<String>,
    policy: Vec<String>,
    table: Vec<PolicyRow>,
    promised: Vec<&'static str>,
}

/// Says what a role comes to here: its contract, and the kernel policy that an
/// agent with it would get.
fn explain(args: &RolesArgs, contract: &Contract, policy: &Policy) -> Result<ExitCode, Failure> {
    let explained = Explained {
        schema: "cofferdam.explain/1",
        role: &contract.role,
        contract: confinement::explain_contract(contract),
        policy: policy.words(),
        table: policy.table(),
        promised: policy.promised.iter().map(|one| one.sentence()).collect(),
    };
    if args.json {
        print::document(&explained);
        return Ok(ExitCode::Success);
    }
    print::out_line(&format!("role {}", contract.role));
    for line in &explained.contract {
        print::out_line(&format!("  {line}"));
    }
    print::out_line("\nas a process, it");
    for line in &explained.policy {
        print::out_line(&format!("  {}", report::plain(line)));
    }
    print::out_line("\nas kernel policy");
    for row in &explained.table {
        let (subject, rule) = (report::plain(&row.subject), report::plain(&row.rule));
        print::out_line(&format!("  {:<9} {subject}: {rule}", row.layer.word()));
    }
    print::out_line("\nwhat holds whatever it does");
    for sentence in &explained.promised {
        print::out_line(&format!("  {sentence}"));
    }
    Ok(ExitCode::Success)
}

fn one_line(contract: &Contract) -> String {
    let writes = if contract.write.is_empty() {
        "writes nothing".to_owned()
    } else {
        format!("writes {}", contract.write.join(", "))
    };
    let spawns = if contract.spawn.is_empty() {
        "starts nobody".to_owned()
    } else {
        format!("starts {}", contract.spawn.join(", "))
    };
    format!(
        "{writes}; network {}; {spawns}",
        report::kind_word(&contract.network)
    )
}

/// The contract in the form of a role file, so that it can be copied into one.
fn whole(contract: &Contract) -> String {
    let list = |items: &[String]| {
        let quoted: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        format!("[{}]", quoted.join(", "))
    };
    let lines = [
        format!("[role.{}]", contract.role),
        format!("context      = {:?}", report::kind_word(&contract.context)),
        format!("instructions = {}", list(&contract.instructions)),
        format!("tools        = {}", list(&contract.tools)),
        format!("write        = {}", list(&contract.write)),
        format!("read         = {}", list(&contract.read)),
        format!("execute      = {}", contract.execute),
        format!("network      = {:?}", report::kind_word(&contract.network)),
        format!("credentials  = {}", list(&contract.credentials)),
        format!("spawn        = {}", list(&contract.spawn)),
        format!(
            "trust_out    = {:?}",
            report::kind_word(&contract.trust_out)
        ),
        format!(
            "on_failure   = {:?}",
            report::kind_word(&contract.on_failure)
        ),
        format!("approve      = {:?}", report::kind_word(&contract.approve)),
    ];
    format!("{}\n", lines.join("\n"))
}
