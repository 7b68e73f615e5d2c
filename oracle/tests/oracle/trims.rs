//! A trim written by our recorder, as read by the reference. No tool trims a device, so this test includes a
//! program that does.

use crate::{Outcome, Pair, ensure};
use libtest_mimic::Trial;
use rehal_hal::{BufferParams, BufferUsage, DeviceGroup, QUEUE_AFFINITY_ANY};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{RecordOptions, Recorder};
use std::path::Path;

pub fn add(trials: &mut Vec<Trial>) {
    trials.push(Trial::test("trims::recorded_trims_dump_and_replay_in_both", dumps_and_replays));
}

fn dumps_and_replays() -> Outcome {
    let scratch = tempfile::tempdir()?;
    let capture = scratch.path().join("trim.ireereplay");
    record(&capture).map_err(|error| error.report())?;

    let path = capture.display().to_string();
    for format in ["--format=text", "--format=jsonl"] {
        let arguments = [format.to_owned(), path.clone()];
        let (ours, theirs) = Pair::find("iree-dump-replay")?.run(&arguments, Path::new("/"))?;
        ensure(ours.succeeded() && theirs.succeeded(), || {
            format!("{format}: {}; {}", ours.summary(), theirs.summary())
        })?;
        ensure(ours.stdout == theirs.stdout, || format!("{format}: the dumps differ"))?;
        let dump = String::from_utf8_lossy(&theirs.stdout).into_owned();
        ensure(dump.matches("device.trim").count() == 2, || format!("{format}: two trims in\n{dump}"))?;
    }
    for replayer in ["iree-run-replay", "iree-benchmark-replay"] {
        let mut arguments = vec!["--device=local-sync".to_owned(), path.clone()];
        if replayer == "iree-benchmark-replay" {
            arguments.insert(0, "--benchmark_min_time=1x".into());
        }
        let (ours, theirs) = Pair::find(replayer)?.run(&arguments, Path::new("/"))?;
        ensure(ours.succeeded() && theirs.succeeded(), || {
            format!("{replayer}: {}; {}", ours.summary(), theirs.summary())
        })?;
    }
    Ok(())
}

fn record(capture: &Path) -> rehal_base::Result<()> {
    let base = DeviceGroup::new(vec![LocalSync::create(Plugins::default())])?;
    let recorder = Recorder::create(capture, RecordOptions::default())?;
    let recorded = recorder.wrap(&base)?;
    let device = &recorded.devices()[0];
    let params = BufferParams { usage: BufferUsage::TRANSFER_TARGET, ..BufferParams::default() };
    device.trim()?;
    let buffer = device.allocate_buffer(params, 16)?;
    device.queue(QUEUE_AFFINITY_ANY).fill(&buffer, &[7], 0)?;
    drop(buffer);
    device.trim()?;
    drop(recorded);
    recorder.close()
}
