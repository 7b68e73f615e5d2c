//! Replays a capture and prints its host reads: `cargo run --example host_reads -- CAPTURE.ireereplay`.

use std::path::Path;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::device::{DeviceOptions, DeviceSpec};
use rehal::replay::{HostRead, Observer, Replay, ReplayOptions};
use rehal::{Error, Result};

/// Keeps the first bytes of each host read.
#[derive(Default)]
pub struct Reads(pub Vec<(String, Vec<u8>)>);

impl Observer for Reads {
    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let scope = read.scope.map(|name| name.escape_ascii().to_string()).unwrap_or_default();
        let mut bytes = vec![0; read.memory.length().min(16) as usize];
        read.memory.read(0, &mut bytes)?;
        self.0.push((scope, bytes));
        Ok(())
    }
}

/// Replays a capture; returns the start of each host read.
pub fn host_reads(path: &Path) -> Result<Reads> {
    let plan = CaptureFile::open(path, &CaptureOptions::default())?.plan()?;
    let devices = DeviceOptions::for_plan(&plan, DeviceSpec::find("local-sync")?);
    let replay = Replay::new(plan, &devices.open()?, &ReplayOptions::default())?;
    let mut reads = Reads::default();
    replay.run(&mut [&mut reads])?;
    Ok(reads)
}

#[allow(dead_code, reason = "the test of this example calls what it calls")]
fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| Error::invalid_argument("a capture is missing"))?;
    for (scope, bytes) in host_reads(Path::new(&path))?.0 {
        println!("{scope}: {bytes:02x?}");
    }
    Ok(())
}
