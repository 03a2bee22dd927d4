//! Settings, roles and plans: what people write, checked and made one value.
//!
//! Owns every key that a person can set, from its spelling to the finished
//! [`crate::model::RunRequest`]. Layers go over each other in one place,
//! unknown keys are refused with file, line and key, and what a repository
//! brings along can only narrow. Apart from `load` it touches no file, and it
//! starts nothing.
//!
//! To add a setting: one line in `setting`, one field in `partial` and its
//! default in `settings`. To add a tool: one line in `tool_names`. To add a
//! key of a role: one line in `roles`, and a component in `authority` if it
//! grants anything.

pub mod authority;
pub mod builtin;
pub mod values;

mod assemble;
mod document;
mod error;
mod load;
mod narrow;
mod partial;
mod plan;
mod role_set;
mod roles;
mod scope;
mod setting;
mod settings;
mod tool_names;
mod waivers;
mod words;

#[cfg(test)]
mod tests;

pub use assemble::{Asked, Assembled, Surroundings, assemble};
pub use error::{ConfigError, Place, ValueError};
pub use load::{
    ROLES_FILE, SETTINGS_FILE, load_brief, load_plan, load_repository_settings, load_roles,
};
pub use partial::{EnvAsk, PartialSettings};
pub use plan::{AGENT_KINDS, BriefSource, Plan, PlanTask, check_brief};
pub use role_set::RoleSet;
pub use roles::{Ability, Assertion, Credential, Defined, RoleFile};
pub use scope::{Scope, is_glob_within, may_overlap};
pub use setting::Setting;
pub use settings::{Layers, Settings, environment_layer, repository_layer};
pub use tool_names::{TOOLS, ToolClass, tool_class, tools_of};
pub use values::DeadlineSpec;
pub use waivers::{LEDGER_WAIVER, check_waiver, known_waivers};
