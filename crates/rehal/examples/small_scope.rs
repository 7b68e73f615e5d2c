//! Records a program whose scope `execute` is a hundredth of its work: `cargo run --example small_scope --
//! CAPTURE.ireereplay`. `cargo xtask bench` measures how much faster its scope is repeated alone.

use std::path::Path;

use rehal::device::{
    BufferParams, BufferRef, Device, DeviceOptions, QUEUE_AFFINITY_ANY, SemaphoreFlags, transfer,
};
use rehal::record::{RecordOptions, Recorder};
use rehal::{Error, Result};

/// Equal steps of the program; one of them is in the scope.
const STEPS: u64 = 100;

/// Bytes that each step changes.
const STATE_BYTES: u64 = 4 << 20;

/// Records the capture. Returns the first bytes of the state after the scope.
pub fn record(capture: &Path) -> Result<Vec<u8>> {
    let recorder = Recorder::create(capture, RecordOptions::default())?;
    let devices = recorder.wrap(&DeviceOptions::default().open()?)?;
    let outcome = steps(&devices.devices()[0], &recorder);
    let closed = recorder.close();
    outcome.and_then(|state| closed.map(|()| state))
}

/// A step fills the first half of the state with its number, and then copies that to the second half, which
/// the next step moves on to another buffer.
fn steps(device: &Device, recorder: &Recorder) -> Result<Vec<u8>> {
    let params = BufferParams::default().mappable();
    let half = STATE_BYTES / 2;
    let (state, history) =
        (device.allocate_buffer(params, STATE_BYTES)?, device.allocate_buffer(params, half)?);
    let timeline = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
    let mut now = 0;
    let mut result = Vec::new();
    for step in 0..STEPS {
        let is_timed = step == STEPS / 2;
        let _scope = if is_timed { Some(recorder.scope("execute")?) } else { None };
        for part in 0..3 {
            let (waits, signals) = ([timeline.at(now)], [timeline.at(now + 1)]);
            let queue = device.queue(QUEUE_AFFINITY_ANY).wait(&waits).signal(&signals);
            let range = |buffer, offset| BufferRef::range(buffer, offset, half);
            match part {
                0 => queue.copy(range(&state, half), range(&history, 0), 0)?,
                1 => queue.fill(range(&state, 0), &[step as u8], 0)?,
                _ => queue.copy(range(&state, 0), range(&state, half), 0)?,
            }
            now += 1;
        }
        timeline.wait(now, None)?;
        if is_timed {
            result = transfer::to_vec(&state, half, 4)?;
        }
    }
    Ok(result)
}

#[allow(dead_code, reason = "the test of this example calls what it calls")]
fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| Error::invalid_argument("a capture is missing"))?;
    record(Path::new(&path)).map(drop)
}
