//! Replays a capture with substituted executables, chosen by a callback:
//! `cargo run --example substitute -- CAPTURE.ireereplay FUNCTION KERNEL.elf`.

use std::path::Path;
use std::sync::Arc;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::device::DeviceOptions;
use rehal::replay::{HostReadLog, NeededWorkgroups, Replacement, Replay, ReplayOptions};
use rehal::{Error, Result};

/// Replays with `code` in place of each executable that has a function with this name. Returns the host reads
/// as JSON lines, and the ids of the replaced executables.
pub fn replay_with(capture: &Path, function: &str, code: Vec<u8>) -> Result<(Vec<u8>, Vec<u64>)> {
    let plan = CaptureFile::open(capture, &CaptureOptions::default())?.plan()?;
    let has_function = |name: &[u8]| name == function.as_bytes();
    let replaced: Vec<_> =
        plan.executables().filter(|it| it.function_names().any(has_function)).map(|it| it.id).collect();
    let mut options = ReplayOptions::default();
    let wanted = replaced.clone();
    let code: Arc<[u8]> = code.into();
    // Called once per executable, before the first dispatch. An autotuner can compile code here.
    // Compiled code does not say its workgroups: this is for those of the captured kernel.
    options.substitute = Some(Arc::new(move |candidate| {
        let replacement = || Replacement::bytes(code.clone()).with_workgroups(None, NeededWorkgroups::Same);
        Ok(wanted.contains(&candidate.record.id).then(replacement))
    }));
    let replay = Replay::new(plan, &DeviceOptions::default().open()?, &options)?;
    // Reports signature mismatches before the first dispatch.
    replay.check_executables()?;
    let mut reads = HostReadLog::new(Vec::new(), 64);
    replay.run(&mut [&mut reads])?;
    Ok((reads.finish()?, replaced))
}

#[allow(dead_code, reason = "the test of this example calls what it calls")]
fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [capture, function, kernel] = &arguments[..] else {
        return Err(Error::invalid_argument("expected CAPTURE.ireereplay FUNCTION KERNEL.elf"));
    };
    let code = std::fs::read(kernel).map_err(|error| Error::io(format!("reading '{kernel}'"), &error))?;
    let (reads, replaced) = replay_with(Path::new(capture), function, code)?;
    println!("replaced: {replaced:?}\n{}", String::from_utf8_lossy(&reads));
    Ok(())
}
