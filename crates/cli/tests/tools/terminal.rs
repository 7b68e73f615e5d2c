//! Names in files that would control a terminal: escaped on a terminal and in errors, unchanged in pipes.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;

use crate::common::{Scratch, capture, command, fixture, patched};

/// ESC, BEL, a control character of C1, and one that reorders text.
const HOSTILE: &str = "\x1b\x07\u{9b}\u{202e}";

/// A name of `length` bytes with all of them.
fn name(length: usize) -> String {
    HOSTILE.to_owned() + &"x".repeat(length - HOSTILE.len())
}

fn rename(bytes: &[u8], names: &[&str]) -> Vec<u8> {
    names.iter().fold(bytes.to_vec(), |bytes, it| patched(&bytes, it.as_bytes(), name(it.len()).as_bytes()))
}

/// A terminal: the side that shows it, and that of programs.
pub fn open_terminal() -> (OwnedFd, OwnedFd) {
    let terminal = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let path = rustix::pty::ptsname(&terminal, Vec::new()).unwrap();
    let side = rustix::fs::open(&path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (terminal, side)
}

/// A command's standard output, its status, and its standard error, which is a pipe.
fn on_terminal(mut command: Command) -> (String, Option<i32>, String) {
    let (terminal, side) = open_terminal();
    let child = command.stdout(side).stderr(Stdio::piped()).env("TERM", "xterm").spawn().unwrap();
    // The command holds the other side, which reading waits for.
    drop(command);
    let reader = thread::spawn(move || {
        let mut shown = Vec::new();
        // A terminal that no process has open any more is an input error.
        let _ = std::fs::File::from(terminal).read_to_end(&mut shown);
        shown
    });
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8(reader.join().unwrap()).expect("invalid UTF-8 is escaped");
    let stderr = String::from_utf8(output.stderr).expect("errors are UTF-8");
    (shown.replace("\r\n", "\n"), output.status.code(), stderr)
}

/// Text without the colours of the tools, which a name cannot have: it has other characters between.
fn without_colors(text: &str) -> String {
    let colors = ["\x1b[0;31m", "\x1b[0;32m", "\x1b[0;33m", "\x1b[0;36m", "\x1b[m"];
    colors.iter().fold(text.to_owned(), |text, color| text.replace(color, ""))
}

/// Asserts that text leaves a terminal alone.
fn check_shown(text: &str, words: &[&str]) {
    let controls = |it: char| (it.is_control() && it != '\n' && it != '\t') || HOSTILE.contains(it);
    let plain = without_colors(text);
    if let Some(at) = plain.find(controls) {
        panic!("{words:?}: {:?}", plain[at..].chars().take(60).collect::<String>());
    }
}

/// The form of the name in a pipe.
#[derive(Clone, Copy, PartialEq)]
enum Piped {
    /// It is printed as it is.
    Raw,
    /// It is printed in the escapes of a format, or of a report for people.
    Escaped,
    /// It is in an error or a note.
    Noted,
}
use Piped::{Escaped, Noted, Raw};

/// Runs a command with its output on a terminal and in a pipe.
fn check(words: &[&str], piped: Piped) {
    let start = || {
        let mut command = command(words[0]);
        command.args(&words[1..]);
        command
    };
    let (shown, status, stderr) = on_terminal(start());
    check_shown(&shown, words);
    check_shown(&stderr, words);
    let output = start().output().unwrap();
    check_shown(&String::from_utf8(output.stderr).unwrap(), words);
    assert_eq!(output.status.code(), status, "{words:?}: {stderr}");
    let is_raw = String::from_utf8_lossy(&output.stdout).contains(HOSTILE);
    assert_eq!(is_raw, piped == Raw, "{words:?}: {}{stderr}", output.stdout.escape_ascii());
    let place = if piped == Noted { &stderr } else { &shown };
    let shows = ["\\u{1b}\\u{7}", "\\u001b\\u0007", "\\x1b\\x07"].iter().any(|it| place.contains(it));
    assert!(shows, "{words:?} does not show the name: {shown}{stderr}");
}

#[test]
fn captures() {
    let scratch = Scratch::new();
    let plain = capture("bench.add4.200.local-sync");
    let names = ["add_dispatch_0_elementwise_4_f32", "execute"];
    let hostile = scratch.file("hostile.ireereplay", rename(&std::fs::read(&plain).unwrap(), &names));
    let written = scratch.path("written.c").display().to_string();
    let (csv, json) = ("--format=csv", "--format=json");
    for (words, piped) in [
        (vec!["rehal", "dump", &hostile], Raw),
        (vec!["rehal", "dump", "--format=jsonl", &hostile], Escaped),
        (vec!["rehal", "info", &hostile], Escaped),
        (vec!["rehal", "info", json, &hostile], Escaped),
        (vec!["rehal", "kernels", &hostile], Escaped),
        (vec!["rehal", "kernels", "--no_run", &hostile], Escaped),
        (vec!["rehal", "kernels", "--no_run", csv, &hostile], Raw),
        (vec!["rehal", "kernels", "--no_run", json, &hostile], Escaped),
        (vec!["rehal", "diff", &hostile, &plain], Escaped),
        (vec!["rehal", "diff", json, &hostile, &plain], Escaped),
        (vec!["rehal", "kernel", "stub", "--no_run", "--function=none", &hostile, "-o", &written], Noted),
    ] {
        check(&words, piped);
    }
}

#[test]
fn profiles() {
    let scratch = Scratch::new();
    let sample =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/tests/data/sample.ireeprof");
    let bytes = rename(&std::fs::read(sample).unwrap(), &["matmul \"16x16\""]);
    let profile = scratch.file("hostile.ireeprof", bytes);
    for (words, piped) in [
        (vec!["rehal", "profile", "dispatch", &profile], Raw),
        (vec!["rehal", "profile", "explain", &profile], Raw),
        (vec!["rehal", "profile", "executable", &profile], Raw),
        (vec!["rehal", "profile", "command", &profile], Raw),
        (vec!["rehal", "profile", "counter", &profile], Raw),
        (vec!["rehal", "profile", "statistics", &profile], Raw),
        (vec!["iree-profile", "dispatch", "--format=jsonl", &profile], Escaped),
        (vec!["rehal", "profile", "compare", &profile, &profile], Escaped),
        (vec!["rehal", "profile", "compare", "--format=csv", &profile, &profile], Raw),
    ] {
        check(&words, piped);
    }
}

#[test]
fn modules() {
    let scratch = Scratch::new();
    let hostile = |module: &str, names: &[&str]| {
        let bytes = std::fs::read(fixture(&format!("modules/{module}.vmfb"))).unwrap();
        scratch.file(&format!("{module}.vmfb"), rename(&bytes, names))
    };
    let path = hostile("checks", &["counts_again"]);
    let checks = format!("--module={path}");
    let once = "--benchmark_min_time=1x";
    for (words, piped) in [
        (vec!["rehal", "dump-module", &path], Raw),
        (vec!["rehal", "dump-module", "--output=flatbuffer-json", &path], Escaped),
        (vec!["rehal", "dump-module", "--output=flatbuffer-binary", &path], Raw),
        (vec!["rehal", "check-module", &checks], Raw),
        (vec!["rehal", "check-module", "--gtest_color=no", &checks], Raw),
        (vec!["rehal", "check-module", "--gtest_list_tests", &checks], Raw),
        (vec!["rehal", "benchmark-module", once, "--benchmark_color=true", &checks], Raw),
        (vec!["rehal", "benchmark-module", "--benchmark_list_tests", &checks], Raw),
        (vec!["rehal", "benchmark-module", once, "--benchmark_format=csv", &checks], Raw),
        (vec!["rehal", "run-module", "--function=none", &checks], Noted),
    ] {
        check(&words, piped);
    }
}

#[test]
fn parameters() {
    let scratch = Scratch::new();
    let file = scratch.path("hostile.irpa").display().to_string();
    let (data, to) = (format!("--data={HOSTILE}=4xf32=1"), format!("--output={file}"));
    let from = format!("--parameters={file}");
    let extract = format!("--extract={HOSTILE}={}", scratch.path("bytes").display());
    let missing = format!("--extract=none{HOSTILE}={}", scratch.path("bytes").display());
    for (words, piped) in [
        (vec!["rehal", "create-parameters", &data, &to], Raw),
        (vec!["rehal", "dump-parameters", &from], Raw),
        (vec!["rehal", "dump-parameters", &from, &extract], Raw),
        (vec!["rehal", "dump-parameters", &from, &missing], Raw),
    ] {
        check(&words, piped);
    }
}

#[test]
fn names_in_errors() {
    let scratch = Scratch::new();
    let file = scratch.file(HOSTILE, "text");
    let flag = format!("--{HOSTILE}");
    let unknown = format!("--module={file}");
    let (against, plain) = (format!("--against={file}"), capture("bench.add4.200.local-sync"));
    for words in [
        vec!["rehal", "info", &file],
        vec!["rehal", "dump", &file],
        vec!["rehal", "run", &file],
        vec!["rehal", "profile", "summary", &file],
        vec!["rehal", "dump-module", &file],
        vec!["rehal", "run-module", &unknown],
        vec!["rehal", HOSTILE],
        vec!["rehal", "info", &flag],
        vec!["rehal", "verify", &against, &plain],
    ] {
        check(&words, Noted);
    }
}
