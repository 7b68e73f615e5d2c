//! Kernels as files that stand by themselves: a descriptor in JSON, the executable image, and snapshots of
//! the memory before and after a dispatch.
//!
//! `layout.rs` places the bindings in one allocation, in which bytes that several bindings share are once.
//! The input is written before the dispatch, since it may crash, and a descriptor is always renamed last; a
//! crash leaves these files, and a signal removes them (`PartialResult`). `KernelDescriptor` checks its
//! ranges, so that a replay trusts them.

mod compare;
mod descriptor;
mod layout;
mod recorder;

pub use compare::{SnapshotDifference, compare_snapshot};
pub(crate) use descriptor::words;
pub use descriptor::{DescribedBinding, DescribedFiles, DescribedSource, KernelDescriptor};
pub use recorder::{KernelRecordOptions, KernelRecorder, StagedKernelRecords};
