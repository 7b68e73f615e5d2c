//! Report files: JUnit-compatible XML, and JSON.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rehal_base::{Context, Error, Result};
use serde_json::{Value, json};

use super::options::FileFormat;
use super::run::{Iteration, Outcome, Suite};
use crate::output_file::OutputFile;

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
    let text = match format {
        FileFormat::Xml => xml(suite, disabled, ran),
        FileFormat::Json => format!("{:#}\n", json(suite, disabled, ran)),
    };
    let failed = |error| Error::io("writing the report", &error);
    output.write(|sink| sink.write_all(text.as_bytes()).map_err(failed))
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

fn json<T>(suite: &Suite<T>, disabled: &[usize], ran: &Iteration) -> Value {
    let case = |index: usize, outcome: Option<&Outcome>| {
        let test = &suite.tests[index];
        let mut case = json!({
            "name": test.name,
            "value_param": test.parameter,
            "status": if outcome.is_some() { "RUN" } else { "NOTRUN" },
            "result": if outcome.is_some() { "COMPLETED" } else { "SUPPRESSED" },
            "time": outcome.map_or_else(|| "0s".into(), |outcome| format!("{}s", seconds(outcome.duration))),
            "classname": suite.name,
        });
        if let Some(outcome) = outcome.filter(|outcome| !outcome.failures.is_empty()) {
            let failures =
                outcome.failures.iter().map(|text| json!({ "failure": text.trim_end(), "type": "" }));
            case["failures"] = failures.collect();
        }
        case
    };
    let cases: Vec<Value> = ran
        .outcomes
        .iter()
        .map(|(index, outcome)| case(*index, Some(outcome)))
        .chain(disabled.iter().map(|index| case(*index, None)))
        .collect();
    let time = format!("{}s", seconds(ran.duration));
    let count = cases.len();
    let mut all = json!({
        "tests": count,
        "failures": ran.failed(),
        "disabled": disabled.len(),
        "errors": 0,
        "time": time,
        "name": "AllTests",
        "testsuites": [],
    });
    if count > 0 {
        all["testsuites"] = json!([{
            "name": suite.name,
            "tests": count,
            "failures": ran.failed(),
            "disabled": disabled.len(),
            "errors": 0,
            "time": time,
            "testsuite": cases,
        }]);
    }
    all
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
