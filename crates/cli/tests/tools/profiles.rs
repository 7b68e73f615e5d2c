//! `iree-profile` and `rehal profile`.

use std::io::Cursor;

use rehal_profile::layout;
use rehal_profile::{RecordFields, Writer, rows};

use crate::common::{Scratch, capture, command, fail, fixture, print, run};

/// A profile with rows of every kind.
fn sample() -> String {
    format!("{}/../profile/tests/data/sample.ireeprof", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn reports_are_printed_in_both_formats() {
    let sample = sample();
    assert_eq!(print(&["iree-profile", &sample]), print(&["rehal", "profile", "cat", &sample]));
    assert!(print(&["iree-profile", "summary", &sample]).starts_with("IREE HAL profile summary\n"));
    let events =
        print(&["iree-profile", "dispatch", "--format=jsonl", "--dispatch_events", "--id=3", &sample]);
    // One of a device, one of the host, and the summary.
    assert_eq!(events.lines().count(), 3, "{events}");
    for line in print(&["iree-profile", "explain", "--format=jsonl", &sample]).lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(object["type"].as_str().unwrap().starts_with("explain_"));
    }
}

#[test]
fn an_export_goes_to_a_file() {
    let (scratch, sample) = (Scratch::new(), sample());
    let path = scratch.path("export.jsonl");
    let export = ["iree-profile", "export", "--format=ireeperf-jsonl"];
    let output = format!("--output={}", path.display());
    assert_eq!(print(&[&export[..], &[&output, &sample]].concat()), "");
    let printed = print(&[&export[..], &[&sample]].concat());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), printed);
    let own = format!("--output={sample}");
    assert!(fail(&[&export[..], &[&own, &sample]].concat()).contains("which is read"));
    assert!(fail(&["iree-profile", "cat", &output, &sample]).contains("does not support --output"));
    assert!(fail(&[&export[..], &["--output=", &sample]].concat()).contains("names no file"));
    let full = fail(&[&export[..], &["--output=/dev/full", &sample]].concat());
    assert!(full.contains("at: --output=/dev/full\n"), "the profile is not at fault: {full}");
}

#[test]
fn a_profile_that_was_not_closed_is_read_with_a_warning() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(sample()).unwrap();
    let summary = |name: &str, bytes: &[u8]| {
        let ran = run(&["iree-profile", "summary", &scratch.file(name, bytes)]);
        assert_eq!(ran.status, Some(0), "{name}: {}", ran.stderr);
        ran
    };
    let warned = |bytes: &[u8], warning: &str, sessions: &str| {
        let ran = summary("torn.ireeprof", bytes);
        assert!(ran.stderr.contains(warning), "expected {warning}, found {}", ran.stderr);
        assert!(ran.stdout.contains(sessions), "{}", ran.stdout);
    };
    assert_eq!(summary("whole.ireeprof", &bytes).stderr, "");
    let one = "session_begin=2 chunks=38 session_end=1";
    let last = bytes.len() - 150;
    warned(&bytes[..bytes.len() - 10], "complete records are read, and 140 bytes from offset", one);
    let between =
        format!("is truncated at offset {last}: 42 complete records are read, and later ones are missing");
    warned(&bytes[..last], &between, one);
    let without_length = [&bytes[..16], &[0; 8], &bytes[24..last]].concat();
    warned(&without_length, "was not closed", one);
    let first = (last - 150) as u64;
    let first_session = [&bytes[..16], &first.to_le_bytes(), &bytes[24..last]].concat();
    warned(
        &first_session,
        "has 150 bytes behind its recorded length",
        "session_begin=1 chunks=38 session_end=1",
    );
}

#[test]
fn commands_and_flags_that_do_not_apply_are_rejected() {
    let sample = sample();
    let stderr = fail(&["iree-profile", "att", &sample]);
    assert!(stderr.starts_with("UNIMPLEMENTED; 'att'") && stderr.contains("AMD device"), "{stderr}");
    assert!(fail(&["iree-profile", "sumary", &sample]).contains("did you mean 'summary'?"));
    let stderr = fail(&["iree-profile", "queue", "--dispatch_events", &sample]);
    assert!(stderr.contains("dispatch_events requires the format jsonl"), "{stderr}");
    assert!(stderr.contains("try: use --format=jsonl"), "{stderr}");
    assert!(fail(&["iree-profile", "cat", "--id=1", &sample]).contains("try: leave out --id"));
    assert!(fail(&["iree-profile", "export", &sample]).contains("expected ireeperf-jsonl"));
    assert!(fail(&["iree-profile", "--rocm_library_path=/opt/rocm", &sample]).contains("AMD"));
    assert!(fail(&["iree-profile"]).contains("needs a profile"));
    let stderr = fail(&["iree-profile", "summary"]);
    assert!(stderr.starts_with("NOT_FOUND; 'summary' is a command"), "{stderr}");
    assert!(stderr.contains("try: name a device profile: summary FILE.ireeprof"), "{stderr}");
    assert!(fail(&["iree-profile", "cat", &sample, &sample]).contains("takes one profile"));
    let other = format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    assert!(fail(&["iree-profile", "cat", &other]).contains("is a text file, not a device profile"));
}

#[test]
fn a_timeline_goes_to_a_file_or_to_standard_output() {
    let (scratch, sample) = (Scratch::new(), sample());
    let path = scratch.path("trace.pftrace");
    let timeline = ["rehal", "profile", "timeline", &sample, "-o"];
    let ran = run(&[&timeline[..], &[path.to_str().unwrap()]].concat());
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("5 events without valid times are left out"), "{}", ran.stderr);
    assert!(ran.stderr.contains("the clock of device 1 cannot be correlated"), "{}", ran.stderr);
    let written = std::fs::read(&path).unwrap();
    assert!(written.len() > 2000 && written[0] == 0x0A);
    let mut command = command("rehal");
    assert_eq!(command.args(&timeline[1..]).arg("-").output().unwrap().stdout, written);
    assert!(
        fail(&timeline[..4]).contains("--output is missing\n  try: name the file to write: -o TRACE.pftrace")
    );
    assert!(fail(&[&timeline[..], &[sample.as_str()]].concat()).contains("which is read"));
    let other = format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let output = path.to_str().unwrap();
    let stderr = fail(&["rehal", "profile", "timeline", &other, "-o", output]);
    assert!(stderr.contains("is a text file, not a device profile"), "{stderr}");
    assert_eq!(std::fs::read(&path).unwrap(), written, "an error leaves the output as it was");
}

#[test]
fn a_profile_compared_with_itself_has_no_changes() {
    let sample = sample();
    let words = ["rehal", "profile", "compare", &sample, &sample];
    let text = run(&words).stdout;
    assert!(text.contains("\ncannot tell: too few profiles of 4 functions."), "{text}");
    let json = run(&[&words[..], &["--format=json"]].concat()).stdout;
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    let functions = object["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 4, "{json}");
    for function in functions {
        assert_eq!(
            (&function["change_ns"], &function["verdict"]),
            (&0.0.into(), &"cannot tell".into()),
            "{json}"
        );
        assert!(function["ratio_interval"].is_null(), "{json}");
    }
    let csv = run(&[&words[..], &["--format=csv"]].concat()).stdout;
    let columns: Vec<_> = csv.lines().map(|line| line.matches(',').count()).collect();
    assert_eq!(columns, [17; 5], "{csv}");
    assert!(csv.contains("\"matmul \"\"16x16\"\""), "{csv}");
    assert!(fail(&words[..4]).contains("takes two profiles, found 1"));
    let stderr = fail(&words[..3]);
    assert!(stderr.contains("needs two profiles\n  try: rehal profile compare"), "{stderr}");
}

#[test]
fn a_side_has_several_profiles_by_commas_or_by_a_pattern() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(sample()).unwrap();
    let names = ["a-1.ireeprof", "a-2.ireeprof", "a-3.ireeprof", "a-4.ireeprof", "b,c.ireeprof"];
    let paths = names.map(|name| scratch.file(name, &bytes));
    let compare = |before: &str, after: &str| {
        let report = run(&["rehal", "profile", "compare", "--format=json", before, after]);
        assert_eq!(report.status, Some(0), "{}", report.stderr);
        serde_json::from_str::<serde_json::Value>(&report.stdout).unwrap()
    };
    let pattern = scratch.path("a-*.ireeprof").display().to_string();
    let of_pattern = compare(&pattern, &paths[..4].join(","));
    let paths_of = |side: &str| of_pattern[side]["paths"].clone();
    assert_eq!(paths_of("before"), serde_json::json!(paths[..4]));
    assert_eq!(paths_of("after"), paths_of("before"));
    // Four of each are enough for an interval of one function, not of four.
    assert!(of_pattern["functions"][0]["ratio_interval"].is_null(), "{of_pattern}");
    // The path of a file may have a comma.
    assert_eq!(compare(&paths[4], &paths[0])["before"]["paths"], serde_json::json!([paths[4]]));
    let missing = scratch.path("c-?.ireeprof").display().to_string();
    let (twice, empty) = (format!("{0},{0}", paths[0]), format!("{},", paths[0]));
    for (side, expected) in [
        (&missing, "NOT_FOUND; no file matches '"),
        (&twice, "is named twice: a process is one sample"),
        (&empty, "INVALID_ARGUMENT; '' is not the path of a profile"),
        (&format!("/no/such.ireeprof,{}", paths[0]), "NOT_FOUND; opening '/no/such.ireeprof'"),
    ] {
        let stderr = fail(&["rehal", "profile", "compare", side, &paths[0]]);
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
}

/// A bundle with one dispatch of a device and so many clock samples.
fn with_clock_samples(count: usize) -> Vec<u8> {
    let fields =
        RecordFields { name: b"gpu", session_id: 1, physical_device_ordinal: 0, ..RecordFields::default() };
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    writer.begin_session(&fields).unwrap();
    for index in 0..count as u64 {
        let sample = layout::ClockCorrelation {
            flags: (layout::CLOCK_DEVICE_TICK | layout::CLOCK_HOST_TIME_BRACKET).into(),
            sample_id: (index + 1).into(),
            device_tick: (index * 100 + 1).into(),
            host_time_begin_ns: (index as i64 * 1_000 + 10).into(),
            host_time_end_ns: (index as i64 * 1_000 + 12).into(),
            ..Default::default()
        };
        let row = rows::ClockCorrelation { header: &sample.sized(), appended: &[] };
        writer.append_rows(&fields, &[row]).unwrap();
    }
    let event = layout::DispatchEvent {
        event_id: 1.into(),
        submission_id: 1.into(),
        executable_id: 9.into(),
        start_tick: 5.into(),
        end_tick: 25.into(),
        ..Default::default()
    };
    writer.append_rows(&fields, &[rows::DispatchEvent { header: &event.sized(), appended: &[] }]).unwrap();
    writer.end_session(&fields, 0).unwrap();
    writer.into_inner().into_inner()
}

#[test]
fn a_profile_whose_dispatches_have_no_times_is_not_compared() {
    let scratch = Scratch::new();
    let [one, two] =
        [1, 2].map(|count| scratch.file(&format!("{count}.ireeprof"), with_clock_samples(count)));
    let stderr = fail(&["rehal", "profile", "compare", &one, &two]);
    assert!(stderr.starts_with("FAILED_PRECONDITION; '"), "{stderr}");
    assert!(
        stderr.contains("has 1 dispatch without times: the device's ticks cannot be converted"),
        "{stderr}"
    );
    assert!(stderr.contains("a program that was killed needs 0.2 s"), "{stderr}");
    assert!(run(&["rehal", "profile", "compare", &two, &two]).stdout.contains("200 ns in 1 dispatch"));
}

#[test]
fn subcommands_precede_flags_and_are_suggested() {
    let sample = sample();
    let stderr = fail(&["iree-profile", "timelin", &sample]);
    assert!(stderr.contains("did you mean 'rehal profile timeline'?"), "{stderr}");
    assert!(fail(&["rehal", "timeline", &sample]).contains("did you mean 'profile timeline'?"));
    assert!(print(&["rehal", "help", "profile", "compare"]).contains("rehal profile compare"));
    assert!(print(&["rehal", "profile", "timeline", "--help"]).contains("Short form: -o VALUE."));
}

/// The flags that profile to a file.
fn profiling(mode: &str, path: &std::path::Path) -> [String; 2] {
    [format!("--device_profiling_mode={mode}"), format!("--device_profiling_output={}", path.display())]
}

#[test]
fn every_tool_that_runs_work_writes_a_profile() {
    let scratch = Scratch::new();
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let checks = format!("--module={}", fixture("modules/checks.vmfb"));
    let capture = capture("add4.add.local-sync");
    let inputs = ["--input=4xf32=1", "--input=4xf32=2", "--function=add"];
    for device in ["--device=local-sync", "--device=local-task"] {
        for words in [
            &["iree-run-module", device, &module, inputs[0], inputs[1], inputs[2]][..],
            &[
                "iree-benchmark-module",
                device,
                &module,
                inputs[0],
                inputs[1],
                inputs[2],
                "--benchmark_min_time=2x",
            ],
            &["iree-run-replay", device, &capture],
            &["iree-benchmark-replay", device, "--benchmark_min_time=2x", &capture],
            &["iree-check-module", device, &checks],
        ] {
            let path = scratch.path("run.ireeprof");
            let flags = profiling("queue-events,host-execution,memory-events", &path);
            let ran = run(&[words, &[&flags[0], &flags[1]]].concat());
            assert!(ran.status == Some(0) || words[0] == "iree-check-module", "{words:?}: {}", ran.stderr);
            let summary = print(&["iree-profile", "summary", path.to_str().unwrap()]);
            assert!(summary.contains("session_begin=1") && summary.contains("session_end=1"), "{summary}");
            assert!(!summary.contains("queue_events=0 "), "{words:?}: {summary}");
            std::fs::remove_file(&path).unwrap();

            let ran = run(&[words, &["--print_device_statistics"]].concat());
            assert!(
                ran.stderr.contains("\nIREE HAL device statistics:\n  aggregate_rows="),
                "{}",
                ran.stderr
            );
        }
    }
}

#[test]
fn profiling_flags_that_contradict_each_other_are_rejected() {
    let capture = capture("add4.add.local-sync");
    let mode = "--device_profiling_mode=queue-events";
    for (flags, expected) in [
        (&[mode][..], "--device_profiling_mode requires --device_profiling_output"),
        (&["--device_profiling_output=x"], "--device_profiling_output requires --device_profiling_mode"),
        (&["--device_profiling_mode=queue-event"], "did you mean 'queue-events'?"),
        (&["--device_profiling_mode=,"], "unknown family of data ''"),
        (&["--device_profiling_output=x", "--print_device_statistics"], "cannot be combined"),
        (&["--device_profiling_flush_interval_ms=-1"], "must not be negative"),
        (&["--device_profiling_flush_interval_ms=5"], "requires --device_profiling_mode or"),
        (&["--device_profiling_filter_queue=0"], "requires --device_profiling_mode or"),
        (&["--device_profiling_filter_function=x"], "requires --device_profiling_mode or"),
        (
            &["--device_profiling_filter_command_buffer=0", mode, "--device_profiling_output=x"],
            "must not be 0",
        ),
        (
            &["--device_profiling_filter_queue=4294967296", mode, "--device_profiling_output=x"],
            "exceeds 4294967295",
        ),
        (
            &["--device_profiling_counter=x", mode, "--device_profiling_output=x"],
            "requires the family counters",
        ),
        (
            &["--device_profiling_mode=counters", "--device_profiling_output=x"],
            "require --device_profiling_counter",
        ),
    ] {
        let stderr = fail(&[&["iree-run-replay"], flags, &[&capture[..]]].concat());
        assert!(stderr.starts_with("INVALID_ARGUMENT; ") && stderr.contains(expected), "{flags:?}: {stderr}");
    }
    let scratch = Scratch::new();
    let path = scratch.path("x.ireeprof");
    let flags = profiling("device-queue-events,dispatch-events", &path);
    let stderr = fail(&["iree-run-replay", &flags[0], &flags[1], &capture]);
    assert!(
        stderr.starts_with(
            "UNIMPLEMENTED; device 'local-task' cannot report device-queue-events, dispatch-events"
        ),
        "{stderr}"
    );
    let own = format!("--device_profiling_output={capture}");
    assert!(fail(&["iree-run-replay", mode, &own, &capture]).contains("which is read"));
}

/// A benchmark loads its executables in each iteration.
#[test]
fn reloaded_executables_are_merged() {
    let scratch = Scratch::new();
    let (path, capture) = (scratch.path("run.ireeprof"), capture("mlp.mlp.local-sync"));
    let flags = profiling("host-execution,executable-metadata", &path);
    print(&[
        "iree-benchmark-replay",
        "--device=local-sync",
        "--benchmark_min_time=3x",
        &flags[0],
        &flags[1],
        &capture,
    ]);
    let path = path.to_str().unwrap();
    let groups = |words: &[&str], kind: &str| -> Vec<(String, u64)> {
        let text = print(&[&["iree-profile"], words, &["--format=jsonl", path]].concat());
        let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let rows = rows.filter(|row| row["type"] == kind);
        let count = |row: &serde_json::Value| row["count"].as_u64().or(row["dispatches"].as_u64()).unwrap();
        rows.map(|row| (row["key"].as_str().unwrap().to_owned(), count(&row))).collect()
    };
    for (report, kind) in [("dispatch", "host_dispatch_group"), ("explain", "explain_top_function")] {
        let merged = groups(&[report, "--merge_executables"], kind);
        assert_eq!(merged.len(), 5, "{merged:?}");
        let counts: Vec<_> = merged.iter().map(|it| it.1).collect();
        // Also those of the first replay, which warms up.
        assert!(counts[0] >= 3 && counts.iter().all(|count| *count == counts[0]), "{merged:?}");
        assert!(groups(&[report], kind).len() > 5);
    }
    let stderr = fail(&["iree-profile", "summary", "--merge_executables", path]);
    assert!(stderr.contains("does not support the option merge_executables"), "{stderr}");
}

/// The rows of a type in the export of a profile.
fn exported(path: &str, record_type: &str) -> Vec<serde_json::Value> {
    let text = print(&["iree-profile", "export", "--format=ireeperf-jsonl", path]);
    let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    rows.filter(|row| row["record_type"] == record_type).collect()
}

/// The rows that relate submissions and commands to records of a capture.
fn replayed_records(path: &str) -> Vec<serde_json::Value> {
    let mut relations = exported(path, "event_relationship");
    relations.retain(|row| row["kind_value"] == 0x6c68_6572);
    relations
}

#[test]
fn the_profile_of_a_replay_has_the_records_of_its_capture() {
    let scratch = Scratch::new();
    let capture = capture("mlp.mlp.local-sync");
    let dump = print(&["iree-dump-replay", "--format=jsonl", &capture]);
    let operation_of = |ordinal: &serde_json::Value| {
        let lines = dump.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut records = lines.filter(|line| line["sequence_ordinal"] == *ordinal);
        records.next().unwrap()["operation"].as_str().unwrap().to_owned()
    };
    for device in ["--device=local-sync", "--device=local-task"] {
        for mode in ["queue-events,host-execution", "host-execution", "command-region-events"] {
            let path = scratch.path("run.ireeprof");
            let path = path.to_str().unwrap();
            let flags = profiling(mode, path.as_ref());
            print(&["iree-run-replay", device, &flags[0], &flags[1], &capture]);
            let relations = replayed_records(path);
            let of = |source_type: &'static str| {
                relations.iter().filter(move |row| row["source_type"] == source_type)
            };
            assert!(relations.iter().all(|row| row["target_type"] == "artifact"));
            let operations = |source_type: &'static str| {
                let mut operations: Vec<_> =
                    of(source_type).map(|row| operation_of(&row["target_id"])).collect();
                operations.sort();
                operations
            };
            let (copies, dispatches) =
                (["command_buffer.copy_buffer"; 2].as_slice(), ["command_buffer.dispatch"; 5].as_slice());
            assert_eq!(operations("command_operation"), [copies, dispatches].concat(), "{device} {mode}");
            let (allocas, executions) =
                (["device.queue_alloca"; 2].as_slice(), ["device.queue_execute"; 3].as_slice());
            assert_eq!(operations("queue_submission"), [allocas, executions].concat(), "{device} {mode}");
            // Each dispatch has the record of its own command.
            for row in exported(path, "host_execution_event") {
                let (buffer, index) = (&row["command_buffer_id"], &row["command_index"]);
                if row["op"] == "dispatch" {
                    let is_it = |it: &&serde_json::Value| {
                        it["source_id"] == *buffer && it["source_secondary_id"] == *index
                    };
                    assert_eq!(of("command_operation").filter(is_it).count(), 1, "{row}");
                }
            }
        }
    }
    // A program does not replay.
    let path = scratch.path("call.ireeprof");
    let flags = profiling("queue-events,host-execution", &path);
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let call = ["--function=add", "--input=4xf32=1", "--input=4xf32=2"];
    print(&[&["iree-run-module", &module, &flags[0], &flags[1]], &call[..]].concat());
    assert!(replayed_records(path.to_str().unwrap()).is_empty());
}

#[test]
fn the_profile_of_a_killed_program_is_readable() {
    let scratch = Scratch::new();
    let path = scratch.path("killed.ireeprof");
    let capture = capture("add4.add.local-sync");
    let flags = profiling("queue-events,host-execution", &path);
    let mut program = command("iree-benchmark-replay")
        .args([&flags[0], &flags[1], "--benchmark_min_time=600s", &capture])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Until some events are in the file.
    while std::fs::metadata(&path).map_or(0, |file| file.len()) < 64 << 10 {
        assert!(program.try_wait().unwrap().is_none(), "the benchmark ended");
        std::thread::yield_now();
    }
    program.kill().unwrap();
    program.wait().unwrap();
    let ran = run(&["iree-profile", "summary", path.to_str().unwrap()]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("session_begin=1") && ran.stdout.contains("session_end=0"), "{}", ran.stdout);
    assert!(!ran.stdout.contains(" queue_events=0"), "{}", ran.stdout);
}

/// A replay that crashes ends within milliseconds, before the profile's thread writes for the first time.
#[test]
fn a_crash_leaves_a_profile_of_what_led_to_it() {
    let scratch = Scratch::new();
    for device in ["local-sync", "local-task"] {
        for tool in ["iree-run-replay", "iree-benchmark-replay"] {
            let path = scratch.path(&format!("{tool}.{device}.ireeprof")).display().to_string();
            let ran = run(&[
                tool,
                &format!("--device={device}"),
                "--device_profiling_mode=queue-events,host-execution,memory-events,executable-metadata",
                &format!("--device_profiling_output={path}"),
                &capture("crash.divide-by-zero.local-sync"),
            ]);
            assert_eq!(ran.status, Some(86), "{}", ran.stderr);
            let read = |report: &str| {
                let ran = run(&["iree-profile", report, "--format=jsonl", &path]);
                assert_eq!(ran.status, Some(0), "{tool}, {device}: {}", ran.stderr);
                ran.stdout
            };
            let summary = read("summary");
            let summary: serde_json::Value = serde_json::from_str(summary.lines().next().unwrap()).unwrap();
            for what in ["executable", "command_operation", "queue_event", "memory_event"] {
                let count = summary[format!("{what}_records")].as_u64().unwrap();
                assert_ne!(count, 0, "{tool}, {device}: {what} in {summary}");
            }
            assert!(read("executable").contains("divide_dispatch_0"), "{tool}, {device}");
        }
    }
}

/// Inputs are read, and other outputs are written, while the profile is open.
#[test]
fn profiles_do_not_replace_other_files() {
    let scratch = Scratch::new();
    let array = std::fs::read(fixture("inputs/params_x.npy")).unwrap();
    let (input, link) = (scratch.file("x.npy", &array), scratch.path("link.npy"));
    std::os::unix::fs::symlink(&input, &link).unwrap();
    let capture = capture("add4.add.local-sync");
    let module = format!("--module={}", fixture("modules/params.vmfb"));
    let program = ["iree-run-module", "--device=local-sync", &module, "--function=forward"];
    let refuse = |words: &[&str], output: &str, other: &str, reason: &str| {
        let output = format!("--device_profiling_output={output}");
        let stderr = fail(&[words, &["--device_profiling_mode=queue-events", &output, other]].concat());
        assert!(stderr.contains(reason), "{other}: {stderr}");
    };
    for output in [input.as_str(), link.to_str().unwrap()] {
        for flag in ["--input=@", "--expected_output=@"] {
            refuse(&program, output, &format!("{flag}{input}"), "which is read");
        }
    }
    assert!(std::fs::read(&input).unwrap() == array);
    let new = scratch.path("new").display().to_string();
    refuse(&program, &new, &format!("--output=@{new}"), "which is written as well");
    for (tool, flag) in [
        ("iree-run-replay", "--replay_host_reads"),
        ("iree-run-replay", "--replay_ledger"),
        ("iree-benchmark-replay", "--benchmark_out"),
    ] {
        refuse(&[tool, &capture], &new, &format!("{flag}={new}"), "which is written as well");
    }
    assert!(!std::fs::exists(&new).unwrap());
}
