//! Transfers between the host and a discrete device, and the consequences of omitting synchronization with
//! it.

use rehal_base::{HostMemory, Range, Result, StatusCode};
use rehal_cts::discrete::{DiscreteDevice, JUNK};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, Device, MemoryAccess, MemoryType, QUEUE_AFFINITY_ANY, WHOLE_BUFFER,
    transfer,
};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;

const WRITE: MemoryAccess = MemoryAccess::WRITE.union(MemoryAccess::DISCARD);

fn device() -> Device {
    DiscreteDevice::over(LocalSync::create(Plugins::default()))
}

/// A buffer that is not host-visible.
fn hidden(device: &Device, size: u64) -> Buffer {
    let buffer = device.allocate_buffer(BufferParams::default(), size).unwrap();
    assert!(!buffer.is_mappable());
    buffer
}

/// A host-visible buffer.
fn visible(device: &Device, size: u64) -> Buffer {
    let params = BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    let buffer = device.allocate_buffer(params, size).unwrap();
    assert!(buffer.is_mappable());
    assert!(!buffer.params().memory_type.contains(MemoryType::HOST_COHERENT), "it is a copy");
    buffer
}

fn fill(device: &Device, target: &Buffer, value: u8) {
    device.queue(QUEUE_AFFINITY_ANY).fill(target, &[value], 0).unwrap();
}

fn copy(device: &Device, source: &Buffer, target: &Buffer) {
    device.queue(QUEUE_AFFINITY_ANY).copy(source, target, 0).unwrap();
}

fn noise(length: usize) -> Vec<u8> {
    (0..length as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Sizes around the multiples of the staging size.
const SIZES: [usize; 7] = [0, 1, 100, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (9 << 20) + 77];

#[test]
fn writes_are_read_back_from_any_memory() {
    let device = device();
    for size in SIZES {
        for buffer in [hidden(&device, size as u64), visible(&device, size as u64)] {
            let bytes = noise(size);
            transfer::write(&buffer, 0, &bytes).unwrap();
            assert!(transfer::to_vec(&buffer, 0, WHOLE_BUFFER).unwrap() == bytes, "{size} bytes");
            let held = transfer::view(&buffer, 0, WHOLE_BUFFER, |memory| {
                Ok(memory.bytes(memory.whole())?.into_owned())
            });
            assert!(held.unwrap() == bytes, "{size} bytes");
        }
    }
}

#[test]
fn ranges_of_subspans_have_the_right_offsets() {
    let device = device();
    for whole in [hidden(&device, 5 << 20), visible(&device, 5 << 20)] {
        fill(&device, &whole, 9);
        let part = whole.subspan(1000, (4 << 20) + 500).unwrap();
        let bytes = noise((4 << 20) + 100);
        transfer::write(&part, 300, &bytes).unwrap();
        let mut expected = vec![9; 5 << 20];
        expected[1300..1300 + bytes.len()].copy_from_slice(&bytes);
        assert!(transfer::to_vec(&whole, 0, WHOLE_BUFFER).unwrap() == expected);
        assert!(transfer::to_vec(&part, 200, 1000).unwrap() == expected[1200..2200]);
        for (offset, length) in [((4 << 20) + 400, 101), (u64::MAX, 1), ((4 << 20) + 501, WHOLE_BUFFER)] {
            let code = transfer::to_vec(&part, offset, length).unwrap_err().code();
            assert_eq!(code, StatusCode::OutOfRange);
        }
        let beyond = transfer::write(&part, (4 << 20) + 400, &[0; 101]).unwrap_err();
        assert_eq!(beyond.code(), StatusCode::OutOfRange);
    }
}

#[test]
fn producers_and_consumers_see_pieces_in_order() {
    let device = device();
    let size = (9 << 20) + 77;
    let bytes = noise(size);
    for (buffer, pieces) in [(hidden(&device, size as u64), 3), (visible(&device, size as u64), 1)] {
        let (mut at, mut calls) = (0, 0);
        let give = |memory: &HostMemory, range: Range| {
            let length = range.length as usize;
            memory.write(range.offset, &bytes[at..at + length])?;
            (at, calls) = (at + length, calls + 1);
            Ok(())
        };
        transfer::write_with(&buffer, WRITE, 0, WHOLE_BUFFER, give).unwrap();
        assert_eq!((at, calls), (size, pieces));
        let mut found = Vec::new();
        let take = |memory: &HostMemory, range: Range| -> Result<()> {
            found.extend_from_slice(&memory.bytes(range)?);
            Ok(())
        };
        transfer::read_with(&buffer, 0, WHOLE_BUFFER, take).unwrap();
        assert!(found == bytes);
        let stop = |_: &HostMemory, _: Range| Err(rehal_base::Error::new(StatusCode::Aborted, "enough"));
        assert_eq!(transfer::read_with(&buffer, 0, 100, stop).unwrap_err().code(), StatusCode::Aborted);
        assert_eq!(
            transfer::write_with(&buffer, WRITE, 0, 100, stop).unwrap_err().code(),
            StatusCode::Aborted
        );
    }
}

/// The start of a range is written, even if more of it is mapped.
#[test]
fn the_start_of_a_mapped_range_is_written() {
    let device = device();
    for buffer in [hidden(&device, 16), visible(&device, 16)] {
        fill(&device, &buffer, 1);
        transfer::write_as(&buffer, MemoryAccess::WRITE, 4, 8, &[2, 3]).unwrap();
        let expected = [1, 1, 1, 1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
        assert_eq!(transfer::to_vec(&buffer, 0, 16).unwrap(), expected);
    }
}

#[test]
fn a_buffer_that_can_be_neither_mapped_nor_copied_is_an_error() {
    let device = device();
    let params = BufferParams { usage: BufferUsage::DISPATCH_STORAGE_READ, ..BufferParams::default() };
    let buffer = device.allocate_buffer(params, 16).unwrap();
    for error in
        [transfer::to_vec(&buffer, 0, 16).unwrap_err(), transfer::write(&buffer, 0, &[0; 16]).unwrap_err()]
    {
        assert_eq!(error.code(), StatusCode::FailedPrecondition);
        assert!(error.message().contains("the host cannot map memory of type"), "{error}");
    }
}

/// If a piece fails, the transfer fails: earlier pieces are transferred, later ones unchanged.
#[test]
fn a_failed_piece_fails_the_transfer() {
    let device = device();
    let buffer = hidden(&device, 9 << 20);
    fill(&device, &buffer, 1);
    let mut pieces = 0;
    let give = |memory: &HostMemory, range: Range| {
        pieces += 1;
        memory.fill(range.offset, range.length, &[pieces + 1])?;
        if pieces == 2 { Err(rehal_base::Error::data_loss("no more")) } else { Ok(()) }
    };
    let error = transfer::write_with(&buffer, WRITE, 0, WHOLE_BUFFER, give).unwrap_err();
    assert_eq!((error.code(), pieces), (StatusCode::DataLoss, 2));
    let bytes = transfer::to_vec(&buffer, 0, WHOLE_BUFFER).unwrap();
    assert!(bytes[..4 << 20].iter().all(|byte| *byte == 2) && bytes[4 << 20..].iter().all(|byte| *byte == 1));

    // The memory is deallocated between two pieces: the copy of the second fails its semaphore.
    let mut seen = 0;
    let take = |_: &HostMemory, range: Range| {
        seen += range.length;
        device.queue(QUEUE_AFFINITY_ANY).dealloca(&buffer, 0)
    };
    let error = transfer::read_with(&buffer, 0, WHOLE_BUFFER, take).unwrap_err();
    assert_eq!((error.code(), seen), (StatusCode::FailedPrecondition, 4 << 20));
    assert!(error.to_string().contains("after its dealloca"), "{error}");
    let error = transfer::write(&buffer, 0, &[0; 4]).unwrap_err();
    assert_eq!(error.code(), StatusCode::FailedPrecondition);
    assert!(transfer::view(&buffer, 0, 4, |_| Ok(())).is_err());
}

/// Mapping a range that the device then writes, without invalidating, reads the previous contents.
#[test]
fn without_invalidate_reads_are_stale() {
    let device = device();
    let buffer = visible(&device, 4);
    fill(&device, &buffer, 1);
    let mapping = buffer.map(MemoryAccess::READ, 0, 4).unwrap();
    fill(&device, &buffer, 2);
    assert_eq!(mapping.source().unwrap().load(0).unwrap(), [1; 4], "stale");
    mapping.invalidate(1, 2).unwrap();
    assert_eq!(mapping.source().unwrap().load(0).unwrap(), [1, 2, 2, 1], "the rest is still stale");
    drop(mapping);
    assert_eq!(transfer::to_vec(&buffer, 0, 4).unwrap(), [2; 4]);
}

/// Writing through a mapping that the device then reads, without flushing, has no effect.
#[test]
fn without_flush_writes_are_lost() {
    let device = device();
    let (buffer, seen) = (visible(&device, 4), visible(&device, 4));
    fill(&device, &buffer, 1);
    let mapping = buffer.map(MemoryAccess::WRITE, 0, 4).unwrap();
    mapping.write(0, &[2; 4]).unwrap();
    copy(&device, &buffer, &seen);
    assert_eq!(transfer::to_vec(&seen, 0, 4).unwrap(), [1; 4], "stale");
    mapping.flush(1, 2).unwrap();
    copy(&device, &buffer, &seen);
    assert_eq!(transfer::to_vec(&seen, 0, 4).unwrap(), [1, 2, 2, 1], "the rest is still stale");
    mapping.unmap().unwrap();
    copy(&device, &buffer, &seen);
    assert_eq!(transfer::to_vec(&seen, 0, 4).unwrap(), [2; 4]);
}

/// Bytes that are mapped for discarding and not written are lost.
#[test]
fn discarded_bytes_are_lost() {
    let device = device();
    let buffer = visible(&device, 4);
    fill(&device, &buffer, 1);
    buffer.map(WRITE, 0, 4).unwrap().write(1, &[5]).unwrap();
    assert_eq!(transfer::to_vec(&buffer, 0, 4).unwrap(), [JUNK, 5, JUNK, JUNK]);
}

#[test]
fn device_local_memory_cannot_be_mapped() {
    let device = device();
    let wishes = MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE;
    let params = BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        memory_type: wishes,
        ..BufferParams::default()
    };
    let buffer = device.allocate_buffer(params, 4).unwrap();
    assert!(!buffer.params().memory_type.contains(MemoryType::HOST_VISIBLE));
    assert_eq!(buffer.map(MemoryAccess::READ, 0, 4).err().unwrap().code(), StatusCode::FailedPrecondition);
    assert!(
        rehal_hal::PlainBuffer::memory_of(&buffer).is_err(),
        "its memory does not belong to a CPU driver"
    );
}
