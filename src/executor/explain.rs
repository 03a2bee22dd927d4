//! The policy that an agent of a role would get here, without an agent.
//!
//! Owns the example that `roles explain` shows: the same tables and the same
//! machine as for a real agent, with a made-up workspace. Makes nothing.

use cofferdam_sandbox::Policy;

use super::cage::Machine;
use super::error::{Error, Stage};
use super::host::room;
use super::site::{Executor, Site};
use crate::config::ConfigError;
use crate::confinement::{self, AgentFacts, Input, Waivers};
use crate::git::Repository;
use crate::model::Contract;
use crate::workspace::{self, Access};

impl Executor {
    /// The kernel policy of an agent with this contract in this repository.
    ///
    /// Its own directory and its command are examples; what its role and this
    /// machine decide is what an agent would get. Layers and guarantees whose
    /// names are in `given_up` are done without, as in a run.
    ///
    /// # Errors
    /// A name is not known; the machine could not be tried, or does not hold what is promised.
    pub fn explain(
        &self,
        repo: &Repository,
        contract: &Contract,
        given_up: &[String],
    ) -> Result<Policy, Error> {
        let site: &Site = &self.site;
        let waivers = Waivers::parse(given_up)
            .map_err(|error| Error::at(Stage::Confinement, ConfigError::from(error)))?;
        let machine = Machine {
            enforcement: self.probe()?,
            waivers,
            merges: Err("nothing is made here".to_owned()),
        };
        let (run, agent) = (Site::new_run_id(), Site::new_agent_id());
        let directory = site.state.path().join("agents/EXAMPLE");
        let access = if contract.is_writer() {
            Access::Writer
        } else {
            Access::Reader
        };
        let view = workspace::foreseen(repo, (access, machine.view_mode()), &directory);
        let host = site.host.facts(site);
        let input = Input {
            contract,
            view: &view,
            command: &["sh".into()],
            cwd: &view.root,
            env: &[],
            agent: AgentFacts {
                run: &run,
                agent: &agent,
                name: &contract.role,
                depth: 0,
                deadline: None,
                brief: &directory.join("brief.json"),
                denials: &directory.join("denials.jsonl"),
                port: 20_000,
            },
            caches: &[],
            host: host.of(site, repo.top()),
            waivers: &machine.waivers,
            enforcement: &machine.enforcement,
            limits: contract.limits,
            room: room(site.state.path()),
        };
        confinement::policy(&input).map_err(|error| Error::at(Stage::Confinement, error))
    }
}
