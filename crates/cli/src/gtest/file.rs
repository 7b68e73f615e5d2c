//! Report files: JUnit-compatible XML, and JSON.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rehal_base::{Context, Error, Result};
use serde::Serialize;

use super::options::FileFormat;
use super::run::{Iteration, Outcome, Suite};
use crate::output_file::OutputFile;
use crate::report::write_json;

/// The file of a report; its directory is created if necessary.
pub(crate) fn create(path: &Path) -> Result<OutputFile> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let created = directory.map_or(Ok(()), fs::create_dir_all);
    created
        .map_err(|error| Error::io(format_args!("creating the directory of '{}'", path.display()), &error))
        .and_then(|()| OutputFile::new("gtest_output", path.to_owned()))
        .context(|| "--gtest_output".into())
        .map_err(|error| {
            error.replace_advice("name a file that can be written: --gtest_output=xml:report.xml")
        })
}

/// Writes the report of a run.
pub(crate) fn write<T>(
    format: FileFormat,
    output: &OutputFile,
    suite: &Suite<T>,
    disabled: &[usize],
    ran: &Iteration,
) -> Result<()> {
    let failed = |error| Error::io("writing the report", &error);
    output.write(|sink| {
        let written = match format {
            FileFormat::Xml => sink.write_all(xml(suite, disabled, ran).as_bytes()),
            FileFormat::Json => write_json(&JsonReport::from_run(suite, disabled, ran), false, sink),
        };
        written.map_err(failed)
    })
}

fn xml<T>(suite: &Suite<T>, disabled: &[usize], ran: &Iteration) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let numbers = format!(
        "tests=\"{}\" failures=\"{}\" disabled=\"{}\" errors=\"0\" time=\"{}\"",
        ran.outcomes.len() + disabled.len(),
        ran.failed(),
        disabled.len(),
        seconds(ran.duration)
    );
    let _ = writeln!(text, "<testsuites {numbers} name=\"AllTests\">");
    if !ran.outcomes.is_empty() || !disabled.is_empty() {
        let name = escape(&suite.name);
        let _ = writeln!(text, "  <testsuite name=\"{name}\" {numbers}>");
        for (index, outcome) in &ran.outcomes {
            xml_case(&mut text, suite, *index, Some(outcome));
        }
        for index in disabled {
            xml_case(&mut text, suite, *index, None);
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn xml_case<T>(text: &mut String, suite: &Suite<T>, index: usize, outcome: Option<&Outcome>) {
    let test = &suite.tests[index];
    let _ = write!(
        text,
        "    <testcase name=\"{}\" value_param=\"{}\" status=\"{}\" result=\"{}\" time=\"{}\" classname=\"{}\"",
        escape(&test.name),
        escape(&test.parameter),
        if outcome.is_some() { "run" } else { "notrun" },
        if outcome.is_some() { "completed" } else { "suppressed" },
        outcome.map_or_else(|| "0.".to_string(), |outcome| seconds(outcome.duration)),
        escape(&suite.name)
    );
    match outcome {
        Some(outcome) if !outcome.failures.is_empty() => {
            text.push_str(">\n");
            for failure in &outcome.failures {
                let failure = escape(failure.trim_end());
                let _ = writeln!(text, "      <failure message=\"{failure}\" type=\"\">{failure}</failure>");
            }
            text.push_str("    </testcase>\n");
        }
        _ => text.push_str(" />\n"),
    }
}

/// A report as JSON: keys are in alphabetical order.
#[derive(Serialize)]
struct JsonReport<'a> {
    disabled: usize,
    errors: u32,
    failures: usize,
    name: &'a str,
    tests: usize,
    /// One suite, unless no test is selected.
    testsuites: Vec<JsonSuite<'a>>,
    time: String,
}

#[derive(Serialize)]
struct JsonSuite<'a> {
    disabled: usize,
    errors: u32,
    failures: usize,
    name: &'a str,
    tests: usize,
    testsuite: Vec<JsonCase<'a>>,
    time: String,
}

#[derive(Serialize)]
struct JsonCase<'a> {
    classname: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<JsonFailure<'a>>,
    name: &'a str,
    result: &'static str,
    status: &'static str,
    time: String,
    value_param: &'a str,
}

#[derive(Serialize)]
struct JsonFailure<'a> {
    failure: &'a str,
    r#type: &'static str,
}

impl<'a> JsonReport<'a> {
    fn from_run<T>(suite: &'a Suite<T>, disabled: &[usize], ran: &'a Iteration) -> Self {
        let ran_cases = ran.outcomes.iter().map(|(index, outcome)| (*index, Some(outcome)));
        let cases = ran_cases.chain(disabled.iter().map(|index| (*index, None)));
        let all = JsonSuite {
            disabled: disabled.len(),
            errors: 0,
            failures: ran.failed(),
            name: &suite.name,
            tests: ran.outcomes.len() + disabled.len(),
            testsuite: cases.map(|(index, outcome)| JsonCase::from_test(suite, index, outcome)).collect(),
            time: format!("{}s", seconds(ran.duration)),
        };
        Self {
            disabled: all.disabled,
            errors: all.errors,
            failures: all.failures,
            name: "AllTests",
            tests: all.tests,
            time: all.time.clone(),
            testsuites: if all.tests > 0 { vec![all] } else { Vec::new() },
        }
    }
}

impl<'a> JsonCase<'a> {
    /// Without an outcome, the test is disabled.
    fn from_test<T>(suite: &'a Suite<T>, index: usize, outcome: Option<&'a Outcome>) -> Self {
        let test = &suite.tests[index];
        let failures = outcome.map_or(&[][..], |outcome| outcome.failures.as_slice());
        Self {
            classname: &suite.name,
            failures: failures
                .iter()
                .map(|text| JsonFailure { failure: text.trim_end(), r#type: "" })
                .collect(),
            name: &test.name,
            result: if outcome.is_some() { "COMPLETED" } else { "SUPPRESSED" },
            status: if outcome.is_some() { "RUN" } else { "NOTRUN" },
            time: outcome.map_or_else(|| "0s".into(), |outcome| format!("{}s", seconds(outcome.duration))),
            value_param: &test.parameter,
        }
    }
}

/// Seconds with up to three decimals in GoogleTest's format, which always has the decimal point.
fn seconds(duration: Duration) -> String {
    let text = format!("{}.{:03}", duration.as_secs(), duration.subsec_millis());
    text.trim_end_matches('0').to_string()
}

/// Escapes text for an XML attribute or content; characters that XML does not allow are removed.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' | '\r' | '\t' => {
                let _ = write!(escaped, "&#x{:02X};", character as u32);
            }
            character if character >= ' ' => escaped.push(character),
            _ => {}
        }
    }
    escaped
}
