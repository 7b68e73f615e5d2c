//! GoogleTest's flags, and their environment variables.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use rehal_base::{Error, Result};

use super::filter::Filter;
use super::order::SEED_MAX;
use crate::flags::{Access, Effect, Flag, Flags, Group, Refusal, Words, split_once, text};

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

/// `None` repeats until killed.
const REPEAT: Flag<Option<u32>> = Flag::number(
    "gtest_repeat",
    1,
    (i32::MIN as i64, i32::MAX as i64),
    |count| if count < 0 { None } else { Some(count as u32) },
    "How often to run the tests; negative to repeat until killed.",
)
.variable();

const SHUFFLE: Flag<bool> = switch("gtest_shuffle", false, "Runs tests in random order.");

const RANDOM_SEED: Flag<u32> = Flag::number(
    "gtest_random_seed",
    0,
    (0, SEED_MAX as i64),
    |seed| seed as u32,
    "Seed of that order, from 1 to 99999; 0 derives one from the time.",
)
.variable();

const RECREATE_ENVIRONMENTS: Flag<bool> = switch(
    "gtest_recreate_environments_when_repeating",
    false,
    "Reports the setup and teardown of the environment in every repetition.",
);

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

/// Names a report if only a directory is given.
const PROGRAM: &str = "iree-check-module";

/// A report and its path: a file, or a directory if it ends with a slash, or nothing for the default.
type Report = (FileFormat, PathBuf);

const OUTPUT: Flag<Option<Report>> = Flag::parsed(
    "gtest_output",
    "FORMAT:PATH",
    "",
    "xml or json, or one of them and a path as in xml:report.xml",
    parse_output,
    "Writes a report: xml or json, and a file or a directory.",
)
.variable()
.files(|report, _| report.iter().map(|report| Access::WriteStream.to(in_directory(report))).collect());

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
        &REPEAT,
        &SHUFFLE,
        &RANDOM_SEED,
        &RECREATE_ENVIRONMENTS,
        &COLOR,
        &BRIEF,
        &PRINT_TIME,
        &switch("gtest_print_utf8", true, "Prints text as UTF-8.")
            .effect(Effect::Ignored("text is always UTF-8")),
        &OUTPUT,
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
    /// `None` to repeat until killed.
    pub repeat: Option<u32>,
    pub shuffle: bool,
    /// Seed of the first order.
    pub seed: u32,
    pub recreate_environments: bool,
    pub colored: bool,
    pub brief: bool,
    pub print_time: bool,
    pub output: Option<(FileFormat, PathBuf)>,
    pub fail_fast: bool,
    pub fail_if_none_selected: bool,
    pub fail_if_none_linked: bool,
    /// Number of shards, and the index of this one.
    pub shard: Option<(u32, u32)>,
}

/// Format of a report file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// JUnit's XML.
    Xml,
    /// GoogleTest's JSON.
    Json,
}

impl Options {
    /// The options set by flags and environment variables. `terminal` is whether output is a terminal;
    /// `now_ms` seeds the order.
    pub fn new(flags: &Flags, terminal: bool, now_ms: u64) -> Result<Self> {
        let seed = flags.get(&RANDOM_SEED);
        let clock = (now_ms % u64::from(SEED_MAX)) as u32 + 1;
        Ok(Self {
            list_tests: flags.get(&LIST_TESTS),
            filter: flags.get(&FILTER),
            also_run_disabled: flags.get(&ALSO_RUN_DISABLED),
            repeat: flags.get(&REPEAT),
            shuffle: flags.get(&SHUFFLE),
            seed: if seed == 0 { clock } else { seed },
            recreate_environments: flags.get(&RECREATE_ENVIRONMENTS),
            colored: match flags.get(&COLOR) {
                Color::Auto => terminal && variable("TERM").is_some_and(|term| term != "dumb"),
                Color::Always => true,
                Color::Never => false,
            },
            brief: flags.get(&BRIEF),
            print_time: flags.get(&PRINT_TIME),
            output: flags.get(&OUTPUT).map(|report| (report.0, in_directory(&report))),
            fail_fast: flags.get(&FAIL_FAST) || flags.get(&THROW_ON_FAILURE),
            fail_if_none_selected: flags.get(&FAIL_IF_NONE_SELECTED),
            fail_if_none_linked: flags.get(&FAIL_IF_NONE_LINKED),
            shard: shard(variable("GTEST_TOTAL_SHARDS"), variable("GTEST_SHARD_INDEX"))?,
        })
    }
}

/// Parses `FORMAT`, `FORMAT:FILE` or `FORMAT:DIRECTORY/`.
fn parse_output(value: &OsStr) -> Result<Option<Report>, Refusal> {
    if value.is_empty() {
        return Ok(None);
    }
    let (format, path) = split_once(value, b':').unwrap_or((value, OsStr::new("")));
    let format = match format.to_str() {
        Some("xml") => FileFormat::Xml,
        Some("json") => FileFormat::Json,
        _ => return Err(Refusal::Unexpected),
    };
    Ok(Some((format, path.into())))
}

/// The file of a report: GoogleTest's default, or one named after the program in a directory.
fn in_directory((format, path): &Report) -> PathBuf {
    let extension = match format {
        FileFormat::Xml => "xml",
        FileFormat::Json => "json",
    };
    match path.as_os_str().as_encoded_bytes() {
        [] => PathBuf::from(format!("test_detail.{extension}")),
        [.., b'/'] => path.join(format!("{PROGRAM}.{extension}")),
        _ => path.clone(),
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
    fn report_paths_are_parsed() {
        let parse = |text: &str| {
            let report = parse_output(OsStr::new(text)).unwrap();
            report.map(|report| (report.0, in_directory(&report)))
        };
        assert_eq!(parse(""), None);
        assert_eq!(parse("xml"), Some((FileFormat::Xml, "test_detail.xml".into())));
        assert_eq!(parse("json:a:b.json"), Some((FileFormat::Json, "a:b.json".into())));
        assert_eq!(parse("xml:out/"), Some((FileFormat::Xml, "out/iree-check-module.xml".into())));
        assert!(parse_output(OsStr::new("csv:a")).is_err());
    }

    #[test]
    fn shards_are_checked() {
        let shard = |total: &str, index: &str| shard(Some(total.into()), Some(index.into()));
        assert_eq!(shard("3", "1").unwrap(), Some((3, 1)));
        assert_eq!(shard("1", "0").unwrap(), None);
        assert!(shard("3", "3").is_err());
        assert!(shard("x", "0").is_err());
    }
}
