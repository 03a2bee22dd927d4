//! The only way to a repository.
//!
//! Owns objects, refs, worktree registration and the merge. It never
//! discovers a repository from a directory that an agent could write, never
//! runs a hook, filter, textconv or external diff, and decides nothing.
//!
//! - `command`: the git program, its version and environment
//! - `merge`: the three-way merge of trees; `merge_answer` reads its answer
//!
//! To add an operation: a file named for it, on [`Git::at`] with an explicit
//! git directory, or on `git2` opened without discovery.

mod command;
mod error;
mod merge;
mod merge_answer;

pub use command::{Call, Configuration, Git, OLDEST, Version};
pub use error::Error;
pub use merge::{
    Favour, MergeSpace, OURS, ObjectFormat, Style, THEIRS, TreeMerge, Trees, Versions,
};
pub use merge_answer::{Message, Stage};
