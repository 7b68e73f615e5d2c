//! Caches replays in a value that borrows nothing: `cargo run --example keep -- CAPTURE.ireereplay`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::device::{DeviceOptions, DeviceSpec};
use rehal::replay::{Replay, ReplayOptions, ScopeTimer};
use rehal::{Error, Result};

/// Replays by the path of their capture. It borrows nothing, so it can be a static or be owned by a handle of
/// another language.
#[derive(Default)]
pub struct Replays(Mutex<BTreeMap<PathBuf, Replay>>);

impl Replays {
    /// The time spent in `scope`, in nanoseconds. The capture is planned on first use.
    pub fn time_scope(&self, path: &Path, scope: &str) -> Result<u64> {
        // A panic in a replay leaves the map unchanged, so a poisoned lock can be recovered.
        let mut replays = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !replays.contains_key(path) {
            replays.insert(path.to_path_buf(), open(path)?);
        }
        let mut timer = ScopeTimer::new(scope);
        replays[path].run(&mut [&mut timer])?;
        timer.finish()
    }
}

/// Opens a replay, which owns its capture and devices.
fn open(path: &Path) -> Result<Replay> {
    let plan = CaptureFile::open(path, &CaptureOptions::default())?.plan()?;
    let devices = DeviceOptions::for_plan(&plan, DeviceSpec::find("local-sync")?);
    Replay::new(plan, &devices.open()?, &ReplayOptions::default())
}

#[allow(dead_code, reason = "the test of this example calls what it calls")]
fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| Error::invalid_argument("a capture is missing"))?;
    let replays = Replays::default();
    for _ in 0..3 {
        println!("{} ns in scope 'execute'", replays.time_scope(Path::new(&path), "execute")?);
    }
    Ok(())
}
