//! The rule of the floors: a room uses lower floors only.
//!
//! Owns the table's format, which stands in the opening doc of `src/lib.rs`:
//! one line a room, `//! | 1 policy | `name` | `other`, `another` | |`; the
//! number is the floor, the third cell names the rooms of the same floor that
//! it may use. `src/lib.rs` and `src/main.rs` are in no room.

use std::collections::BTreeMap;

use crate::source::{Finding, Source, is_word};

#[derive(Debug, PartialEq, Eq)]
struct Room {
    floor: u8,
    beside: Vec<String>,
}

/// The rooms and what each may use.
#[derive(Debug)]
pub(crate) struct Table(BTreeMap<String, Room>);

impl Table {
    /// Reads the table from the opening doc of a file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut rooms = BTreeMap::new();
        let rows = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .filter_map(|line| line.strip_prefix("//! |"));
        for row in rows {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let digits: String = cells[0].chars().take_while(char::is_ascii_digit).collect();
            let Ok(floor) = digits.parse() else {
                continue;
            };
            let [name] = &names(cells.get(1).copied().unwrap_or_default())[..] else {
                return Err(format!("name one room in backticks: `{row}`"));
            };
            let beside = names(cells.get(2).copied().unwrap_or_default());
            if rooms.insert(name.clone(), Room { floor, beside }).is_some() {
                return Err(format!("`{name}` stands twice in the table"));
            }
        }
        if rooms.is_empty() {
            return Err("no table of floors".to_owned());
        }
        let table = Self(rooms);
        table.check_itself()?;
        Ok(table)
    }

    /// A permission for another floor would be either needless or a hole.
    fn check_itself(&self) -> Result<(), String> {
        for (name, room) in &self.0 {
            for other in &room.beside {
                if self.0.get(other).map(|other| other.floor) != Some(room.floor) {
                    return Err(format!("`{name}` and `{other}` are not on one floor"));
                }
            }
        }
        Ok(())
    }

    /// Every import of `file` that its room may not make.
    pub(crate) fn check(&self, file: &Source) -> Vec<Finding> {
        let Some(name) = room_of(&file.path) else {
            return Vec::new();
        };
        let Some(room) = self.0.get(name) else {
            return vec![Finding::new(
                &file.path,
                1,
                format!("`{name}` has no line in the table of floors in src/lib.rs"),
            )];
        };
        let mut findings = Vec::new();
        for (used, line) in imports(file) {
            let Some(other) = self.0.get(&used) else {
                continue;
            };
            let may = used == name
                || other.floor < room.floor
                || (other.floor == room.floor && room.beside.contains(&used));
            if !may {
                let (own, its) = (room.floor, other.floor);
                findings.push(Finding::new(
                    &file.path,
                    line,
                    format!("`{name}` (floor {own}) may not use `{used}` (floor {its})"),
                ));
            }
        }
        findings.extend(climbs_out(file));
        findings
    }
}

/// The words in backticks.
fn names(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    match inside.split_once('/') {
        Some((room, _)) => Some(room),
        None => match inside.strip_suffix(".rs")? {
            "lib" | "main" => None,
            room => Some(room),
        },
    }
}

/// Each room named after `crate::`, with the line on which it is named.
fn imports(file: &Source) -> Vec<(String, usize)> {
    let code = &file.code;
    let mut found = Vec::new();
    for (at, start) in code.match_indices("crate::") {
        if at > 0 && is_word(code.as_bytes()[at - 1]) {
            continue;
        }
        let after = at + start.len();
        if code[after..].starts_with('{') {
            for (name, at) in group(code, after) {
                found.push((name, file.line_at(at)));
            }
        } else {
            found.push((word_at(code, after), file.line_at(after)));
        }
    }
    found
}

fn word_at(code: &str, at: usize) -> String {
    code[at..]
        .bytes()
        .take_while(|byte| is_word(*byte))
        .map(char::from)
        .collect()
}

/// The first word of each member of the group that opens at `open`.
fn group(code: &str, open: usize) -> Vec<(String, usize)> {
    let mut members = Vec::new();
    let mut depth = 0;
    let mut expects = false;
    for (offset, byte) in code[open..].bytes().enumerate() {
        let at = open + offset;
        match byte {
            b'{' => {
                depth += 1;
                expects = depth == 1;
            }
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            b',' => expects = depth == 1,
            _ if expects && is_word(byte) => {
                members.push((word_at(code, at), at));
                expects = false;
            }
            _ => {}
        }
    }
    members
}

/// Paths of `super::` that reach the crate's root, past the table.
fn climbs_out(file: &Source) -> Vec<Finding> {
    let inside = file.path.trim_start_matches("src/").trim_end_matches(".rs");
    let depth = inside.trim_end_matches("/mod").split('/').count();
    let tests_start = file.code.find("mod tests {").unwrap_or(usize::MAX);
    let mut findings = Vec::new();
    let mut at = 0;
    while let Some(found) = file.code[at..].find("super::") {
        let start = at + found;
        let mut end = start;
        let mut climbs = 0;
        while file.code[end..].starts_with("super::") {
            climbs += 1;
            end += "super::".len();
        }
        if climbs >= depth + usize::from(start > tests_start) {
            findings.push(Finding::new(
                &file.path,
                file.line_at(start),
                "name another room by `crate::`, where the table of floors is read",
            ));
        }
        at = end;
    }
    findings
}

#[cfg(test)]
mod tried {
    use super::*;

    const TABLE: &str = "//! Words.\n//!\n//! | floor | room | beside |\n//! | --- | --- | --- |\n\
        //! | 0 words | `model` | |\n//! | 1 policy | `budget` | |\n\
        //! | 1 policy | `admission` | `budget` |\n//! | 2 doors | `git` | |\n";

    fn table() -> Table {
        Table::parse(TABLE).expect("because the table is well-formed")
    }

    fn wrong_lines(path: &str, text: &str) -> Vec<String> {
        table()
            .check(&Source::new(path, text))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn lower_floors_and_named_neighbours_may_be_used() {
        let text = "use crate::model::Id;\nuse crate::{budget::Ledger, model::{Id, git}};\n\
                    // crate::git\nlet a = \"crate::git\";\nuse crate::admission::Gate;\n";
        assert_eq!(wrong_lines("src/admission/gate.rs", text), [""; 0]);
        assert_eq!(wrong_lines("src/lib.rs", "use crate::git::Git;\n"), [""; 0]);
    }

    #[test]
    fn higher_floors_and_unnamed_neighbours_are_found() {
        assert_eq!(
            wrong_lines(
                "src/admission/gate.rs",
                "use crate::model::Id;\nuse crate::{\n    budget::Ledger,\n    git::{Git, Call},\n};\n"
            ),
            ["src/admission/gate.rs:4: `admission` (floor 1) may not use `git` (floor 2)"]
        );
        assert_eq!(
            wrong_lines(
                "src/budget/mod.rs",
                "fn a() { crate::admission::admit() }\n"
            ),
            ["src/budget/mod.rs:1: `budget` (floor 1) may not use `admission` (floor 1)"]
        );
    }

    #[test]
    fn a_room_without_a_line_is_found() {
        assert_eq!(
            wrong_lines("src/attic/mod.rs", ""),
            ["src/attic/mod.rs:1: `attic` has no line in the table of floors in src/lib.rs"]
        );
    }

    #[test]
    fn climbing_past_the_table_is_found() {
        assert_eq!(
            wrong_lines("src/budget/ledger.rs", "use super::super::git::Git;\n").len(),
            1
        );
        assert_eq!(
            wrong_lines("src/budget/mod.rs", "use super::git::Git;\n").len(),
            1
        );
        let inside = "use super::Error;\nmod tests {\n    use super::super::Error;\n}\n";
        assert_eq!(wrong_lines("src/budget/ledger.rs", inside), [""; 0]);
    }

    #[test]
    fn a_table_that_says_nothing_or_twice_or_too_much_is_refused() {
        for bad in [
            "//! Words.\n",
            "//! | 0 | `a` | |\n//! | 1 | `a` | |\n",
            "//! | 0 | `a` | |\n//! | 1 | `b` | `a` |\n",
            "//! | 0 | a | |\n",
        ] {
            assert!(Table::parse(bad).is_err(), "{bad}");
        }
    }
}
