//! GoogleTest's flags, and the environment variables behind them.

use std::env;
use std::path::PathBuf;

use rehal_base::{Context, Error, Result};

use super::filter::Filter;
use super::order::SEED_MAX;
use crate::flags::{Flag, Flags, Group};

/// What GoogleTest's programs take.
pub(crate) const GTEST: Group = Group {
    title: "Tests (GoogleTest's flags)",
    flags: &[
        Flag::switch("gtest_list_tests", false, "Prints the names of the tests, runs none."),
        Flag::text(
            "gtest_filter",
            "PATTERN:...[-PATTERN:...]",
            "*",
            "Runs tests whose SUITE.TEST name fits a pattern and none behind the dash. * stands for any \
             characters, ? for one.",
        ),
        Flag::switch(
            "gtest_also_run_disabled_tests",
            false,
            "Runs tests whose name starts with DISABLED_ too.",
        ),
        Flag::integer("gtest_repeat", 1, "How often to run the tests; a negative number for ever."),
        Flag::switch("gtest_shuffle", false, "Runs tests in random order."),
        Flag::integer("gtest_random_seed", 0, "Seed of that order, from 1 to 99999; 0 for one of the clock."),
        Flag::switch(
            "gtest_recreate_environments_when_repeating",
            false,
            "Says in every repetition that the environment is set up.",
        ),
        Flag::text("gtest_color", "WHEN", "auto", "Colours: auto, yes or no."),
        Flag::switch("gtest_brief", false, "Prints failed tests alone."),
        Flag::switch("gtest_print_time", true, "Prints how long each test took."),
        Flag::switch("gtest_print_utf8", true, "Without effect: text is UTF-8."),
        Flag::text(
            "gtest_output",
            "FORMAT:PATH",
            "",
            "Writes a report: xml or json, and the file or folder.",
        ),
        Flag::switch("gtest_fail_fast", false, "Stops behind the first test that fails."),
        Flag::switch("gtest_fail_if_no_test_selected", false, "Fails where the filter leaves no test."),
        Flag::switch("gtest_fail_if_no_test_linked", false, "Fails where the module has no test."),
        Flag::switch("gtest_break_on_failure", false, "Without effect: there is no debugger to break into."),
        Flag::switch("gtest_throw_on_failure", false, "Ends the process at the first failure."),
        Flag::switch("gtest_catch_exceptions", true, "Without effect: there are no exceptions."),
        Flag::text("gtest_death_test_style", "STYLE", "fast", "Without effect: there are no death tests."),
        Flag::integer(
            "gtest_stack_trace_depth",
            100,
            "Without effect: failures have the program's own stack.",
        ),
        Flag::text("gtest_stream_result_to", "HOST:PORT", "", "Without effect: nothing is sent anywhere."),
    ],
};

/// What of it counts.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub list_tests: bool,
    pub filter: Filter,
    pub also_run_disabled: bool,
    /// `None` for ever.
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
    /// Of how many shards this is which.
    pub shard: Option<(u32, u32)>,
}

/// A report that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// As JUnit reads it.
    Xml,
    /// The same as JSON.
    Json,
}

impl Options {
    /// From the flags and, for those that are not given, the environment. `program` names the report where only a
    /// folder is given; `terminal` is whether somebody watches; `now_ms` is where a seed comes from.
    pub fn new(flags: &Flags, program: &str, terminal: bool, now_ms: u64) -> Result<Self> {
        let from = Source(flags);
        let seed = from.integer("gtest_random_seed")?;
        if !(0..=i64::from(SEED_MAX)).contains(&seed) {
            return Err(Error::invalid_argument(format!(
                "--gtest_random_seed={seed}: expected 0 to {SEED_MAX}"
            ))
            .advise("0 takes a seed from the clock"));
        }
        let clock = (now_ms % u64::from(SEED_MAX)) as u32 + 1;
        Ok(Self {
            list_tests: from.switch("gtest_list_tests")?,
            filter: Filter::new(from.text("gtest_filter")),
            also_run_disabled: from.switch("gtest_also_run_disabled_tests")?,
            repeat: u32::try_from(from.integer("gtest_repeat")?).ok(),
            shuffle: from.switch("gtest_shuffle")?,
            seed: if seed == 0 { clock } else { seed as u32 },
            recreate_environments: from.switch("gtest_recreate_environments_when_repeating")?,
            colored: color(&from.text("gtest_color"), terminal),
            brief: from.switch("gtest_brief")?,
            print_time: from.switch("gtest_print_time")?,
            output: output(&from.text("gtest_output"), program).context(|| "--gtest_output".into())?,
            fail_fast: from.switch("gtest_fail_fast")? || from.switch("gtest_throw_on_failure")?,
            fail_if_none_selected: from.switch("gtest_fail_if_no_test_selected")?,
            fail_if_none_linked: from.switch("gtest_fail_if_no_test_linked")?,
            shard: shard(variable("GTEST_TOTAL_SHARDS"), variable("GTEST_SHARD_INDEX"))?,
        })
    }
}

/// Whether to print colours: words of either kind are what GoogleTest takes, all others are no.
fn color(word: &str, terminal: bool) -> bool {
    match word.to_ascii_lowercase().as_str() {
        "auto" => terminal && variable("TERM").is_some_and(|term| term != "dumb"),
        word => ["yes", "true", "t", "1"].contains(&word),
    }
}

/// `FORMAT`, `FORMAT:FILE` or `FORMAT:FOLDER/`.
fn output(text: &str, program: &str) -> Result<Option<(FileFormat, PathBuf)>> {
    if text.is_empty() {
        return Ok(None);
    }
    let (format, path) = text.split_once(':').unwrap_or((text, ""));
    let (format, name) = match format {
        "xml" => (FileFormat::Xml, "xml"),
        "json" => (FileFormat::Json, "json"),
        other => {
            return Err(Error::invalid_argument(format!("'{other}': expected xml or json"))
                .advise("--gtest_output=xml:report.xml"));
        }
    };
    Ok(Some((
        format,
        match path {
            "" => PathBuf::from(format!("test_detail.{name}")),
            folder if folder.ends_with('/') => PathBuf::from(folder).join(format!("{program}.{name}")),
            file => PathBuf::from(file),
        },
    )))
}

/// Which part of the tests is run here: of `total`, the one of this number.
fn shard(total: Option<String>, index: Option<String>) -> Result<Option<(u32, u32)>> {
    let number = |name: &str, text: &str| {
        text.parse::<u32>().map_err(|_| {
            Error::invalid_argument(format!("environment variable {name}: '{text}' is no number")).advise(
                "GTEST_TOTAL_SHARDS is how many shards there are, GTEST_SHARD_INDEX which this is, from 0",
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

/// Flags, and environment variables behind them: `GTEST_FILTER` is `--gtest_filter`.
struct Source<'f>(&'f Flags);

impl Source<'_> {
    fn of(&self, name: &'static str) -> Option<(String, String)> {
        let variable = name.to_ascii_uppercase();
        let text = env::var(&variable).ok().filter(|_| !self.0.is_given(name))?;
        Some((variable, text))
    }

    fn text(&self, name: &'static str) -> String {
        self.of(name).map_or_else(|| self.0.text(name).to_string(), |(_, text)| text)
    }

    fn switch(&self, name: &'static str) -> Result<bool> {
        // GoogleTest's rule for its variables: 0, f, F and what starts alike are no; everything else is yes.
        Ok(self.of(name).map_or_else(|| self.0.switch(name), |(_, text)| !text.starts_with(['0', 'f', 'F'])))
    }

    fn integer(&self, name: &'static str) -> Result<i64> {
        match self.of(name) {
            None => Ok(self.0.integer(name)),
            Some((variable, text)) => text.parse().map_err(|_| {
                Error::invalid_argument(format!("environment variable {variable}: '{text}' is no number"))
                    .advise(format!("--{name} overrides it"))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_go_where_they_are_sent() {
        let parse = |text| output(text, "tool").unwrap();
        assert_eq!(parse(""), None);
        assert_eq!(parse("xml"), Some((FileFormat::Xml, "test_detail.xml".into())));
        assert_eq!(parse("json:a:b.json"), Some((FileFormat::Json, "a:b.json".into())));
        assert_eq!(parse("xml:out/"), Some((FileFormat::Xml, "out/tool.xml".into())));
        assert!(output("csv:a", "tool").is_err());
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
