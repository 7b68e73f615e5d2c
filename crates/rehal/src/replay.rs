//! Replays of captures.
//!
//! An [`Observer`] receives the steps of a run; its methods have defaults, so that it implements those that
//! it needs.
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! # let path =
//! #     concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! use rehal::capture::{CaptureFile, CaptureOptions};
//! use rehal::device::{DeviceOptions, transfer};
//! use rehal::replay::{Observer, Operation, Replay, ReplayOptions};
//!
//! /// Counts the bytes that are bound to dispatches.
//! #[derive(Default)]
//! struct Bound(usize);
//!
//! impl Observer for Bound {
//!     fn wants_operations(&self) -> bool {
//!         true
//!     }
//!
//!     fn after_operation(&mut self, operation: &Operation<'_>) -> rehal::Result<ControlFlow<()>> {
//!         for binding in operation.bindings() {
//!             self.0 += transfer::to_vec(binding.buffer, binding.offset, binding.length)?.len();
//!         }
//!         Ok(ControlFlow::Continue(()))
//!     }
//! }
//!
//! let plan = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?.plan()?;
//! // Called once for each executable: `None` keeps it.
//! let options = ReplayOptions::default().substitute(Some(Arc::new(|_| Ok(None))));
//! let replay = Replay::new(plan, &DeviceOptions::default().open()?, &options)?;
//! let mut bound = Bound::default();
//! replay.run(&mut [&mut bound])?;
//! assert!(bound.0 > 0);
//!
//! // Repeats a scope without what is outside of it. It shares the replay.
//! let mut scope = Arc::new(replay).fast_forward(b"execute", &mut [])?;
//! for _ in 0..3 {
//!     scope.restore()?;
//!     scope.repeat(&mut [])?;
//! }
//! scope.finish()
//! # }
//! ```

pub use rehal_base::terms::{Formula, FormulaFault};
pub use rehal_devices::ScopeTimer;
pub use rehal_hal::{NeededWorkgroups, WorkgroupSchedule, profile::QueueOpKind};
pub use rehal_replay::{
    AccessKind, AccessedRange, Candidate, Code, DispatchOperation, ExecutableCode, ExecutableRecord,
    FastForward, FileContents, FileIdentity, FileRecord, FileRemap, FileSource, FileWrites, FindWritten,
    HostRead, HostReadLog, Incomplete, LiveBuffers, ObservedReplay, Observer, Operation, Overlap, Plan,
    PlanOptions, PlannedBinding, PlannedDispatch, Race, RaceOperation, RaceOptions, Races, RecordLocation,
    Replacement, Replay, ReplayOptions, ReplayOrder, RunningFunction, Scope, Selector, Substitute,
    Substitution, Validation, WrittenBindings,
};
