//! The overhead of recording: the calls of a benchmarked `abs` (nine records), bare and recorded, and 1 GiB
//! of inputs compared with a plain write of as many bytes. Prints nanoseconds and ratios; `cargo xtask bench`
//! measures the tools.
//!
//! `cargo run --profile measure -p rehal-replay --example recording_cost -- DIRECTORY`

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use rehal_base::Result;
use rehal_hal::{
    BufferParams, BufferRef, BufferUsage, Command, CommandBufferMode, CommandBufferParams, CommandCategories,
    Device, DeviceGroup, MemoryType, QUEUE_AFFINITY_ANY, SemaphoreFlags,
};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{RecordOptions, Recorder};

const CALLS: u32 = 20_000;
const INPUT_BYTES: usize = 1 << 30;

fn main() -> Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".into()));
    let path = directory.join("recording_cost.ireereplay");
    for _ in 0..5 {
        let bare = nanoseconds_per_call(&LocalSync::create(Plugins::default()), None)?;
        let recorder = Recorder::create(&path, RecordOptions::default())?;
        let group = recorder.wrap(&DeviceGroup::new(vec![LocalSync::create(Plugins::default())])?)?;
        let recorded = nanoseconds_per_call(&group.devices()[0], Some(&recorder))?;
        recorder.close()?;
        println!("call: bare {bare:.0} ns, recorded {recorded:.0} ns, added {:.0} ns", recorded - bare);
    }
    if std::env::args().nth(2).is_some() {
        return Ok(());
    }
    let bytes: Vec<u8> = (0..INPUT_BYTES as u32 / 4).flat_map(u32::to_le_bytes).collect();
    for _ in 0..3 {
        let _ = std::fs::remove_file(&path);
        let written = milliseconds(|| {
            let mut file = std::fs::File::create(&path).unwrap();
            file.write_all(&bytes).unwrap();
            Ok(())
        })?;
        let _ = std::fs::remove_file(&path);
        let recorder = Recorder::create(&path, RecordOptions::default())?;
        let bare = input_milliseconds(&LocalSync::create(Plugins::default()), &bytes)?;
        let group = recorder.wrap(&DeviceGroup::new(vec![LocalSync::create(Plugins::default())])?)?;
        let recorded = input_milliseconds(&group.devices()[0], &bytes)?;
        let closing = milliseconds(|| recorder.close())?;
        println!(
            "1 GiB: written {written:.0} ms, recording adds {:.0} ms: {:.2}",
            recorded - bare + closing,
            (recorded - bare + closing) / written
        );
    }
    std::fs::remove_file(&path).map_err(|error| rehal_base::Error::io("removing the capture", &error))
}

fn milliseconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// CPU time of this process in nanoseconds, which other processes do not add to.
fn processor_nanoseconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The time to write `bytes` to an existing buffer, in milliseconds.
fn input_milliseconds(device: &Device, bytes: &[u8]) -> Result<f64> {
    let params = BufferParams { memory_type: MemoryType::HOST_LOCAL, ..BufferParams::default() };
    let buffer = device.allocate_buffer(params, bytes.len() as u64)?;
    milliseconds(|| buffer.write(0, bytes))
}

fn nanoseconds_per_call(device: &Device, recorder: Option<&Recorder>) -> Result<f64> {
    let params = BufferParams {
        usage: BufferUsage::TRANSFER_TARGET | BufferUsage::MAPPING_SCOPED,
        ..BufferParams::default()
    };
    let commands = device.create_command_buffer(CommandBufferParams {
        mode: CommandBufferMode::empty(),
        categories: CommandCategories::TRANSFER,
        affinity: QUEUE_AFFINITY_ANY,
        binding_capacity: 2,
    })?;
    commands.begin()?;
    commands.record(&Command::Fill { target: BufferRef::slot(1, 0, 4), pattern: &[1], flags: 0 })?;
    commands.end()?;
    let input = device.allocate_buffer(params, 4)?;
    let call = || -> Result<()> {
        let _scope = recorder.map(|recorder| recorder.scope("execute")).transpose()?;
        let allocated = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
        let at = [allocated.at(1)];
        let output = device.queue(QUEUE_AFFINITY_ANY).signal(&at).alloca(params, 4, 0)?;
        let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
        let then = [done.at(1)];
        let bindings = [BufferRef::range(&input, 0, 4), BufferRef::range(&output, 0, 4)];
        device.queue(QUEUE_AFFINITY_ANY).wait(&at).signal(&then).execute(&commands, &bindings, 0)?;
        done.wait(1, None)
    };
    for _ in 0..1000 {
        call()?;
    }
    let start = processor_nanoseconds();
    for _ in 0..CALLS {
        call()?;
    }
    Ok((processor_nanoseconds() - start) / f64::from(CALLS))
}
