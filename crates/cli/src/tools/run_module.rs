//! `iree-run-module`: calls a function of a compiled module.

mod asked_calls;

use std::path::PathBuf;

use rehal::program::{Function, Program};
use rehal_base::{Context, Error, Remedy, Result};
use rehal_jobs::Worker;
use serde::Serialize;

use super::compiler_flags::COMPILING;
use super::report_format::{self, Format};
use crate::flags::{Flag, Group, streamed, with_devices};
use crate::kernel_recording::KERNEL_RECORDING;
use crate::output_file::OutputFile;
use crate::parameters::PARAMETERS;
use crate::profiling::{self, PROFILING};
use crate::program::flags::{INPUT, MODULES, RECORDING, RESULTS, values};
use crate::program::{self, ResultOptions, ResultRow, Results};
use crate::report::{FailureError, Subject};
use crate::{Invocation, Operands, Tool, advice, devices, output};

/// See the [module](self).
pub const RUN_MODULE: Tool = Tool {
    name: "iree-run-module",
    verb: "run-module",
    summary: "calls a function of a compiled module, and optionally records its device work",
    about: "Loads modules with their dependencies, calls a function with the given inputs, and prints, writes or \
            compares its results.\n\n\
            A module contains machine code, which runs confined (--sandbox) as far as the system can: it cannot access \
            other files, processes or the network. Its numbers and outputs are still its word.",
    operands: Operands::None { usage: "--module=FILE.vmfb" },
    groups: with_devices![&RUN, &RESULTS, &MODULES, &COMPILING, &PARAMETERS, &RECORDING, &KERNEL_RECORDING; &PROFILING],
    examples: &[
        ("Call a function", "{tool} --module=model.vmfb --function=main --input=1x3x224x224xf32=0.5"),
        (
            "With inputs and results in files",
            "{tool} --module=model.vmfb --input=@image.npy --output=@scores.npy",
        ),
        (
            "With parameters in a file",
            "{tool} --module=model.vmfb --parameters=model=model.irpa --input=@tokens.npy",
        ),
        (
            "Compare results with expected ones",
            "{tool} --module=model.vmfb --input=@in.npy --expected_output=@out.npy --expected_f32_threshold=0.001",
        ),
        (
            "Record the run, to replay it without the module",
            "{tool} --module=model.vmfb --input=@in.npy --device_replay_output=model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/run_module.md"),
    answer: devices::answer,
    run,
};

const FUNCTION: Flag<Option<String>> = Flag::text(
    "function",
    "NAME",
    "The function to call; may be omitted if the last module exports only one.",
);

/// Prints allocation statistics at the end.
pub(super) const PRINT_STATISTICS: Flag<bool> =
    Flag::switch("print_statistics", false, "Prints allocation statistics of the devices on standard error.");

const INSTRUMENT_FILE: Flag<Option<PathBuf>> = Flag::path(
    "instrument_file",
    "Writes the instrumentation data of modules that were compiled with it \
     (--iree-hal-instrument-dispatches=SIZE and the like). The file is empty if there is none.",
)
.files(streamed);

const RUN: Group =
    Group { title: "Run", flags: &[&FUNCTION, &INPUT, &PRINT_STATISTICS, &INSTRUMENT_FILE, &FORMAT] };

const FORMAT: Flag<Format> =
    report_format::flag("text: the name of the function, and its results. json: an object on a line.");

/// The function to call, and what to do with its results.
struct Options<'i> {
    /// To print JSON.
    reporting: Option<&'i Invocation>,
    program: program::Options,
    /// `None` for the only function.
    function: Option<String>,
    results: ResultOptions,
    print_statistics: bool,
    profiling: Option<profiling::Options>,
    instrument_file: Option<OutputFile>,
}

fn run(invocation: &Invocation) -> Result<()> {
    let mut options = options(invocation)?;
    options.program.prepare(invocation)?;
    let run = || options.program.recording_kernels(|| run_function(&options));
    invocation.confined(&options.program.reach(), run)
}

/// Calls functions as another process asks for.
pub(super) fn serve(invocation: &Invocation, worker: &Worker) -> Result<()> {
    let mut options = options(invocation)?;
    let served = check_served(&options).and_then(|()| options.program.prepare(invocation));
    let serve = || options.program.recording_kernels(|| serve_calls(&options, worker));
    let served = served.and_then(|()| invocation.confined(&options.program.reach(), serve));
    served.inspect_err(|error| {
        // If no process listens, the exit status tells.
        if !invocation.has_ended() {
            let _ = worker.answer(&FailureError::new(error));
        }
    })
}

fn options(invocation: &Invocation) -> Result<Options<'_>> {
    let flags = &invocation.flags;
    let format = report_format::beside_files(flags, &FORMAT)?;
    let results = ResultOptions::from_flags(flags)?;
    let instrument_file = flags.get(&INSTRUMENT_FILE);
    let instrument_file =
        instrument_file.map(|path| OutputFile::new(INSTRUMENT_FILE.name(), path)).transpose()?;
    let profiling = profiling::Options::from_flags(flags)?;
    let mut program = program::Options::from_flags(flags)?;
    program.inputs = values(flags, &INPUT);
    Ok(Options {
        reporting: Some(invocation).filter(|_| matches!(format, Format::Json)),
        program,
        function: flags.get(&FUNCTION),
        results,
        print_statistics: flags.get(&PRINT_STATISTICS),
        profiling,
        instrument_file,
    })
}

/// Refuses the flags of one call: a process that asks for calls passes inputs, and receives results.
fn check_served(options: &Options<'_>) -> Result<()> {
    let results = &options.results;
    let given = [
        ("function", options.function.is_some()),
        ("input", !options.program.inputs.is_empty()),
        ("output", !results.outputs.is_empty()),
        ("expected_output", !results.expected.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(Error::invalid_argument(format!("--{name} is a flag of one call"))
            .advise(Remedy::OmitOption { name: (*name).into() })),
        None => Ok(()),
    }
}

/// Keeps a program loaded for the calls of another process.
fn serve_calls(options: &Options<'_>, worker: &Worker) -> Result<()> {
    let program = program::load(&options.program)?;
    let profiling = profiling::Session::begin(options.profiling.as_ref(), program.devices());
    let outcome = profiling.and_then(|profiling| profiling.end(asked_calls::serve(worker, &program)));
    let outcome = outcome.and_then(|()| match &options.instrument_file {
        Some(output) => program::write_instruments(&program, output),
        None => Ok(()),
    });
    program::close(program, outcome, options.print_statistics)
}

fn run_function(options: &Options<'_>) -> Result<()> {
    let program = program::load(&options.program)?;
    let function = program::function(&program, options.function.as_deref());
    let is_found = function.is_ok();
    let outcome = function.and_then(|function| {
        let outcome = program.scope("execute", || call(options, &program, &function));
        match function.declaration() {
            Some(declaration) => outcome.context(|| format!("`{declaration}`")),
            None => outcome,
        }
    });
    match is_found {
        true => program::close(program, outcome, options.print_statistics),
        // Nothing was called; like the reference, the capture then has no scope deinit.
        false => program::close_unscoped(program, outcome, false),
    }
}

fn call(options: &Options<'_>, program: &Program, function: &Function) -> Result<()> {
    let inputs = program.inputs(function, &options.program.inputs)?;
    let wanted = Results::for_function(function, &options.results)?;
    if options.reporting.is_none() {
        output::print(&format!("EXEC @{}\n", function.name()))?;
    }
    let profiling = profiling::Session::begin(options.profiling.as_ref(), program.devices())?;
    let called = program::call(program, function, inputs);
    let (called, failure) = match called {
        Ok(results) => (Some(results), Ok(())),
        Err(error) => (None, Err(error)),
    };
    profiling.end(failure)?;
    let mut results = called.unwrap_or_default();
    if let Some(output) = &options.instrument_file {
        program::write_instruments(program, output)?;
    }
    program.to_host(&mut results)?;
    match options.reporting {
        Some(invocation) => {
            report(invocation, program, function, &wanted.rows(&results)?, wanted.are_compared())
        }
        None => wanted.finish(&results),
    }
}

/// Prints what a function returned. Results that differ from the expected ones are an exit status, and a
/// message on standard error: the report says how.
fn report(
    invocation: &Invocation,
    program: &Program,
    function: &Function,
    results: &[ResultRow],
    are_compared: bool,
) -> Result<()> {
    #[derive(Serialize)]
    struct Called<'r> {
        function: &'r str,
        /// Null unless results are compared.
        are_as_expected: Option<bool>,
        results: &'r [ResultRow],
    }
    let are_as_expected = are_compared.then(|| results.iter().all(|it| it.difference.is_none()));
    let called = Called { function: function.name(), are_as_expected, results };
    let subject = Subject { capture: None, devices: program.devices() };
    output::print(&invocation.line("rehal.run_module/1", &called, subject)?)?;
    if are_as_expected == Some(false) {
        output::note(&advice::report(&program::differ()));
        invocation.set_status(1);
    }
    Ok(())
}
