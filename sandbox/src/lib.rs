//! A policy in, a confined child out, and an honest report of what each layer achieved.
//!
//! # Threat model
//!
//! The command is hostile: it, and whatever it starts, tries to change, read or
//! disturb what its policy does not grant, now or after its end. It knows this
//! program. The kernel, the launcher, the policy and other processes of the same
//! user are trusted; so is the machine before the start. Out of scope are bugs
//! of the kernel in calls that stay permitted, side channels of the processor,
//! and what people do with the results. A process outside that hands a
//! descriptor in (over a socket that a rule makes reachable) widens the cage.
//!
//! What is promised is a list of [`Guarantee`]s, each held by at least one layer
//! and by two where the kernel allows it; [`guarantees`] is the table of who
//! holds what, and says what ordinary machines hold. It decides the refusal,
//! the report and the documentation alike. The superuser as launcher gets no
//! other promises than anybody.
//!
//! # How it is known
//!
//! What a layer achieved is a [`Status`] in the [`Enforcement`], and what of the
//! kernel is in force a [`Feature`]; both are set by the code that did the
//! thing. Then, before the command, the finished cage is tried from inside:
//! of what is claimed to be impossible, canaries attempt what can be attempted
//! without harm ([`Enforcement::tried`] lists it), and one that succeeds means
//! that nothing is started. A guarantee that is
//! promised ([`Policy::promised`]) and held by nobody, or a layer that is
//! required and falls short, is a refusal. Landlock is required unless it is
//! waived by name. Tests: `tests/cage/` for what is granted, `tests/escape/` for
//! what is not, with each feature of the kernel taken away in turn.
//!
//! # The order
//!
//! The program starts itself again as a single-threaded stage, because rules
//! cannot be built after a fork in a threaded one. The stage closes all
//! descriptors, leaves the namespaces, builds the view, enters a late user
//! namespace (if privileged), enters the directory, drops privilege, applies
//! Landlock and then the filter, tries to get out, sets the limits, and only
//! then executes the command. A guard outside the PID namespace and a keeper
//! inside live as long as the command and end with the launcher, however that
//! ended.
//!
//! The view: everything is read-only and without set-user-id; then procfs (all
//! of it read-only), devices, pseudo-terminals and shared memory of the cage's
//! own; then the policy's mounts in order. A
//! path with a rule that a private directory would hide is shown again at its
//! own place, and a path with a writable rule that no mount covers is made
//! writable there.
//!
//! Directories that lie beneath a merged one are renamed ([`Directories`]): by
//! the kernel where it trusts what it remembers of them, which needs the
//! superuser; else the keeper is asked about every rename, leaves those of
//! files to the kernel, and has those of directories done by a mover, which is
//! confined as the command is and out of its reach.
//!
//! # What it does not do
//!
//! * Before Landlock 9, a unix socket can be connected to if the view shows
//!   its path: hide such directories with a read-only [`Mount::Tmpfs`].
//! * The kernel binds memory and processes of a whole tree only where this
//!   user may make control groups (as root nearly everywhere; an ordinary user
//!   within a delegated part of the unified hierarchy), and processes also in a
//!   user namespace of an ordinary user's. Elsewhere the first process inside
//!   measures the tree many times a second and ends it: what is used between
//!   two looks, and memory that is reached neither by a mapping nor by a
//!   descriptor, is not held. [`Enforcement::limits`] says which it is.
//! * Room on disk and processor time are always measured so. Where no control
//!   group counts processor time, that of children whose parent ignores their
//!   end (`SIGCHLD`) is not seen once they have ended. A file that was
//!   removed while it is mapped, and directories that the first process cannot
//!   read (in place, without namespaces), are not counted.
//! * The interface of the unified hierarchy for memory and processes is written
//!   from its documentation and was not run on a machine that offers it.
//! * Without a network namespace the filter refuses every socket of the
//!   internet, also to oneself. In one of its own, the loopback leads nowhere.
//! * `RLIMIT_NPROC` does not bind the superuser outside a user namespace; the
//!   group does.
//! * The right to execute is about `execve`: what can be read can be
//!   interpreted, or mapped by a loader that may be executed.
//! * A command can make set-user-id files in its own directory by `openat2`,
//!   whose mode no filter sees, and set-group-id ones by `chmod`, which on
//!   directories is ordinary. Whoever takes its results must drop such bits, and
//!   keep others out of the directory.
//! * Links in the paths of a policy are followed once, by the helper; one that
//!   is put there later is a refusal and changes nothing. A directory that an
//!   earlier command could have replaced must not be given a rule all the same.
//! * In place, without mounts, attributes of the user's other files can be
//!   changed, names be looked up and watched, and the host's processes seen;
//!   [`Enforcement::holes`] says so.
//! * Landlock 8 to 10, kernels other than Linux 6.18, AppArmor's rules and
//!   aarch64 (which compiles) were not run; the table marks what follows from
//!   documentation alone.
//! * The filter denies what is known to be dangerous, and calls that are newer
//!   than itself; it is no list of what is needed. Bugs of the kernel in
//!   permitted calls are out of its reach.
//! * Denials are recorded where the kernel hands them over as facts, which is
//!   the filter's only; [`SOURCES`] is the list. A command can keep its refused
//!   calls out of the record by a filter of its own; they are refused all the same.
//! * A directory that the mover renames goes piece by piece. Others can see a
//!   part of it under either name meanwhile, and a cage that ends meanwhile
//!   leaves it so. Every file in it that lies beneath is copied by the kernel,
//!   and two names for one such file become two files. What the kernel would
//!   rename and the mover cannot look into, or holds more than a million
//!   names, or 256 directories within each other, is left with `EXDEV`; so is
//!   one that is named through a link of procfs (`/proc/self/cwd/…`).
//! * Where the mover renames, it no longer does so once any process inside has
//!   taken on Landlock rules of its own, which the mover has not. Before
//!   Landlock 6 the command can end it. Then all is as for
//!   [`Directories::Copied`].
//! * The death of the launching *thread* ends the command: start commands from
//!   a thread that lives as long as they should.
//!
//! # Example
//!
//! ```no_run
//! use std::path::{Path, PathBuf};
//! use cofferdam_sandbox::*;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     enter_stage_if_asked(); // first of all
//!     let work = PathBuf::from("/home/me/work");
//!     let policy = Policy {
//!         command: Command {
//!             argv: vec!["make".into()],
//!             cwd: work.clone().into(),
//!             env: vec![("PATH".into(), "/usr/bin:/bin".into())],
//!         },
//!         view: View {
//!             mode: ViewMode::Mounted,
//!             mounts: vec![Mount::Tmpfs {
//!                 target: Path::new("/run").into(),
//!                 access: Access::ReadOnly,
//!                 bytes: 0,
//!             }],
//!         },
//!         files: vec![
//!             FileRule { path: work.into(), rights: Rights::ReadWriteExecute },
//!             FileRule { path: Path::new("/usr").into(), rights: Rights::ReadExecute },
//!         ],
//!         network: Network::None,
//!         limits: Limits::default(),
//!         out_of_reach: vec![],
//!         waived: [].into(),
//!         required: [Layer::Landlock, Layer::Mounts, Layer::Namespaces].into(),
//!         promised: Guarantee::ALL.iter().copied().filter(|one| *one != Guarantee::BoundedResources).collect(),
//!     };
//!     let confined = spawn(&policy, Input::Null, &Helper::current())?;
//!     assert_eq!(confined.enforcement().status(Layer::Landlock), Some(&Status::Full));
//!     assert_eq!(confined.wait()?.code, Some(0));
//!     Ok(())
//! }
//! ```
#![deny(unsafe_code, missing_docs)]
#![warn(unreachable_pub, clippy::unwrap_used)]

mod bait;
mod confined;
mod denial;
mod enforcement;
pub mod guarantees;
mod identity;
mod input;
mod layers;
mod limits;
mod policy;
mod probe;
mod procfs;
mod protocol;
mod ready;
mod spawn;
mod stage;
#[expect(
    unsafe_code,
    reason = "system calls that no safe crate offers; each with its reason"
)]
mod sys;

pub use confined::{Confined, Ended, Killer, WaitError};
pub use denial::{Denial, SOURCES, Source};
pub use enforcement::{Enforcement, Proof, Status, Tried, UidMap};
pub use guarantees::{Feature, Guarantee};
pub use identity::Identity;
pub use input::Input;
pub use layers::overlay::Attributes;
pub use limits::{Limit, LimitHit, Mechanism, Reach, sweep_groups};
pub use policy::{
    Access, Command, Counted, Directories, Disk, FileRule, HostPath, Layer, Limits, Mount, Network,
    Otherwise, Policy, PolicyError, PolicyRow, Rights, UnknownLayer, View, ViewMode,
};
pub use probe::{Merging, probe, probe_merging};
pub use spawn::{Helper, HelperError, SpawnError, spawn};
pub use stage::{STAGE_ARGUMENT, enter_stage_if_asked};
