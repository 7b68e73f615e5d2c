//! The host's work in the order of queues.

use std::sync::Arc;

use rehal_base::{Error, Range, Result, StatusCode};
use rehal_hal::transfer::UNCACHED_BYTES;
use rehal_hal::{HostCallFlags, HostMemory, KeptSubmission, QueueOp, Store};

use crate::command::{MemoryRange, Receiver, Repeats};
use crate::executor::ExecutorHandle;
use crate::memory::Allocation;
use crate::queue::{Core, Frontier, Origin, Uses, Work};

/// Bytes that are staged at once.
const CHUNK: u64 = 4 << 20;
/// Chunks that are in flight: while the device copies one, the file is read or written for another.
const CHUNKS: usize = 2;

/// Whether the host does this operation.
pub(crate) fn is_for_host<N: rehal_hal::Names>(operation: &QueueOp<N>) -> bool {
    matches!(operation, QueueOp::HostCall { .. } | QueueOp::Read { .. } | QueueOp::Write { .. })
}

/// Performs an operation whose waits are reached, on a thread of the executor, and settles its signals. Fails
/// if it cannot be run; the signals have failed then.
pub(crate) fn run(
    core: &Arc<Core>,
    executor: &ExecutorHandle,
    maps_device_memory: bool,
    kept: Box<KeptSubmission>,
) -> Result<()> {
    if let QueueOp::HostCall { .. } = kept.op() {
        return executor.call(move || call(&kept));
    }
    let core = core.clone();
    executor.transfer(move |slot| {
        start(&kept);
        let outcome = transfer_file(&core, maps_device_memory, &kept);
        // Callbacks of the signals may wait for another transfer.
        drop(slot);
        kept.promise().settle(&outcome.map_err(|error| error.context(kept.op().name())));
    })
}

fn start(kept: &KeptSubmission) {
    if let Some(profile) = kept.profile() {
        profile.ready();
    }
}

/// Calls the host.
fn call(kept: &KeptSubmission) {
    start(kept);
    let QueueOp::HostCall { call, arguments, flags } = kept.op() else { return };
    let call = &kept.store().host_calls[*call as usize];
    if flags.contains(HostCallFlags::NON_BLOCKING) {
        kept.promise().settle(&Ok(()));
        // Its outcome has no receiver.
        let _ = (call.0)(*arguments);
        return;
    }
    let promise = kept.promise();
    match (call.0)(*arguments) {
        Err(error) if error.code() == StatusCode::Deferred => promise.defer(),
        outcome => promise.settle(&outcome.map_err(|error| error.context(kept.op().name()))),
    }
}

/// Reads or writes a file.
fn transfer_file(core: &Arc<Core>, maps_device_memory: bool, kept: &KeptSubmission) -> Result<()> {
    let store = kept.store();
    match kept.op() {
        QueueOp::Read { file, file_offset, target, .. } => {
            let file = store.files[*file as usize].backend();
            let read = |offset, memory: &HostMemory, range| file.read_at(file_offset + offset, memory, range);
            transfer(core, maps_device_memory, store, target, Direction::ToDevice, &read)
        }
        QueueOp::Write { source, file, file_offset, .. } => {
            let file = store.files[*file as usize].backend();
            let write =
                |offset, memory: &HostMemory, range| file.write_at(file_offset + offset, memory, range);
            transfer(core, maps_device_memory, store, source, Direction::ToHost, &write)
        }
        operation => {
            Err(Error::new(StatusCode::Internal, format!("{} does not transfer a file", operation.name())))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToDevice,
    ToHost,
}

/// Accesses a part of a file: offset in the transfer, memory and range.
type Access<'a> = dyn Fn(u64, &HostMemory, Range) -> Result<()> + 'a;

fn transfer(
    core: &Arc<Core>,
    maps_device_memory: bool,
    store: &Store,
    reference: &rehal_hal::BufferRef<u32>,
    direction: Direction,
    access: &Access<'_>,
) -> Result<()> {
    let range = MemoryRange::resolve(core.memory(), store, &[], reference)?;
    let is_visible = match reference.binding {
        rehal_hal::Binding::Direct(index) => {
            let params = store.buffers[index as usize].params();
            maps_device_memory || params.memory_type.contains(rehal_hal::MemoryType::HOST_VISIBLE)
        }
        rehal_hal::Binding::Slot(_) => false,
    };
    // Memory that the host does not cache is slow to read.
    let is_slow = direction == Direction::ToHost
        && range.length() >= UNCACHED_BYTES
        && core.staging().reads_faster_than(range.allocation().block().kind());
    if is_visible
        && !is_slow
        && let Some(memory) = range.allocation().map(range.range())
    {
        match direction {
            Direction::ToHost => range.allocation().invalidate(range.range())?,
            Direction::ToDevice => range.allocation().invalidate_edges(range.range())?,
        }
        access(0, &memory, memory.whole())?;
        if direction == Direction::ToDevice {
            range.allocation().flush(range.range())?;
        }
        return Ok(());
    }
    match direction {
        Direction::ToDevice => read_staged(core, &range, access),
        Direction::ToHost => write_staged(core, &range, access),
    }
}

/// A piece of staging memory.
struct Chunk {
    allocation: Arc<Allocation>,
    memory: HostMemory,
    /// The work that uses it.
    until: Frontier,
}

impl Chunk {
    fn allocate(core: &Core, length: u64, receiver: Receiver) -> Result<Self> {
        let allocation = Arc::new(core.staging().allocate(length, receiver)?);
        let memory = allocation
            .map(Range { offset: 0, length })
            .ok_or_else(|| Error::failed_precondition("the host cannot map the staging memory"))?;
        Ok(Self { allocation, memory, until: Frontier::default() })
    }

    fn part(&self, length: u64) -> MemoryRange {
        MemoryRange::within(&self.allocation, Range { offset: 0, length })
    }
}

fn chunks(core: &Core, length: u64, receiver: Receiver) -> Result<Vec<Chunk>> {
    let count = length.div_ceil(CHUNK).min(CHUNKS as u64);
    (0..count).map(|_| Chunk::allocate(core, length.min(CHUNK), receiver)).collect()
}

/// Reads a file into memory that the host cannot map: while the device copies a piece, the next is read.
fn read_staged(core: &Arc<Core>, target: &MemoryRange, access: &Access<'_>) -> Result<()> {
    let mut chunks = chunks(core, target.length(), Receiver::Device)?;
    let outcome = pieces(target.length()).enumerate().try_for_each(|(index, piece)| {
        let count = chunks.len();
        let chunk = &mut chunks[index % count];
        wait(core, &chunk.until)?;
        let range = Range { offset: 0, length: piece.length };
        access(piece.offset, &chunk.memory, range)?;
        chunk.allocation.flush(range)?;
        chunk.until = copy(core, &chunk.part(piece.length), &target.piece(piece)?)?;
        Ok(())
    });
    wait_for_all(core, &chunks).and(outcome)
}

/// Writes memory that the host cannot map, or reads slowly, to a file: while a piece is written, the device
/// copies the next.
fn write_staged(core: &Arc<Core>, source: &MemoryRange, access: &Access<'_>) -> Result<()> {
    let mut chunks = chunks(core, source.length(), Receiver::Host)?;
    let all: Vec<_> = pieces(source.length()).collect();
    let count = chunks.len();
    let mut outcome = Ok(());
    for index in 0..all.len() + count {
        if outcome.is_err() {
            break;
        }
        outcome = (|| {
            // The chunk of the piece that was copied first is written, and then used again.
            if let Some(written) = index.checked_sub(count) {
                let (chunk, piece) = (&chunks[written % count], all[written]);
                let range = Range { offset: 0, length: piece.length };
                wait(core, &chunk.until)?;
                chunk.allocation.invalidate(range)?;
                access(piece.offset, &chunk.memory, range)?;
            }
            if let Some(piece) = all.get(index) {
                let chunk = &mut chunks[index % count];
                chunk.until = copy(core, &source.piece(*piece)?, &chunk.part(piece.length))?;
            }
            Ok(())
        })();
    }
    wait_for_all(core, &chunks).and(outcome)
}

fn pieces(length: u64) -> impl Iterator<Item = Range> {
    (0..length.div_ceil(CHUNK)).map(move |index| {
        let offset = index * CHUNK;
        Range { offset, length: CHUNK.min(length - offset) }
    })
}

fn wait(core: &Core, work: &Frontier) -> Result<()> {
    while !core.wait(work, None) {}
    core.settle();
    match core.gpu().loss() {
        Some(loss) if !work.is_empty() => {
            // The memory that it uses is about to be released.
            core.quiesce();
            Err(loss.clone())
        }
        _ => Ok(()),
    }
}

/// The device uses the chunks until its copies are complete.
fn wait_for_all(core: &Core, chunks: &[Chunk]) -> Result<()> {
    chunks.iter().try_for_each(|chunk| wait(core, &chunk.until))
}

/// Copies on the queue for transfers; returns the work.
fn copy(core: &Arc<Core>, source: &MemoryRange, target: &MemoryRange) -> Result<Frontier> {
    let lane = core.lane_count() - 1;
    let mut recorder = core.recorders().take_recorder(core.gpu().families()[lane])?;
    recorder.begin(Repeats::Never)?;
    recorder.copy(source, target)?;
    recorder.end()?;
    let work = Work {
        lane,
        commands: recorder.commands(),
        uses: Uses { recorder: Some(recorder), ..Uses::default() },
    };
    let work = core.issue(core.take_spare(), Frontier::default(), Some(work), Origin::Program)?;
    core.flush()?;
    Ok(work)
}

#[cfg(test)]
mod tests {
    use ash::vk::MemoryPropertyFlags as Flags;

    use super::*;
    use crate::emulation::{EmulatedMemory, Emulation};
    use crate::gpu::tests::emulated;

    #[test]
    fn the_host_reads_chunks_that_it_caches() {
        let emulation = Emulation { memory: Some(EmulatedMemory::Separate), ..Emulation::default() };
        let core = Core::create(&emulated(&emulation), None).unwrap();
        let kind = |receiver| Chunk::allocate(&core, 4096, receiver).unwrap().allocation.block().kind();
        let (written, read) = (kind(Receiver::Device), kind(Receiver::Host));
        assert!(!written.flags.intersects(Flags::HOST_CACHED | Flags::DEVICE_LOCAL));
        assert!(read.flags.contains(Flags::HOST_CACHED));
        // So that they are used in place of mapping the former.
        assert!(core.staging().reads_faster_than(written) && !core.staging().reads_faster_than(read));
    }
}
