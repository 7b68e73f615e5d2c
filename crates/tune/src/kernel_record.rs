//! Kernels as files that stand by themselves: a descriptor in JSON, the executable image, and snapshots of the memory before
//! and after a dispatch.

mod compare;
mod descriptor;
mod layout;
mod recorder;

pub use compare::{SnapshotDifference, compare_snapshot};
pub use descriptor::{DescribedBinding, DescribedFiles, DescribedSource, KernelDescriptor};
pub use recorder::{KernelRecordOptions, KernelRecorder};
