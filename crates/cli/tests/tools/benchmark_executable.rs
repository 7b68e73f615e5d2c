//! `iree-benchmark-executable` as a user runs it.

use crate::common::{Scratch, command, fail, fixture, print, ran, run};

const TOOL: &str = "iree-benchmark-executable";

fn file(name: &str) -> String {
    format!("--executable_file={}", fixture(&format!("cts/{name}")))
}

/// The dispatch of `affine` with correct arguments.
fn affine() -> Vec<String> {
    let mut words = vec![TOOL.to_string(), "--device=local-sync".into(), file("affine.embedded.elf")];
    let rest = [
        "--constant=3",
        "--constant=-4",
        "--binding=16xi32=5",
        "--binding=16xi32",
        "--workgroup_count=1,1,1",
    ];
    words.extend(rest.map(String::from));
    words
}

/// `words` and `more`.
fn with<'a>(words: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    words.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

fn rows(words: &[&str]) -> Vec<serde_json::Value> {
    let flags = ["--benchmark_format=json", "--benchmark_min_time=130x"];
    let report: serde_json::Value = serde_json::from_str(&print(&[words, &flags].concat())).unwrap();
    report["benchmarks"].as_array().unwrap().clone()
}

#[test]
fn each_workgroup_count_is_a_benchmark() {
    let affine = affine();
    let rows = rows(&with(&affine, &["--workgroup_count=2,3,4", "--workgroup_count=0x10, 0,1"]));
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let expected =
        ["1x1x1", "2x3x4", "16x0x1"].map(|count| format!("BM_dispatch_{count}/process_time/real_time"));
    assert_eq!(names, expected);
    for (row, workgroups) in rows.iter().zip([1.0, 24.0, 0.0]) {
        // Batches of 64 dispatches.
        assert_eq!((&row["iterations"], &row["time_unit"]), (&192.into(), &"ns".into()), "{row}");
        let (per_second, real_time) =
            (row["items_per_second"].as_f64().unwrap(), row["real_time"].as_f64().unwrap());
        assert!((per_second * real_time / 1e9 - workgroups).abs() < 1e-3, "{row}");
    }
    let rows = self::rows(&with(&affine, &["--batch_size=7"]));
    assert_eq!(rows[0]["iterations"], 133);
}

#[test]
fn formats_entry_points_and_constants_are_chosen() {
    for (name, format) in [
        ("affine.embedded.elf", "embedded-elf-x86_64"),
        ("affine.system.so", "system-elf-x86_64"),
        ("affine.vmvx.vmfb", "vmvx-bytecode-fb"),
    ] {
        let (affine, name) = (affine(), file(name));
        for format in [format!("--executable_format={format}"), "--executable_format=".into()] {
            for device in ["local-sync", "local-task"] {
                let mut words = with(&affine, &[&name, &format, "--entry_point=affine"]);
                let device = format!("--device={device}");
                words[1] = &device;
                assert_eq!(rows(&words).len(), 1, "{words:?}");
            }
        }
    }
    let native = file("native.so");
    let words =
        [TOOL, &native, "--executable_constant=1", "--executable_constant=2", "--workgroup_count=1,1,1"];
    let surroundings =
        ["--entry_point=2", "--binding=12xi32", "--constant=0", "--constant=0", "--constant=0"];
    assert_eq!(rows(&[&words[..], &surroundings].concat()).len(), 1);
    let local = ["--entry_point=local_memory", "--binding=2xi32"];
    assert_eq!(rows(&[&words[..], &local].concat()).len(), 1);
}

/// The results of the dispatches are in a capture of them.
#[test]
fn bindings_are_read_and_work_is_recorded() {
    let scratch = Scratch::new();
    let bytes: Vec<u8> = (0..16u32).flat_map(u32::to_le_bytes).collect();
    let input = format!("--binding=64xi8=@{}", scratch.file("in.bin", bytes));
    let capture = scratch.path("out.ireereplay").display().to_string();
    let recording = format!("--device_replay_output={capture}");
    let words = [TOOL, "--device=local-sync", &file("affine.embedded.elf"), "--constant=3", "--constant=-4"];
    let words = [
        &words[..],
        &[&input, "--binding=16xi32", "--workgroup_count=1,1,1", "--batch_size=2", &recording],
        &["--benchmark_min_time=3x"],
    ];
    print(&words.concat());
    let kernels: serde_json::Value =
        serde_json::from_str(&print(&["rehal", "kernels", "--format=json", &capture])).unwrap();
    assert_eq!((&kernels["dispatch_count"], &kernels["kernels"][0]["count"]), (&4.into(), &4.into()));
    let slice = scratch.path("slice.ireereplay").display().to_string();
    print(&["rehal", "slice", "--function=affine", &capture, "-o", &slice]);
    let reads = print(&["iree-run-replay", "--replay_host_reads=-", &slice]);
    let read: serde_json::Value = serde_json::from_str(reads.lines().next().unwrap()).unwrap();
    let expected: Vec<u8> = (0..16i32).flat_map(|x| (3 * x - 4).to_le_bytes()).collect();
    let hex = hex::encode(expected);
    assert!(read.to_string().contains(&hex), "{read} lacks {hex}");
    let info = print(&["rehal", "info", &capture]);
    assert!(info.contains("init     entered 1 time") && info.contains("execute  entered 2 times"), "{info}");
    // Never over what is read.
    for path in [capture.as_str(), &scratch.file("b.bin", [0; 64])] {
        let binding = format!("--binding=64xi8=@{path}");
        let affine = affine();
        let recording = format!("--device_replay_output={path}");
        let report = format!("--benchmark_out={path}");
        for output in [&recording, &report] {
            let stderr = fail(&with(&affine, &[&binding, output]));
            assert!(stderr.contains("which is read"), "{stderr}");
        }
    }
}

#[test]
fn wrong_counts_are_in_the_report_and_fail() {
    let affine = affine();
    for (flag, message) in [
        ("--constant=1", "takes 2 constants, found 3"),
        ("--binding=4xf32", "takes 2 bindings, found 3"),
        ("--workgroup_count=4294967295,4294967295,4294967295", "4294967295x4294967295x4294967295 workgroups"),
    ] {
        let ran = run(&with(&affine, &[flag, "--benchmark_format=json", "--benchmark_min_time=1x"]));
        assert_eq!(ran.status, Some(1), "{}", ran.stderr);
        let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let rows = report["benchmarks"].as_array().unwrap();
        let failed = rows.iter().find(|row| row["error_occurred"] == true).unwrap();
        assert!(failed["error_message"].as_str().unwrap().contains(message), "{failed}");
        assert!(ran.stderr.contains(message) && ran.stderr.contains("\n  try: "), "{}", ran.stderr);
    }
}

#[test]
fn other_wrong_input_is_an_error() {
    let affine = affine();
    let scratch = Scratch::new();
    let (empty, short) = (scratch.file("empty", ""), scratch.file("short", [0; 60]));
    let [empty, short] = [format!("--executable_file={empty}"), format!("--binding=16xi32=@{short}")];
    let [text, capture, missing] = [
        file("affine.mlir"),
        file("../captures/simple_abs.abs.local-sync.ireereplay"),
        format!("--executable_file={}", scratch.path("missing").display()),
    ];
    for (flags, message) in [
        (vec!["--entry_point=1"], "function 1 does not exist"),
        (vec!["--entry_point=other"], "no function 'other'"),
        (vec!["--device=local-sync"], "--device names 2"),
        (vec!["--binding=(null)"], "binding 2 is not a tensor"),
        (vec![&short], "64 bytes are needed and 60 are left"),
        (vec![&missing], "No such file"),
        (vec![&empty], "is empty, not an executable"),
        (vec![&capture], "is a capture"),
        (vec![&text], "does not recognize the format"),
        (vec!["--executable_format=other"], "the executable is compiled for 'other'; here: "),
        (vec!["--executable_format=vmvx-bytecode-fb"], ""),
        (vec!["--executable_constant=1"], "requires 0 constants"),
        (vec!["--executable_file="], "--executable_file is missing"),
    ] {
        let ran = run(&with(&affine, &flags));
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message) && ran.stderr.contains("; "), "{flags:?}: {}", ran.stderr);
    }
    let stderr = fail(&with(&affine[..affine.len() - 1], &[]));
    assert!(stderr.contains("--workgroup_count is missing"), "{stderr}");
}

#[test]
fn standard_input_profiles_and_crashes() {
    let affine = affine();
    let elf = std::fs::File::open(fixture("cts/affine.embedded.elf")).unwrap();
    let words = with(&affine, &["--executable_file=-", "--benchmark_min_time=1x"]);
    let out = ran(command(TOOL).args(&words[1..]).stdin(elf).output().unwrap());
    assert_eq!(out.status, Some(0), "{}", out.stderr);

    let scratch = Scratch::new();
    let profile = scratch.path("x.ireeprof").display().to_string();
    let output = format!("--device_profiling_output={profile}");
    let mode = "--device_profiling_mode=queue-events,host-execution,executable-metadata";
    print(&with(&affine, &[mode, &output, "--benchmark_min_time=1x", "--batch_size=5"]));
    let summary = print(&["rehal", "profile", "summary", &profile]);
    assert!(summary.contains("host_execution_events=6"), "{summary}");

    let zero = ["--constant=1", "--constant=0", "--binding=4xi32"];
    let crash = file("crash.embedded.elf");
    let words = [&[TOOL, &crash, "--entry_point=divide", "--workgroup_count=1,1,1"], &zero[..]].concat();
    let ran = run(&words);
    assert_eq!(ran.status, Some(86), "{}", ran.stderr);
    assert!(ran.stderr.contains("divide"), "{}", ran.stderr);
}
