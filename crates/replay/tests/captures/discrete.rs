//! Captures replayed on a discrete device, bare and recorded.

use std::path::Path;

use rehal_base::Result;
use rehal_cts::discrete::DiscreteDevice;
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    FileRemap, HostRead, Observer, Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions,
};

use crate::again::captures;
use crate::written::Memory;

fn group(count: usize, is_discrete: bool) -> DeviceGroup {
    let shared = || LocalSync::create(Plugins::default());
    let device = || if is_discrete { DiscreteDevice::over(shared()) } else { shared() };
    DeviceGroup::new((0..count).map(|_| device()).collect()).unwrap()
}

/// The bytes of host reads.
#[derive(Default)]
struct Reads(Vec<Vec<u8>>);

impl Observer for Reads {
    fn wants_host_reads(&self) -> bool {
        true
    }

    // Programs read padding that nothing wrote.
    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.0.push(read.to_vec());
        Ok(())
    }
}

/// The host reads of a replay.
fn reads(bytes: &[u8], devices: &DeviceGroup, remaps: &[FileRemap]) -> Result<Vec<Vec<u8>>> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default())?;
    let options = ReplayOptions::default().file_remaps(remaps.to_vec());
    let mut reads = Reads::default();
    Replay::new(plan, devices, &options)?.run(&mut [&mut reads])?;
    Ok(reads.0)
}

/// Captures of real programs write inputs and read results through mappings. On a device without mappable
/// memory these are staged: the host reads must be the same, and so must those of a capture of the replay.
pub fn captures_replay_as_on_shared_memory(set: &Path) {
    let (mut compared, mut refused) = (0, 0);
    for (path, remaps) in captures(set) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        // Crashes end the process, and matrix products take the interpreter of an unoptimised build a minute.
        if name.contains("crash.") || (name.starts_with("matmul") && name.contains(".vmvx.")) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let count = if name.starts_with("two_devices") { 2 } else { 1 };
        let shared = reads(&bytes, &group(count, false), &remaps);
        let apart = reads(&bytes, &group(count, true), &remaps);
        match (shared, apart) {
            (Ok(shared), Ok(apart)) => {
                assert!(shared == apart, "{name}: host reads differ");
                assert!(
                    shared == through_a_recorder(&bytes, count, &remaps),
                    "{name}: host reads of the new capture differ"
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

/// The host reads of a capture of a replay on a discrete device.
fn through_a_recorder(bytes: &[u8], count: usize, remaps: &[FileRemap]) -> Vec<Vec<u8>> {
    let memory = Memory::default();
    let recorder = Recorder::to(memory.clone(), RecordOptions::default()).unwrap();
    let recorded = recorder.wrap(&group(count, true)).unwrap();
    let first = reads(bytes, &recorded, remaps).unwrap();
    recorder.close().unwrap();
    // The capture also has the reads of the staging buffers, in pieces.
    let again = reads(&memory.bytes(), &group(count, true), &[]).unwrap();
    assert_eq!(again.concat(), first.concat());
    first
}
