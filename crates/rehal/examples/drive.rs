//! Records a program that drives a device itself, then replays the capture:
//! `cargo run --example drive -- CAPTURE.ireereplay`.

use std::path::Path;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::device::{BufferParams, DeviceOptions, QUEUE_AFFINITY_ANY, SemaphoreFlags, transfer};
use rehal::record::{RecordOptions, Recorder};
use rehal::replay::{HostReadLog, Replay, ReplayOptions};
use rehal::{Error, Result};

/// Fills a buffer, copies it to another one and reads that back, recording to a capture.
pub fn drive(capture: &Path) -> Result<Vec<u8>> {
    let recorder = Recorder::create(capture, RecordOptions::default())?;
    // The recorder's device is used like any other.
    let devices = recorder.wrap(&DeviceOptions::default().open()?)?;
    let outcome = recorder.scope("execute").and_then(|_scope| fill_and_copy(&devices.devices()[0]));
    // The capture is closed even if the work failed.
    let closed = recorder.close();
    outcome.and_then(|bytes| closed.map(|()| bytes))
}

fn fill_and_copy(device: &rehal::device::Device) -> Result<Vec<u8>> {
    let params = BufferParams::default().mappable();
    let (source, target) = (device.allocate_buffer(params, 16)?, device.allocate_buffer(params, 16)?);
    let timeline = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
    let queue = || device.queue(QUEUE_AFFINITY_ANY);
    queue().signal(&[timeline.at(1)]).fill(&source, &[1, 2, 3, 4], 0)?;
    queue().wait(&[timeline.at(1)]).signal(&[timeline.at(2)]).copy(&source, &target, 0)?;
    timeline.wait(2, None)?;
    transfer::to_vec(&target, 0, 16)
}

/// Replays it. Returns the host reads as JSON lines.
pub fn replay(capture: &Path) -> Result<Vec<u8>> {
    let plan = CaptureFile::open(capture, &CaptureOptions::default())?.plan()?;
    let replay = Replay::new(plan, &DeviceOptions::default().open()?, &ReplayOptions::default())?;
    let mut reads = HostReadLog::new(Vec::new(), 64);
    replay.run(&mut [&mut reads])?;
    reads.finish()
}

#[allow(dead_code, reason = "the test of this example calls what it calls")]
fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| Error::invalid_argument("a capture is missing"))?;
    println!("{:?}", drive(Path::new(&path))?);
    println!("{}", String::from_utf8_lossy(&replay(Path::new(&path))?));
    Ok(())
}
