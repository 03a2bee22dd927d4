//! Attribute and ignore rules, as git itself reads them.
//!
//! Owns two questions: which tracked files of the person's working tree git
//! would convert, and which of some paths a set of ignore rules leaves out.
//! The second is asked in a directory of ours that holds nothing but the
//! baseline's ignore files, never in one that an agent wrote.

use std::path::Path;

use super::{Error, Repository};

/// How git would change a file's bytes between disk and object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// Not at all.
    None,
    /// Line endings or an `$Id$`: the length changes where anything does.
    Length,
    /// A filter or another encoding: nothing follows from the length.
    Any,
}

impl Repository {
    /// What the person's attributes ask for, path by path, in the order given.
    ///
    /// # Errors
    /// Git could not be run or answers in an unknown form.
    pub fn conversions(&self, index: &Path, paths: &[&[u8]]) -> Result<Vec<Conversion>, Error> {
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path);
            input.push(0);
        }
        let output = self
            .on_index(index)
            .args(["check-attr", "-z", "--stdin", "-a"])
            .input(input)
            .output()?;
        let mut found = vec![Conversion::None; paths.len()];
        let mut fields = output.split(|b| *b == 0);
        let mut at = 0;
        // Triples of path, attribute and value, in the order of the input;
        // paths with no attribute are left out.
        while let (Some(path), Some(name), Some(value)) =
            (fields.next(), fields.next(), fields.next())
        {
            while at < paths.len() && paths[at] != path {
                at += 1;
            }
            let Some(conversion) = found.get_mut(at) else {
                return Err(Error::Malformed {
                    what: "the answer of `git check-attr`".to_owned(),
                });
            };
            let asked = match name {
                b"filter" | b"working-tree-encoding" if value != b"unset" => Conversion::Any,
                b"text" | b"crlf" | b"eol" | b"ident" if value != b"unset" => Conversion::Length,
                _ => Conversion::None,
            };
            if asked == Conversion::Any || *conversion == Conversion::None {
                *conversion = asked;
            }
        }
        Ok(found)
    }

    /// Whether each path is ignored by the ignore files in `rules`, together
    /// with the repository's own exclude file and the person's, in the order
    /// given. Directories count as such where `rules` holds them.
    ///
    /// # Errors
    /// Git could not be run or answers in an unknown form.
    pub fn ignored(&self, rules: &Path, paths: &[&[u8]]) -> Result<Vec<bool>, Error> {
        let mut input = Vec::new();
        for path in paths {
            // A leading colon would be read as pathspec magic.
            input.extend_from_slice(b"./");
            input.extend_from_slice(path);
            input.push(0);
        }
        let call = self
            .git()
            .at(self.git_dir(), super::Configuration::User)
            .work_tree(rules)
            .args(["check-ignore", "-z", "--stdin", "--no-index", "-v", "-n"])
            .input(input);
        let output = call.run()?;
        // It ends with 1 when nothing is ignored.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(Error::Failed {
                argv: "git check-ignore".to_owned(),
                code: output.status.code(),
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        // Quadruples of source, line, pattern and path; an empty pattern is
        // none, and one that starts with `!` takes the path back.
        let fields: Vec<&[u8]> = output.stdout.split(|b| *b == 0).collect();
        let verdicts: Vec<bool> = fields
            .chunks_exact(4)
            .map(|record| !record[2].is_empty() && !record[2].starts_with(b"!"))
            .collect();
        if verdicts.len() != paths.len() {
            return Err(Error::Malformed {
                what: "the answer of `git check-ignore`".to_owned(),
            });
        }
        Ok(verdicts)
    }
}
