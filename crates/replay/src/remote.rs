//! Replays that another process performs, with the observers in this one.
//!
//! What a kernel computes is then judged where it cannot change the verdict: its process has neither the
//! observers nor the bytes that they expect, which it could only compute. `served.rs` is the side of the
//! kernels: at each operation and host read it tells what happens, and obeys commands until it may resume.
//! `observed.rs` is the side of the observers: its buffers read and write those of the other process by
//! commands, through a file that both have, and that nothing maps. Everything that the plan knows, such as
//! the name of a function, is taken from the plan, not from the other process.

mod observed;
mod served;

use std::ops::ControlFlow;
use std::sync::Arc;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::profile::QueueOpKind;
use rehal_hal::{Buffer, transfer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use observed::{RemoteReplay, ReplayLink};
pub use served::{ServedRun, serve_replay};

use crate::observe::with;
use crate::{AccessKind, Observer, Plan, RecordLocation, Replay};

/// A replay that is observed, of this process or another one.
pub trait ObservedReplay: Sync {
    /// Its plan.
    fn plan(&self) -> &Arc<Plan>;

    /// Runs it: see [`Replay::run`]. New memory has this byte everywhere, if there is one.
    fn run_observed(&self, new_memory: Option<u8>, observers: &mut [&mut dyn Observer]) -> Result<()>;
}

impl ObservedReplay for Replay {
    fn plan(&self) -> &Arc<Plan> {
        self.plan()
    }

    fn run_observed(&self, new_memory: Option<u8>, observers: &mut [&mut dyn Observer]) -> Result<()> {
        match new_memory {
            Some(byte) => self.run(&mut with(observers, &mut Filler(byte))),
            None => self.run(observers),
        }
    }
}

/// Fills new memory with a byte.
struct Filler(u8);

impl Observer for Filler {
    fn wants_operations(&self) -> bool {
        true
    }

    fn allocated(&mut self, _: u64, buffer: &Buffer) -> Result<()> {
        /// Maximum number of bytes to fill with one transfer.
        const AT_ONCE_BYTES: usize = 1 << 20;
        let bytes = vec![self.0; usize::try_from(buffer.size()).unwrap_or(usize::MAX).min(AT_ONCE_BYTES)];
        for offset in (0..buffer.size()).step_by(AT_ONCE_BYTES) {
            let rest = usize::try_from(buffer.size() - offset).unwrap_or(usize::MAX);
            match transfer::write(buffer, offset, &bytes[..rest.min(bytes.len())]) {
                // What cannot be written cannot be compared either.
                Err(error) if error.code() == StatusCode::PermissionDenied => return Ok(()),
                written => written?,
            }
        }
        Ok(())
    }
}

/// Maximum number of bytes that pass at a time: few enough to stay in caches, since each is copied several
/// times.
const PIECE_BYTES: u64 = 1 << 20;

/// The handle of the bytes that the program reads.
const HOST_READ: u64 = 0;

/// A message of the process that replays.
#[derive(Serialize, Deserialize)]
pub enum ReplayEvent {
    /// A run may begin.
    Ready,
    /// An operation is about to be performed.
    Before(Box<SeenOperation>),
    /// It is complete.
    After,
    /// The program reads.
    HostRead(SeenRead),
    /// A command is done, or failed.
    Done(Result<()>),
    /// The run has ended, with what the other process found, or an error.
    Ended(Result<Value>),
}

/// A command to the process that replays, and the handles of the buffers that it releases.
#[derive(Serialize, Deserialize)]
pub struct ReplayCommand {
    pub(crate) order: Order,
    pub(crate) dropped: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Order {
    /// Begins a run.
    Run { new_memory: Option<u8>, wants: Wants },
    /// Writes bytes of a buffer to the start of the file that both processes have.
    Read { handle: u64, offset: u64, length: u64 },
    /// Writes bytes of the file to a buffer.
    Write { handle: u64, offset: u64, length: u64 },
    /// Performs the dispatch again.
    Again,
    /// Continues, or ends the run.
    Resume { is_ended: bool },
}

/// The calls and the memory that observers want.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Wants {
    operations: bool,
    host_reads: bool,
    zeroed_memory: bool,
}

/// An operation as its process sees it.
#[derive(Serialize, Deserialize)]
pub struct SeenOperation {
    submission: RecordLocation,
    location: RecordLocation,
    occurrence: u64,
    scope: Option<Vec<u8>>,
    device: usize,
    kind: QueueOpKind,
    dispatch: Option<SeenDispatch>,
    ranges: Vec<SeenRange>,
}

#[derive(Serialize, Deserialize)]
struct SeenDispatch {
    /// Used if the capture has none.
    name: String,
    workgroup_count: [u32; 3],
    binding_count: usize,
}

#[derive(Serialize, Deserialize)]
struct SeenRange {
    handle: u64,
    access: AccessKind,
    buffer_id: u64,
    offset: u64,
    length: u64,
}

/// A host read as its process sees it.
#[derive(Serialize, Deserialize)]
pub struct SeenRead {
    location: RecordLocation,
    scope: Option<Vec<u8>>,
    buffer_id: u64,
    offset: u64,
    length: u64,
}

fn out_of_step() -> Error {
    Error::data_loss("the process of a replay does not follow its plan")
}

fn cannot_pass(error: &std::io::Error) -> Error {
    Error::io("passing bytes of a replay", error)
}

fn flow(is_ended: bool) -> ControlFlow<()> {
    if is_ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
