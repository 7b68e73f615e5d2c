//! Runs programs for the tools: loads them, names flags in errors, and prints results.

pub(crate) mod flags;
mod options;
mod results;

use rehal::program::{Function, Offer, Program, ProgramModule};
use rehal_base::{Context, Error, Result};
use rehal_devices::with_value_bytes;
use rehal_hal::Device;
use rehal_vm::Value;

use crate::output;
use crate::output_file::OutputFile;

pub(crate) use options::{Options, OutputTarget, ResultOptions};
pub(crate) use results::{ResultRow, Results, differ};

/// Loads a program.
pub(crate) fn load(options: &Options) -> Result<Program> {
    check_recording(options, &options.modules)?;
    let offer: Offer<'_> = &mut |_| Ok(None);
    Program::with_modules(&options.program, options.modules.clone(), offer)
}

/// Refuses to record a program without devices.
fn check_recording(options: &Options, modules: &[ProgramModule]) -> Result<()> {
    let needs_devices =
        |module: &ProgramModule| module.file().dependencies().any(|dependency| dependency.name == "hal");
    // A program without devices has no kernels.
    let is_asked = options.kernels.as_ref().is_none_or(|kernels| !kernels.is_temporary());
    if options.program.recording.is_none() || !is_asked || modules.iter().any(needs_devices) {
        return Ok(());
    }
    Err(Error::invalid_argument("--device_replay_output records devices, and the program uses none")
        .advise("omit the flag"))
}

/// The function `name` of the main module, or its only function.
pub(crate) fn function(program: &Program, name: Option<&str>) -> Result<Function> {
    if let Some(name) = name {
        return program.function(name);
    }
    let names: Vec<_> = program.main_module().runnable_functions().collect();
    match names[..] {
        [name] => program.function(name),
        [] => Err(Error::invalid_argument("the module exports no function").advise("name another module")),
        _ => Err(Error::invalid_argument(format!("the module exports {} functions", names.len()))
            .advise(format!("name one with --function=, of: {}", rehal_base::listed(names)))),
    }
}

/// Calls a function with the inputs given by flags.
pub(crate) fn call(program: &Program, function: &Function, inputs: Vec<Value>) -> Result<Vec<Value>> {
    function
        .check_count(inputs.len())
        .context(|| format!("function '{}'", function.name()))
        .advise(|| "give --input once for each input of the function")?;
    program.call(function, inputs)
}

/// Closes a program, then prints allocation statistics if requested. Returns `outcome`, or the error of
/// closing.
pub(crate) fn close(program: Program, outcome: Result<()>, print_statistics: bool) -> Result<()> {
    end(program, outcome, print_statistics, Program::close)
}

/// As [`close`], without the scope `deinit` in the capture, like the reference's benchmark and check tools.
pub(crate) fn close_unscoped(program: Program, outcome: Result<()>, print_statistics: bool) -> Result<()> {
    end(program, outcome, print_statistics, Program::close_unscoped)
}

fn end(
    program: Program,
    outcome: Result<()>,
    print_statistics: bool,
    close: fn(Program) -> Result<()>,
) -> Result<()> {
    let devices = program.devices().filter(|_| print_statistics).cloned();
    let closed = close(program);
    if let Some(devices) = devices {
        devices.devices().iter().for_each(print_memory);
    }
    outcome.and(closed)
}

/// Prints the allocation statistics of a device in the reference's format.
fn print_memory(device: &Device) {
    let mut text = format!("Device: {}\n", device.info().name);
    if let Some(statistics) = device.memory_statistics() {
        text.push_str("[[ iree_hal_allocator_t memory statistics ]]\n");
        for (name, heap) in [("HOST_LOCAL", statistics.host), ("DEVICE_LOCAL", statistics.device)] {
            let (peak_bytes, allocated_bytes) = (heap.peak_bytes, heap.allocated_bytes);
            let freed_bytes = heap.freed_bytes;
            let live_bytes = allocated_bytes.saturating_sub(freed_bytes);
            text.push_str(&format!(
                "{name:>12}: {peak_bytes:12}B peak / {allocated_bytes:12}B allocated / \
                 {freed_bytes:12}B freed / {live_bytes:12}B live\n"
            ));
        }
    }
    output::note(&text);
}

/// Writes the instrumentation data of all modules to a file, one buffer after the other. Without any, the
/// file becomes empty, so that data of an earlier run is not mistaken for this run's.
pub(crate) fn write_instruments(program: &Program, output: &OutputFile) -> Result<()> {
    output.write(|sink| {
        for (index, value) in program.instruments()?.iter().enumerate() {
            let written = with_value_bytes(value, |bytes| sink.write_all(bytes));
            let written = written.context(|| format!("instrumentation buffer {index}"))?;
            written.map_err(|error| Error::io("writing the file", &error))?;
        }
        Ok(())
    })
}
