//! `iree-check-module`: runs the tests that a module exports.

use std::io::IsTerminal;
use std::time::Instant;

use rehal::program::{ModuleTest, ModuleTests};
use rehal_base::{Error, Result, StatusCode, TextWriter, plural};
use serde::Serialize;

use super::compiler_flags::COMPILING;
use super::report_format::{self, Format};
use crate::flags::{Flag, Group, with_devices};
use crate::gtest::{self, GTEST, Suite, Test};
use crate::kernel_recording::KERNEL_RECORDING;
use crate::parameters::PARAMETERS;
use crate::profiling::{self, PROFILING};
use crate::program::flags::{MODULES, RECORDING};
use crate::report::{FailureError, Subject};
use crate::{Invocation, Operands, Tool, advice, devices, output, program};

/// See the [module](self).
pub const CHECK_MODULE: Tool = Tool {
    name: "iree-check-module",
    verb: "check-module",
    summary: "runs the tests that a compiled module exports",
    about: "Each exported function without inputs and results is a test. It fails if an expectation of the check \
            module fails, or if it returns an error. Each test runs in its own context, so tests share \
            no state. Output and flags are GoogleTest's.\n\n\
            What is recorded (--device_replay_output, --device_profiling_output) is of one test: of the first in the file \
            FILE.EXTENSION that the flag names, of each other in FILE.TEST.EXTENSION beside it. --print_device_statistics \
            prints totals after each test, on standard error, below its name.\n\n\
            A module contains machine code, which runs confined (--sandbox) as far as the system can: it cannot access \
            other files, processes or the network. Its numbers and outputs are still its word.",
    operands: Operands::None { usage: "--module=FILE.vmfb" },
    groups: with_devices![&CHECK, &GTEST, &MODULES, &COMPILING, &PARAMETERS, &RECORDING, &KERNEL_RECORDING; &PROFILING],
    examples: &[
        ("Run all tests", "{tool} --device=local-sync --module=tests.vmfb"),
        ("Run some of them", "{tool} --module=tests.vmfb --gtest_filter='*.matmul*-*large*'"),
        ("Write a report for other tools", "{tool} --module=tests.vmfb --format=json > report.json"),
        ("Print the names of the tests", "{tool} --module=tests.vmfb --gtest_list_tests"),
    ],
    guide: include_str!("../guides/check_module.md"),
    answer: devices::answer,
    run,
};

const EXPECT_FAILURE: Flag<bool> = Flag::switch(
    "expect_failure",
    false,
    "Inverts the exit status: succeeds if a test fails, and fails if all tests pass.",
);

const CHECK: Group = Group { title: "Check", flags: &[&EXPECT_FAILURE, &FORMAT] };

const FORMAT: Flag<Format> =
    report_format::flag("text: as GoogleTest prints it. json: an object with the tests, on a line.");

/// The tests to run, and how to run them.
struct Options<'i> {
    /// To print JSON.
    reporting: Option<&'i Invocation>,
    program: program::Options,
    expect_failure: bool,
    gtest: gtest::Options,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let format = report_format::beside_files(flags, &FORMAT)?;
    let profiling = profiling::Options::from_flags(flags)?;
    let mut program = program::Options::from_flags(flags)?;
    program.program.profiling = profiling.map(|profiling| profiling.profiling);
    let prepared = program.prepare(invocation);
    let options = Options {
        reporting: Some(invocation).filter(|_| matches!(format, Format::Json)),
        gtest: gtest::Options::new(flags, std::io::stdout().is_terminal())?,
        program,
        expect_failure: flags.get(&EXPECT_FAILURE),
    };
    let read = || ModuleTests::new(&options.program.program, options.program.modules.clone());
    let tests = match prepared.and_then(|()| read()) {
        Ok(tests) => tests,
        Err(error) => return report(&options, Err(error)),
    };
    let mut reach = options.program.reach();
    reach.records.extend(tests.written_files());
    let run = || options.program.recording_kernels(|| report(&options, run_all(&tests, &options)));
    invocation.confined(&reach, run)
}

/// Turns the number of failed tests into an exit status.
fn report(options: &Options<'_>, outcome: Result<usize>) -> Result<()> {
    if let Some(invocation) = options.reporting {
        let failed = match outcome {
            Err(error) if options.expect_failure => {
                output::note(&advice::report(&error));
                let error = Some(FailureError::new(&error));
                let checked = Checked { expects_failure: true, error, ..Checked::default() };
                return output::print(&invocation.line(SCHEMA, &checked, Subject::default())?);
            }
            outcome => outcome?,
        };
        if (failed == 0) == options.expect_failure {
            invocation.set_status(1);
        }
        return Ok(());
    }
    if options.expect_failure {
        return match outcome {
            Ok(0) => Err(Error::new(StatusCode::Unknown, "Test passed but expected failure")
                .advise("omit --expect_failure")),
            Ok(_) => output::print("Test failed as expected\n"),
            Err(error) => {
                output::note(&advice::report(&error));
                output::print("Test failed as expected\n")
            }
        };
    }
    if !matches!(outcome, Ok(0)) {
        output::print("Test failed\n")?;
    }
    match outcome? {
        0 => Ok(()),
        failed => Err(Error::new(StatusCode::Unknown, format!("{} failed", plural(failed as u64, "test")))
            .advise("the report lists them; --gtest_filter=NAME runs only one")),
    }
}

/// Runs the tests; returns the number of failures.
fn run_all(tests: &ModuleTests, options: &Options<'_>) -> Result<usize> {
    let suite = suite(tests);
    let mut ran: Vec<Ran> = Vec::new();
    let mut out = match options.reporting {
        Some(_) => TextWriter::new(std::io::sink(), false),
        None => output::stdout()?,
    };
    let failed = gtest::run(&suite, &options.gtest, &mut out, |name: &String| {
        let since = Instant::now();
        let outcome = tests.run(name);
        if let (Some(kernels), Some(capture)) = (&options.program.kernels, tests.capture_of(name)) {
            kernels.add_capture(capture);
        }
        let statistics = tests.take_statistics();
        if !statistics.is_empty() {
            output::note(&format!("device statistics of test '{name}':"));
        }
        profiling::print_statistics(&statistics);
        let mut found = outcome.failures;
        found.extend(outcome.error.map(|error| format!("{name}: Failure\n{}", advice::report(&error))));
        if options.reporting.is_some() {
            let time_ns = since.elapsed().as_nanos() as u64;
            ran.push(Ran { name: name.clone(), passed: found.is_empty(), time_ns, failures: found.clone() });
        }
        found
    })?;
    if let Some(invocation) = options.reporting {
        let selected: Vec<_> =
            suite.matching(&options.gtest).map(|index| &*suite.tests[index].name).collect();
        let expects_failure = options.expect_failure;
        let checked = Checked {
            module: Some(&suite.name),
            selected,
            expects_failure,
            failed_count: Some(failed),
            error: None,
            tests: ran,
        };
        output::print(&invocation.line(SCHEMA, &checked, Subject::default())?)?;
    }
    Ok(failed)
}

const SCHEMA: &str = "rehal.check_module/1";

/// The outcomes of the tests of a module.
#[derive(Default, Serialize)]
struct Checked<'t> {
    module: Option<&'t str>,
    /// The tests that the filter selects, also if they are not run.
    selected: Vec<&'t str>,
    expects_failure: bool,
    /// Null if an error prevented the tests, as expected.
    failed_count: Option<usize>,
    error: Option<FailureError<'t>>,
    /// The tests that ran, in order.
    tests: Vec<Ran>,
}

#[derive(Serialize)]
struct Ran {
    name: String,
    passed: bool,
    time_ns: u64,
    failures: Vec<String>,
}

/// The tests as a GoogleTest suite.
fn suite(tests: &ModuleTests) -> Suite<String> {
    let test = |test: &ModuleTest| Test {
        name: test.name.clone(),
        parameter: test.ordinal.to_string(),
        body: test.name.clone(),
    };
    Suite { name: tests.module_name().to_string(), tests: tests.tests().iter().map(test).collect() }
}
