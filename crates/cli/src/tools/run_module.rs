//! `iree-run-module`: calls a function of a compiled module.

use rehal_base::{Context, Error, Result};
use rehal_vm::Value;

use crate::flags::{DEVICES, Flag, Group, LOCAL, OTHER_DRIVERS, PROFILING, TASK};
use crate::parameters::PARAMETERS;
use crate::program::flags::{MODULES, RECORDING, RESULTS, equality, max_elements};
use crate::program::{Entry, Program, compare_all, print_all, refuse_operands, write_all};
use crate::{Invocation, Tool, devices, output};

/// See the [module](self).
pub const RUN_MODULE: Tool = Tool {
    name: "iree-run-module",
    verb: "run-module",
    summary: "calls a function of a compiled module, and can record what it does",
    about: "Loads modules with all that they need, calls a function with the given inputs, and prints, writes or \
            compares its results.\n\n\
            A module holds machine code, and running it runs that code with your rights: run what you would also \
            execute.",
    operands: "--module=FILE.vmfb",
    groups: &[
        &RUN,
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
        ("Call a function", "{tool} --module=model.vmfb --function=main --input=1x3x224x224xf32=0.5"),
        ("With files", "{tool} --module=model.vmfb --input=@image.npy --output=@scores.npy"),
        (
            "With parameters beside the module",
            "{tool} --module=model.vmfb --parameters=model=model.irpa --input=@tokens.npy",
        ),
        (
            "See whether results are what they should be",
            "{tool} --module=model.vmfb --input=@in.npy --expected_output=@out.npy --expected_f32_threshold=0.001",
        ),
        (
            "Record the run, to replay it without the program",
            "{tool} --module=model.vmfb --input=@in.npy --device_replay_output=model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/run_module.md"),
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
            "The function to call; it may be left out where the last module has only one.",
        ),
        INPUT,
        PRINT_STATISTICS,
        Flag::text(
            "instrument_file",
            "PATH",
            "",
            "Writes what the program measured of itself, where it was compiled to \
             (--iree-hal-instrument-dispatches=SIZE and the like). Empty where it measures nothing.",
        ),
    ],
};

/// The values that a function is called with.
pub(super) const INPUT: Flag = Flag::list(
    "input",
    "VALUE",
    "An input, once for each in order.\n\
     \x20  3.14                     a number\n\
     \x20  2x2xi32=1 2 3 4          a tensor: shape and type, then elements\n\
     \x20  2x2xi32=[[1 2][3 4]]     brackets and commas are blanks\n\
     \x20  2x2xf32=1                one element for all; none for 0\n\
     \x20  4xi1=true false 1 0      truth values\n\
     \x20  2x2xf32=@file            the bytes of a file; +file goes on where it was left\n\
     \x20  @file.npy                an array of a file; +file.npy the next, *file.npy all that follow\n\
     \x20  &2x2xf32                 storage alone, for results that are written in place\n\
     \x20  (null)                   no object",
);

/// What devices allocated, in the end.
pub(super) const PRINT_STATISTICS: Flag =
    Flag::switch("print_statistics", false, "Prints on standard error what the devices allocated.");

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    refuse_operands(invocation)?;
    equality(flags)?;
    let program = Program::load(flags, &mut |_| Ok(None))?;
    let entry = match flags.given_text("function") {
        Some(name) => program.entry(name),
        None => program.single_entry(),
    };
    let is_found = entry.is_ok();
    let outcome = entry.and_then(|entry| {
        let outcome = program.scope("execute", || call(invocation, &program, &entry));
        match entry.declaration() {
            Some(declaration) => outcome.context(|| format!("`{declaration}`")),
            None => outcome,
        }
    });
    match is_found {
        true => program.close(outcome, flags.switch("print_statistics")),
        // Nothing was run, and the reference's captures have no scope for the end of it.
        false => program.close_unscoped(outcome, false),
    }
}

fn call(invocation: &Invocation, program: &Program, entry: &Entry<'_>) -> Result<()> {
    let flags = &invocation.flags;
    let inputs = program.inputs(entry, flags.list("input"))?;
    output::print(&format!("EXEC @{}\n", entry.name()))?;
    let mut results = program.call(entry, inputs)?;
    if let Some(path) = flags.given_text("instrument_file") {
        program.write_instruments(path)?;
    }
    program.to_host(&mut results)?;
    finish(invocation, entry, &results)
}

/// Prints the results, or does what the flags say with them.
pub(super) fn finish(invocation: &Invocation, entry: &Entry<'_>, results: &[Value]) -> Result<()> {
    let flags = &invocation.flags;
    let outputs: Vec<_> = flags.list("output").collect();
    if flags.list("expected_output").next().is_some() {
        let expected = flags.list("expected_output");
        if compare_all(results, entry.result_kinds(), expected, &equality(flags)?)? {
            return Ok(());
        }
        return Err(Error::failed_precondition("results differ from what is expected of them").advise(
            "see above what differs; --expected_f32_threshold= and the like say by how much floats may",
        ));
    }
    match &outputs[..] {
        [] => print_all(results, max_elements(flags)),
        outputs => write_all(results, outputs, max_elements(flags)),
    }
}
