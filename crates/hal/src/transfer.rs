//! Transfers between the host and buffers, wherever their memory is.
//!
//! Mappable buffers are mapped once, as a whole. Others are staged: copied in pieces by a queue of the
//! buffer's device, to or from a host-visible buffer. So is what the host reads from memory that it does not
//! cache, such as that of a GPU behind a bus, of which it reads some ten megabytes in a second. Either way
//! the calling thread blocks. As for any host access, the caller must have waited for device work that writes
//! the range (or reads it, before a write). All code except drivers transfers bytes with these functions,
//! unless a capture must show other calls.

use std::cell::Cell;

use rehal_base::{Error, HostMemory, OwnBytes, Range, Result, StatusCode};

use crate::flags::*;
use crate::{Buffer, BufferParams, BufferRef, Device, Mapping, Semaphore};

/// Maximum number of bytes staged at a time.
const PIECE_BYTES: u64 = 4 << 20;
/// Reads of fewer bytes from uncached memory take no longer than a copy of the device.
pub const UNCACHED_BYTES: u64 = 16 << 10;

/// Reads bytes of a buffer at `offset`.
pub fn read(buffer: &Buffer, offset: u64, target: &mut [u8]) -> Result<()> {
    let mut rest = &mut *target;
    read_with(buffer, offset, rest.len() as u64, |memory, range| {
        let (piece, behind) = std::mem::take(&mut rest).split_at_mut(range.length as usize);
        rest = behind;
        memory.read(range.offset, piece)
    })
}

/// Copies a range of a buffer; `length` may be [`WHOLE_BUFFER`]. Fails if the allocation fails.
pub fn to_vec(buffer: &Buffer, offset: u64, length: u64) -> Result<Vec<u8>> {
    let length = buffer.resolve(offset, length)?.length as usize;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| Error::resource_exhausted(format!("cannot copy {length} bytes to the host")))?;
    bytes.resize(length, 0);
    read(buffer, offset, &mut bytes)?;
    Ok(bytes)
}

/// The same as memory. Pages that are still those of a file take none: see [`HostMemory::to_copy`].
pub fn to_memory(buffer: &Buffer, offset: u64, length: u64) -> Result<HostMemory> {
    if device_for_reading(buffer, offset, length).is_some() {
        return staged(buffer, offset, length);
    }
    buffer.map(MemoryAccess::READ, offset, length)?.into_copy()
}

/// The same, as bytes.
#[doc(hidden)]
pub fn to_own(buffer: &Buffer, offset: u64, length: u64) -> Result<OwnBytes> {
    OwnBytes::new(to_memory(buffer, offset, length)?)
}

/// Passes the bytes of a range to `take` in pieces, in order; `length` may be [`WHOLE_BUFFER`]. A mapped
/// range is one piece, even if empty.
pub fn read_with(
    buffer: &Buffer,
    offset: u64,
    length: u64,
    mut take: impl FnMut(&HostMemory, Range) -> Result<()>,
) -> Result<()> {
    let Some(device) = device_for_reading(buffer, offset, length) else {
        let mapping = buffer.map(MemoryAccess::READ, offset, length)?;
        take(mapping.source()?, whole(&mapping))?;
        return mapping.unmap();
    };
    Staging::pieces(device, buffer, buffer.resolve(offset, length)?.length, |staging, range| {
        staging.copy((buffer, offset + range.offset), (&staging.buffer, 0), range.length)?;
        let mapping = staging.buffer.map(MemoryAccess::READ, 0, range.length)?;
        take(mapping.source()?, whole(&mapping))?;
        mapping.unmap()
    })
}

/// Passes a range of a buffer to `look` as one memory: mapped if the host caches it, otherwise a copy. Fails
/// if the allocation fails.
pub fn view<R>(
    buffer: &Buffer,
    offset: u64,
    length: u64,
    look: impl FnOnce(&HostMemory) -> Result<R>,
) -> Result<R> {
    if device_for_reading(buffer, offset, length).is_none() {
        let mapping = buffer.map(MemoryAccess::READ, offset, length)?;
        let result = look(mapping.source()?)?;
        return mapping.unmap().map(|()| result);
    }
    look(&staged(buffer, offset, length)?)
}

/// A copy of a range in memory of the host.
fn staged(buffer: &Buffer, offset: u64, length: u64) -> Result<HostMemory> {
    let copy = HostMemory::allocate(buffer.resolve(offset, length)?.length)?;
    let mut done = 0;
    read_with(buffer, offset, length, |memory, range| {
        copy.copy_from(done, memory, range.offset, range.length)?;
        done += range.length;
        Ok(())
    })?;
    Ok(copy)
}

/// Writes bytes to a buffer at `offset`.
pub fn write(buffer: &Buffer, offset: u64, source: &[u8]) -> Result<()> {
    let access = MemoryAccess::WRITE | (MemoryAccess::DISCARD & buffer.params().access);
    write_as(buffer, access, offset, source.len() as u64, source)
}

/// As [`write`]. Pages of files that the bytes have become the buffer's, if they can.
#[doc(hidden)]
pub fn write_own(buffer: &Buffer, offset: u64, source: &OwnBytes) -> Result<()> {
    if !buffer.is_mappable() {
        return write(buffer, offset, source);
    }
    let access = MemoryAccess::WRITE | (MemoryAccess::DISCARD & buffer.params().access);
    let mapping = buffer.map(access, offset, source.len() as u64)?;
    mapping.target()?.share(0, source)?;
    mapping.unmap()
}

/// [`write`] to the start of a range, all of which is mapped for `access` if it is mappable.
pub fn write_as(
    buffer: &Buffer,
    access: MemoryAccess,
    offset: u64,
    length: u64,
    source: &[u8],
) -> Result<()> {
    if buffer.is_mappable() || buffer.device().is_none() {
        let mapping = buffer.map(access, offset, length)?;
        mapping.write(0, source)?;
        return mapping.unmap();
    }
    let mut rest = source;
    write_with(buffer, access, offset, source.len() as u64, |memory, range| {
        let (piece, behind) = rest.split_at(range.length as usize);
        rest = behind;
        memory.write(range.offset, piece)
    })
}

/// Lets `give` write the bytes of a range in pieces, in order: all of them, whatever the `access` with which
/// the range is mapped. `length` may be [`WHOLE_BUFFER`]. A mapped range is one piece, even if empty.
pub fn write_with(
    buffer: &Buffer,
    access: MemoryAccess,
    offset: u64,
    length: u64,
    mut give: impl FnMut(&HostMemory, Range) -> Result<()>,
) -> Result<()> {
    let Some(device) = staging_device(buffer, BufferUsage::TRANSFER_TARGET) else {
        let mapping = buffer.map(access, offset, length)?;
        give(mapping.target()?, whole(&mapping))?;
        return mapping.unmap();
    };
    Staging::pieces(device, buffer, buffer.resolve(offset, length)?.length, |staging, range| {
        let mapping = staging.buffer.map(MemoryAccess::WRITE | MemoryAccess::DISCARD, 0, range.length)?;
        give(mapping.target()?, whole(&mapping))?;
        mapping.unmap()?;
        staging.copy((&staging.buffer, 0), (buffer, offset + range.offset), range.length)
    })
}

/// The device for staging, if the buffer cannot be mapped but copied. If it supports neither, the error of
/// mapping it explains why.
fn staging_device(buffer: &Buffer, usage: BufferUsage) -> Option<&Device> {
    match buffer.is_mappable() || !buffer.params().usage.contains(usage) {
        true => None,
        false => buffer.device(),
    }
}

/// The device for staging what the host reads, if the buffer cannot be mapped, or mapping it would be slow.
fn device_for_reading(buffer: &Buffer, offset: u64, length: u64) -> Option<&Device> {
    if !buffer.is_mappable() {
        return staging_device(buffer, BufferUsage::TRANSFER_SOURCE);
    }
    let params = buffer.params();
    let can_copy =
        params.usage.contains(BufferUsage::TRANSFER_SOURCE) && params.access.contains(MemoryAccess::READ);
    if params.memory_type.contains(MemoryType::HOST_CACHED) || !can_copy {
        return None;
    }
    let length = buffer.resolve(offset, length).ok()?.length;
    let device = buffer.device().filter(|_| length >= UNCACHED_BYTES)?;
    // Devices that have no other memory, as those whose memory is the host's, do not tell cached memory
    // apart.
    let staging = device.backend().grant(Staging::params(params.affinity)).ok()?;
    staging.memory_type.contains(MemoryType::HOST_CACHED).then_some(device)
}

fn whole(mapping: &Mapping) -> Range {
    Range { offset: 0, length: mapping.length() }
}

/// A host-visible buffer, and the semaphore that its copies signal.
struct Staging<'d> {
    device: &'d Device,
    affinity: QueueAffinity,
    buffer: Buffer,
    done: Semaphore,
    copies: Cell<u64>,
}

impl<'d> Staging<'d> {
    /// The parameters of the buffer.
    fn params(affinity: QueueAffinity) -> BufferParams {
        BufferParams {
            usage: BufferUsage::TRANSFER | BufferUsage::MAPPING_SCOPED,
            access: MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD,
            memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
            affinity,
            min_alignment: 0,
            file_offset: None,
        }
    }

    /// Staging for `length` bytes of `buffer`, or a piece of them.
    fn new(device: &'d Device, buffer: &Buffer, length: u64) -> Result<Self> {
        let affinity = buffer.params().affinity;
        let staging = device.allocate_buffer(Self::params(affinity), length.min(PIECE_BYTES))?;
        if !staging.is_mappable() {
            return Err(Error::new(
                StatusCode::FailedPrecondition,
                format!("device '{}' has no host-visible memory", device.info().name),
            ));
        }
        let done = device.create_semaphore(affinity, 0, SemaphoreFlags::HOST_INTERRUPT)?;
        Ok(Self { device, affinity, buffer: staging, done, copies: Cell::new(0) })
    }

    /// Calls `step` with each piece of `length` bytes of `buffer`. Without pieces, the device is not used.
    fn pieces(
        device: &'d Device,
        buffer: &Buffer,
        length: u64,
        mut step: impl FnMut(&Self, Range) -> Result<()>,
    ) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let staging = Self::new(device, buffer, length)?;
        let mut offset = 0;
        while offset < length {
            let piece = Range { offset, length: PIECE_BYTES.min(length - offset) };
            step(&staging, piece)?;
            offset += piece.length;
        }
        Ok(())
    }

    /// Copies on the device and waits.
    fn copy(&self, source: (&Buffer, u64), target: (&Buffer, u64), length: u64) -> Result<()> {
        let place = |(buffer, offset): (_, u64)| BufferRef::range(buffer, offset, length);
        let value = self.copies.get() + 1;
        self.copies.set(value);
        let signals = [self.done.at(value)];
        self.device.queue(self.affinity).signal(&signals).copy(place(source), place(target), 0)?;
        self.device.flush(self.affinity)?;
        self.done.wait(value, None)
    }
}
