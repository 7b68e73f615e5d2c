//! Flags that say which functions of a capture are meant, and their one resolver.

use rehal_base::{Context, Error, Result};
use rehal_kernels::FunctionNames;
use rehal_replay::Plan;

use crate::flags::{Flag, Flags, Refusal, optional_number};

/// A flag that selects one function.
pub(super) const fn one_flag(help: &'static str) -> Flag<Option<String>> {
    Flag::text("function", "NAME", help)
}

/// A flag that selects functions.
pub(super) const fn pattern_flag(help: &'static str) -> Flag<Option<String>> {
    Flag::text("function", "GLOB", help)
}

/// A flag that selects the executable, if several have the function.
pub(super) const fn executable_flag(help: &'static str) -> Flag<Option<u64>> {
    Flag::parsed("executable", "ID", "", "the id of an executable", optional_number, help)
}

/// A flag that selects the dispatch of a record, or its function.
pub(super) const fn dispatch_flag(help: &'static str) -> Flag<Option<u32>> {
    Flag::parsed(
        "dispatch",
        "ORDINAL",
        "",
        "the ordinal of a record",
        |value| match value.to_str() {
            Some("") => Ok(None),
            Some(text) => {
                text.strip_prefix('#').unwrap_or(text).parse().map(Some).map_err(|_| Refusal::Unexpected)
            }
            None => Err(Refusal::Unexpected),
        },
        help,
    )
}

/// [`dispatch_flag`] of the tools for which the function matters.
pub(super) const DISPATCH: Flag<Option<u32>> = dispatch_flag(
    "Instead of --function: the function that this record dispatches, as dumps, kernels and profiles print it.",
);

/// The one function that is meant; by default the only one that the capture dispatches.
pub(super) fn one(flags: &Flags, function: &Flag<Option<String>>, plan: &Plan) -> Result<String> {
    let function = flags.get(function);
    match dispatch(flags, function.as_ref())? {
        Some(record) => FunctionNames::of_record(plan, record),
        None => FunctionNames::from_plan(plan)?.one(function.as_deref()).advise(
            || "name one with --function, or a record of it with --dispatch; rehal kernels lists them",
        ),
    }
}

/// The pattern of the functions that are meant, if any are named.
pub(super) fn pattern(flags: &Flags, function: &Flag<Option<String>>, plan: &Plan) -> Result<Option<String>> {
    let function = flags.get(function);
    match (dispatch(flags, function.as_ref())?, function) {
        (Some(record), _) => FunctionNames::of_record(plan, record).map(Some),
        (None, Some(wanted)) => FunctionNames::from_plan(plan)?.pattern(&wanted).map(Some),
        (None, None) => Ok(None),
    }
}

fn dispatch(flags: &Flags, function: Option<&String>) -> Result<Option<u32>> {
    match (flags.get(&DISPATCH), function) {
        (Some(_), Some(_)) => {
            Err(Error::invalid_argument("both --dispatch and --function are given")
                .advise("give one of them"))
        }
        (record, _) => Ok(record),
    }
}
