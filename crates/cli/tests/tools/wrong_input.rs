//! Invalid input to each tool: status 1, nothing on standard output, and on standard error what is wrong,
//! where, and what to do.

use crate::common::{Scratch, TOOLS, capture, command, fail, fixture, patched, ran, run};

fn abs() -> Vec<u8> {
    std::fs::read(capture("simple_abs.abs.local-sync")).unwrap()
}

/// Runs every tool on `path`, which must fail with an error that contains all of `expected`.
#[track_caller]
fn fail_all(path: &str, expected: &[&str]) {
    for tool in TOOLS {
        let stderr = fail(&[tool, &[path]].concat());
        for part in expected {
            assert!(stderr.contains(part), "{tool:?}: {stderr} lacks {part}");
        }
    }
}

#[test]
fn a_missing_capture_and_too_many() {
    for tool in TOOLS {
        let name = tool.join(" ");
        assert!(fail(tool).contains(&format!("{name} needs a capture")));
        let stderr = fail(&[tool, &["a", "b"]].concat());
        assert!(stderr.contains("takes one capture\n  at: given: 'a', 'b'"), "{stderr}");
    }
}

#[test]
fn files_that_are_not_captures_of_this_release() {
    for (path, expected) in [
        ("/nonexistent/x.ireereplay", "NOT_FOUND; opening '/nonexistent/x.ireereplay': No such file"),
        (env!("CARGO_MANIFEST_DIR"), "' is a directory"),
        ("/dev/null", "INVALID_ARGUMENT; '/dev/null' is not a regular file"),
    ] {
        fail_all(path, &[expected]);
    }
    let changed = |at: usize, to: u8| {
        let mut bytes = abs();
        bytes[at] = to;
        bytes
    };
    let scratch = Scratch::new();
    for (bytes, expected) in [
        (Vec::new(), &["INVALID_ARGUMENT; '", "' is empty, not a capture"][..]),
        (b"This is not a capture, however long it may be read.\n".into(), &["is a text file, not a capture"]),
        (vec![0xFF; 100], &["corrupt capture: magic: expected \"IRRP\", found \"\\xff\\xff\\xff\\xff\""]),
        (changed(4, 3), &["unsupported capture", "version: expected 1.0 or 2.0, found 3.0"]),
        // A record of an unknown type that readers must not skip.
        (changed(24 + 60, 77), &["record_type: expected a known type", "found 77", "try: use a newer rehal"]),
        // A damaged record.
        (
            changed(24 + 96 + 16, abs()[24 + 96 + 16] ^ 0x40),
            &["DATA_LOSS; corrupt capture", "record #1, offset 136"],
        ),
    ] {
        let path = scratch.file("file", bytes);
        fail_all(&path, &[expected, &[path.as_str()]].concat());
    }
}

#[test]
fn a_truncated_file() {
    let scratch = Scratch::new();
    let bytes = abs();
    let path = scratch.file("truncated", &bytes[..bytes.len() / 2]);
    for tool in &TOOLS[..3] {
        let stderr = fail(&[*tool, &[&path]].concat());
        assert!(
            stderr.contains("the file is truncated") && stderr.contains("try: use --recover"),
            "{stderr}"
        );
        assert!(stderr.contains(&path), "{stderr}");
    }
    // `info` reports it.
    let report = crate::common::print(&["rehal", "info", &path]);
    assert!(report.contains("truncated: ends at offset") && report.contains("Replay here: no"), "{report}");
}

#[test]
fn vulkan_without_a_driver_is_unavailable() {
    let run = |words: &[&str]| {
        let mut command = command(words[0]);
        for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
            command.env(variable, "/nonexistent.json");
        }
        ran(command.args(&words[1..]).output().unwrap())
    };
    let listed = run(&["iree-run-module", "--list_drivers"]);
    let line = listed.stdout.lines().find(|line| line.trim_start().starts_with("vulkan: ")).unwrap();
    assert!(line.contains("(unavailable: "), "{line}");
    let devices = run(&["iree-run-module", "--list_devices"]);
    assert_eq!((devices.status, &*devices.stdout), (Some(0), "local-sync://\nlocal-task://\n"));
    let refused = run(&["iree-run-replay", "--device=vulkan", &capture("simple_abs.abs.local-sync")]);
    assert_eq!(refused.status, Some(1), "{refused:?}");
    let end = "\n  at: --device=vulkan\n  try: available drivers: local-sync, local-task\n";
    assert!(refused.stderr.starts_with("UNAVAILABLE; ") && refused.stderr.ends_with(end), "{refused:?}");
}

/// A capture whose executables are for CUDA.
#[test]
fn a_capture_for_a_driver_that_is_missing_says_for_which() {
    let scratch = Scratch::new();
    let mut bytes = std::fs::read(capture("add4.add.local-sync")).unwrap();
    let format = b"embedded-elf-x86_64";
    let at = bytes.windows(format.len()).position(|part| part == format).unwrap();
    bytes[at..][..format.len()].copy_from_slice(b"cuda-nvptx-fb-other");
    let path = scratch.file("cuda.ireereplay", bytes);
    for words in
        [&["run"][..], &["benchmark"], &["kernels", "--device=local-task"], &["run", "--device=local-task"]]
    {
        let stderr = fail(&[&["rehal"], words, &[&path]].concat());
        assert!(stderr.starts_with(
            "NOT_FOUND; the executable is compiled for 'cuda-nvptx-fb-other'; here: embedded-elf-"
        ));
        let advice =
            "  try: use --device=cuda://emulator, which emulates it slowly; without a device, rehal info, ";
        assert!(stderr.contains(advice) && stderr.contains("; to run it, compile the program"), "{stderr}");
    }
    let info = run(&["rehal", "info", &path]).stdout;
    assert!(info.contains("use --device=cuda://emulator"), "{info}");
}

#[test]
fn an_invalid_device() {
    let path = capture("simple_abs.abs.local-sync");
    for tool in [TOOLS[0], TOOLS[2], TOOLS[3]] {
        for (device, expected) in [
            (
                "cuda",
                "UNAVAILABLE; driver 'cuda' finds no GPU: this build does not drive the hardware\n  at: --device=cuda\n  try: \
                 emulate one, slowly: --device=cuda://emulator",
            ),
            (
                "local-sink",
                "driver 'local-sink' does not exist\n  at: --device=local-sink\n  try: did you mean 'local-task'?",
            ),
            (
                "local-sync://7",
                "driver 'local-sync' has no device '7'\n  at: --device=local-sync://7\n  try: its devices: local-sync://",
            ),
            (
                "local-sync://?x=1",
                "driver 'local-sync' has no parameter 'x'\n  at: --device=local-sync://?x=1\n  try: its parameters: \
                 task_worker_stack_size",
            ),
            ("a,b", "invalid device URI 'a,b': ',' in the name of the driver"),
        ] {
            let stderr = fail(&[tool, &[&format!("--device={device}"), &path]].concat());
            assert!(stderr.contains(expected), "{stderr}");
        }
        for query in ["--list_devices", "--dump_devices"] {
            let missing = fail(&[tool, &[&format!("{query}=cuda")]].concat());
            assert!(missing.starts_with("UNAVAILABLE; driver 'cuda' finds no GPU"), "{missing}");
            let missing = fail(&[tool, &[&format!("{query}=hip")]].concat());
            assert!(missing.starts_with("UNIMPLEMENTED; this build has no 'hip' driver"), "{missing}");
            let unknown = fail(&[tool, &[&format!("{query}=nothing")]].concat());
            assert!(unknown.starts_with("NOT_FOUND; driver 'nothing' does not exist"), "{unknown}");
        }
    }
}

#[test]
fn device_count_mismatch() {
    for (name, devices, expected) in [
        ("two_devices.ss", 1, "the capture uses 2 device(s), found 1"),
        ("simple_abs.abs.local-sync", 2, "the capture uses 1 device(s), found 2"),
    ] {
        for tool in ["iree-run-replay", "iree-benchmark-replay"] {
            let path = capture(name);
            let words = [vec![tool, &path], vec!["--device=local-sync"; devices]].concat();
            assert!(fail(&words).contains(expected));
        }
    }
}

#[test]
fn an_executable_for_another_architecture() {
    let scratch = Scratch::new();
    let bytes = patched(&abs(), b"embedded-elf-x86_64", b"embedded-elf-arm_64");
    let path = scratch.file("arm", bytes);
    for tool in ["iree-run-replay", "iree-benchmark-replay"] {
        let stderr = fail(&[tool, &path]);
        assert!(stderr.contains("embedded-elf-arm_64") && stderr.contains("record #11"), "{stderr}");
        let other =
            format!("--replay_executable_substitution=4={}", fixture("modules/add4_swapped.aarch64.elf"));
        let stderr = fail(&[tool, &other, &capture("add4.add.local-sync")]);
        assert!(stderr.contains("AArch64") || stderr.contains("arm_64"), "{stderr}");
        assert!(stderr.contains("add4_swapped.aarch64.elf"), "{stderr}");
    }
    let report = crate::common::print(&["rehal", "info", &path]);
    assert!(
        report.contains("executable 4 is 'embedded-elf-arm_64', which local-task cannot run"),
        "{report}"
    );
}

#[test]
fn invalid_values_of_replay_flags() {
    let path = capture("add4.add.local-sync");
    for (flag, expected) in [
        ("--replay_executable_substitution=4", "has no '='"),
        ("--replay_executable_substitution=0=x", "has id 0"),
        ("--replay_executable_substitution=4=/nonexistent/x", "opening '/nonexistent/x'"),
        ("--executable_plugin=/nonexistent/x.so", "--executable_plugin=/nonexistent/x.so"),
    ] {
        for tool in ["iree-run-replay", "iree-benchmark-replay"] {
            let ran = run(&[tool, flag, &path]);
            assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{flag}");
            assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        }
    }
}

#[test]
fn a_tool_does_not_overwrite_its_capture() {
    let scratch = Scratch::new();
    let path = scratch.file("capture", abs());
    let link = scratch.path("link");
    std::fs::hard_link(&path, &link).unwrap();
    for (tool, flag) in
        [("iree-run-replay", "--replay_host_reads"), ("iree-benchmark-replay", "--benchmark_out")]
    {
        for target in [&path, link.to_str().unwrap()] {
            let stderr = fail(&[tool, &format!("{flag}={target}"), &path]);
            assert!(stderr.contains("which is read"), "{stderr}");
        }
    }
    assert_eq!(std::fs::read(path).unwrap(), abs());
}

#[test]
fn verbs() {
    // Without a verb, what help prints, on standard error.
    let alone = run(&["rehal"]);
    assert_eq!((alone.status, &*alone.stdout), (Some(2), ""));
    assert_eq!(alone.stderr, run(&["rehal", "help"]).stdout);
    let titles: Vec<_> = alone.stderr.split("\n\n").filter_map(|group| group.split_once("\n  ")).collect();
    assert_eq!(titles.len(), 7, "{}", alone.stderr);
    let compile = titles.iter().find(|(_, verbs)| verbs.contains("\n  substitute ")).unwrap();
    assert!(compile.0 == "Programs and modules" && compile.1.starts_with("compile "), "{compile:?}");
    assert!(fail(&["rehal", "dmup"]).contains("unknown verb 'dmup'\n  try: did you mean 'dump'?"));
    assert!(fail(&["rehal", "iree-run-replay"]).contains("did you mean 'run'?"));
    for words in
        [&["rehal", "help"][..], &["rehal", "--help"], &["rehal", "version"], &["rehal", "--version"]]
    {
        assert!(crate::common::print(words).starts_with("rehal "));
    }
    assert!(crate::common::print(&["rehal", "--agents_md"]).contains("# Reading captures"));
}
