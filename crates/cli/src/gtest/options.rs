//! GoogleTest's flags, and their environment variables.

use std::env;

use rehal_base::{Error, Result};

use super::filter::Filter;
use crate::flags::{Effect, Flag, Flags, Group, Words, text};

const LIST_TESTS: Flag<bool> =
    switch("gtest_list_tests", false, "Prints the names of the tests instead of running them.");

const FILTER: Flag<Filter> = Flag::parsed(
    "gtest_filter",
    "PATTERN:...[-PATTERN:...]",
    "*",
    "PATTERN:...[-PATTERN:...]",
    |value| Ok(Filter::new(text(value)?)),
    "Runs tests whose SUITE.TEST name matches a pattern before the dash and none after it. * matches any \
     characters, ? matches one.",
)
.variable();

const ALSO_RUN_DISABLED: Flag<bool> =
    switch("gtest_also_run_disabled_tests", false, "Also runs tests whose name starts with DISABLED_.");

/// When to print colors.
#[derive(Clone, Copy, Debug)]
enum Color {
    Auto,
    Always,
    Never,
}

const COLOR: Flag<Color> = Flag::choice(
    "gtest_color",
    "auto",
    &[("auto", Color::Auto), ("yes", Color::Always), ("no", Color::Never)],
    "Colors: auto, yes or no.",
)
.aliases(&[
    ("true", Color::Always),
    ("t", Color::Always),
    ("1", Color::Always),
    ("false", Color::Never),
    ("f", Color::Never),
    ("0", Color::Never),
])
.variable();

const BRIEF: Flag<bool> = switch("gtest_brief", false, "Prints only failed tests.");

const PRINT_TIME: Flag<bool> = switch("gtest_print_time", true, "Prints the duration of each test.");

const FAIL_FAST: Flag<bool> = switch("gtest_fail_fast", false, "Stops after the first failed test.");

const FAIL_IF_NONE_SELECTED: Flag<bool> =
    switch("gtest_fail_if_no_test_selected", false, "Fails if the filter matches no test.");

const FAIL_IF_NONE_LINKED: Flag<bool> =
    switch("gtest_fail_if_no_test_linked", false, "Fails if the module has no test.");

const THROW_ON_FAILURE: Flag<bool> =
    switch("gtest_throw_on_failure", false, "Ends the process at the first failure.");

/// The flags of GoogleTest's programs.
pub(crate) const GTEST: Group = Group {
    title: "Tests (GoogleTest's flags)",
    flags: &[
        &LIST_TESTS,
        &FILTER,
        &ALSO_RUN_DISABLED,
        &Flag::integer("gtest_repeat", 1, "How often to run the tests.")
            .variable()
            .effect(Effect::Missing { what: "repetition of tests", instead: "run the tool several times" }),
        &switch("gtest_shuffle", false, "Runs tests in random order.").effect(Effect::Missing {
            what: "a random order of tests",
            instead: "each test has its own context, so the order has no effect",
        }),
        &Flag::integer("gtest_random_seed", 0, "Seed of a random order.")
            .variable()
            .effect(Effect::Ignored("tests run in the order of the module")),
        &switch("gtest_recreate_environments_when_repeating", false, "Repeats the setup of tests.")
            .effect(Effect::Ignored("tests run once")),
        &COLOR,
        &BRIEF,
        &PRINT_TIME,
        &switch("gtest_print_utf8", true, "Prints text as UTF-8.")
            .effect(Effect::Ignored("text is always UTF-8")),
        &Flag::text("gtest_output", "REPORT", "Writes a report to a file.").variable().effect(
            Effect::Missing { what: "GoogleTest's report files", instead: "--format=json prints a report" },
        ),
        &FAIL_FAST,
        &FAIL_IF_NONE_SELECTED,
        &FAIL_IF_NONE_LINKED,
        &switch("gtest_break_on_failure", false, "Breaks into the debugger at a failure.")
            .effect(Effect::Ignored("breaking into a debugger is not supported")),
        &THROW_ON_FAILURE,
        &switch("gtest_catch_exceptions", true, "Catches C++ exceptions.")
            .effect(Effect::Ignored("tests do not throw C++ exceptions")),
        &Flag::parsed("gtest_death_test_style", "STYLE", "fast", "UTF-8 text", text, "Style of death tests.")
            .effect(Effect::Ignored("death tests are not supported")),
        &Flag::integer("gtest_stack_trace_depth", 100, "Maximum depth of stack traces of failures.")
            .effect(Effect::Ignored("failures have no native stack trace")),
        &Flag::text("gtest_stream_result_to", "HOST:PORT", "Streams results to a host.")
            .effect(Effect::Ignored("results are not streamed")),
    ],
};

/// A GoogleTest boolean.
const fn switch(name: &'static str, default: bool, help: &'static str) -> Flag<bool> {
    Flag::switch(name, default, help).words(Words::GoogleTest).variable()
}

/// The selection, execution and reporting of tests.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub list_tests: bool,
    pub filter: Filter,
    pub also_run_disabled: bool,
    pub colored: bool,
    pub brief: bool,
    pub print_time: bool,
    pub fail_fast: bool,
    pub fail_if_none_selected: bool,
    pub fail_if_none_linked: bool,
    /// Number of shards, and the index of this one.
    pub shard: Option<(u32, u32)>,
}

impl Options {
    /// The options set by flags and environment variables. `terminal` is whether output is a terminal.
    pub fn new(flags: &Flags, terminal: bool) -> Result<Self> {
        Ok(Self {
            list_tests: flags.get(&LIST_TESTS),
            filter: flags.get(&FILTER),
            also_run_disabled: flags.get(&ALSO_RUN_DISABLED),
            colored: match flags.get(&COLOR) {
                Color::Auto => terminal && variable("TERM").is_some_and(|term| term != "dumb"),
                Color::Always => true,
                Color::Never => false,
            },
            brief: flags.get(&BRIEF),
            print_time: flags.get(&PRINT_TIME),
            fail_fast: flags.get(&FAIL_FAST) || flags.get(&THROW_ON_FAILURE),
            fail_if_none_selected: flags.get(&FAIL_IF_NONE_SELECTED),
            fail_if_none_linked: flags.get(&FAIL_IF_NONE_LINKED),
            shard: shard(variable("GTEST_TOTAL_SHARDS"), variable("GTEST_SHARD_INDEX"))?,
        })
    }
}

/// The number of shards and the index of the one to run.
fn shard(total: Option<String>, index: Option<String>) -> Result<Option<(u32, u32)>> {
    let number = |name: &str, text: &str| {
        text.parse::<u32>().map_err(|_| {
            Error::invalid_argument(format!("environment variable {name}: '{text}' is not an integer")).advise(
                "GTEST_TOTAL_SHARDS is the number of shards, GTEST_SHARD_INDEX the index of this one, from 0",
            )
        })
    };
    let (Some(total), Some(index)) = (&total, &index) else { return Ok(None) };
    let (total, index) = (number("GTEST_TOTAL_SHARDS", total)?, number("GTEST_SHARD_INDEX", index)?);
    if index >= total {
        return Err(Error::invalid_argument(format!(
            "GTEST_SHARD_INDEX is {index}, but there are {total} shards, counted from 0"
        ))
        .advise("unset both to run all tests"));
    }
    Ok((total > 1).then_some((total, index)))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_checked() {
        let shard = |total: &str, index: &str| shard(Some(total.into()), Some(index.into()));
        assert_eq!(shard("3", "1").unwrap(), Some((3, 1)));
        assert_eq!(shard("1", "0").unwrap(), None);
        assert!(shard("3", "3").is_err());
        assert!(shard("x", "0").is_err());
    }
}
