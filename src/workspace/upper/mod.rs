//! Finding by an overlay's upper directory alone.
//!
//! Owns reading what the kernel wrote there: files copied up or made,
//! whiteouts, opaque directories, and directories that were renamed and
//! through which another one of the layers below shows. The upper directory
//! and the tree object are gone through side by side, so the cost is what
//! changed and never the size of the repository. A file that is a copy
//! without its bytes is an error: it would read as zeros.
//!
//! ```text
//! upper/x        base tree at x     what shows through at x
//! ──────────     ──────────────     ───────────────────────────────────
//! (whiteout)     removed
//! file           before, or removed
//! directory      goes on            the same, nothing, or another (moved)
//! ```
//!
//! - `walk`: side by side through the agent's own directory and the tree
//! - `moved`: what shows through a directory that was renamed
//! - `files`: names, marks and bytes of the agent's own directory

mod files;
mod moved;
mod walk;

pub(super) use walk::find;
