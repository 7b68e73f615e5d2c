//! Records two chains of work that do not depend on each other, on two queues:
//! `cargo run --example two_chains -- CAPTURE.ireereplay`. Replays in captured order may overlap them;
//! `cargo xtask bench` measures by how much.

use std::path::Path;

use rehal::device::{
    Buffer, BufferParams, CommandBuffer, CommandBufferParams, Device, DeviceOptions, QUEUE_AFFINITY_ANY,
    SemaphoreFlags, transfer,
};
use rehal::record::{RecordOptions, Recorder};
use rehal::{Error, Result};

/// Submissions of each chain.
const LINKS: u64 = 40;

/// Fills in each submission, one after the other.
const FILLS: u64 = 256;

/// Bytes of each fill: too few to be worth sharing between threads.
const FILL_BYTES: u64 = 16 << 10;

/// Records the capture. Returns the first bytes of both results.
pub fn record(capture: &Path) -> Result<[Vec<u8>; 2]> {
    let recorder = Recorder::create(capture, RecordOptions::default())?;
    let devices = recorder.wrap(&DeviceOptions::default().open()?)?;
    let outcome = recorder.scope("execute").and_then(|_scope| chains(&devices.devices()[0]));
    let closed = recorder.close();
    outcome.and_then(|results| closed.map(|()| results))
}

fn chains(device: &Device) -> Result<[Vec<u8>; 2]> {
    let params = BufferParams::default().mappable();
    let mut chains = Vec::new();
    for queue in 0..2 {
        let buffer = device.allocate_buffer(params, FILL_BYTES)?;
        let commands = commands(device, &buffer, queue as u8)?;
        let timeline = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
        chains.push((1 << queue, buffer, commands, timeline));
    }
    for link in 0..LINKS {
        for (affinity, _, commands, timeline) in &chains {
            let (waits, signals) = ([timeline.at(link)], [timeline.at(link + 1)]);
            device.queue(*affinity).wait(&waits).signal(&signals).execute(commands, &[], 0)?;
        }
    }
    let result = |index: usize| {
        let (_, buffer, _, timeline) = &chains[index];
        timeline.wait(LINKS, None)?;
        transfer::to_vec(buffer, 0, 4)
    };
    Ok([result(0)?, result(1)?])
}

fn commands(device: &Device, buffer: &Buffer, seed: u8) -> Result<CommandBuffer> {
    let commands = device.create_command_buffer(CommandBufferParams::default())?;
    commands.begin()?;
    for fill in 0..FILLS {
        let pattern = [seed, fill as u8];
        commands.fill(buffer, &pattern)?;
        commands.barrier()?;
    }
    commands.end()?;
    Ok(commands)
}

#[allow(dead_code, reason = "the test of this example calls what it calls")]
fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| Error::invalid_argument("a capture is missing"))?;
    record(Path::new(&path)).map(drop)
}
