//! The vocabulary of accelerator work, the handles of a running program, and the traits of a driver.
//!
//! Used by every driver, by the recorder and the replayer, and by programs. It must never know a
//! file format, a tool, or which drivers exist.
//!
//! # The vocabulary
//!
//! [`Op`] is everything a program asks of an accelerator, as plain data: a [`HostOp`] creates, maps
//! and queries; a [`Command`] is what a command buffer holds; a [`QueueOp`] inside a [`Submission`]
//! is what a queue is given. Operations are generic over how they name objects ([`Names`]): a
//! program names live handles ([`Live`]), a plan or a recorded command list names dense indices
//! ([`Indexed`]), a capture names ids. [`Rename`] turns one into another, once for all operations.
//!
//! # The contract of a driver
//!
//! A driver implements the `*Backend` traits. Handles ([`Device`], [`Buffer`], …) are cheap clones
//! over them and check ranges, usage, access and state before they call, so a backend may trust its
//! arguments. Work is ordered by timepoints of semaphores and by nothing else: two submissions
//! without a timepoint between them may run in any order or at once. A submission that fails
//! fails every semaphore it would have signalled, with the error that stopped it.

#![deny(unsafe_code)]

mod buffer;
mod buffer_view;
mod channel;
mod command_buffer;
mod device;
mod event;
mod executable;
mod fence;
mod file;
mod flags;
mod group;
mod names;
mod op;
mod semaphore;
pub mod shape;
mod statistics;
mod store;
mod timeline;
pub mod transfer;

pub use buffer::{Buffer, BufferBackend, BufferParams, MappedRange, Mapping, PlainBuffer};
pub use buffer_view::{BufferView, Encoding, dense_size};
pub use channel::{Channel, ChannelBackend, ChannelParams};
pub use command_buffer::{CommandBuffer, CommandBufferBackend, CommandBufferParams};
pub use device::{Device, DeviceBackend, DeviceInfo};
pub use event::{Event, EventBackend};
pub use executable::{Executable, ExecutableBackend, ExecutableParams, FunctionInfo, FunctionParameter};
pub use fence::Fence;
pub use file::{File, FileBackend, HostFile};
pub use flags::*;
pub use group::DeviceGroup;
pub use names::{Live, Names, Rename};
pub use op::{
    Binding, BufferBarrier, BufferRef, Command, Dispatch, HostCall, HostCallFn, HostOp, MemoryBarrier, Op,
    Query, QueueOp, RangeOp, Submission, Timepoint, WorkgroupCount,
};
pub use rehal_base::HostMemory;
pub use semaphore::{Semaphore, SemaphoreBackend, WaitCallback, wait_all, wait_any};
pub use statistics::{HeapStatistics, MemoryCounters, MemoryStatistics};
pub use store::{Indexed, Span, Store, StoredLists};
pub use timeline::Timeline;
