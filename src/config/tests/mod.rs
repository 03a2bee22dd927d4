//! Tests of what people write, by kind of file.
//!
//! Owns the few values that several of them start from. Each test hands text
//! in and looks at the whole value or the whole refusal that comes out.

mod assemble;
mod authority;
mod load;
mod plan;
mod roles;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Surroundings, builtin};
use crate::model::Contract;

fn surroundings() -> Surroundings {
    Surroundings {
        cwd: PathBuf::from("/srv/repo"),
        now: "2026-01-01T00:00:00Z"
            .parse()
            .expect("because it is an instant"),
        variables: BTreeMap::from([("TOKEN".into(), "secret".into())]),
    }
}

fn plan_file() -> &'static Path {
    Path::new("/plans/PLAN.toml")
}

fn roles_file(text: &str) -> Option<(PathBuf, String)> {
    Some((PathBuf::from("roles.toml"), text.to_owned()))
}

fn writer() -> Contract {
    builtin::writer()
}
