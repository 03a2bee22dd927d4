//! The names of all tools, and what each of them can do.
//!
//! Owns the one list against which role files are checked and from which the
//! list an agent sees, its dispatcher and the launcher's check are made. It
//! grants nothing: a contract names what its role may call.
//!
//! To add a tool: one line below.

/// What a tool can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolClass {
    /// Looks at the workspace.
    Read,
    /// Changes the workspace.
    Write,
    /// Runs a program.
    Execute,
    /// Speaks to the launcher about the agent itself.
    Report,
    /// Starts or steers other agents.
    Spawn,
}

/// Every tool with its class.
pub const TOOLS: [(&str, ToolClass); 24] = [
    ("read_file", ToolClass::Read),
    ("write_file", ToolClass::Write),
    ("edit_file", ToolClass::Write),
    ("apply_patch", ToolClass::Write),
    ("list_dir", ToolClass::Read),
    ("glob", ToolClass::Read),
    ("grep", ToolClass::Read),
    ("stat", ToolClass::Read),
    ("make_dir", ToolClass::Write),
    ("move", ToolClass::Write),
    ("copy", ToolClass::Write),
    ("delete", ToolClass::Write),
    ("run_command", ToolClass::Execute),
    ("git_status", ToolClass::Read),
    ("git_diff", ToolClass::Read),
    ("git_log", ToolClass::Read),
    ("todo_read", ToolClass::Report),
    ("todo_write", ToolClass::Report),
    ("report", ToolClass::Report),
    ("spawn_agent", ToolClass::Spawn),
    ("wait_agent", ToolClass::Spawn),
    ("list_agents", ToolClass::Spawn),
    ("cancel_agent", ToolClass::Spawn),
    ("message_agent", ToolClass::Spawn),
];

/// What a tool can do; `None` where no tool has that name.
#[must_use]
pub fn tool_class(name: &str) -> Option<ToolClass> {
    TOOLS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, class)| *class)
}

/// The names of the tools of some classes, in the order of the list.
#[must_use]
pub fn tools_of(classes: &[ToolClass]) -> Vec<String> {
    TOOLS
        .iter()
        .filter(|(_, class)| classes.contains(class))
        .map(|(name, _)| (*name).to_owned())
        .collect()
}
