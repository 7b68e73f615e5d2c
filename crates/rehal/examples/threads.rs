//! Replays a capture on several threads that share its plan:
//! `cargo run --example threads -- CAPTURE.ireereplay`.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::device::{DeviceOptions, DeviceSpec};
use rehal::replay::{Plan, Replay, ReplayOptions};
use rehal::{Error, Result};

/// The duration of a replay on each of `count` threads, each with its own devices.
pub fn replay_on_threads(path: &Path, count: usize) -> Result<Vec<Duration>> {
    let plan = CaptureFile::open(path, &CaptureOptions::default())?.plan()?;
    let threads: Vec<_> = (0..count)
        .map(|_| {
            // The plan is shared, so the bytes of the capture are in memory once.
            let plan = plan.clone();
            thread::spawn(move || replay_once(plan))
        })
        .collect();
    let ended = |_| Error::new(rehal::StatusCode::Internal, "a thread panicked");
    threads.into_iter().map(|thread| thread.join().map_err(ended)?).collect()
}

fn replay_once(plan: Arc<Plan>) -> Result<Duration> {
    let devices = DeviceOptions::for_plan(&plan, DeviceSpec::find("local-sync")?);
    let replay = Replay::new(plan, &devices.open()?, &ReplayOptions::default())?;
    let start = Instant::now();
    replay.run(&mut [])?;
    Ok(start.elapsed())
}

#[allow(dead_code, reason = "the test of this example calls what it calls")]
fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| Error::invalid_argument("a capture is missing"))?;
    println!("{:?}", replay_on_threads(Path::new(&path), 4)?);
    Ok(())
}
