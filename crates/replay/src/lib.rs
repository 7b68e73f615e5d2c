//! Replays, records and dumps captures: plan once, run any number of times, observe, print as text.
//!
//! A [`Plan`] is compiled from a capture and has passed every check that needs no device. A [`Replay`] runs
//! it on a device group and notifies [`Observer`]s of its steps. Used by `judge` and all above; it must not
//! depend on drivers, flags or a terminal.
//!
//! # Plans and runs
//!
//! `Plan::compile` proves that every object is created before it is used and has the right type, and that
//! every wait is signalled, so that a replay cannot deadlock. A submission whose waits are signalled by a
//! later record is deferred: a run issues it in place, and it completes after the step that signals the last
//! of its waits. Calls that failed at capture are not steps, and an invalid command is rejected only if it
//! would run. The plan knows the last use of each object, after which a run releases it.
//!
//! `Replay::new` does the work that depends on the machine once: it opens and validates files and maps
//! replacements. `Replay::run` then parses nothing. A plan shares the bytes of the capture and a replay
//! shares its plan, so both are `Send + 'static`. Views of the capture borrow from the plan.
//!
//! A run waits as its `ReplayOrder` says. In serialized order nothing is in flight after a step; in captured
//! order the host waits as `schedule.rs` has planned. `flight.rs` owns the work in flight for both.
//!
//! # Other users of a plan
//!
//! - `effects/` tells what operations read, write and change.
//! - `run/stepping.rs` performs operations one at a time, for observers that want them.
//! - `slice.rs` writes a capture of a part of the work.
//! - `fast_forward.rs` repeats a scope by itself, `evictions.rs` evicts caches before timed scopes.
//! - `races.rs` reports conflicts of operations that nothing orders.
//! - `record/` records calls, `dump/` prints records, `rewrite.rs` copies a capture with other data.

#![deny(unsafe_code)]

mod arguments;
mod command_buffer;
mod decode;
mod dispatches;
pub mod dump;
mod effects;
mod encode;
mod evictions;
mod executable_names;
mod fast_forward;
mod files;
mod flight;
pub mod fuzzing;
mod hazards;
mod host_reads;
mod ids;
mod lists;
mod memory_needs;
mod message;
mod observe;
mod one_by_one;
mod operation;
mod order;
mod origin;
mod plan;
#[cfg(test)]
mod plan_numbers;
mod planner;
mod prepare;
mod races;
mod record;
mod region;
mod remote;
mod replacements;
mod rewrite;
mod run;
mod schedule;
mod scopes;
mod slice;
mod substitute;
mod transfers;
mod walk;

pub use decode::{buffer_ref, decode};
pub use dispatches::{PlannedBinding, PlannedDispatch};
pub use effects::{CHANGE_BYTES, ChangeTracker, TrackedBinding, distinct_bytes, merged, without};
pub use encode::encode_payload;
pub use executable_names::{
    CalledFunction, DispatchedFunction, ExecutableNames, Named, ResolvedSubstitutions,
};
pub use fast_forward::{FastForward, VariedBytes, VariedPiece};
pub use files::{FileRemap, FileWrites, resolve_path};
pub use host_reads::{DEFAULT_BYTES_LIMIT, HostReadLog};
pub use ids::Ids;
pub use memory_needs::MemoryNeeds;
pub use observe::{HostRead, Observer, Scope};
pub use operation::{
    AccessedRange, DispatchOperation, ExecutableCode, LiveBuffers, Operation, RunningFunction,
};
pub use plan::{ExecutableRecord, FileRecord, Plan, PlanOptions, RecordLocation};
pub use planner::{PlanCheck, Plannable};
pub use prepare::own_names;
pub use races::{AccessKind, Incomplete, MAX_RACES, Overlap, Race, RaceOperation, RaceOptions, Races};
pub use record::{
    CaptureSink, DispatchWatcher, FilePolicy, FileValidation, LedgerRecording, OpenScope, RecordOptions,
    Recorder, WatchedDispatch,
};
pub use rehal_capture::CaptureBytes;
pub use rehal_hal::{FileContents, FileIdentity, FileSource, Validation, WrittenBindings};
pub use remote::{
    ObservedReplay, RemoteReplay, ReplayCommand, ReplayEvent, ReplayLink, SeenOperation, SeenRead, ServedRun,
    serve_replay,
};
pub use replacements::{FileReplacements, ProgramSubstitutes, REPLACE_WHOLE, WholeCode, check_whole};
pub use rewrite::{DataKind, DataPlace, NameKind, RewriteOptions, Rewriter, Rewritten, rewrite};
pub use run::{FindWritten, Replay, ReplayOptions, ReplayOrder};
pub use slice::{BufferRanges, Cut, Slice, SliceCheck, SliceOptions, SliceSet, SlicedRead, WatchBuffer};
pub use substitute::{Candidate, Code, Replacement, Selector, Substitute, SubstituteCode, Substitution};
pub use transfers::PlannedTransfer;
pub use walk::PlannedResult;
