//! Attribute files, as far as one question goes.
//!
//! Owns finding the paths to which a filter or another encoding *may* apply:
//! rules that mention neither are passed over, and of the others only names
//! and directories are understood. The answer is never too small, often too
//! large, and git itself decides on what is left. Reads no file.

/// Rules that may ask for a filter or another encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterRules(Vec<Rule>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// Empty, or with a slash at its end.
    beneath: Vec<u8>,
    name: Name,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Any,
    Is(Vec<u8>),
    EndsWith(Vec<u8>),
}

impl FilterRules {
    /// Takes in an attributes file; `directory` is where it lies, empty for
    /// the top and for the files that lie outside the tree.
    pub fn add(&mut self, directory: &[u8], text: &[u8]) {
        // Git passes over the mark that some editors put first.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        for line in text.split(|b| *b == b'\n') {
            let line = line.trim_ascii();
            if !line.starts_with(b"#") && mentions_conversion(line) {
                self.0.push(rule(directory, line));
            }
        }
    }

    /// Takes in a file that could not be understood: it may concern anything.
    pub fn add_unknown(&mut self) {
        self.0.push(Rule {
            beneath: Vec::new(),
            name: Name::Any,
        });
    }

    /// Whether there is no such rule at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them may apply to a path.
    #[must_use]
    pub fn may_concern(&self, path: &[u8]) -> bool {
        self.0.iter().any(|rule| rule.may_concern(path))
    }
}

impl Rule {
    fn may_concern(&self, path: &[u8]) -> bool {
        // Names are compared without case where the file system is so: more
        // than apply is fine.
        let base = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
        let named = match &self.name {
            Name::Any => true,
            Name::Is(name) => base.eq_ignore_ascii_case(name),
            Name::EndsWith(end) => base
                .len()
                .checked_sub(end.len())
                .is_some_and(|at| base[at..].eq_ignore_ascii_case(end)),
        };
        named
            && path
                .get(..self.beneath.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(&self.beneath))
    }
}

fn mentions_conversion(line: &[u8]) -> bool {
    let has = |word: &[u8]| line.windows(word.len()).any(|window| window == word);
    has(b"filter") || has(b"working-tree-encoding")
}

fn rule(directory: &[u8], line: &[u8]) -> Rule {
    let pattern = line
        .split(u8::is_ascii_whitespace)
        .next()
        .unwrap_or_default();
    // A macro may be used under its own name anywhere, and a quoted pattern
    // is not worth reading.
    if line.starts_with(b"[attr]") || pattern.starts_with(b"\"") {
        return Rule {
            beneath: Vec::new(),
            name: Name::Any,
        };
    }
    let is_plain = |text: &[u8]| !text.iter().any(|b| b"*?[\\".contains(b));
    let mut beneath = directory.to_vec();
    if !beneath.is_empty() {
        beneath.push(b'/');
    }
    let mut parts = pattern.split(|b| *b == b'/');
    let last = parts.next_back().unwrap_or_default();
    for part in parts.filter(|part| !part.is_empty()) {
        if !is_plain(part) {
            break;
        }
        beneath.extend_from_slice(part);
        beneath.push(b'/');
    }
    let name = match last {
        b"" => Name::Any,
        [b'*', end @ ..] if is_plain(end) => Name::EndsWith(end.to_vec()),
        name if is_plain(name) => Name::Is(name.to_vec()),
        _ => Name::Any,
    };
    Rule { beneath, name }
}

#[cfg(test)]
mod tests {
    use super::FilterRules;

    #[test]
    fn finds_no_fewer_paths_than_git_would() {
        let mut rules = FilterRules::default();
        rules.add(
            b"",
            b"* text=auto\n# *.c filter=x\n*.png filter=lfs -text\n",
        );
        rules.add(
            b"data",
            b"/in/**/*.bin filter=lfs\nwide working-tree-encoding=UTF-16\n",
        );
        for (path, expected) in [
            (&b"a.png"[..], true),
            (b"deep/er/A.PNG", true),
            (b"a.c", false),
            (b"data/in/x/y.bin", true),
            (b"data/y.bin", false),
            (b"in/y.bin", false),
            (b"data/deep/wide", true),
            (b"wide", false),
            (b"png", false),
        ] {
            assert_eq!(rules.may_concern(path), expected, "{path:?}");
        }
        for all in [
            &b"[attr]big filter=lfs"[..],
            b"\"a b\" filter=x",
            b"a[b]c filter=x",
            b"\xef\xbb\xbf[attr]big filter=lfs",
        ] {
            let mut rules = FilterRules::default();
            rules.add(b"", all);
            assert!(rules.may_concern(b"any/thing"));
        }
        let mut none = FilterRules::default();
        none.add(b"", b"* text=auto eol=lf\n*.id ident\n");
        assert!(none.is_empty());
    }
}
