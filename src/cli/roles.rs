//! `cofferdam roles`: the contracts, as they will be enforced.
//!
//! Owns listing and printing; reading and checking role files is `config/`'s.

use serde::Serialize;

use super::args::{RolesArgs, RolesCommand};
use super::failure::Failure;
use super::{print, surroundings};
use crate::config::{self, RoleSet};
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
            RolesCommand::Show { .. } => print::out(&whole(contract)),
        }
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
