//! Role files: what is accepted, what is refused and who may define what.

use super::super::{Ability, ConfigError, RoleSet, ToolClass, tool_class};
use super::roles_file;
use crate::model::{
    Approve, Budget, ContextMode, FailurePolicy, Label, ModelChoice, NetworkAccess, ResourceLimits,
    Tainted,
};

const DOCUMENTED: &str = r#"
[role.docs_writer]
context      = "brief"
instructions = ["policy.core"]
tools        = ["read_file", "write_file", "edit_file", "apply_patch", "list_dir", "glob", "grep", "run_command"]
write        = ["docs/**"]
read         = ["**"]
execute      = true
network      = "none"
credentials  = []
spawn        = ["reader"]
budget       = { turns = 30, tokens = 200_000, wall = "20m" }
limits       = { memory = "4GiB", processes = 256, disk = "10GiB", output = "1MiB" }
trust_out    = "untrusted"
on_failure   = "partial"
approve      = "none"
when_tainted = { deny = ["run_command"], integrate = "hold" }
model        = { name = "m", max_output_tokens = 4096, temperature = 0.0 }

[instruction."policy.core"]
text = "be kind"

[[assert]]
role = "reader"
cannot = ["write", "network", "spawn"]
"#;

fn repository(text: &str) -> Result<RoleSet, ConfigError> {
    RoleSet::load(roles_file(text), None)
}

fn person(text: &str) -> Result<RoleSet, ConfigError> {
    RoleSet::load(None, roles_file(text))
}

#[test]
fn the_documented_role_is_read_key_by_key_and_a_repository_may_define_it() {
    let set = repository(DOCUMENTED).expect("because it is within the writer");
    let role = set.require("docs_writer").expect("because it is defined");
    assert_eq!(role.write, ["docs/**"]);
    assert_eq!(role.read, ["**"]);
    assert_eq!(role.tools.len(), 8);
    assert_eq!(role.spawn, ["reader"]);
    assert!(role.execute && role.is_writer());
    assert_eq!(
        role.budget,
        Budget {
            turns: Some(30),
            tokens: Some(200_000),
            usd: None,
            wall: Some("20m".into())
        }
    );
    assert_eq!(
        role.limits,
        ResourceLimits {
            memory_bytes: Some(4 << 30),
            processes: Some(256),
            disk_bytes: Some(10 << 30),
            output_bytes: Some(1 << 20)
        }
    );
    assert_eq!(
        role.when_tainted,
        Tainted {
            deny: vec!["run_command".into()],
            integrate: Some("hold".into())
        }
    );
    assert_eq!(
        role.model,
        Some(ModelChoice {
            name: "m".into(),
            max_output_tokens: Some(4096),
            temperature: Some(0.0)
        })
    );
    assert_eq!(
        (role.context, role.network, role.trust_out),
        (ContextMode::Brief, NetworkAccess::None, Label::Untrusted)
    );
    assert_eq!(
        (role.on_failure, role.approve),
        (FailurePolicy::Partial, Approve::None)
    );
    assert_eq!(set.instruction("policy.core"), Some("be kind"));
    assert!(set.broken_assertions().is_empty());
}

#[test]
fn a_role_that_says_nothing_allows_nothing() {
    let set = repository("[role.idle]").expect("because every list may be missing");
    let role = set.require("idle").expect("because it is defined");
    assert!(role.tools.is_empty() && role.write.is_empty() && role.read.is_empty());
    assert!(!role.execute && role.spawn.is_empty());
    assert_eq!(role.network, NetworkAccess::None);
}

#[test]
fn the_built_in_roles_are_those_of_the_contract() {
    let set = RoleSet::built_in();
    let role = |name| set.require(name).expect("because it is built in");
    let writer = role("writer");
    assert_eq!(writer.tools.len(), super::super::TOOLS.len());
    assert_eq!(writer.write, ["**"]);
    assert_eq!(writer.network, NetworkAccess::None);
    assert_eq!(writer.spawn, ["writer", "reader", "fixer"]);
    assert_eq!(writer.budget, Budget::default());
    let reader = role("reader");
    assert!(!reader.is_writer() && reader.spawn.is_empty());
    assert!(
        reader
            .tools
            .iter()
            .all(|tool| { matches!(tool_class(tool), Some(ToolClass::Read | ToolClass::Report)) })
    );
    for ability in [Ability::Write, Ability::Network, Ability::Spawn] {
        assert!(!ability.is_granted_by(reader), "{ability:?}");
    }
    let fixer = role("fixer");
    assert!(fixer.needs_verify && fixer.spawn.is_empty());
    assert_eq!(fixer.write, writer.write);
}

#[test]
fn an_unknown_name_lists_the_roles_that_there_are() {
    let set = RoleSet::built_in();
    let error = set
        .require("wizard")
        .expect_err("because there is no such role");
    assert_eq!(
        (error.to_string().as_str(), error.hint()),
        (
            "use the role `wizard`, which is not defined",
            Some("known roles are `fixer`, `reader`, `writer`")
        )
    );
}

#[test]
fn what_is_wrong_in_a_role_is_refused_with_line_and_key() {
    for (body, line, key) in [
        ("tols = []", 2, "role.x.tols"),
        ("tools = [\"read_fiel\"]", 2, "role.x.tools"),
        ("tools = \"read_file\"", 2, "role.x.tools"),
        ("tools = [1]", 2, "role.x.tools"),
        ("execute = \"yes\"", 2, "role.x.execute"),
        ("network = \"wide\"", 2, "role.x.network"),
        ("write = [\"/etc/**\"]", 2, "role.x.write"),
        ("\nbudget = { turns = 0 }", 3, "role.x.budget.turns"),
        ("budget = { turns = \"3\" }", 2, "role.x.budget.turns"),
        ("budget = { tokens = 1.5 }", 2, "role.x.budget.tokens"),
        ("budget = { wall = \"0m\" }", 2, "role.x.budget.wall"),
        ("budget = { usd = -1 }", 2, "role.x.budget.usd"),
        ("budget = { minutes = 3 }", 2, "role.x.budget.minutes"),
        ("limits = { memory = \"4G\" }", 2, "role.x.limits.memory"),
        ("limits = { processes = 0 }", 2, "role.x.limits.processes"),
        ("trust_out = \"trusted\"", 2, "role.x.trust_out"),
        ("on_failure = \"retry\"", 2, "role.x.on_failure"),
        ("approve = \"robot\"", 2, "role.x.approve"),
        (
            "when_tainted = { deny = [\"fly\"] }",
            2,
            "role.x.when_tainted.deny",
        ),
        ("model = { temperature = 1.0 }", 2, "role.x.model.name"),
        (
            "model = { name = \"m\", temperature = 9 }",
            2,
            "role.x.model.temperature",
        ),
        ("spawn = [\"nobody\"]", 1, "role.x.spawn"),
        ("instructions = [\"none\"]", 1, "role.x.instructions"),
        ("credentials = [\"none\"]", 1, "role.x.credentials"),
        ("\n[roles.y]", 3, "roles"),
        ("[[assert]]\nrole = \"x\"", 2, "assert[0].cannot"),
        (
            "[[assert]]\nrole = \"ghost\"\ncannot = [\"write\"]",
            3,
            "assert[0].role",
        ),
        (
            "[[assert]]\nrole = \"x\"\ncannot = [\"fly\"]",
            4,
            "assert[0].cannot",
        ),
        (
            "[[assert]]\nrole = \"x\"\ncannot = []",
            4,
            "assert[0].cannot",
        ),
        ("[credential.c]", 2, "credential.c.mint"),
        ("[role.\"a b\"]", 2, "role.\"a b\""),
    ] {
        let text = format!("[role.x]\n{body}\n");
        let error = person(&text).expect_err("because it is wrong");
        assert_eq!(
            (error.line(), error.key(), error.exit_code().number()),
            (Some(line), Some(key), 2),
            "{body}: {error}"
        );
    }
}

#[test]
fn a_file_that_does_not_parse_names_the_line() {
    let error = person("[role.x]\ntools = [\n").expect_err("because the list never ends");
    assert!(error.line() >= Some(2), "{error}");
    let twice = person("[role.x]\n[role.x]\n").expect_err("because the table is there twice");
    assert_eq!(twice.line(), Some(2));
}

#[test]
fn a_repository_defines_roles_within_the_writer_only() {
    for (body, component) in [
        ("network = \"open\"", "network"),
        ("network = \"gateway\"", "network"),
        ("context = \"fork\"", "context"),
    ] {
        let text = format!("[role.x]\n{body}\n");
        let error = repository(&text).expect_err("because it is wider");
        let key = format!("role.x.{component}");
        assert_eq!(error.key(), Some(key.as_str()));
        assert!(person(&text).is_ok(), "{body}");
    }
    let minted = "[role.x]\ncredentials = [\"c\"]\n[credential.c]\nmint = \"sh evil.sh\"\n";
    assert!(repository(minted).is_err());
    assert!(person(minted).is_ok());
    assert!(repository("[credential.c]\nmint = \"sh evil.sh\"\n").is_err());
    assert!(repository("[role.a]\nspawn = [\"b\"]\n[role.b]\nspawn = [\"a\"]\n").is_ok());
}

#[test]
fn built_in_names_are_never_redefined() {
    for name in ["writer", "reader", "fixer"] {
        let text = format!("\n[role.{name}]\ntools = []\n");
        for set in [repository(&text), person(&text)] {
            let error = set.expect_err("because the name is built in");
            assert_eq!(error.line(), Some(2), "{error}");
        }
    }
}

#[test]
fn a_persons_file_wins_over_the_repositorys() {
    let set = RoleSet::load(
        roles_file("[role.x]\nexecute = true\n"),
        roles_file("[role.x]\nnetwork = \"open\"\n"),
    )
    .expect("because both are right");
    let role = set.require("x").expect("because it is defined");
    assert_eq!((role.network, role.execute), (NetworkAccess::Open, false));
}

#[test]
fn a_broken_assertion_says_what_the_role_can_do() {
    let set =
        repository("[[assert]]\nrole = \"writer\"\ncannot = [\"write\", \"network\", \"spawn\"]\n")
            .expect("because the file is right");
    let broken = set.broken_assertions();
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0].1, ["write", "spawn"]);
    assert_eq!(broken[0].0.place.line, 2);
}
