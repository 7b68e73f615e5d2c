//! Signals that end a tool while it works: no temporary file, no part of a result and no process remains.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{Ran, Scratch, capture, command, fixture, print, ran, write_kernel};
use crate::terminal::open_terminal;

const ADD: &str = "add_dispatch_0_elementwise_4_f32";
const SIGNALS: [i32; 3] = [1, 2, 15];

/// Sends a signal until the process has ended.
fn until_ended(tool: &mut Child, signal: i32) {
    while tool.try_wait().unwrap().is_none() {
        send(signal, tool);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to the process alone, as `kill` does; a terminal would send it to its processes as well.
fn send(signal: i32, tool: &Child) {
    let sent = Command::new("kill").args([format!("-{signal}"), tool.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Waits until a condition is true while the tool works.
fn until(what: &str, tool: &mut Child, is_true: impl Fn() -> bool) {
    while !is_true() {
        assert!(tool.try_wait().unwrap().is_none(), "{what} ended early");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process runs: not if it has ended, and its parent has not looked at it yet.
fn runs(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
    let state = status.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
    !matches!(state, None | Some('Z' | 'X'))
}

/// The processes that a process has started and that run.
pub fn children(parent: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|it| fs::read_to_string(it.path().join("children")).unwrap_or_default());
    lists.flat_map(|it| it.split_whitespace().map(str::to_string).collect::<Vec<_>>()).collect()
}

/// Whether a process is one of the tool, and not of another program such as a compiler.
fn is_tool(process: &str) -> bool {
    fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|it| it.ends_with("rehal"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn is_empty(directory: &Path) -> bool {
    names(directory).is_empty()
}

/// Processes end soon: those that were killed, and those that the end of their parent ends.
pub fn wait_for_the_end(what: &str, processes: &[String]) {
    for _ in 0..60_000 {
        if !processes.iter().any(|it| runs(it)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} leaves a process");
}

/// Starts a tool whose compiler starts another process, and waits until both run; returns these.
fn start_compiling(words: &[&str], scratch: &Scratch, temporary: &Scratch) -> (Child, [String; 2]) {
    scratch.file("kernel.c", "");
    let (started, inner) = (scratch.path("started"), scratch.path("inner"));
    let compiler =
        format!("sleep 600 &\necho $! > {}\necho $$ > {}\nwait\n", inner.display(), started.display());
    let compiler = format!("sh {}", scratch.file("compiler", compiler));
    let mut tool = command("rehal");
    tool.args(words).env("CC", &compiler).env("TMPDIR", temporary.path("")).current_dir(scratch.path(""));
    let mut tool = tool.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    until(&format!("{words:?}"), &mut tool, || read(&started).ends_with('\n'));
    (tool, [read(&started), read(&inner)])
}

#[test]
fn no_compiler_remains() {
    let add = capture("add4.add.local-sync");
    let substitution = format!("--replay_executable_substitution={ADD}=kernel.c");
    let function = format!("--function={ADD}");
    let lines: [&[&str]; 6] = [
        &["kernel", "build", "kernel.c", "-o", "kernel.so"],
        &["run", &substitution, &add],
        &["verify", &substitution, &add],
        &["compare", &function, "--with=kernel.c", &add],
        &["kernel", "record", "--directory=records", &substitution, &add],
        &["reduce", "--check=crash", &substitution, &add, "-o", "reduced"],
    ];
    for (number, words) in lines.into_iter().enumerate() {
        let (scratch, temporary) = (Scratch::new(), Scratch::new());
        let (mut tool, processes) = start_compiling(words, &scratch, &temporary);
        assert!(processes.iter().all(|it| runs(it)), "{words:?}");
        let signal = SIGNALS[number % SIGNALS.len()];
        send(signal, &tool);
        if words[0] == "reduce" {
            // The first one asks for the result so far. Two that are pending at a time are one.
            until_ended(&mut tool, signal);
        }
        let ended = tool.wait().unwrap();
        assert!(ended.signal() == Some(signal) || words[0] == "reduce", "{words:?}: {ended:?}");
        wait_for_the_end(&format!("{words:?}"), &processes);
        assert!(is_empty(&temporary.path("")), "{words:?}");
        assert_eq!(names(&scratch.path("")), ["compiler", "inner", "kernel.c", "started"], "{words:?}");
    }
}

#[test]
fn no_process_for_kernels_and_no_part_of_a_result_remains() {
    let add = capture("add4.add.local-sync");
    let substitution = format!("--replay_executable_substitution={ADD}=kernel.c");
    let function = format!("--function={ADD}");
    // Those with processes of their own, and the others, whose kernel creates a file.
    let lines: [(&[&str], bool); 6] = [
        (&["verify", &substitution, &add], true),
        (&["compare", &function, "--with=kernel.c", &add], true),
        (&["reduce", "--check=crash", &substitution, &add, "-o", "output/reduced"], true),
        (&["run", "--replay_host_reads=output/reads", &substitution, &add], false),
        (&["run", "--replay_ledger=output/ledger", &substitution, &add], false),
        (&["benchmark", "--benchmark_out=output/report", &substitution, &add], false),
    ];
    let kernels = Scratch::new();
    let kernel = kernels.path("kernel.c");
    let begun = "extern int creat(const char *, unsigned); creat(\"begun\", 0600);";
    write_kernel(&kernel, &add, ADD, &format!("{begun} for (volatile int forever = 1; forever;) {{}}"));
    for (number, (words, has_process)) in lines.into_iter().enumerate() {
        let (scratch, temporary) = (Scratch::new(), Scratch::new());
        fs::copy(&kernel, scratch.path("kernel.c")).unwrap();
        let output = scratch.path("output");
        fs::create_dir(&output).unwrap();
        let mut tool = command("rehal");
        tool.args(words).env("TMPDIR", temporary.path("")).current_dir(scratch.path(""));
        tool.env("REHAL_SANDBOX", if has_process { "on" } else { "off" });
        let mut tool = tool.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let id = tool.id();
        until(&format!("{words:?}"), &mut tool, || match has_process {
            // Not the compiler, which is another program.
            true => children(id).iter().any(|it| is_tool(it)),
            // Files that are not complete have no name.
            false => scratch.path("begun").exists(),
        });
        let processes = children(id);
        let signal = SIGNALS[number % SIGNALS.len()];
        send(signal, &tool);
        // The first one asks these for what is known so far.
        let reports = ["reduce", "verify", "compare"].contains(&words[0]);
        if reports {
            until_ended(&mut tool, signal);
        }
        let ended = tool.wait().unwrap();
        assert!(ended.signal() == Some(signal) || reports, "{words:?}: {ended:?}");
        wait_for_the_end(&format!("{words:?}"), &processes);
        let left = [temporary.path(""), output].map(|it| names(&it));
        assert!(left.iter().all(Vec::is_empty), "{words:?} leaves {left:?}");
    }
}

/// Nothing of the tool runs any more that could end them.
#[test]
fn no_process_remains_after_a_kill() {
    let add = capture("add4.add.local-sync");
    let function = format!("--function={ADD}");
    let lines: [&[&str]; 3] = [
        &["kernel", "build", "kernel.c", "-o", "kernel.so"],
        &["compare", &function, "--with=kernel.c", &add],
        &["reduce", "--check=sh compiler {}", &add, "-o", "reduced"],
    ];
    for words in lines {
        let scratch = Scratch::new();
        let (mut tool, processes) = start_compiling(words, &scratch, &scratch);
        // Of a tool that works in a copy of its process, both.
        let copies: Vec<_> = children(tool.id()).into_iter().filter(|it| is_tool(it)).collect();
        for process in copies.iter().map(String::as_str).chain([tool.id().to_string().as_str()]) {
            assert!(Command::new("kill").args(["-9", process]).status().unwrap().success());
        }
        tool.wait().unwrap();
        wait_for_the_end(&format!("{words:?}"), &processes);
    }
}

#[test]
fn no_check_of_a_reduction_remains() {
    let abs = capture("simple_abs.abs.local-sync");
    for count in [1, 2] {
        let (scratch, temporary) = (Scratch::new(), Scratch::new());
        let started = scratch.path("started");
        let script = scratch.file("check", format!("echo $$ > {}\nsleep 600\n", started.display()));
        let mut tool = command("rehal");
        tool.args(["reduce", &format!("--check=sh {script} {{}}"), &abs, "-o", "output"]);
        tool.env("TMPDIR", temporary.path("")).current_dir(scratch.path(""));
        let mut tool = tool.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the check", &mut tool, || fs::read_to_string(&started).is_ok_and(|it| it.ends_with('\n')));
        (0..count).for_each(|_| send(15, &tool));
        tool.wait().unwrap();
        wait_for_the_end("a reduction", &[fs::read_to_string(&started).unwrap()]);
        assert!(is_empty(&temporary.path("")), "{count} signals");
    }
}

#[test]
fn no_recording_of_a_program_remains() {
    let scratch = Scratch::new();
    let pipe = scratch.path("input.npy");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    for (signal, directory) in [(15, "new/records"), (2, "."), (1, "other")] {
        let mut tool = command("iree-run-module");
        tool.args([&module, "--function=add", "--input=@input.npy", "--input=4xf32=1"]);
        tool.args(["--rehal_kernel_record", &format!("--rehal_kernel_record_dir={directory}")]);
        tool.current_dir(scratch.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut tool = tool.spawn().unwrap();
        let records = scratch.path(directory);
        let is_recording = || {
            let parts = names(&records).into_iter().filter(|it| it.starts_with(".rehal-"));
            let mut parts = parts.map(|it| names(&records.join(it).join("records")));
            parts.any(|names| names.iter().any(|it| it.starts_with("recording-")))
        };
        until("the program", &mut tool, is_recording);
        send(signal, &tool);
        assert_eq!(tool.wait().unwrap().signal(), Some(signal));
        assert_eq!(names(&scratch.path("")), ["input.npy"], "{directory}");
    }
}

/// A tool that is killed cannot end its processes: they watch it.
#[test]
fn no_process_remains_of_a_tool_that_is_killed() {
    let add = capture("add4.add.local-sync");
    let substitution = format!("--replay_executable_substitution={ADD}=kernel.c");
    let function = format!("--function={ADD}");
    let lines: [&[&str]; 3] = [
        &["verify", &substitution, &add],
        &["compare", &function, "--with=kernel.c", &add],
        &["reduce", "--check=crash", &substitution, &add, "-o", "reduced"],
    ];
    for words in lines {
        let (scratch, temporary) = (Scratch::new(), Scratch::new());
        let begun = scratch.path("begun");
        let body = format!(
            "extern int creat(const char *, unsigned); creat(\"{}\", 0600); for (volatile int forever = 1; forever;) {{}}",
            begun.display()
        );
        write_kernel(&scratch.path("kernel.c"), &add, ADD, &body);
        let mut tool = command("rehal");
        tool.args(words).env("TMPDIR", temporary.path("")).current_dir(scratch.path(""));
        // The kernel creates a file.
        tool.env("REHAL_SANDBOX", "off");
        let mut tool = tool.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until(&format!("{words:?}"), &mut tool, || begun.exists());
        // Those of its processes as well.
        let mut processes = children(tool.id());
        let inner: Vec<_> = processes.iter().flat_map(|it| children(it.parse().unwrap())).collect();
        processes.extend(inner);
        tool.kill().unwrap();
        tool.wait().unwrap();
        wait_for_the_end(&format!("{words:?}"), &processes);
    }
}

/// Reads a terminal until it shows a text.
fn until_shown(terminal: &mut File, text: &str) {
    let (mut shown, mut bytes) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&shown).contains(text) {
        let count = terminal.read(&mut bytes).unwrap_or_else(|error| panic!("{text}: {error}: {shown:?}"));
        shown.extend_from_slice(&bytes[..count]);
    }
}

/// The output of a tool that shows a rate on a terminal, and is interrupted then: it says so with `note`.
fn interrupted(words: &[&str], note: &str) -> Value {
    let ended = interrupted_at(words, "/s\u{1b}[K", note);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The end of a tool that is interrupted once it shows `mark` on a terminal: it says so with `note`.
fn interrupted_at(words: &[&str], mark: &str, note: &str) -> Ran {
    let (terminal, side) = open_terminal();
    let mut tool = command("rehal");
    let child = tool.args(words).stdout(Stdio::piped()).stderr(side).spawn().unwrap();
    drop(tool);
    let mut terminal = File::from(terminal);
    until_shown(&mut terminal, mark);
    send(2, &child);
    if !note.is_empty() {
        until_shown(&mut terminal, note);
    }
    ran(child.wait_with_output().unwrap())
}

/// A kernel that takes some time, and computes what that of `add4.add` does.
fn write_slow_kernel(path: &Path, body: &str) {
    let add = capture("add4.add.local-sync");
    write_kernel(path, &add, ADD, &format!("{body}; binding_2[i] = binding_0[i] + binding_1[i];"));
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, format!("int usleep(unsigned);\n{text}")).unwrap();
}

#[test]
fn an_interrupted_comparison_of_a_kernel_has_the_times_so_far() {
    let (scratch, add) = (Scratch::new(), capture("add4.add.local-sync"));
    write_slow_kernel(&scratch.path("kernel.c"), "");
    let with = format!("--with={}", scratch.path("kernel.c").display());
    let words = ["compare", "--device=local-sync", "--cache=warm", "--precision=0.00001%", "--max_time=1h"];
    let words = [&words[..], &["--function=add", "--format=json", &with, &with, &add]].concat();
    let ended = interrupted_at(&words, "/s\u{1b}[K", "interrupted: 1 replacement left out");
    assert!(matches!(ended.status, Some(0 | 3 | 4)), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let candidates = report["candidates"].as_array().unwrap();
    assert_eq!((candidates.len(), &candidates[0]["outcome"]), (1, &"right".into()), "{report}");
    let timing = &candidates[0]["timings"][0];
    assert_eq!(timing["stopped"], "interrupted");
    assert!(
        timing["pair_count"].as_u64().unwrap() > 0 && timing["ratio"].as_f64().unwrap() > 0.0,
        "{timing}"
    );
}

#[test]
fn an_interrupted_check_of_a_kernel_cannot_tell() {
    let (scratch, add) = (Scratch::new(), capture("add4.add.local-sync"));
    write_slow_kernel(&scratch.path("kernel.c"), "usleep(3000000)");
    let with = format!("--with={}", scratch.path("kernel.c").display());
    let words = ["compare", "--device=local-sync", "--function=add", &with, &add];
    let ended = interrupted_at(&words, " s at most\u{1b}[K", "");
    assert_eq!(ended.status, Some(4), "{ended:?}");
    assert!(ended.stdout.contains("interrupted before it was known what it computes"), "{ended:?}");
}

#[test]
fn an_interrupted_verification_says_what_was_compared() {
    let scratch = Scratch::new();
    write_slow_kernel(&scratch.path("kernel.c"), "usleep(20000)");
    let with = format!("--replay_executable_substitution=add={}", scratch.path("kernel.c").display());
    let many = capture("bench.add4.200.local-sync");
    let words = ["verify", "--device=local-sync", &with, &many];
    let ended = interrupted_at(&words, "verifying  [", "");
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.stdout.starts_with("inconclusive: "), "{ended:?}");
    assert!(ended.stdout.contains("\n  interrupted after record #"), "{ended:?}");
}

#[test]
fn an_interrupted_slice_is_not_written() {
    let scratch = Scratch::new();
    let [kernel, library, recorded, slice] =
        ["k.c", "k.so", "r.ireereplay", "s.ireereplay"].map(|it| scratch.path(it).display().to_string());
    // For each of four items: what runs for a second after the signal is ended where it is.
    write_slow_kernel(kernel.as_ref(), "usleep(125000)");
    print(&["rehal", "kernel", "build", &kernel, "-o", &library]);
    // Six submissions of a dispatch.
    let (file, output) =
        (format!("--executable_file={library}"), format!("--device_replay_output={recorded}"));
    let binding = "--binding=4xf32=1";
    let call = [binding, binding, binding, "--workgroup_count=1,1,1", "--batch_size=1"];
    let words = ["iree-benchmark-executable", "--device=local-sync", &file, &output];
    print(&[&words[..], &call, &["--benchmark_min_time=6x"]].concat());
    let words = ["slice", "--device=local-sync", "--occurrence=5", "-o", &slice, &recorded];
    let ended = interrupted_at(&words, "slicing    [", "CANCELLED; interrupted at record #");
    assert_eq!((ended.status, Path::new(&slice).exists()), (Some(1), false), "{ended:?}");
}

#[test]
fn interrupted_times_of_kernels_are_printed() {
    let add = capture("add4.add.local-sync");
    let words = ["kernels", "--device=local-sync", "--format=json", "--repetitions=1000000000", &add];
    let report = interrupted(&words, "note: interrupted after ");
    let kernel = &report["kernels"][0];
    assert!(kernel["function"] == ADD && kernel["time_ns"].is_u64() && kernel["bytes_read"].is_null());
}

#[test]
fn interrupted_benchmarks_are_printed() {
    let flags = ["--device=local-sync", "--benchmark_format=json", "--benchmark_min_time=100000s"];
    let add = capture("add4.add.local-sync");
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let call = [&*module, "--function=add", "--input=4xf32=1", "--input=4xf32=2"];
    for words in [
        &[&["benchmark"], &flags[..], &[&add]].concat(),
        &[&["benchmark-module"], &flags[..], &call].concat(),
    ] {
        let report = interrupted(words, "note: interrupted: the report is of what was measured");
        let benchmark = &report["benchmarks"][0];
        assert!(benchmark["real_time"].as_f64().unwrap() > 0.0 && benchmark["iterations"].as_u64() > Some(0));
    }
}

/// The one that measures is in a process group of its own.
#[test]
fn interrupted_processes_end_with_the_tool() {
    let (terminal, side) = open_terminal();
    let (scratch, add) = (Scratch::new(), capture("add4.add.local-sync"));
    let history = scratch.path("history");
    let mut tool = command("rehal");
    tool.args(["benchmark", "--device=local-sync", "--processes=1000", "--benchmark_min_time=1x", &add]);
    tool.arg(format!("--history={}", history.display()));
    let child = tool.stdout(Stdio::piped()).stderr(side).spawn().unwrap();
    drop(tool);
    let mut terminal = File::from(terminal);
    until_shown(&mut terminal, "processes ");
    send(2, &child);
    until_shown(&mut terminal, "CANCELLED; interrupted: what was measured is not kept");
    // Its pipe is closed, so that no process keeps it.
    let ended = ran(child.wait_with_output().unwrap());
    assert!(ended.status == Some(1) && !history.exists(), "{ended:?}");
}

#[test]
fn interrupted_comparisons_of_replays_are_printed() {
    let (scratch, add) = (Scratch::new(), capture("add4.add.local-sync"));
    let (source, started) = (scratch.path("kernel.c"), scratch.path("started"));
    write_kernel(&source, &add, ADD, &format!("static int begun; if (!begun++) creat({started:?}, 0600);"));
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, format!("int creat(const char *, unsigned);\n{text}")).unwrap();
    let mut tool = command("rehal");
    tool.args([
        "benchmark",
        // The kernel creates a file.
        "--sandbox=off",
        "--device=local-sync",
        "--precision=0.00001%",
        "--max_time=24h",
        "--format=json",
    ]);
    tool.arg(format!("--with={ADD}={}", source.display())).arg(&add);
    let mut child = tool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("benchmark", &mut child, || started.exists());
    send(2, &child);
    let ended = ran(child.wait_with_output().unwrap());
    // One of the three verdicts.
    assert!(matches!(ended.status, Some(0 | 3 | 4)), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["stopped"], "interrupted");
}
