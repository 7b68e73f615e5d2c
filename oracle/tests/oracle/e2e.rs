//! Self-checking programs, compiled by the pinned release and run with our `iree-check-module`: ours, and the
//! reference's if `REHAL_IREE_SOURCE` names a checkout of its source.

use crate::{Outcome, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::repository;
use oracle::e2e::{self, Compiled, FAILURES, Program, SOURCE_VARIABLE};
use oracle::reference::Reference;
use std::path::{Path, PathBuf};

/// Adds a test per program and target.
pub fn add(trials: &mut Vec<Trial>) -> Result<(), Box<dyn std::error::Error>> {
    let mut programs = e2e::ours(&fixture("e2e"))?;
    if let Some(source) = std::env::var_os(SOURCE_VARIABLE).filter(|path| !path.is_empty()) {
        programs.extend(e2e::reference_programs(Path::new(&source), &cache().join("generated"))?);
        let unknown = e2e::unknown_programs(&programs);
        trials.push(Trial::test("e2e::known_failures_are_of_programs", move || {
            ensure(unknown.is_empty(), || format!("no such program: {unknown:#?}"))
        }));
    }
    for program in programs {
        let test = if program.name.ends_with(&format!("/{FAILURES}")) { fails } else { passes };
        trials.push(Trial::test(format!("e2e::{}", program.name), move || test(&program)));
    }
    Ok(())
}

fn cache() -> PathBuf {
    repository().join("target/e2e")
}

/// The module of a program; `None` if the pinned release is known to reject it.
fn module(program: &Program) -> Result<Option<PathBuf>, Failed> {
    let reference = Reference::find(&repository())?;
    match (program.compile(&reference, &cache())?, program.known_refusal()) {
        (Compiled::Module(module), None) => Ok(Some(module)),
        (Compiled::Module(_), Some(words)) => {
            Err(format!("compiles, but is listed as rejected: {words}").into())
        }
        (Compiled::Refused(said), _) => Ok(program.judge_refusal(&said).map(|()| None)?),
    }
}

fn passes(program: &Program) -> Outcome {
    let Some(module) = module(program)? else { return Ok(()) };
    for device in program.devices() {
        let ended = e2e::check(device, &module, &[])?;
        program.judge(&ended).map_err(|why| format!("on {device}: {why}"))?;
    }
    Ok(())
}

/// The expected report of the failing program, whose tests fail in different ways: these lines in this order.
const SAID: &[&str] = &[
    "[==========] Running 7 tests from 1 test suite.",
    "[ RUN      ] module.wrong_scalar",
    "check.expect_true: Failure",
    "Expected 0 to be nonzero.",
    "[  FAILED  ] module.wrong_scalar, where GetParam() = 0 (",
    "[ RUN      ] module.wrong_element",
    "Expected equality of these values. Contents does not match.",
    "  1 of 6 elements differ:",
    "    [1, 1] lhs 50 rhs 5",
    "    2x3xi32=[1 2 3][4 50 6]",
    "    2x3xi32=[1 2 3][4 5 6]",
    "Expected near equality of these values. Contents does not match to tolerance parameters atol=0.25, rtol=0. The \
     first failure occurs at index 1 as the lhs value 2.5 differs from the rhs value 2 by -5.000e-01.",
    "Expected all elements to be nonzero.",
    "  0 at 1 of 3 elements: [1]",
    "Expected 3 to be zero.",
    "index 0 as the lhs value 0.5 differs from the rhs value 1.5 by 1.000e+00.",
    "FAILED_PRECONDITION; the answer is not \"4\": größer?",
    "[       OK ] module.passes (",
    "[  PASSED  ] 1 test.",
    "[  FAILED  ] 6 tests, listed below:",
    "[  FAILED  ] module.asserts, where GetParam() = 5",
    " 6 FAILED TESTS",
    "Test failed",
];

fn fails(program: &Program) -> Outcome {
    let module = module(program)?.ok_or("does not compile")?;
    program.devices().iter().try_for_each(|device| fails_on(device, &module))
}

fn fails_on(device: &str, module: &Path) -> Outcome {
    let ended = e2e::check(device, module, &[])?;
    let text = String::from_utf8_lossy(&ended.stdout);
    if ended.code != Some(1) {
        return Err(format!("{}\n{text}", ended.summary()).into());
    }
    let mut rest = &*text;
    for line in SAID {
        let at = rest.find(line).ok_or_else(|| format!("missing {line:?} at its position\n{text}"))?;
        rest = &rest[at + line.len()..];
    }
    let ended = e2e::check(device, module, &["--expect_failure"])?;
    let said = String::from_utf8_lossy(&ended.stdout).ends_with("\nTest failed as expected\n");
    if ended.succeeded() && said { Ok(()) } else { Err(ended.summary().into()) }
}
