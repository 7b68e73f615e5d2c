//! `iree-check-module`: runs the tests that a module exports.

use std::io::IsTerminal;
use std::time::{SystemTime, UNIX_EPOCH};

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_modules::check::{CheckModule, Failures};
use rehal_vm::Module;

use crate::flags::{DEVICES, Flag, Group, LOCAL, OTHER_DRIVERS, PROFILING, TASK};
use crate::gtest::{self, GTEST, Options, Suite, Test};
use crate::parameters::PARAMETERS;
use crate::program::flags::{MODULES, RECORDING};
use crate::program::{Program, UserModule, load_modules, refuse_operands};
use crate::{Invocation, Tool, devices, output};

/// See the [module](self).
pub const CHECK_MODULE: Tool = Tool {
    name: "iree-check-module",
    verb: "check-module",
    summary: "runs the tests that a compiled module exports",
    about: "Each exported function without inputs and results is a test. It fails where an expectation that it \
            gives to the check module does not hold, or where it ends with an error. Every test runs in a program \
            of its own, so that none sees what another left behind. The report has GoogleTest's shape, and so \
            have the flags that choose tests.\n\n\
            A module holds machine code, and running it runs that code with your rights: run what you would also \
            execute.",
    operands: "--module=FILE.vmfb",
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
        ("Keep a report for others to read", "{tool} --module=tests.vmfb --gtest_output=xml:report.xml"),
        ("Print the names of the tests", "{tool} --module=tests.vmfb --gtest_list_tests"),
    ],
    guide: include_str!("../guides/check_module.md"),
    answer: devices::answer,
    run,
};

const CHECK: Group = Group {
    title: "Check",
    flags: &[Flag::switch(
        "expect_failure",
        false,
        "Succeeds where a test fails, and fails where all pass: for tests of tests.",
    )],
};

fn run(invocation: &Invocation) -> Result<()> {
    let outcome = tests(invocation);
    if invocation.flags.switch("expect_failure") {
        return match outcome {
            Ok(0) => Err(Error::new(StatusCode::Unknown, "Test passed but expected failure")
                .advise("leave out --expect_failure")),
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
        .advise("the report lists them; --gtest_filter=NAME runs one alone")),
    }
}

/// Runs the tests; gives how many did not pass.
fn tests(invocation: &Invocation) -> Result<usize> {
    let flags = &invocation.flags;
    refuse_operands(invocation)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    let options = Options::new(flags, "iree-check-module", std::io::stdout().is_terminal(), now)?;
    let modules = load_modules(flags)?;
    let suite = suite(modules.last().expect("a program has a module, or loading fails"))?;
    let failures = Failures::default();
    gtest::run(&suite, &options, &mut output::stdout()?, |name: &String| {
        let outcome = test(invocation, &modules, name, &failures);
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

/// Runs one test in a program of its own.
fn test(invocation: &Invocation, modules: &[UserModule], name: &str, failures: &Failures) -> Result<()> {
    let mut offer = |wanted: &str| match wanted {
        "check" => Module::native(CheckModule::new(failures.clone())).map(Some),
        _ => Ok(None),
    };
    let program = Program::with_modules(&invocation.flags, modules.to_vec(), &mut offer)?;
    let outcome = program
        .entry(name)
        .and_then(|entry| program.call(&entry, Vec::new()))
        .map(drop)
        .context(|| format!("test '{name}'"));
    program.close_unscoped(outcome, false)
}
