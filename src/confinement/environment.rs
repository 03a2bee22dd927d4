//! The whole environment of an agent.
//!
//! Owns the allow-list. Nothing is inherited but the few names below; what
//! the agent is told about itself only informs, and what the person asks for
//! by name is added as asked. A secret reaches an agent no other way.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::input::{Host, Input};
use super::toolchains::{PRIVATE, TOOLCHAINS};

/// Names whose values are the launcher's own.
pub const INHERITED: [&str; 7] = [
    "LANG",
    "LANGUAGE",
    "TERM",
    "TZ",
    "USER",
    "LOGNAME",
    "COLORTERM",
];

/// Every name that starts with this is inherited too.
const INHERITED_PREFIX: &str = "LC_";

/// A `PATH` for launchers that have none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whether a name must never be inherited, however the lists above change:
/// credentials, loaders, start-up files and sockets of the host.
#[must_use]
pub fn is_never_inherited(name: &str) -> bool {
    const PREFIXES: [&str; 7] = [
        "LD_",
        "DBUS_",
        "GIT_",
        "SSH_",
        "AWS_",
        "DYLD_",
        "COFFERDAM_",
    ];
    const PARTS: [&str; 6] = ["TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL", "SOCK"];
    const NAMES: [&str; 8] = [
        "BASH_ENV",
        "ENV",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "PERL5OPT",
        "RUBYOPT",
        "DISPLAY",
        "WAYLAND_DISPLAY",
    ];
    let upper = name.to_ascii_uppercase();
    PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || PARTS.iter().any(|part| upper.contains(part))
        || NAMES.contains(&upper.as_str())
}

/// The environment, sorted by name.
///
/// `tmp` is the path at which the agent sees its private temporary directory.
pub(super) fn environment(input: &Input<'_>, tmp: &Path) -> Vec<(OsString, OsString)> {
    let mut variables: BTreeMap<OsString, OsString> = inherited(&input.host).collect();
    let mut set = |name: &str, value: &OsStr| {
        variables.insert(name.into(), value.to_owned());
    };
    set("PATH", &path(&input.host));
    let home = &input.view.home;
    set("HOME", home.as_os_str());
    set("TMPDIR", tmp.as_os_str());
    set("XDG_CACHE_HOME", home.join(".cache").as_os_str());
    set("XDG_CONFIG_HOME", home.join(".config").as_os_str());
    set("XDG_DATA_HOME", home.join(".local/share").as_os_str());
    set("XDG_STATE_HOME", home.join(".local/state").as_os_str());
    set("XDG_RUNTIME_DIR", tmp.join("runtime").as_os_str());
    for (name, directory) in PRIVATE {
        set(name, home.join(directory).as_os_str());
    }
    if let Some(options) = maven_options(home) {
        set("MAVEN_OPTS", &options);
    }
    for toolchain in TOOLCHAINS {
        let directory = toolchain.root(input.host.home, input.host.variables);
        if let Some(variable) = toolchain.variable.filter(|_| input.host.exists(&directory)) {
            set(variable, directory.as_os_str());
        }
    }
    let agent = &input.agent;
    set("PORT", agent.port.to_string().as_ref());
    set("COFFERDAM_RUN", agent.run.as_str().as_ref());
    set("COFFERDAM_AGENT", agent.name.as_ref());
    set("COFFERDAM_AGENT_ID", agent.agent.as_str().as_ref());
    set("COFFERDAM_ROLE", input.contract.role.as_ref());
    set("COFFERDAM_DEPTH", agent.depth.to_string().as_ref());
    set("COFFERDAM_BRIEF", agent.brief.as_os_str());
    set("COFFERDAM_DENIALS", agent.denials.as_os_str());
    set("COFFERDAM_REPO", input.view.root.as_os_str());
    if let Some(deadline) = agent.deadline {
        let instant = deadline.instant().to_string();
        set("COFFERDAM_DEADLINE", instant.as_ref());
    }
    for entry in input.env {
        set(&entry.name, &entry.value);
    }
    variables.into_iter().collect()
}

/// What makes Maven look into the private home: it asks Java for the home
/// directory, and Java asks the system. Its start script splits the value at
/// blanks, so there is none for a home that has one in its name.
fn maven_options(home: &Path) -> Option<OsString> {
    let repository = home.join(".m2/repository");
    let blank = |byte: &u8| byte.is_ascii_whitespace();
    if repository.as_os_str().as_bytes().iter().any(blank) {
        return None;
    }
    let mut options = OsString::from("-Dmaven.repo.local=");
    options.push(&repository);
    Some(options)
}

fn inherited<'a>(host: &'a Host<'_>) -> impl Iterator<Item = (OsString, OsString)> + 'a {
    host.variables
        .iter()
        .filter(|(name, _)| {
            name.to_str().is_some_and(|name| {
                let listed = INHERITED.contains(&name) || name.starts_with(INHERITED_PREFIX);
                listed && !is_never_inherited(name)
            })
        })
        .map(|(name, value)| (name.clone(), value.clone()))
}

/// The launcher's `PATH` without entries that depend on the directory, and
/// the program's own directory last.
fn path(host: &Host<'_>) -> OsString {
    let given = host.variables.get(OsStr::new("PATH"));
    let given = given.map_or(OsStr::new(DEFAULT_PATH), OsString::as_os_str);
    let mut directories: Vec<_> = std::env::split_paths(given)
        .filter(|directory| directory.is_absolute())
        .collect();
    if let Some(own) = host.own_exe.parent()
        && !directories.iter().any(|directory| directory == own)
    {
        directories.push(own.to_owned());
    }
    // A directory whose name holds a colon cannot be in a `PATH`; one that
    // came out of it has none, so only our own can fail.
    std::env::join_paths(&directories).unwrap_or_else(|_| given.to_owned())
}
