//! Comparisons: of captures, of replays, of kernels. Their reports are the JSON that the tools print.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::time::Duration;

use rehal::capture::{CaptureFile, DiffOptions};
use rehal::program::ElementType;
use rehal::record::ElementTypeRule;
use rehal::replay::{Selector, Substitution};
use rehal::tune::{
    CompareOptions, ComparisonReport, DiffReport, Ledger, Outcome, Tolerance, Verification, VerifyOptions,
    VerifySides, verify_against, verify_captures, verify_lockstep,
};
use rehal::work::{CompareWork, ReplayWork, Replayed, perform};
use rehal::{Error, Result};
use serde::Serialize;

use crate::capture::{rehal_capture_t, rehal_plan_t};
use crate::error::{guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::isolate::{rehal_isolation_options_t, setup_of, work_options};
use crate::replay::{
    rehal_replacement_t, rehal_replay_options_t, rehal_replay_t, replacement_of, replay_options,
};
use crate::structs::{list, out, put, rehal_string_t, sized_struct};

/// The outcome and the JSON of a comparison.
pub struct JsonReport {
    outcome: rehal_outcome_t,
    json: String,
}

handle!(rehal_report_t, JsonReport, "report", b"report\0\0");

pub type rehal_outcome_t = u32;
pub const REHAL_OUTCOME_SAME: rehal_outcome_t = 0;
pub const REHAL_OUTCOME_DIFFERENT: rehal_outcome_t = 1;
pub const REHAL_OUTCOME_INCONCLUSIVE: rehal_outcome_t = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_diff_options_t {
    pub size: usize,
    pub element_type: u32,
    pub max_elements: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_verify_options_t {
    pub size: usize,
    pub expected: *const rehal_replay_t,
    pub ledger: rehal_string_t,
    pub tolerances: *const rehal_string_t,
    pub tolerance_count: usize,
    pub element_types: *const rehal_string_t,
    pub element_type_count: usize,
    pub keep_going: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_compare_options_t {
    pub size: usize,
    pub device: rehal_string_t,
    pub tolerances: *const rehal_string_t,
    pub tolerance_count: usize,
    pub element_types: *const rehal_string_t,
    pub element_type_count: usize,
    pub precision: f64,
    pub margin: f64,
    pub max_time_ns: u64,
    pub allow_atomics: bool,
    pub isolation: *const rehal_isolation_options_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_run_options_t {
    pub size: usize,
    pub device: rehal_string_t,
    pub replay: *const rehal_replay_options_t,
    pub function: rehal_string_t,
    pub replacement: *const rehal_replacement_t,
    pub bytes_limit: usize,
    pub isolation: *const rehal_isolation_options_t,
}

sized_struct!(rehal_run_options_t, rehal_diff_options_t, rehal_verify_options_t, rehal_compare_options_t);

/// A report with the name and version of its JSON.
#[derive(Serialize)]
struct Document<R> {
    schema: &'static str,
    #[serde(flatten)]
    report: R,
}

fn found(outcome: Outcome, schema: &'static str, report: impl Serialize) -> Result<*mut rehal_report_t> {
    let json = serde_json::to_string(&Document { schema, report });
    let json = json.map_err(|error| Error::io("writing a report", &error.into()))?;
    let outcome = match outcome {
        Outcome::Same => REHAL_OUTCOME_SAME,
        Outcome::Different => REHAL_OUTCOME_DIFFERENT,
        Outcome::Inconclusive => REHAL_OUTCOME_INCONCLUSIVE,
    };
    Ok(handle::new(JsonReport { outcome, json }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_report_outcome(
    report: *const rehal_report_t,
    outcome: *mut rehal_outcome_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe { put(outcome, handle::get(report)?.outcome) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_report_json(
    report: *const rehal_report_t,
    json: *mut rehal_string_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { put(json, rehal_string_t::lend(handle::get(report)?.json.as_bytes())) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_report_free(report: *mut rehal_report_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(report) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_diff(
    before: *const rehal_capture_t,
    after: *const rehal_capture_t,
    options: *const rehal_diff_options_t,
    report: *mut *mut rehal_report_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(report)?;
        let given = crate::structs::options(options)?;
        let mut options = DiffOptions::default();
        options.element_type = (given.element_type != 0).then_some(ElementType(given.element_type));
        if given.max_elements != 0 {
            options.max_elements = given.max_elements;
        }
        let captures = [handle::get(before)?.file(), handle::get(after)?.file()];
        let [before, after] = captures;
        for capture in captures.into_iter().filter(|it| !it.is_recovered()) {
            capture.check_undamaged(&mut |_| {})?;
        }
        let diff = before.diff(after, &options, &mut |_| {})?;
        let path = |it: &CaptureFile| it.path().map(|path| path.display().to_string()).unwrap_or_default();
        let outcome = if diff.is_same() { Outcome::Same } else { Outcome::Different };
        let written = DiffReport { diff: &diff, paths: captures.map(path), digests: None };
        *out = found(outcome, DiffReport::SCHEMA, written)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_plan_run(
    plan: *const rehal_plan_t,
    options: *const rehal_run_options_t,
    report: *mut *mut rehal_report_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(report)?;
        let given = crate::structs::options(options)?;
        let mut setup = setup_of(handle::get(plan)?, given.device)?;
        setup.options = replay_options(given.replay)?;
        if let Some(function) = given.function.given() {
            let replacement = replacement_of(&crate::structs::options(given.replacement)?)?;
            let replacement =
                replacement.ok_or_else(|| Error::invalid_argument("the replacement has no code"))?;
            let selector = Selector::Name(function.text()?.to_owned());
            setup.options.substitutions.push(Substitution::new(selector, replacement));
        }
        let mut work = ReplayWork::new(setup);
        if given.bytes_limit != 0 {
            work.bytes_limit = given.bytes_limit;
        }
        *out = found(Outcome::Same, Replayed::SCHEMA, perform(&work, &work_options(given.isolation)?)?)?;
        Ok(())
    })
}

/// # Safety
/// Valid for reads, as the header says of lists of strings.
unsafe fn parsed<T>(
    texts: *const rehal_string_t,
    count: usize,
    what: &str,
    parse: impl Fn(&str) -> Result<T>,
) -> Result<Vec<T>> {
    // SAFETY: the caller guarantees it.
    unsafe { list(texts, count, what)?.iter().map(|text| parse(text.text()?)).collect() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_replay_verify(
    replay: *const rehal_replay_t,
    options: *const rehal_verify_options_t,
    report: *mut *mut rehal_report_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(report)?;
        let given = crate::structs::options(options)?;
        let mut options = VerifyOptions::default();
        options.tolerances = parsed(given.tolerances, given.tolerance_count, "tolerances", Tolerance::parse)?;
        options.element_types =
            parsed(given.element_types, given.element_type_count, "element_types", ElementTypeRule::parse)?;
        options.keep_going = given.keep_going;
        let actual = handle::get(replay)?;
        actual.check_capture()?;
        let plan = actual.plan();
        let verification = match (given.expected.is_null(), given.ledger.given()) {
            (false, Some(_)) => {
                return Err(Error::invalid_argument(
                    "a replay is compared with a ledger or with another replay",
                ));
            }
            (false, None) => {
                let expected = handle::get(given.expected)?;
                expected.check_capture()?;
                let (expected_observers, observers) = (&mut [], &mut []);
                let is_same = std::ptr::eq(&raw const **expected.plan(), &raw const **plan);
                let (expected, actual) = (&**expected, &**actual);
                let sides = VerifySides { expected, actual, expected_observers, observers };
                match is_same {
                    true => verify_lockstep(sides, &options)?,
                    false => verify_captures(sides, &options)?,
                }
            }
            (true, Some(path)) => {
                let ledger = Ledger::open(&path.path()?)?;
                ledger.check_capture(plan)?;
                verify_against(&**actual, &ledger, &options, &mut [])?
            }
            (true, None) => {
                let ledger = Ledger::from_plan(plan)?.ok_or_else(|| {
                    Error::invalid_argument("nothing to compare with: the capture has no expected results")
                        .advise("give a ledger or another replay, or record with a ledger")
                })?;
                verify_against(&**actual, &ledger, &options, &mut [])?
            }
        };
        let outcome = verification.outcome();
        *out = found(outcome, Verification::SCHEMA, &verification)?;
        Ok(())
    })
}

/// The comparison of a function with one replacement.
#[derive(Serialize)]
struct Compared<'a> {
    function: &'a str,
    outcome: &'static str,
    is_slower: Option<bool>,
    #[serde(flatten)]
    comparison: ComparisonReport<'a>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_kernel_compare(
    plan: *const rehal_plan_t,
    function: rehal_string_t,
    replacement: *const rehal_replacement_t,
    options: *const rehal_compare_options_t,
    report: *mut *mut rehal_report_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(report)?;
        let (plan, function) = (handle::get(plan)?, function.text()?);
        let given = crate::structs::options(options)?;
        let compare = compare_options(&given)?;
        let replacement = replacement_of(&crate::structs::options(replacement)?)?;
        let replacement =
            replacement.ok_or_else(|| Error::invalid_argument("the replacement has no code"))?;
        let mut setup = setup_of(plan, given.device)?;
        setup.devices.common.refuses_wrong_results = true;
        setup.devices.common.guards_buffers = true;
        let work = CompareWork::new(setup, function, compare).with(replacement);
        let comparison = work.run(&work_options(given.isolation)?)?;
        let (outcome, name) = match comparison.is_right() {
            true => (Outcome::Same, "right"),
            false => (Outcome::Different, "wrong"),
        };
        let is_slower = comparison.is_slower();
        let comparison = ComparisonReport::from_comparison(&comparison);
        let compared = Compared { function, outcome: name, is_slower, comparison };
        *out = found(outcome, ComparisonReport::SCHEMA, compared)?;
        Ok(())
    })
}

/// # Safety
/// As the header says of the options.
unsafe fn compare_options(given: &rehal_compare_options_t) -> Result<CompareOptions> {
    let mut made = CompareOptions::default();
    // SAFETY: the caller guarantees it.
    unsafe {
        made.verify.tolerances =
            parsed(given.tolerances, given.tolerance_count, "tolerances", Tolerance::parse)?;
        made.verify.element_types =
            parsed(given.element_types, given.element_type_count, "element_types", ElementTypeRule::parse)?;
    }
    for (value, name, field) in
        [(given.precision, "precision", &mut made.precision), (given.margin, "margin", &mut made.margin)]
    {
        if !(0.0..1.0).contains(&value) {
            return Err(Error::invalid_argument(format!("the {name} is {value} (expected 0 to 1)")));
        }
        if value != 0.0 {
            *field = value;
        }
    }
    if given.max_time_ns != 0 {
        made.max_time = Duration::from_nanos(given.max_time_ns);
    }
    made.allows_atomics = given.allow_atomics;
    Ok(made)
}
