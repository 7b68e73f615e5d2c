//! `iree-check-module`: runs the tests that a module exports.

use std::io::IsTerminal;
use std::time::{SystemTime, UNIX_EPOCH};

use rehal_base::{Error, Result, StatusCode, plural};
use rehal_session::{ModuleTest, ModuleTests};

use super::compiler_flags::COMPILING;
use crate::flags::{Flag, Group, with_devices};
use crate::gtest::{self, GTEST, Suite, Test};
use crate::kernel_recording::KERNEL_RECORDING;
use crate::parameters::PARAMETERS;
use crate::profiling::{self, PROFILING};
use crate::program;
use crate::program::flags::{MODULES, RECORDING};
use crate::{Invocation, Operands, Tool, advice, devices, output};

/// See the [module](self).
pub const CHECK_MODULE: Tool = Tool {
    name: "iree-check-module",
    verb: "check-module",
    summary: "runs the tests that a compiled module exports",
    about: "Each exported function without inputs and results is a test. It fails if an expectation of the check \
            module fails, or if it returns an error. Each test runs in its own context, so tests share \
            no state. Report and flags have GoogleTest's format.\n\n\
            What is recorded (--device_replay_output, --device_profiling_output) is of one test: of the first in the file \
            FILE.EXTENSION that the flag names, of each other in FILE.TEST.EXTENSION beside it. --print_device_statistics \
            prints totals after each test, on standard error, below its name.\n\n\
            A module contains machine code, and running it runs that code with your privileges: run only what you \
            would also execute.",
    operands: Operands::None { usage: "--module=FILE.vmfb" },
    groups: with_devices![&CHECK, &GTEST, &MODULES, &COMPILING, &PARAMETERS, &RECORDING, &KERNEL_RECORDING; &PROFILING],
    examples: &[
        ("Run all tests", "{tool} --device=local-sync --module=tests.vmfb"),
        ("Run some of them", "{tool} --module=tests.vmfb --gtest_filter='*.matmul*-*large*'"),
        ("Write a report for other tools", "{tool} --module=tests.vmfb --gtest_output=xml:report.xml"),
        ("Print the names of the tests", "{tool} --module=tests.vmfb --gtest_list_tests"),
    ],
    guide: include_str!("../guides/check_module.md"),
    answer: devices::answer,
    runs_kernels: true,
    run,
};

const EXPECT_FAILURE: Flag<bool> = Flag::switch(
    "expect_failure",
    false,
    "Inverts the exit status: succeeds if a test fails, and fails if all tests pass.",
);

const CHECK: Group = Group { title: "Check", flags: &[&EXPECT_FAILURE] };

/// The tests to run, and how to run them.
struct Options {
    program: program::Options,
    expect_failure: bool,
    gtest: gtest::Options,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    let profiling = profiling::Options::from_flags(flags)?;
    let mut program = program::Options::from_flags(flags)?;
    program.program.profiling = profiling.map(|profiling| profiling.profiling);
    let options = Options {
        gtest: gtest::Options::new(flags, std::io::stdout().is_terminal(), now)?,
        program,
        expect_failure: flags.get(&EXPECT_FAILURE),
    };
    options.program.recording_kernels(|| report(&options, tests(&options)))
}

/// Turns the number of failed tests into an exit status.
fn report(options: &Options, outcome: Result<usize>) -> Result<()> {
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
fn tests(options: &Options) -> Result<usize> {
    let modules = program::read_modules(&options.program)?;
    let tests = ModuleTests::new(&options.program.program, modules)?;
    gtest::run(&suite(&tests), &options.gtest, &mut output::stdout()?, |name: &String| {
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
        found
    })
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
