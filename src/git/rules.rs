//! Attribute and ignore rules, as git itself reads them.
//!
//! Owns two questions: which tracked files of the person's working tree git
//! would convert, and which of some paths a set of ignore rules leaves out.
//! The second is asked in a directory of ours that holds nothing but the
//! baseline's ignore files, never in one that an agent wrote.

use std::path::Path;

use super::{Error, Repository};

impl Repository {
    /// Whether a filter or another encoding applies to each path, in the order
    /// given.
    ///
    /// # Errors
    /// Git could not be run or answers in an unknown form.
    pub fn filtered(&self, index: &Path, paths: &[&[u8]]) -> Result<Vec<bool>, Error> {
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path);
            input.push(0);
        }
        let output = self
            .on_index(index)
            .args(["check-attr", "-z", "--stdin"])
            .args(["filter", "working-tree-encoding"])
            .input(input)
            .output()?;
        // Triples of path, attribute and value, two for each path.
        let fields: Vec<&[u8]> = output.split(|b| *b == 0).collect();
        let found: Vec<bool> = fields
            .chunks_exact(6)
            .map(|answer| {
                [answer[2], answer[5]]
                    .iter()
                    .any(|value| !matches!(*value, b"unspecified" | b"unset"))
            })
            .collect();
        if found.len() != paths.len() {
            return Err(Error::Malformed {
                what: "the answer of `git check-attr`".to_owned(),
            });
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
