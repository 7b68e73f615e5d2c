//! `iree-benchmark-module`: calls functions of a compiled module again and again, and reports how long they take.

mod calls;

use std::cell::RefCell;
use std::rc::Rc;

use rehal_base::{Context, Error, Result};
use rehal_bench::{Benchmark, Reporters, Runner, State, TimeUnit};
use rehal_vm::Value;

use super::benchmark_flags::{self, BENCHMARK};
use super::run_module::{self, INPUT, PRINT_STATISTICS};
use crate::flags::{DEVICES, Flag, Flags, Group, LOCAL, OTHER_DRIVERS, PROFILING, Support, TASK};
use crate::parameters::PARAMETERS;
use crate::program::flags::{MODULES, RECORDING, RESULTS, equality};
use crate::program::{Program, refuse_operands};
use crate::{Invocation, Tool, devices};
use calls::{Batch, Calls};

/// See the [module](self).
pub const BENCHMARK_MODULE: Tool = Tool {
    name: "iree-benchmark-module",
    verb: "benchmark-module",
    summary: "measures how long functions of a compiled module take",
    about: "Calls a function again and again and reports in Google Benchmark's shapes; without --function, every \
            function that takes no inputs. BM_NAME is the time of a call from start to end, work of devices and \
            waits included.\n\n\
            A module holds machine code, and running it runs that code with your rights: run what you would also \
            execute.",
    operands: "--module=FILE.vmfb",
    groups: &[
        &RUN,
        &BENCHMARK,
        &RESULTS,
        &MODULES,
        &PARAMETERS,
        &RECORDING,
        &DEVICES,
        &LOCAL,
        &TASK,
        &OTHER_DRIVERS,
        &PROFILING,
    ],
    examples: &[
        (
            "Measure a function",
            "{tool} --device=local-sync --module=model.vmfb --function=main --input=@image.npy",
        ),
        ("Measure all functions that take nothing", "{tool} --device=local-sync --module=benchmarks.vmfb"),
        (
            "Keep results for Google Benchmark's compare.py",
            "{tool} --module=model.vmfb --function=main --benchmark_repetitions=9 --benchmark_out=before.json",
        ),
        (
            "Record five calls, to measure them without the program",
            "{tool} --module=model.vmfb --function=main --benchmark_min_time=5x --device_replay_output=m.ireereplay",
        ),
    ],
    guide: include_str!("../guides/benchmark_module.md"),
    answer: devices::answer,
    run,
};

const RUN: Group = Group {
    title: "Run",
    flags: &[
        Flag::text(
            "function",
            "NAME",
            "",
            "The function to measure; without it, every function that takes no inputs.",
        ),
        INPUT,
        Flag::integer(
            "batch_size",
            1,
            "How many calls an iteration stands for. For functions whose dispatches the compiler repeats, the \
             number of repetitions; for asynchronous ones, how many calls are under way before they are waited for.",
        ),
        Flag::integer(
            "batch_concurrency",
            1,
            "Of the calls of a batch to asynchronous functions, how many may run side by side; the others wait for \
             one before them.",
        ),
        Flag::text("time_unit", "UNIT", "", "Unit of times: ns, us or ms."),
        Flag::switch(
            "enable_output_processing",
            false,
            "Keeps the results of the last call and does with them what --output and --expected_output say.",
        ),
        PRINT_STATISTICS,
        Flag::switch("dispatch_statistics", false, "Adds a row for each function of executables.")
            .support(Support::Missing("statistics of dispatches")),
    ],
};

/// Results of the last call, where they are wanted.
type Kept = Rc<RefCell<Vec<Value>>>;

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    refuse_operands(invocation)?;
    equality(flags)?;
    let options = benchmark_flags::options(flags, &invocation.program)?;
    let batch = Batch::new(flags.integer("batch_size"), flags.integer("batch_concurrency"))?;
    let unit = time_unit(flags)?;
    let program = Program::load(flags, &mut |_| Ok(None))?;
    let outcome = measure(invocation, &program, batch, unit, options);
    program.close_unscoped(outcome, flags.switch("print_statistics"))
}

fn measure(
    invocation: &Invocation,
    program: &Program,
    batch: Batch,
    unit: Option<TimeUnit>,
    options: rehal_bench::Options,
) -> Result<()> {
    let flags = &invocation.flags;
    let kept: Option<Kept> = flags.switch("enable_output_processing").then(Kept::default);
    let chosen = match flags.given_text("function") {
        Some(name) => {
            let entry = program.entry(name)?;
            let inputs = program.inputs(&entry, flags.list("input"))?;
            vec![Calls::of(program, entry, inputs, batch, kept.clone())?]
        }
        None => all(program, batch)?,
    };
    // The first error: what follows is not measured, as its program may not be what it was.
    let failure: RefCell<Option<Error>> = RefCell::default();
    let mut benchmarks: Vec<_> = chosen
        .iter()
        .map(|calls| {
            let name = format!("BM_{}", calls.entry().name());
            let unit = unit.unwrap_or(calls.default_unit());
            Benchmark::new(name, |state| guarded(calls, state, &failure))
                .measure_process_cpu_time()
                .use_real_time()
                .unit(unit)
        })
        .collect();
    let mut reporters = Reporters::from_options(&options)?;
    Runner::new(options).run(&mut benchmarks, &mut reporters)?;
    drop(benchmarks);
    if let Some(error) = failure.take() {
        return Err(error);
    }
    match (&chosen[..], kept) {
        ([calls], Some(kept)) if flags.is_given("function") => {
            let mut results = kept.take();
            program.to_host(&mut results)?;
            run_module::finish(invocation, calls.entry(), &results)
        }
        _ => Ok(()),
    }
}

/// Runs one benchmark, unless one before it failed.
fn guarded(calls: &Calls<'_>, state: &mut State<'_>, failure: &RefCell<Option<Error>>) -> Result<()> {
    if failure.borrow().is_some() {
        state.skip_with_error("an earlier benchmark or capture failed");
        return Ok(());
    }
    if let Err(error) = calls.run(state) {
        state.skip_with_error(format!("{}; {}", error.code(), error.message()));
        let place = || format!("benchmark BM_{}", calls.entry().name());
        *failure.borrow_mut() = Some(Err::<(), _>(error).context(place).unwrap_err());
    }
    Ok(())
}

/// Every function that can be called without inputs.
fn all(program: &Program, batch: Batch) -> Result<Vec<Calls<'_>>> {
    let module = program.main_module();
    let mut chosen = Vec::new();
    for export in module.module.exports() {
        let name = &*export.name;
        let kind = module.attribute(name, "iree.benchmark");
        let is_internal = name.starts_with("__") || name.contains('$');
        if kind.is_none() && is_internal {
            continue;
        }
        let entry = program.entry(name)?;
        match kind {
            Some("dispatch") => chosen.push(Calls::of_dispatch(program, entry, batch)),
            Some("entry") => chosen.push(Calls::of(program, entry, Vec::new(), batch, None)?),
            _ if entry.argument_kinds().is_empty() && !is_internal => {
                chosen.push(Calls::of(program, entry, Vec::new(), batch, None)?);
            }
            _ => {}
        }
    }
    Ok(chosen)
}

fn time_unit(flags: &Flags) -> Result<Option<TimeUnit>> {
    Ok(Some(match flags.text("time_unit") {
        "" => return Ok(None),
        "ns" => TimeUnit::Nanosecond,
        "us" => TimeUnit::Microsecond,
        "ms" => TimeUnit::Millisecond,
        other => {
            return Err(Error::invalid_argument(format!("--time_unit={other}: unsupported time unit"))
                .advise("ns, us or ms; --benchmark_time_unit is without effect, as in the reference"));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_whole() {
        assert!(Batch::new(0, 1).is_err() && Batch::new(1, 0).is_err() && Batch::new(-1, 1).is_err());
        assert_eq!(Batch::new(5, 2).unwrap().rounded(), 6);
        assert_eq!(Batch::new(4, 2).unwrap().rounded(), 4);
        assert_eq!(Batch::new(1, 8).unwrap().rounded(), 8);
    }
}
