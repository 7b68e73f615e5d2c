//! The vocabulary of accelerator work, the handles of a running program, and the traits of a driver.
//!
//! Used by every driver, by the recorder and the replayer, and by programs. It must not depend on a file
//! format, a tool, or the set of drivers.
//!
//! # The vocabulary
//!
//! [`Op`] is everything that a program requests of an accelerator, as plain data: a [`HostOp`] creates and
//! maps; an [`InfoOp`] queries or profiles; a [`Command`] is recorded into a command buffer; a [`QueueOp`]
//! inside a [`Submission`] is submitted to a queue. Operations are generic over how they name objects
//! ([`Names`]): a program uses live handles ([`Live`]), a plan or a recorded command list dense indices
//! ([`Indexed`]), a capture ids. [`Rename`] converts between them, once for all operations.
//!
//! # The contract of a driver
//!
//! A driver implements the `*Backend` traits, starting from [`DriverBackend`], which finds and creates
//! devices. Backend traits have no default bodies, so that a decorator of a backend cannot forget to
//! forward a function. Handles ([`Device`], [`Buffer`], …) are cheap clones over backends; they check
//! ranges, usage, access, state and the form of arguments before a call, so a backend may trust its
//! arguments. Work is ordered only by timepoints of semaphores: two submissions without a timepoint between
//! them may execute in any order or concurrently. A submission that fails fails every semaphore it would
//! have signalled, with the same error.
//!
//! A device passes waits that it cannot handle itself to its [`PendingSubmissions`], which defines the
//! outcome of a submission whose waits fail or are never reached. A [`Promise`] settles the signals of a
//! submission even if its work panics: the panic propagates to the call that ran it, and no waiter hangs.
//!
//! # Memory
//!
//! Each driver manages the memory of its buffers. [`BufferBackend::map`] returns a range as an owned
//! `HostMemory`, which the handle's mapping unmaps once; the trait says when writes become visible between
//! host and device. All code except drivers moves bytes between the host and buffers with `transfer`. Handles
//! in a [`Store`] lack their device, to avoid a cycle of references.
//!
//! # Drivers
//!
//! A [`DriverRegistry`] is a list of drivers, built by the program. A driver that this build lacks
//! (`Driver::missing`), or that cannot work on this machine, is listed with the reason. The handle implements
//! the selection of a device by path, identifier or index once for all drivers.

#![deny(unsafe_code)]

mod buffer;
mod buffer_view;
mod callbacks;
mod command_buffer;
mod commands;
mod device;
mod device_info;
mod device_uri;
mod driver;
mod event;
mod executable;
mod fence;
mod file;
mod flags;
mod format;
mod function;
#[doc(hidden)]
pub mod gpu_formats;
mod group;
mod host_op;
mod indexed;
mod latch;
mod live;
#[cfg(test)]
mod models;
mod names;
pub mod new_memory;
mod op;
mod operands;
mod options;
mod parameter;
mod params;
mod pending;
pub mod profile;
mod promise;
mod queue;
mod registration;
mod registry;
mod semaphore;
mod statistics;
mod store;
mod stored_names;
mod stranded;
mod sync;
mod timeline;
pub mod transfer;
pub mod transfer_checks;
mod unwind;
mod wait;
mod watched;
mod workgroups;

pub use buffer::{Buffer, BufferBackend, MappedRange, Mapping, PlainBuffer};
pub use buffer_view::{BufferView, Encoding, dense_size};
pub use callbacks::defer_callbacks;
pub use command_buffer::{CommandBuffer, CommandBufferBackend};
pub use device::{Device, DeviceBackend, unsupported};
pub use device_info::{DeviceInfo, DispatchLimits};
pub use device_uri::DeviceUri;
pub use driver::{DeviceDescription, DeviceSection, Driver, DriverBackend, SystemFiles};
pub use event::{Event, EventBackend};
pub use executable::{Executable, ExecutableBackend, ExecutableParams, ReplacedFunction, WorkgroupSchedule};
pub use fence::Fence;
pub use file::{File, FileBackend, HostFile};
pub use flags::*;
pub use format::{CompilerTarget, ExecutableFormat, WrittenBindings};
pub use function::{FunctionInfo, FunctionParameter};
pub use group::DeviceGroup;
pub use host_op::{
    CreateOp, DeviceQuery, ExecutableQuery, HostOp, ImportFile, InfoOp, PrepareExecutable, RangeOp,
};
pub use indexed::{Indexed, Span, StoredLists};
pub use names::{Live, Names, Rename, RenameHost, rename_buffer_ref};
pub use op::{
    Command, Dispatch, HostCall, HostCallFn, Op, QueueOp, Submission, WORKGROUP_COUNT_BYTES, WorkgroupCount,
};
pub use operands::{
    Binding, BufferBarrier, BufferRef, FileContents, FileIdentity, FileSource, MemoryBarrier, Timepoint,
    Validation,
};
pub use options::{CommonOptions, DeviceOptions, OptionSet, PerfMap};
pub use parameter::{DeviceParameter, ParameterGroup, ParameterScope, ParameterValue};
pub use params::{BufferParams, CommandBufferParams};
pub use pending::{KeptSubmission, Note, PendingSubmissions};
pub use promise::Promise;
pub use queue::Queue;
pub use registration::{CallbackRegistry, Registration};
pub use registry::DriverRegistry;
pub use rehal_base::HostMemory;
pub use semaphore::{Semaphore, SemaphoreBackend, WaitCallback};
pub use statistics::{CountedMemory, HeapStatistics, MemoryCounters, MemoryStatistics};
pub use store::Store;
pub use stored_names::StoredNames;
pub use timeline::Timeline;
pub use unwind::for_each as for_each_unwinding;
pub use wait::{wait_all, wait_any};
pub use watched::{WatchAccesses, WatchedBuffer};
pub use workgroups::NeededWorkgroups;
