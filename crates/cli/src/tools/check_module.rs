//! `iree-check-module`: runs the tests that a module exports.

use std::io::IsTerminal;
use std::time::{SystemTime, UNIX_EPOCH};

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_modules::check::{CheckModule, Failures};
use rehal_vm::Module;

use crate::flags::{DEVICES, Flag, Group, LOCAL, OTHER_DRIVERS, PROFILING, TASK};
use crate::gtest::{self, GTEST, Suite, Test};
use crate::parameters::PARAMETERS;
use crate::program::flags::{MODULES, RECORDING};
use crate::program::{Program, ProgramOptions, UserModule, load_modules};
use crate::{Invocation, Operands, Tool, devices, output};

/// See the [module](self).
pub const CHECK_MODULE: Tool = Tool {
    name: "iree-check-module",
    verb: "check-module",
    summary: "runs the tests that a compiled module exports",
    about: "Each exported function without inputs and results is a test. It fails if an expectation of the check \
            module fails, or if it returns an error. Every test runs in a context of its own, so that tests share \
            no state. Report and flags have GoogleTest's format.\n\n\
            A module contains machine code, and running it runs that code with your privileges: run only what you \
            would also execute.",
    operands: Operands::None { usage: "--module=FILE.vmfb" },
    groups: &[
        &CHECK,
        &GTEST,
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
        ("Run all tests", "{tool} --device=local-sync --module=tests.vmfb"),
        ("Run some of them", "{tool} --module=tests.vmfb --gtest_filter='*.matmul*-*large*'"),
        ("Write a report for other tools", "{tool} --module=tests.vmfb --gtest_output=xml:report.xml"),
        ("Print the names of the tests", "{tool} --module=tests.vmfb --gtest_list_tests"),
    ],
    guide: include_str!("../guides/check_module.md"),
    answer: devices::answer,
    run,
};

const EXPECT_FAILURE: Flag<bool> = Flag::switch(
    "expect_failure",
    false,
    "Succeeds if a test fails, and fails if all tests pass: for tests of tests.",
);

const CHECK: Group = Group { title: "Check", flags: &[&EXPECT_FAILURE] };

/// Which tests to run, and how.
struct Options {
    program: ProgramOptions,
    expect_failure: bool,
    gtest: gtest::Options,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    let options = Options {
        gtest: gtest::Options::new(flags, "iree-check-module", std::io::stdout().is_terminal(), now)?,
        program: ProgramOptions::from_flags(flags)?,
        expect_failure: flags.get(&EXPECT_FAILURE),
    };
    report(&options, tests(&options))
}

/// Turns the number of failed tests into an exit status.
fn report(options: &Options, outcome: Result<usize>) -> Result<()> {
    if options.expect_failure {
        return match outcome {
            Ok(0) => Err(Error::new(StatusCode::Unknown, "Test passed but expected failure")
                .advise("omit --expect_failure")),
            Ok(_) => output::print("Test failed as expected\n"),
            Err(error) => {
                output::note(&error.report());
                output::print("Test failed as expected\n")
            }
        };
    }
    if !matches!(outcome, Ok(0)) {
        output::print("Test failed\n")?;
    }
    match outcome? {
        0 => Ok(()),
        failed => Err(Error::new(
            StatusCode::Unknown,
            format!("{failed} {} failed", if failed == 1 { "test" } else { "tests" }),
        )
        .advise("the report lists them; --gtest_filter=NAME runs only one")),
    }
}

/// Runs the tests; returns how many failed.
fn tests(options: &Options) -> Result<usize> {
    let modules = load_modules(&options.program)?;
    let suite = suite(modules.last().expect("a program has a module, or loading fails"))?;
    let failures = Failures::default();
    gtest::run(&suite, &options.gtest, &mut output::stdout()?, |name: &String| {
        let outcome = test(&options.program, &modules, name, &failures);
        let mut found = failures.take();
        if let Err(error) = outcome {
            found.push(format!("{name}: Failure\n{}", error.report()));
        }
        found
    })
}

/// The tests of a module: all of its functions, none of which may take or return anything.
fn suite(module: &UserModule) -> Result<Suite<String>> {
    let mut tests = Vec::new();
    for (ordinal, export) in module.module.exports().iter().enumerate() {
        let name = export.name.to_string();
        if name.starts_with("__") || name.contains('$') {
            continue;
        }
        let fences = if module.is_async(&name) { 2 } else { 0 };
        let convention = &export.convention;
        if convention.arguments().len() != fences || !convention.results().is_empty() {
            return Err(Error::invalid_argument(format!(
                "expected function with no inputs or outputs, but export '{name}' has signature '{convention}'"
            ))
            .advise("iree-run-module and iree-benchmark-module call functions with inputs"));
        }
        tests.push(Test { name: name.clone(), parameter: ordinal.to_string(), body: name });
    }
    Ok(Suite { name: module.module.name().to_string(), tests })
}

/// Runs one test in a context of its own.
fn test(options: &ProgramOptions, modules: &[UserModule], name: &str, failures: &Failures) -> Result<()> {
    let mut offer = |wanted: &str| match wanted {
        "check" => Module::native(CheckModule::new(failures.clone())).map(Some),
        _ => Ok(None),
    };
    let program = Program::with_modules(options, modules.to_vec(), &mut offer)?;
    let outcome = program
        .entry(name)
        .and_then(|entry| program.call(&entry, Vec::new()))
        .map(drop)
        .context(|| format!("test '{name}'"));
    program.close_unscoped(outcome, false)
}
