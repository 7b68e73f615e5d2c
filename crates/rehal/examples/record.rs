//! Records a program while it runs, then replays the capture without it:
//! `cargo run --example record -- MODULE.vmfb FUNCTION CAPTURE.ireereplay [INPUT...]`.

use std::path::Path;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::device::DeviceOptions;
use rehal::program::{ModuleSource, Program, ProgramOptions, RecordingOptions, ValueText, format_value};
use rehal::replay::{Replay, ReplayOptions};
use rehal::{Error, Result};

/// Calls a function of a module with these inputs, recording it. Returns the results as text.
pub fn record(module: &Path, function: &str, inputs: &[&str], capture: &Path) -> Result<Vec<String>> {
    let mut options = ProgramOptions::default();
    options.modules.push(ModuleSource::File(module.into()));
    options.recording = Some(RecordingOptions::new(capture));
    let program = Program::load(&options)?;
    let outcome = program.scope("execute", || call(&program, function, inputs));
    // The capture is closed even if the call failed.
    let closed = program.close();
    let results = outcome?;
    closed.map(|()| results)
}

fn call(program: &Program, function: &str, inputs: &[&str]) -> Result<Vec<String>> {
    let function = program.function(function)?;
    let inputs = inputs.iter().map(ValueText::new).collect::<Result<Vec<_>>>()?;
    let mut results = program.call(&function, program.inputs(&function, &inputs)?)?;
    program.to_host(&mut results)?;
    results.iter().map(|result| format_value(result, 1024)).collect()
}

/// Replays the capture.
pub fn replay(capture: &Path) -> Result<()> {
    let plan = CaptureFile::open(capture, &CaptureOptions::default())?.plan()?;
    Replay::new(plan, &DeviceOptions::default().open()?, &ReplayOptions::default())?.run(&mut [])
}

#[allow(dead_code, reason = "the test of this example calls what it calls")]
fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [module, function, capture, inputs @ ..] = &arguments[..] else {
        return Err(Error::invalid_argument("expected MODULE.vmfb FUNCTION CAPTURE.ireereplay [INPUT...]"));
    };
    let inputs: Vec<_> = inputs.iter().map(String::as_str).collect();
    for result in record(module.as_ref(), function, &inputs, capture.as_ref())? {
        println!("{result}");
    }
    replay(capture.as_ref())
}
