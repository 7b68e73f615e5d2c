//! Standard output and error: shared with C's stdio of native code, closed, full, or a closed pipe.

use std::fs::OpenOptions;
use std::process::{Command, Output, Stdio};

use crate::common::{Scratch, capture, fixture, print, run};

const ADD: [&str; 2] = ["--input=4xf32=1 2 3 4", "--input=4xf32=10 20 30 40"];

/// Every tool with arguments that make it print to standard output quickly.
fn printing() -> Vec<Vec<String>> {
    let add4 = format!("--module={}", fixture("modules/add4.vmfb"));
    let abs = capture("simple_abs.abs.local-sync");
    let parameters = format!("--parameters={}", fixture("params/model.irpa"));
    let host_reads = "--replay_host_reads=-";
    let once = "--benchmark_min_time=1x";
    let checks = format!("--module={}", fixture("modules/checks.vmfb"));
    let lines: Vec<Vec<&str>> = vec![
        vec!["iree-run-replay", host_reads, &abs],
        vec!["iree-dump-replay", &abs],
        vec!["iree-dump-replay", "--format=jsonl", &abs],
        vec!["iree-benchmark-replay", once, &abs],
        vec!["iree-benchmark-replay", once, "--benchmark_format=json", &abs],
        vec!["iree-benchmark-replay", once, "--benchmark_format=csv", &abs],
        vec!["iree-benchmark-replay", "--benchmark_list_tests", &abs],
        vec!["rehal", "info", &abs],
        vec!["rehal", "help"],
        vec!["iree-run-module", &add4, "--function=add", ADD[0], ADD[1]],
        vec!["iree-benchmark-module", once, &add4, "--function=add", ADD[0], ADD[1]],
        vec!["iree-check-module", "--gtest_filter=-*fails", &checks],
        vec!["iree-dump-module", &add4["--module=".len()..]],
        vec!["iree-dump-parameters", &parameters],
        vec!["iree-create-parameters", "--data=a=4xf32=1", "--output=parameters.irpa"],
        vec!["iree-convert-parameters", &parameters, "--output=parameters.irpa"],
        vec!["iree-run-module", "--help"],
        vec!["iree-run-module", "--list_drivers"],
        vec!["iree-run-module", "--agents_md"],
        vec!["iree-run-module", "--version"],
    ];
    lines.into_iter().map(|line| line.into_iter().map(str::to_string).collect()).collect()
}

/// Runs `words` in a shell with these redirections, in a scratch directory.
fn redirected(words: &[String], redirections: &str, scratch: &Scratch) -> Output {
    let program = crate::common::command(&words[0]);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec \"$@\" {redirections}")).arg("sh").arg(program.get_program());
    shell.args(&words[1..]).current_dir(scratch.path("")).stdin(Stdio::null());
    shell.output().unwrap()
}

#[test]
fn every_line_prints() {
    let scratch = Scratch::new();
    for words in printing() {
        let output = redirected(&words, "", &scratch);
        assert!(!output.stdout.is_empty(), "{words:?}: {output:?}");
        assert_eq!(output.status.code().unwrap(), 0, "{words:?}: {output:?}");
    }
}

#[test]
fn lost_output_is_an_error() {
    let scratch = Scratch::new();
    for words in printing() {
        for (redirection, reason) in
            [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
        {
            let output = redirected(&words, redirection, &scratch);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{words:?} {redirection}: {stderr}");
            assert!(stderr.contains(reason), "{words:?} {redirection}: {stderr}");
        }
    }
    // Without output, nothing is lost.
    let silent = ["iree-run-replay".to_string(), capture("simple_abs.abs.local-sync")];
    assert_eq!(redirected(&silent, ">&-", &scratch).status.code(), Some(0));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    for words in printing().into_iter().filter(|words| !words.iter().any(|it| it.ends_with("=-"))) {
        let scratch = Scratch::new();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = crate::common::command(&words[0]);
        command.args(&words[1..]).current_dir(scratch.path("")).stdout(writer);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {stderr}");
        assert!(!stderr.contains("pipe") && !stderr.contains("writing"), "{words:?}: {stderr}");
    }
}

#[test]
fn a_benchmark_with_a_closed_pipe_still_writes_its_report() {
    let scratch = Scratch::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = crate::common::command("iree-benchmark-replay");
    command.args([
        "--benchmark_min_time=1x",
        "--benchmark_out=out.json",
        &capture("simple_abs.abs.local-sync"),
    ]);
    let output = command.current_dir(scratch.path("")).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(scratch.path("out.json")).unwrap()).unwrap();
    assert_eq!(report["benchmarks"].as_array().map(Vec::len), Some(1), "{report}");
}

#[test]
fn a_full_or_closed_standard_error_is_ignored() {
    let scratch = Scratch::new();
    for words in printing() {
        for redirection in ["2>/dev/full", "2>&-"] {
            let output = redirected(&words, redirection, &scratch);
            assert_eq!(output.status.code(), Some(0), "{words:?} {redirection}");
            assert!(!output.stdout.is_empty(), "{words:?} {redirection}");
        }
    }
}

fn prints() -> String {
    fixture("cts/prints.so")
}

#[test]
fn plugin_output_precedes_later_output() {
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let plugin = format!("--executable_plugin={}", prints());
    let words = ["--device=local-sync", &plugin, &module, "--function=add", ADD[0], ADD[1]];
    let printed = print(&[&["iree-run-module"], &words[..]].concat());
    let expected = "a plugin is loaded\nEXEC @add\nresult[0]: hal.buffer_view\n4xf32=11 22 33 44\n";
    assert_eq!(printed, expected);
    let measured = print(&[&["iree-benchmark-module", "--benchmark_min_time=1x"], &words[..]].concat());
    assert!(measured.starts_with("a plugin is loaded\n---"), "{measured}");
}

#[test]
fn kernel_output_precedes_results() {
    let substitute = format!("--replay_executable_substitution=4={}", prints());
    let printed =
        print(&["iree-run-replay", &substitute, "--replay_host_reads=-", &capture("add4.add.local-sync")]);
    let (kernel, reads) = printed.split_once('\n').unwrap();
    assert_eq!(kernel, "a kernel adds");
    assert!(reads.starts_with('{') && reads.contains("00003041"), "{reads}");
}

#[test]
fn kernel_output_before_a_crash_is_flushed() {
    let substitute = format!("--replay_executable_substitution=4={}", prints());
    let ran = run(&["iree-run-replay", &substitute, &capture("add4.mul.local-sync")]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(86), "a kernel is about to crash"), "{}", ran.stderr);
    // If that output cannot be written, the crash is still reported.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = crate::common::command("iree-run-replay");
    command.args([&substitute, &capture("add4.mul.local-sync")]).stdout(full);
    let ran = crate::common::ran(command.output().unwrap());
    assert_eq!(ran.status, Some(86));
    assert!(ran.stderr.contains("SIGILL"), "{}", ran.stderr);
}
