//! Records, replays, measures and runs what a program gives to an accelerator.
//!
//! Programs that embed rehal, and the bindings to other languages, use it. It has what opens captures and
//! runs programs; the rest comes from the crates below, whose names are on one page for each question. It
//! must not depend on flags or a terminal.
//!
//! | module | question |
//! | --- | --- |
//! | [`capture`] | What is in a capture? Can it be replayed here? |
//! | [`replay`] | Run it again: observe it, substitute kernels, repeat a scope. |
//! | [`record`] | Write a capture of the work of this program. |
//! | [`program`] | Load a compiled module and call its functions. |
//! | [`device`] | Open devices, and give them work. |
//! | [`kernel`] | The kernels of a capture; an executable by itself; slices. |
//! | [`work`] | Run captured code in another process, and survive it. |
//! | [`judge`] | Is one side slower? What do times prove? |
//! | [`profile`] | What did the devices do, and for how long? |
//! | `tune` | Are results the same? Is a replacement of a kernel right, and faster? |
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! # let path =
//! #     concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
//! use rehal::capture::{CaptureFile, CaptureOptions};
//! use rehal::device::DeviceOptions;
//! use rehal::replay::{HostReadLog, Replay, ReplayOptions};
//!
//! // Plan once; the plan can be kept, and shared by threads.
//! let plan = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?.plan()?;
//! let replay = Replay::new(plan, &DeviceOptions::default().open()?, &ReplayOptions::default())?;
//! // Can run any number of times. The log has a JSON object per host read.
//! let mut reads = HostReadLog::new(Vec::new(), 64);
//! replay.run(&mut [&mut reads])?;
//! assert!(reads.finish()?.starts_with(b"{"));
//! # Ok(())
//! # }
//! ```
//!
//! # Options and errors
//!
//! Options are structs with documented defaults and public fields: start from `Default`, then set fields, or
//! call their setters where they have some. A new release may add fields. Errors are [`Error`]s with a status
//! code, a message, its context, and [`Advice`] about what to do; [`Error::report`] has it all as text.
//!
//! # Threads
//!
//! Every object is `Send`: it may be made on one thread and used on another. What may be shared by threads
//! (`Sync`) is listed here, and this list is tested. Other objects are used by one thread at a time, which
//! `&mut self` says.
//!
//! | objects | shared by threads |
//! | --- | --- |
//! | `CaptureFile`, `Plan`, `Replay`, `ProfileFile` | yes; each run of a replay has its own state |
//! | `Recorder`, `Program`, `Function` | yes; functions may be called concurrently, and records have one order |
//! | `Device` and all objects of devices | yes; only timepoints of semaphores order work |
//! | `FastForward`, `PendingCall`, `Records` | no |
//!
//! # Safety
//!
//! A replay, a program and an executable run native code of their file with the privileges of this process,
//! so they are as trusted as this program. A kernel that crashes ends the process. [`work::perform`] runs a
//! replay, a verification or a comparison in a process of the program `rehal`: a crash there is an error with
//! the name of the kernel. Live buffers stay there. Opening, planning and surveying a capture run nothing,
//! and are safe for any bytes.
//!
//! The file of a capture is mapped. It may be deleted or replaced; if another process truncates it, what is
//! called later fails with `DATA_LOSS`, and what is reading it at that time ends the process (SIGBUS).
//!
//! # Features
//!
//! `vulkan` adds the driver of Vulkan devices. CPU devices are always here. `tune` adds the module of that
//! name.

#![forbid(unsafe_code)]

/// The Rust on this page is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/replay.md")]
struct ReplayPage;

pub mod capture;
mod capture_activity;
mod capture_file;
pub mod device;
#[doc(hidden)]
pub mod dialogue;
pub mod judge;
pub mod kernel;
pub mod profile;
pub mod program;
mod programs;
pub mod record;
mod record_table;
mod records;
pub mod replay;
mod survey;
#[cfg(feature = "tune")]
pub mod tune;
mod verdict;
pub mod work;

#[doc(hidden)]
pub use rehal_base::platform;
pub use rehal_base::{Advice, Error, FileKind, Remedy, Result, StatusCode};

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
