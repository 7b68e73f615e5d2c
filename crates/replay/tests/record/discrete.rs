//! Captures on a device whose memory is apart from the host's: replayed, recorded, and recorded while they are replayed.

use rehal_base::{Range, Result};
use rehal_capture::OperationCode as Code;
use rehal_cts::discrete::DiscreteDevice;
use rehal_hal::{
    BufferParams, BufferRef, DeviceGroup, HostFile, HostMemory, MemoryAccess, QUEUE_AFFINITY_ANY, transfer,
};
use rehal_replay::{FileRemap, Observer, Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions};

use crate::again::captures;
use crate::memory::Memory;
use crate::program::{Program, Reads, Work, local_sync, operations, replay};

fn group(count: usize, is_discrete: bool) -> DeviceGroup {
    let device = || if is_discrete { DiscreteDevice::over(local_sync()) } else { local_sync() };
    DeviceGroup::new((0..count).map(|_| device()).collect()).unwrap()
}

/// What a replay reads back; where it ends with an error, that is the last.
fn reads(bytes: &[u8], devices: &DeviceGroup, remaps: &[FileRemap]) -> Result<Vec<Vec<u8>>> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default())?;
    let options = ReplayOptions { file_remaps: remaps.to_vec(), ..ReplayOptions::default() };
    let mut reads = Reads::default();
    let observers: &mut [&mut dyn Observer] = &mut [&mut reads];
    Replay::new(plan, devices, &options)?.run(observers)?;
    Ok(reads.0)
}

/// Captures of real programs write inputs through mappings and read results through them. Where nothing of that can be
/// mapped it is staged, and what is read is the same; and so is what a capture of the replay reads.
#[test]
fn captures_replay_as_on_a_device_that_shares_memory() {
    let (mut compared, mut refused) = (0, 0);
    for (path, remaps) in captures() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        // Crashes end the process, and matrices take an interpreter of an unoptimised build a minute.
        if name.contains("crash.") || (name.starts_with("matmul") && name.contains(".vmvx.")) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let count = if name.starts_with("two_devices") { 2 } else { 1 };
        let shared = reads(&bytes, &group(count, false), &remaps);
        let apart = reads(&bytes, &group(count, true), &remaps);
        match (shared, apart) {
            (Ok(shared), Ok(apart)) => {
                assert!(shared == apart, "{name} reads something else");
                assert!(
                    shared == through_a_recorder(&bytes, count, &remaps),
                    "{name} is recorded as something else"
                );
                compared += 1;
            }
            (Err(shared), Err(apart)) => {
                assert_eq!(shared.report(), apart.report(), "{name}");
                refused += 1;
            }
            (Ok(_), Err(error)) => panic!("{name}: {}", error.report()),
            (Err(error), Ok(_)) => panic!("{name} fails on shared memory alone: {}", error.report()),
        }
    }
    assert!(compared > 50 && refused > 0, "{compared} captures compared, {refused} refused");
}

/// What the capture of a replay on a discrete device reads in the end.
fn through_a_recorder(bytes: &[u8], count: usize, remaps: &[FileRemap]) -> Vec<Vec<u8>> {
    let memory = Memory::default();
    let recorder = Recorder::to(memory.clone(), RecordOptions::default()).unwrap();
    let recorded = recorder.wrap(&group(count, true)).unwrap();
    let first = reads(bytes, &recorded, remaps).unwrap();
    recorder.close().unwrap();
    // Of what is staged, the capture reads the staging buffers as well, and in pieces.
    let again = reads(&memory.bytes(), &group(count, true), &[]).unwrap();
    assert_eq!(again.concat(), first.concat());
    first
}

/// A program on record that stages: what it wrote and read is in the capture, which replays on either kind of device.
#[test]
fn a_program_that_stages_is_recorded() {
    let program = Program::on(vec![DiscreteDevice::over(local_sync())], RecordOptions::default());
    let device = program.device();
    let hidden = device.allocate_buffer(BufferParams::default(), 5 << 20).unwrap();
    let bytes: Vec<u8> = (0..5_u32 << 20).map(|index| (index / 3) as u8).collect();
    transfer::write(&hidden, 0, &bytes).unwrap();
    let fill = Work::Fill { target: BufferRef::range(&hidden, 100, 8), pattern: &[7], flags: 0 };
    device.submit(QUEUE_AFFINITY_ANY, &[], &[], fill).unwrap();
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
    assert!(reads(&capture, &group(1, true), &[]).unwrap().concat() == expected);
}

/// Bytes that are too many to be copied go to the sink on a way of their own, which is another for files: both are what
/// the same bytes in constant memory are.
#[test]
fn large_writes_are_recorded_the_same_to_files_and_to_memory() {
    const SIZE: u64 = (1 << 20) + 5;
    let bytes: Vec<u8> = (0..SIZE as u32).map(|index| (index * 7 / 5) as u8).collect();
    let run = |recorder: &Recorder, is_constant: bool| {
        let group = recorder.wrap(&group(1, false)).unwrap();
        let device = &group.devices()[0];
        let buffer = device.allocate_buffer(crate::program::mappable(), SIZE).unwrap();
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
        let params = BufferParams { access: MemoryAccess::READ, ..crate::program::mappable() };
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
    replay(&in_file, &mut Reads::default()).unwrap();
}
