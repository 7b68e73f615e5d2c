//! Recorded programs on a discrete device, and payloads too large to be copied.

use rehal_base::Range;
use rehal_capture::{OperationCode as Code, Payload};
use rehal_cts::discrete::DiscreteDevice;
use rehal_hal::{
    BufferParams, BufferRef, DeviceGroup, HostFile, HostMemory, MemoryAccess, QUEUE_AFFINITY_ANY, transfer,
};
use rehal_replay::{Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions};

use crate::counting::{self, Calls, OVERWRITTEN};
use crate::memory::Memory;
use crate::program::{Program, Reads, each_operation, local_sync, mappable, operations, replay};

/// The capture of a program that stages has its writes and reads, and replays on shared and on discrete
/// memory.
#[test]
fn staged_transfers_are_recorded() {
    let program = Program::on(vec![DiscreteDevice::over(local_sync())], RecordOptions::default());
    let device = program.device();
    let hidden = device.allocate_buffer(BufferParams::default(), 5 << 20).unwrap();
    let bytes: Vec<u8> = (0..5_u32 << 20).map(|index| (index / 3) as u8).collect();
    transfer::write(&hidden, 0, &bytes).unwrap();
    device.queue(QUEUE_AFFINITY_ANY).fill(BufferRef::range(&hidden, 100, 8), &[7], 0).unwrap();
    let mut expected = bytes;
    expected[100..108].fill(7);
    assert!(transfer::to_vec(&hidden, 0, 5 << 20).unwrap() == expected);

    let capture = program.capture();
    let copies =
        operations(&capture).into_iter().filter(|(code, _)| *code == Code::DEVICE_QUEUE_COPY).count();
    assert_eq!(copies, 4, "two pieces to the device and two back");
    let mut seen = Reads::default();
    replay(&capture, &mut seen).unwrap();
    assert!(seen.0.concat() == expected);
    let plan = Plan::compile(capture, PlanOptions::default()).unwrap();
    let devices = DeviceGroup::new(vec![DiscreteDevice::over(local_sync())]).unwrap();
    let mut seen = Reads::default();
    Replay::new(plan, &devices, &ReplayOptions::default()).unwrap().run(&mut [&mut seen]).unwrap();
    assert!(seen.0.concat() == expected);
}

/// A device may reject an empty staging buffer.
#[test]
fn empty_transfers_are_not_staged() {
    let program = Program::on(vec![DiscreteDevice::over(local_sync())], RecordOptions::default());
    let hidden = program.device().allocate_buffer(BufferParams::default(), 16).unwrap();
    transfer::write(&hidden, 16, &[]).unwrap();
    assert!(transfer::to_vec(&hidden, 3, 0).unwrap().is_empty());
    let length = transfer::view(&hidden, 0, 0, |memory| Ok(memory.length())).unwrap();
    assert_eq!(length, 0);
    assert!(transfer::write(&hidden, 17, &[]).is_err() && transfer::to_vec(&hidden, 17, 0).is_err());
    let codes: Vec<_> = operations(&program.capture()).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes.iter().filter(|code| **code == Code::ALLOCATOR_ALLOCATE_BUFFER).count(), 1, "{codes:?}");
}

/// The device may overwrite flushed bytes before the recorder has written them. The record must have the
/// bytes of the mapping, whether the payload is copied or not.
#[test]
fn flushes_and_unmaps_record_the_bytes_of_the_mapping() {
    for size in [16_u64, 1 << 20] {
        let program = Program::on(vec![counting::device(&Calls::default())], RecordOptions::default());
        let buffer = program.device().allocate_buffer(mappable(), size).unwrap();
        let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, 4, size - 4).unwrap();
        let mut shown: Vec<u8> = (0..size as u32 - 4).map(|index| (index / 5) as u8).collect();
        mapping.write(0, &shown).unwrap();
        mapping.flush(2, size - 8).unwrap();
        let flushed = shown[2..][..size as usize - 8].to_vec();
        mapping.write(3, &[1, 2]).unwrap();
        shown[3..5].copy_from_slice(&[1, 2]);
        mapping.unmap().unwrap();
        assert!(
            transfer::to_vec(&buffer, 4, size - 4).unwrap().iter().all(|byte| *byte == OVERWRITTEN),
            "the device's memory differs from the mapping"
        );

        let mut written = Vec::new();
        each_operation(&program.capture(), |record| {
            if let Ok(Payload::BufferRangeData(it)) = record.payload() {
                written.push((it.byte_offset.get(), it.data.to_vec()));
            }
        });
        assert!(written == [(6, flushed), (4, shown)], "{size} bytes");
    }
}

/// Large payloads bypass the buffer, in different ways for files and memory: both must equal the same bytes
/// in constant memory.
#[test]
fn large_writes_are_recorded_the_same_to_files_and_to_memory() {
    const SIZE: u64 = (1 << 20) + 5;
    let bytes: Vec<u8> = (0..SIZE as u32).map(|index| (index * 7 / 5) as u8).collect();
    let run = |recorder: &Recorder, is_constant: bool| {
        let group = recorder.wrap(&DeviceGroup::new(vec![local_sync()]).unwrap()).unwrap();
        let device = &group.devices()[0];
        let buffer = device.allocate_buffer(mappable(), SIZE).unwrap();
        buffer.write(0, &bytes).unwrap();
        let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, 3, SIZE - 3).unwrap();
        mapping.write(5, &[1; 9]).unwrap();
        mapping.flush(1, SIZE - 10).unwrap();
        mapping.unmap().unwrap();
        let of = || {
            let memory = HostMemory::allocate(SIZE).unwrap();
            memory.write(0, &bytes).unwrap();
            if is_constant { memory.into_constant().unwrap() } else { memory }
        };
        let params = BufferParams { access: MemoryAccess::READ, ..mappable() };
        let range = Range { offset: 64, length: SIZE - 64 };
        device.import_buffer(params, &std::sync::Arc::new(of()), range).unwrap();
        let file = HostFile::Memory(of());
        device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, file).unwrap();
        recorder.close().unwrap();
    };
    let in_memory = |is_constant| {
        let memory = Memory::default();
        run(&Recorder::to(memory.clone(), RecordOptions::default()).unwrap(), is_constant);
        memory.bytes()
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.ireereplay");
    run(&Recorder::create(&path, RecordOptions::default()).unwrap(), false);
    let in_file = std::fs::read(&path).unwrap();
    assert!(in_file.len() as u64 > 5 * SIZE);
    assert!(in_file == in_memory(false));
    assert!(in_file == in_memory(true));
    // And equal the written bytes, each range from its start.
    let mut written = Vec::new();
    each_operation(&in_file, |record| {
        if let Ok(Payload::BufferRangeData(it)) = record.payload() {
            written.push((it.byte_offset.get(), it.data.to_vec()));
        }
    });
    let mut shown = bytes.clone();
    shown[8..17].fill(1);
    let flushed = shown[4..][..SIZE as usize - 10].to_vec();
    assert!(written == [(0, bytes.clone()), (4, flushed), (3, shown[3..].to_vec())]);
    replay(&in_file, &mut Reads::default()).unwrap();
}
