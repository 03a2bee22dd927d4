//! The only way to a repository.
//!
//! Owns objects, refs, worktree registration and the merge. It never
//! discovers a repository from a directory that an agent could write, never
//! runs a hook, filter, textconv or external diff, and decides nothing.
//!
//! - `command`: the git program, its version and environment
//! - `repository`: where one repository's directories are; HEAD
//! - `format`: which hash names objects
//! - `objects`, `trees`, `levels`, `diff`: blobs, commits, trees and what differs
//! - `large`: blobs as files, in bounded memory
//! - `whole`: whether what a ref pins is all there
//! - `refs`, `registration`: what the repository is told of us
//! - `status`, `rules`: what git says of the person's working tree, attributes and ignore rules
//! - `index_scan`, `attributes`: their files, where asking git would cost more than the answer is worth
//! - `adopt`: commits that somebody else wrote
//! - `merge`: the three-way merge of trees; `merge_answer` reads its answer
//!
//! To add an operation: a file named for it, on [`Git::at`] with an explicit
//! git directory, or on `git2` opened without discovery.

mod adopt;
mod attributes;
mod command;
mod diff;
mod error;
mod format;
mod index_file;
mod index_scan;
mod large;
mod levels;
mod merge;
mod merge_answer;
mod objects;
mod refs;
mod registration;
mod repository;
mod rules;
mod status;
#[cfg(test)]
mod tests;
mod trees;
mod whole;

pub use adopt::Quarantine;
pub use attributes::FilterRules;
pub use command::{Call, Configuration, Git, OLDEST, Version};
pub use diff::{Renames, TreeDifference};
pub use error::{Error, is_disk};
pub use format::ObjectFormat;
pub use index_file::{IndexFile, IndexFileRow, IndexRow, IndexStat};
pub use index_scan::{IndexFlag, IndexItem, IndexKey, read_index};
pub use levels::{Descent, Level, Node};
pub use merge::{Favour, MergeSpace, OURS, Style, THEIRS, TreeMerge, Trees, Versions};
pub use merge_answer::{Message, Stage};
pub use objects::Objects;
pub use registration::{RegisteredHead, Registration};
pub use repository::{Repository, own_dir};
pub use status::{NamedPath, Status, StatusEntry, SubmoduleState};
#[cfg(fuzzing)]
pub use trees::try_tree;
pub use trees::{TreeEdit, TreeEntry};
