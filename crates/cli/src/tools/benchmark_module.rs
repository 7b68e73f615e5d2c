//! `iree-benchmark-module`: benchmarks functions of a compiled module.

use std::cell::RefCell;
use std::rc::Rc;

use rehal::program::{Batch, Calls, DispatchStatistics, Program};
use rehal_base::{Context, Error, Result};
use rehal_judge::{Benchmark, State, TimeUnit};
use rehal_vm::Value;

use super::benchmark_flags::{self, BENCHMARK};
use super::compiler_flags::COMPILING;
use super::run_module::PRINT_STATISTICS;
use crate::flags::{Flag, Group, with_devices};
use crate::kernel_recording::KERNEL_RECORDING;
use crate::parameters::PARAMETERS;
use crate::profiling::{self, PROFILING};
use crate::program::flags::{INPUT, MODULES, RECORDING, RESULTS, values};
use crate::program::{self, ResultOptions, Results};
use crate::report::{self, Origin};
use crate::tools::processes::{self, OtherTimes};
use crate::{Invocation, Operands, Tool, devices, output};

/// See the [module](self).
pub const BENCHMARK_MODULE: Tool = Tool {
    name: "iree-benchmark-module",
    verb: "benchmark-module",
    summary: "benchmarks functions of a compiled module",
    about: "Calls a function repeatedly and reports in Google Benchmark's formats; without --function, every \
            function without inputs. BM_NAME is the latency of a call, including device work and waits.\n\n\
            A module contains machine code, which runs confined (--sandbox) as far as the system can: it cannot access \
            other files, processes or the network. Its numbers and outputs are still its word.",
    operands: Operands::None { usage: "--module=FILE.vmfb" },
    groups: with_devices![
        &RUN, &BENCHMARK, &RESULTS, &MODULES, &COMPILING, &PARAMETERS, &RECORDING, &KERNEL_RECORDING;
        &PROFILING
    ],
    examples: &[
        (
            "Measure a function",
            "{tool} --device=local-sync --module=model.vmfb --function=main --input=@image.npy",
        ),
        ("Measure all functions without inputs", "{tool} --device=local-sync --module=benchmarks.vmfb"),
        (
            "Save results for Google Benchmark's compare.py",
            "{tool} --module=model.vmfb --function=main --benchmark_repetitions=9 --benchmark_out=before.json",
        ),
        (
            "Record five calls, to replay them without the program",
            "{tool} --module=model.vmfb --function=main --benchmark_min_time=5x --device_replay_output=m.ireereplay",
        ),
    ],
    guide: include_str!("../guides/benchmark_module.md"),
    answer: devices::answer,
    run,
};

const FUNCTION: Flag<Option<String>> =
    Flag::text("function", "NAME", "The function to measure; without it, every function without inputs.");

const BATCH_SIZE: Flag<u64> = Flag::number(
    "batch_size",
    1,
    MAX_BATCH,
    |size| size as u64,
    "How many iterations a call counts as. For functions whose dispatches the compiler repeats, the number of \
     repetitions; for asynchronous functions, the number of calls that are issued before waiting.",
);

const BATCH_CONCURRENCY: Flag<u64> = Flag::number(
    "batch_concurrency",
    1,
    MAX_BATCH,
    |count| count as u64,
    "How many calls of a batch to an asynchronous function may run concurrently; each further call waits for an \
     earlier one.",
);

/// The range of the reference's flags; larger values would only allocate fences.
const MAX_BATCH: (i64, i64) = (1, i32::MAX as i64);

const UNIT: Flag<Option<TimeUnit>> = Flag::choice(
    "time_unit",
    "",
    &[
        ("", None),
        ("ns", Some(TimeUnit::Nanosecond)),
        ("us", Some(TimeUnit::Microsecond)),
        ("ms", Some(TimeUnit::Millisecond)),
    ],
    "Unit of times: ns, us or ms.",
);

const OUTPUT_PROCESSING: Flag<bool> = Flag::switch(
    "enable_output_processing",
    false,
    "Keeps the results of the last call for --output and --expected_output.",
);

const DISPATCH_STATISTICS: Flag<bool> = Flag::switch(
    "dispatch_statistics",
    false,
    "Adds a row for each dispatched function of an executable: its time per call of BM_NAME, how often it is dispatched, and its \
     percentage of the time of all dispatches, by the host's clock or, of devices such as Vulkan's, by the device's. They are \
     of further calls after each repetition, which are profiled and not measured. Reports are written at the end.",
);

const RUN: Group = Group {
    title: "Run",
    flags: &[
        &FUNCTION,
        &INPUT,
        &BATCH_SIZE,
        &BATCH_CONCURRENCY,
        &UNIT,
        &OUTPUT_PROCESSING,
        &PRINT_STATISTICS,
        &DISPATCH_STATISTICS,
    ],
};

/// Results of the last call.
type Kept = RefCell<Vec<Value>>;

/// The function to call, and how to measure it.
struct Options {
    program: program::Options,
    /// `None` for every function without inputs.
    function: Option<String>,
    batch: Batch,
    unit: Option<TimeUnit>,
    /// `None` if results are discarded.
    results: Option<ResultOptions>,
    print_statistics: bool,
    dispatch_statistics: bool,
    profiling: Option<profiling::Options>,
    bench: rehal_judge::Options,
    origin: Rc<Origin>,
}

fn run(invocation: &Invocation) -> Result<()> {
    let mut options = options(invocation)?;
    options.program.prepare(invocation)?;
    let others = processes::measure(invocation)?;
    let program = options.program.clone();
    let run = || program.recording_kernels(|| benchmark(invocation, options, &others));
    invocation.confined(&program.reach(), run)
}

fn benchmark(invocation: &Invocation, options: Options, others: &OtherTimes) -> Result<()> {
    let program = program::load(&options.program)?;
    let print_statistics = options.print_statistics;
    let profiling = profiling::Session::begin(options.profiling.as_ref(), program.devices());
    let outcome = profiling.and_then(|profiling| {
        let outcome = measure(invocation, &program, options, &profiling, others);
        profiling.end(outcome)
    });
    program::close_unscoped(program, outcome, print_statistics)
}

fn options(invocation: &Invocation) -> Result<Options> {
    let flags = &invocation.flags;
    let bench = benchmark_flags::options(flags, &invocation.program)?;
    let results = ResultOptions::from_flags(flags)?;
    let profiling = profiling::Options::from_flags(flags)?.map(profiling::Options::measured);
    let mut program = program::Options::from_flags(flags)?;
    let dispatch_statistics = flags.get(&DISPATCH_STATISTICS);
    if dispatch_statistics {
        check_dispatch_statistics(profiling.is_some(), &program)?;
    }
    program.inputs = values(flags, &INPUT);
    Ok(Options {
        program,
        function: flags.get(&FUNCTION),
        batch: Batch { size: flags.get(&BATCH_SIZE), concurrency: flags.get(&BATCH_CONCURRENCY) },
        unit: flags.get(&UNIT),
        results: flags.get(&OUTPUT_PROCESSING).then_some(results),
        print_statistics: flags.get(&PRINT_STATISTICS),
        dispatch_statistics,
        profiling,
        bench,
        origin: invocation.origin.clone(),
    })
}

/// Calls that are profiled must be neither in another profile nor in a capture.
fn check_dispatch_statistics(is_profiled: bool, program: &program::Options) -> Result<()> {
    let other = match (is_profiled, program.program.recording.is_some()) {
        (true, _) => "device profiling",
        (false, true) if program.kernels.is_some() => "records of kernels",
        (false, true) => "--device_replay_output",
        (false, false) => return Ok(()),
    };
    let message = format!("--{} cannot be combined with {other}", DISPATCH_STATISTICS.name());
    Err(Error::invalid_argument(message).advise("run the tool twice"))
}

fn measure(
    invocation: &Invocation,
    program: &Program,
    mut options: Options,
    profiling: &profiling::Session,
    others: &OtherTimes,
) -> Result<()> {
    if options.dispatch_statistics {
        DispatchStatistics::check(program.devices())?;
    }
    let batch = options.batch;
    let kept: Option<Kept> = options.results.is_some().then(Kept::default);
    let mut wanted = None;
    let mut chosen = match &options.function {
        Some(name) => {
            let function = program.function(name)?;
            let inputs = program.inputs(&function, &options.program.inputs)?;
            wanted = options
                .results
                .as_ref()
                .map(|results| Results::for_function(&function, results))
                .transpose()?;
            vec![program.calls(function, inputs, batch)?]
        }
        None => all(program, batch)?,
    };
    // After the first error nothing more is measured: the state of the program is unknown.
    let failure: RefCell<Option<Error>> = RefCell::default();
    let mut benchmarks: Vec<_> = chosen
        .iter_mut()
        .map(|calls| {
            let name = format!("BM_{}", calls.function().name());
            let unit = options.unit.unwrap_or(default_unit(calls));
            let (kept, failure) = (kept.as_ref(), &failure);
            let calls = Rc::new(RefCell::new(calls));
            let mut statistics = DispatchStatistics::new(name.clone(), program.devices());
            let (measured, has_devices) = (calls.clone(), program.devices().is_some());
            let benchmark = Benchmark::new(name.clone(), move |state| {
                guarded(&mut measured.borrow_mut(), state, kept, profiling, failure)?;
                // The loop has ended, so this is not measured.
                profiling.flush()
            })
            .measure_process_cpu_time()
            .use_real_time()
            .unit(unit);
            match options.dispatch_statistics {
                true => benchmark.parts(move |run, is_last| {
                    let rows = statistics.add(run, is_last, &mut calls.borrow_mut())?;
                    if rows.is_empty() && (is_last || !has_devices) {
                        output::note(&format!("warning: {name} dispatches no function of an executable"));
                    }
                    Ok(rows)
                }),
                false => benchmark,
            }
        })
        .collect();
    let subject = report::Subject { capture: None, devices: program.devices() };
    benchmark_flags::describe(&mut options.bench, &options.origin, subject);
    benchmark_flags::run(invocation, options.bench, &mut benchmarks, &|_| None, others)?;
    drop(benchmarks);
    if let Some(error) = failure.take() {
        return Err(error);
    }
    match (kept, wanted) {
        (Some(kept), Some(wanted)) => {
            let mut results = kept.take();
            program.to_host(&mut results)?;
            wanted.finish(&results)
        }
        _ => Ok(()),
    }
}

/// Runs one benchmark, unless an earlier one failed.
fn guarded(
    calls: &mut Calls,
    state: &mut State<'_>,
    kept: Option<&Kept>,
    profiling: &profiling::Session,
    failure: &RefCell<Option<Error>>,
) -> Result<()> {
    if failure.borrow().is_some() {
        state.skip_with_error("an earlier benchmark or capture failed");
        return Ok(());
    }
    if let Err(error) = run_calls(calls, state, kept, profiling) {
        state.skip_with_error(format!("{}; {}", error.code(), error.message()));
        let place = || format!("benchmark BM_{}", calls.function().name());
        *failure.borrow_mut() = Some(Err::<(), _>(error).context(place).unwrap_err());
    }
    Ok(())
}

/// The measured loop.
fn run_calls(
    calls: &mut Calls,
    state: &mut State<'_>,
    kept: Option<&Kept>,
    profiling: &profiling::Session,
) -> Result<()> {
    let batch_size = calls.batch_size();
    if !calls.needs_preparation() {
        while state.keep_running_batch(batch_size) {
            calls.call()?;
            profiling.flush_if_due(state)?;
        }
        if let Some(kept) = kept {
            *kept.borrow_mut() = calls.take_results();
        }
    } else {
        // Creating fences and dropping results is not measured.
        while state.keep_running_batch(batch_size) {
            state.pause_timing();
            let mut prepared = calls.prepare()?;
            state.resume_timing();
            calls.run(&mut prepared)?;
            state.pause_timing();
            if let (Some(kept), Some(last)) = (kept, prepared.take_last_results()) {
                *kept.borrow_mut() = last;
            }
            drop(prepared);
            state.resume_timing();
            profiling.flush_if_due(state)?;
        }
    }
    state.set_items_processed(state.iterations());
    Ok(())
}

/// The default unit of times.
fn default_unit(calls: &Calls) -> TimeUnit {
    if calls.is_repeating() { TimeUnit::Microsecond } else { TimeUnit::Millisecond }
}

/// Every function without inputs. Fails if there is none, and describes the others.
fn all(program: &Program, batch: Batch) -> Result<Vec<Calls>> {
    let module = program.main_module();
    let mut chosen = Vec::new();
    for export in module.module().exports() {
        let name = &*export.name;
        let kind = module.attribute(name, "iree.benchmark");
        let is_internal = name.starts_with("__") || name.contains('$');
        if kind.is_none() && is_internal {
            continue;
        }
        let function = program.function(name)?;
        match kind {
            Some("dispatch") => chosen.push(program.repeating_calls(function, batch)?),
            Some("entry") => chosen.push(program.calls(function, Vec::new(), batch)?),
            _ if function.argument_kinds().is_empty() && !is_internal => {
                chosen.push(program.calls(function, Vec::new(), batch)?);
            }
            _ => {}
        }
    }
    if chosen.is_empty() { Err(no_function_without_inputs(program)) } else { Ok(chosen) }
}

fn no_function_without_inputs(program: &Program) -> Error {
    const MAX_NAMED: usize = 8;
    let names: Vec<_> = program.main_module().runnable_functions().collect();
    if names.is_empty() {
        return Error::invalid_argument("the module exports no function").advise("name another module");
    }
    let named = names.iter().take(MAX_NAMED).filter_map(|name| program.function(name).ok());
    let signatures: Vec<_> = named.map(|function| format!("`{}`", function.signature())).collect();
    let rest = match names.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    Error::invalid_argument("every function of the module takes inputs").advise(format!(
        "name one with --function=, and give --input once for each of its inputs: {}{rest}",
        signatures.join(", ")
    ))
}
