//! The words of the program: plain data and its invariants.
//!
//! Owns every type that more than one room speaks of: ids, paths, requests,
//! contracts, changes, conflicts, events, the record. No file, process,
//! repository or clock of the machine is touched here, and nothing in here
//! decides policy. Every room above may use it; it uses no other room.
//!
//! To add a word: one file named for it, one `pub use` below. A type that
//! could be wrong is parsed at the edge into one that cannot.

mod brief;
mod changes;
mod clock;
mod conflict;
mod contract;
mod event;
mod exit;
mod ids;
mod label;
mod ledger;
mod oid;
mod path;
mod record;
mod refusal;
mod request;
mod setup;
mod state;
mod view;

pub use brief::Brief;
pub use changes::{Change, ChangeKind, ChangeSet, Ignored};
pub use clock::{Clock, Deadline, FixedClock, SystemClock, is_within};
pub use conflict::{
    Conflict, ConflictKind, HeldFor, Integration, IntegrationStatus, Warning, WarningKind,
};
pub use contract::{
    Approve, Budget, ContextMode, Contract, FailurePolicy, ModelChoice, NetworkAccess,
    ResourceLimits, Tainted,
};
pub use event::{Event, EventKind};
pub use exit::ExitCode;
pub use ids::{AgentId, IdError, RunId};
pub use label::Label;
pub use ledger::{AgentLedger, RunLedger};
pub use oid::{ObjectId, OidError, TreeMode};
pub use path::{PathError, PathText, RepoPath};
pub use record::{
    AgentRecord, BaseRecord, CleanupReport, Denial, EnforcementReport, ExitStatus, HistoryRecord,
    HistoryTip, KeptRecord, LeftOver, ResultRecord, RunRecord, Times,
};
pub use refusal::{Gate, Refusal};
pub use request::{
    Base, EnvEntry, Integrate, Land, LaunchLimits, OnConflict, Order, RunRequest, StdinMode,
    TaskRequest, WorkspaceChoice,
};
pub use setup::{Setup, SetupAuthor, SetupRecord};
pub use state::{AgentState, Outcome};
pub use view::{View, ViewAccess, ViewMode, ViewMount, ViewSource};
