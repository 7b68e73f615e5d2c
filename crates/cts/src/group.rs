//! Tests of two devices that work together: timelines and buffers of one that the other uses.

use std::sync::Arc;
use std::time::Duration;

use rehal_base::{Error, HostMemory, Range, Result, StatusCode};
use rehal_hal::{
    Buffer, BufferParams, BufferRef, BufferUsage, CommandBufferParams, CommandCategories, Device,
    DeviceGroup, MemoryAccess, MemoryType, QUEUE_AFFINITY_ANY, Queue, Semaphore, SemaphoreFlags, transfer,
};

use crate::check::{equal, holds, refused, same_bytes};
use crate::harness::noise;

/// The codes for memory that a device cannot use: hidden, of a device that cannot import it, or not aligned
/// as it needs.
const NOT_SHARED: [StatusCode; 3] =
    [StatusCode::InvalidArgument, StatusCode::Unimplemented, StatusCode::OutOfRange];

/// Two devices under test: drivers, or decorated drivers. Tests run concurrently.
pub trait GroupSubject: Send + Sync {
    /// Creates the devices for one test.
    fn group(&self) -> Result<DeviceGroup>;

    /// Whether a device uses memory of the host that the other one has imported or allocated.
    fn imports(&self, device: usize) -> bool;

    /// Receives the bytes that a test read back; see [`crate::Subject::saw`].
    fn saw(&self, _bytes: &[u8]) {}

    /// The timeout for events that must happen; see [`crate::Subject::patience`].
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

type Run = fn(&Pair<'_>) -> Result<()>;

/// A test of two devices.
pub struct GroupTest {
    name: &'static str,
    run: Run,
}

impl GroupTest {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs it on new devices, in both directions.
    pub fn run(&self, subject: &dyn GroupSubject) -> Result<()> {
        let group = subject.group()?;
        let [first, second] = group.devices() else {
            return Err(Error::invalid_argument("the group has other than two devices"));
        };
        for (here, there, from) in [(first, second, 0), (second, first, 1)] {
            let pair = Pair { subject, here, there, imports: subject.imports(1 - from) };
            (self.run)(&pair).map_err(|error| {
                error.context(format!("from {} to {}", here.info().driver, there.info().driver))
            })?;
        }
        Ok(())
    }
}

/// All tests of groups.
pub fn group_tests() -> Vec<GroupTest> {
    let tests: [(&str, Run); 9] = [
        ("timelines/alternate", timelines_alternate),
        ("timelines/wait_before_the_signal", waits_precede_signals),
        ("timelines/join", timelines_join),
        ("timelines/failures_propagate", failures_propagate),
        ("buffers/are_shared", buffers_are_shared),
        ("buffers/in_command_buffers", buffers_in_command_buffers),
        ("buffers/of_queues", buffers_of_queues),
        ("buffers/imported", imported_buffers),
        ("buffers/hidden_are_refused_or_shared", hidden_buffers),
    ];
    tests.into_iter().map(|(name, run)| GroupTest { name, run }).collect()
}

/// Two devices, of which one has what the other uses.
struct Pair<'s> {
    subject: &'s dyn GroupSubject,
    here: &'s Device,
    there: &'s Device,
    /// Whether `there` can use any memory of the host.
    imports: bool,
}

fn semaphore(device: &Device) -> Result<Semaphore> {
    device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())
}

fn queue(device: &Device) -> Queue<'_> {
    device.queue(QUEUE_AFFINITY_ANY)
}

/// The parameters that programs of several devices request for buffers that these share.
fn shared() -> BufferParams {
    BufferParams {
        usage: BufferParams::default().usage
            | BufferUsage::MAPPING_SCOPED
            | BufferUsage::MAPPING_PERSISTENT
            | BufferUsage::MAPPING_ACCESS_RANDOM,
        memory_type: MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE | MemoryType::DEVICE_LOCAL,
        ..BufferParams::default()
    }
}

impl Pair<'_> {
    fn wait(&self, semaphore: &Semaphore, value: u64) -> Result<()> {
        semaphore.wait(value, Some(self.subject.patience()))
    }

    /// The bytes that the host reads of a buffer.
    fn read(&self, buffer: &Buffer, offset: u64, length: u64) -> Result<Vec<u8>> {
        let bytes = transfer::to_vec(buffer, offset, length)?;
        self.subject.saw(&bytes);
        Ok(bytes)
    }

    /// A buffer of `here` with these bytes.
    fn buffer(&self, bytes: &[u8]) -> Result<Buffer> {
        let buffer = self.here.allocate_buffer(shared(), bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// Checks what a use of a buffer of `here` on `there` gave: it works, or is refused where memory cannot
    /// be shared.
    fn used(&self, outcome: Result<()>) -> Result<bool> {
        if self.imports || outcome.is_ok() {
            return outcome.map(|()| true);
        }
        refused("memory that the other device cannot import", outcome, &NOT_SHARED)?;
        Ok(false)
    }
}

/// Each device waits for the other, again and again; the host only for the last.
fn timelines_alternate(pair: &Pair<'_>) -> Result<()> {
    const ROUNDS: u64 = 50;
    let (here, there) = (semaphore(pair.here)?, semaphore(pair.there)?);
    let mine = pair.buffer(&[0; 4])?;
    let other = pair.there.allocate_buffer(shared(), 4)?;
    for round in 0..ROUNDS {
        let pattern = [round as u8];
        queue(pair.here).wait(&[there.at(round)]).signal(&[here.at(round + 1)]).fill(&mine, &pattern, 0)?;
        queue(pair.there)
            .wait(&[here.at(round + 1)])
            .signal(&[there.at(round + 1)])
            .fill(&other, &pattern, 0)?;
    }
    pair.wait(&there, ROUNDS)?;
    equal("the timeline", here.query()?, ROUNDS)?;
    for buffer in [&mine, &other] {
        same_bytes("the last round", &pair.read(buffer, 0, 4)?, &[ROUNDS as u8 - 1; 4])?;
    }
    Ok(())
}

/// Waits are submitted before what signals them, on the other device and by the host.
fn waits_precede_signals(pair: &Pair<'_>) -> Result<()> {
    let (here, there, by_host) = (semaphore(pair.here)?, semaphore(pair.there)?, semaphore(pair.here)?);
    queue(pair.there).wait(&[here.at(1)]).signal(&[there.at(1)]).barrier(0)?;
    queue(pair.here).wait(&[by_host.at(3)]).signal(&[here.at(1)]).barrier(0)?;
    holds("nothing is signalled", there.query()? == 0 && here.query()? == 0)?;
    by_host.signal(3)?;
    pair.wait(&there, 1)
}

/// A submission waits for timelines of both devices, and signals timelines of both.
fn timelines_join(pair: &Pair<'_>) -> Result<()> {
    let (here, there) = (semaphore(pair.here)?, semaphore(pair.there)?);
    let buffer = pair.buffer(&[0; 64])?;
    queue(pair.here).signal(&[here.at(1)]).fill(&buffer, &[1], 0)?;
    queue(pair.there).signal(&[there.at(1)]).barrier(0)?;
    let (waits, signals) = ([here.at(1), there.at(1)], [here.at(2), there.at(2)]);
    queue(pair.there).wait(&waits).signal(&signals).barrier(0)?;
    pair.wait(&here, 2)?;
    pair.wait(&there, 2)?;
    let more = [here.at(3), there.at(3)];
    queue(pair.here).wait(&signals).signal(&more).fill(&buffer, &[2], 0)?;
    pair.wait(&there, 3)?;
    same_bytes("filled", &pair.read(&buffer, 0, 64)?, &[2; 64])
}

/// A failed timeline of one device fails what the other does after it, and what the first does after that.
fn failures_propagate(pair: &Pair<'_>) -> Result<()> {
    let (here, there, back) = (semaphore(pair.here)?, semaphore(pair.there)?, semaphore(pair.here)?);
    let buffer = pair.buffer(&[7; 64])?;
    queue(pair.there).wait(&[here.at(1)]).signal(&[there.at(1)]).barrier(0)?;
    queue(pair.here).wait(&[there.at(1)]).signal(&[back.at(1)]).fill(&buffer, &[1], 0)?;
    here.fail(Error::new(StatusCode::DataLoss, "a failure of the test"));
    for semaphore in [&there, &back] {
        refused("what waits for it", pair.wait(semaphore, 1), &[StatusCode::DataLoss])?;
    }
    same_bytes("not filled", &pair.read(&buffer, 0, 64)?, &[7; 64])?;
    // A submission after the failure is refused, or fails.
    let late = semaphore(pair.there)?;
    let submitted = queue(pair.there).wait(&[here.at(1)]).signal(&[late.at(1)]).barrier(0);
    let outcome = submitted.and_then(|()| pair.wait(&late, 1));
    refused("work after the failure", outcome, &[StatusCode::DataLoss])
}

/// Fills, updates and copies on `there` of buffers of `here`, between work of `here`.
fn buffers_are_shared(pair: &Pair<'_>) -> Result<()> {
    let bytes = noise(256, 1);
    let (source, target) = (pair.buffer(&bytes)?, pair.buffer(&[0; 256])?);
    let own = pair.there.allocate_buffer(shared(), 256)?;
    let (here, there) = (semaphore(pair.here)?, semaphore(pair.there)?);
    queue(pair.here).signal(&[here.at(1)]).fill(BufferRef::range(&source, 0, 4), &[9], 0)?;
    let copied = queue(pair.there).wait(&[here.at(1)]).signal(&[there.at(1)]).copy(&source, &own, 0);
    if !pair.used(copied.and_then(|()| pair.wait(&there, 1)))? {
        return Ok(());
    }
    queue(pair.there).wait(&[there.at(1)]).signal(&[there.at(2)]).copy(&own, &target, 0)?;
    let update = BufferRef::range(&target, 8, 8);
    queue(pair.there).wait(&[there.at(2)]).signal(&[there.at(3)]).update(&[5; 8], update, 0)?;
    let fill = BufferRef::range(&target, 252, 4);
    queue(pair.here).wait(&[there.at(3)]).signal(&[here.at(2)]).fill(fill, &[6], 0)?;
    pair.wait(&here, 2)?;
    let mut expected = bytes;
    expected[..4].fill(9);
    expected[8..16].fill(5);
    expected[252..].fill(6);
    same_bytes("after both", &pair.read(&target, 0, 256)?, &expected)?;
    same_bytes("the other's", &pair.read(&own, 16, 16)?, &expected[16..32])
}

/// Buffers of `here` in command buffers of `there`, recorded and in slots, executed more than once.
fn buffers_in_command_buffers(pair: &Pair<'_>) -> Result<()> {
    let bytes = noise(64, 2);
    let (source, target) = (pair.buffer(&bytes)?, pair.buffer(&[0; 128])?);
    let commands = pair.there.create_command_buffer(CommandBufferParams {
        categories: CommandCategories::TRANSFER,
        ..CommandBufferParams::default().slots(1)
    })?;
    commands.begin()?;
    let recorded = commands.copy(BufferRef::range(&source, 0, 64), BufferRef::slot(0, 0, 64));
    if !pair.used(recorded)? {
        return Ok(());
    }
    commands.end()?;
    let done = semaphore(pair.there)?;
    for (round, offset) in [(0, 0), (1, 64)] {
        let table = [BufferRef::range(&target, offset, 64)];
        let executed = queue(pair.there)
            .wait(&[done.at(round)])
            .signal(&[done.at(round + 1)])
            .execute(&commands, &table, 0);
        if !pair.used(executed.and_then(|()| pair.wait(&done, round + 1)))? {
            return Ok(());
        }
    }
    same_bytes("copied twice", &pair.read(&target, 0, 128)?, &[&bytes[..], &bytes].concat())
}

/// A buffer that a queue of `here` allocates is used by `there`, and deallocated by either in queue order.
fn buffers_of_queues(pair: &Pair<'_>) -> Result<()> {
    for is_deallocated_here in [true, false] {
        let (here, there) = (semaphore(pair.here)?, semaphore(pair.there)?);
        let result = pair.there.allocate_buffer(shared(), 64)?;
        let buffer = queue(pair.here).signal(&[here.at(1)]).alloca(shared(), 64, 0)?;
        queue(pair.here).wait(&[here.at(1)]).signal(&[here.at(2)]).fill(&buffer, &[3], 0)?;
        let copied = queue(pair.there).wait(&[here.at(2)]).signal(&[there.at(1)]).copy(&buffer, &result, 0);
        if !pair.used(copied.and_then(|()| pair.wait(&there, 1)))? {
            return Ok(());
        }
        let device = if is_deallocated_here { pair.here } else { pair.there };
        queue(device).wait(&[there.at(1)]).signal(&[there.at(2)]).dealloca(&buffer, 0)?;
        pair.wait(&there, 2)?;
        same_bytes("copied", &pair.read(&result, 0, 64)?, &[3; 64])?;
        let used = queue(pair.there).signal(&[there.at(3)]).copy(&buffer, &result, 0);
        let used = used.and_then(|()| pair.wait(&there, 3));
        refused("a use after the dealloca", used, &[StatusCode::FailedPrecondition])?;
    }
    Ok(())
}

/// Memory of the host that `here` has imported.
fn imported_buffers(pair: &Pair<'_>) -> Result<()> {
    let memory = Arc::new(HostMemory::allocate_aligned(4096, 4096)?);
    memory.write(0, &noise(4096, 3))?;
    let imported = pair.here.import_buffer(shared(), &memory, Range { offset: 0, length: 4096 });
    let Ok(buffer) = imported else {
        return refused("import", imported, &[StatusCode::Unimplemented]);
    };
    let (own, done) = (pair.there.allocate_buffer(shared(), 4096)?, semaphore(pair.there)?);
    let copied = queue(pair.there).signal(&[done.at(1)]).copy(&buffer, &own, 0);
    if !pair.used(copied.and_then(|()| pair.wait(&done, 1)))? {
        return Ok(());
    }
    same_bytes("copied", &pair.read(&own, 0, 4096)?, &noise(4096, 3))?;
    queue(pair.there).wait(&[done.at(1)]).signal(&[done.at(2)]).fill(&buffer, &[4], 0)?;
    pair.wait(&done, 2)?;
    same_bytes("the host's memory", &memory.bytes(memory.whole())?, &[4; 4096])
}

/// Memory that is not requested for the host: the other device uses it if the host can map it anyway, or
/// refuses it and leaves everything as it is.
fn hidden_buffers(pair: &Pair<'_>) -> Result<()> {
    let params = BufferParams {
        memory_type: MemoryType::DEVICE_VISIBLE | MemoryType::DEVICE_LOCAL,
        access: MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD,
        ..BufferParams::default()
    };
    let buffer = pair.here.allocate_buffer(params, 64)?;
    transfer::write(&buffer, 0, &[1; 64])?;
    let (own, done) = (pair.there.allocate_buffer(shared(), 64)?, semaphore(pair.there)?);
    own.write(0, &[2; 64])?;
    let copied = queue(pair.there).signal(&[done.at(1)]).copy(&buffer, &own, 0);
    let copied = copied.and_then(|()| pair.wait(&done, 1));
    let mappable = MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT;
    if copied.is_ok() || buffer.params().memory_type.contains(mappable) {
        if pair.used(copied)? {
            same_bytes("copied", &pair.read(&own, 0, 64)?, &[1; 64])?;
        }
        return Ok(());
    }
    refused("hidden memory", copied, &NOT_SHARED)?;
    same_bytes("not copied", &pair.read(&own, 0, 64)?, &[2; 64])?;
    // What a program does instead works: through the host.
    transfer::write(&own, 0, &pair.read(&buffer, 0, 64)?)?;
    same_bytes("copied by the host", &pair.read(&own, 0, 64)?, &[1; 64])
}
