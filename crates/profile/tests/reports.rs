//! Reports are those of the reference, byte for byte: of a bundle with every kind of row (`sample`), and of
//! profiles that the reference recorded.
//!
//! `fixtures/profiles/NAME.reports.txt` has the reference's output for each command line. One difference is
//! accepted: the error of a report that fails has the reference's status code, and a message of our own.

#[allow(dead_code, reason = "shared with the tests that change bundles")]
mod common;

use common::printed;
use rehal_profile::report::{Format, Report, ReportOptions};

/// The reference's output for a command line.
struct Golden {
    command: String,
    output: Vec<u8>,
    /// The error with which it ended.
    error: Option<String>,
}

/// The golden reports of a profile.
fn goldens(name: &str) -> Vec<Golden> {
    let path = testing::fixtures().join(format!("profiles/{name}.reports.txt"));
    let mut goldens: Vec<Golden> = Vec::new();
    for line in std::fs::read(path).unwrap().split_inclusive(|byte| *byte == b'\n') {
        if let Some(command) = line.strip_prefix(b"$ iree-profile ") {
            let command = String::from_utf8(command.to_vec()).unwrap();
            goldens.push(Golden { command, output: Vec::new(), error: None });
            continue;
        }
        let golden = goldens.last_mut().unwrap();
        match line {
            b"[status 0]\n" => {}
            b"[status 1]\n" => {
                let mut lines = golden.output.split_inclusive(|byte| *byte == b'\n');
                let last = lines.next_back().unwrap().to_vec();
                golden.output.truncate(golden.output.len() - last.len());
                golden.error = Some(String::from_utf8(last).unwrap());
            }
            line => golden.output.extend_from_slice(line),
        }
    }
    goldens
}

/// The options of a command line, whose last word is the profile's path.
fn options(command: &str) -> ReportOptions {
    let mut words = command.split_whitespace();
    let report = Report::from_name(words.next().unwrap()).unwrap();
    let mut options = ReportOptions::default().report(report);
    for word in words.filter(|word| word.starts_with("--")) {
        let (flag, value) = word.split_once('=').unwrap_or((word, ""));
        match flag {
            "--format" => {
                options.format = *Format::ALL.iter().find(|format| format.name() == value).unwrap();
            }
            "--filter" => value.clone_into(&mut options.filter),
            "--id" => options.id = value.parse().unwrap(),
            "--dispatch_events" => options.dispatch_events = true,
            "--counter_samples" => options.counter_samples = true,
            other => panic!("{other}"),
        }
    }
    options
}

/// The first line that differs.
fn difference(ours: &[u8], theirs: &[u8]) -> String {
    let (ours, theirs) = (String::from_utf8_lossy(ours), String::from_utf8_lossy(theirs));
    let mut pairs = ours.lines().zip(theirs.lines());
    match pairs.find(|(ours, theirs)| ours != theirs) {
        Some((ours, theirs)) => format!("expected {theirs}\nfound    {ours}"),
        None => format!("{} lines, expected {}", ours.lines().count(), theirs.lines().count()),
    }
}

#[test]
fn reports_are_the_references() {
    for (name, path) in testing::profiles() {
        let bytes = std::fs::read(path).unwrap();
        let mut unseen: Vec<_> = Report::ALL.to_vec();
        for Golden { command, output: expected, error: expected_error } in goldens(&name) {
            let options = options(&command);
            let (output, error) = printed(&bytes, &options);
            assert!(output == expected, "{command}{}", difference(&output, &expected));
            let code = error.as_ref().map(|error| error.code().name());
            assert_eq!(code.is_some(), expected_error.is_some(), "{command}{error:?}");
            assert!(expected_error.is_none_or(|line| line.contains(code.unwrap())), "{command}{error:?}");
            unseen.retain(|report| *report != options.report);
        }
        assert!(unseen.is_empty(), "{name}: no golden output of {unseen:?}");
    }
}
