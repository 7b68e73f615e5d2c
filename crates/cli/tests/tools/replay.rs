//! `iree-run-replay`: output, host reads, substitution and exit statuses.

use crate::common::{Ran, Scratch, capture, fail, fixture, print, run};
use serde_json::Value;

/// The host reads of a replay, one object per line.
fn reads(words: &[&str]) -> Vec<Value> {
    let lines = print(&[&["iree-run-replay", "--replay_host_reads=-"], words].concat());
    lines.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// The last host read of the scope `execute`, as f32.
fn result(words: &[&str]) -> Vec<f32> {
    let reads = reads(words);
    let last = reads.iter().rfind(|read| read["scope"] == "execute").expect("a result is read");
    let bytes = hex::decode(last["bytes"].as_str().unwrap()).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn success_is_silent() {
    for name in [
        "simple_abs.abs.local-sync",
        "mlp.mlp.local-sync",
        "chain.chain.local-sync",
        "transfers.poke.local-sync",
    ] {
        let ran = run(&["iree-run-replay", "--device=local-sync", &capture(name)]);
        assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""), "{name}");
    }
    let pair = ["--device=local-sync", "--device=local-sync://"];
    print(&[&["rehal", "run"][..], &pair, &[&capture("two_devices.ss")]].concat());
}

#[test]
fn host_reads_equal_the_program_output() {
    assert_eq!(result(&[&capture("add4.add.local-sync")]), [11.0, 22.0, 33.0, 44.0]);
    assert_eq!(result(&[&capture("add4.syslib.local-sync")]), [11.0, 22.0, 33.0, 44.0]);
    assert_eq!(result(&[&capture("globals.step.local-sync")])[..4], [10.5, 11.5, 12.5, 13.5]);
}

#[test]
fn host_reads_are_written_to_a_file_and_limited_in_size() {
    let scratch = Scratch::new();
    let path = scratch.path("reads.jsonl");
    let flag = format!("--replay_host_reads={}", path.display());
    let words =
        ["iree-run-replay", &flag, "--replay_host_reads_limit_bytes=4", &capture("add4.add.local-sync")];
    assert_eq!(print(&words), "");
    let text = std::fs::read_to_string(path).unwrap();
    let read: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&read["bytes"], &read["length"]), (&"00003041".into(), &16.into()));
    assert_eq!(read["truncated"], true);
    assert_eq!(read["fnv1a64"], "dc51cb8047a381e1");
}

#[test]
fn executables_are_substituted_by_id_by_name_and_all_at_once() {
    let (elf, library) = (fixture("modules/add4_swapped.elf"), fixture("modules/add4_swapped.syslib.so"));
    let path = capture("add4.add.local-sync");
    // Compiled code does not say it.
    let same = "--workgroup_count=same";
    for selector in [
        format!("4={elf}"),
        format!("4@embedded-elf-x86_64={elf}"),
        format!("all={elf}"),
        format!("all@embedded-elf-x86_64={elf}"),
        format!("add_dispatch_0_elementwise_4_f32={elf}"),
        format!("add_dispatch_0_elementwise_4_f32@embedded-elf-x86_64={elf}"),
        format!("add_*_4_f32={elf}"),
        format!("add_dispatch_0_elem={library}"),
        format!("4={library}"),
        format!("all@system-elf-x86_64={library}"),
    ] {
        let flag = format!("--replay_executable_substitution={selector}");
        assert_eq!(result(&[&flag, same, &path]), [1100.0, 2200.0, 3300.0, 4400.0], "{selector}");
        let error = run(&["iree-run-replay", &flag, &path]).stderr;
        assert!(
            error.contains("its workgroup count is not known")
                && error.contains("--workgroup_count=FUNCTION"),
            "{error}"
        );
    }
    // Another function of the same file stays.
    let flag = format!("--replay_executable_substitution=mul_dispatch_0_elementwise_4_f32={elf}");
    assert_eq!(result(&[&flag, same, &path]), [11.0, 22.0, 33.0, 44.0]);
}

#[test]
fn a_signature_mismatch_is_refused_before_the_first_dispatch() {
    let other = fixture("cts/affine.embedded.elf");
    for selector in ["4", "all"] {
        let flag = format!("--replay_executable_substitution={selector}={other}");
        let reads = Scratch::new();
        let log = format!("--replay_host_reads={}", reads.path("reads").display());
        let ran = run(&["iree-run-replay", &flag, &log, &capture("add4.add.local-sync")]);
        assert_eq!(ran.status, Some(1));
        assert!(
            ran.stderr.contains("it lacks functions 'add_dispatch_0_elementwise_4_f32'"),
            "{}",
            ran.stderr
        );
        assert!(!reads.path("reads").exists());
    }
    let flag = format!("--replay_executable_substitution=77={other}");
    let ran = run(&["iree-run-replay", &flag, &capture("add4.add.local-sync")]);
    assert!(ran.stderr.contains("executable 77 is not in the capture\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("\n  try: it has 4 (add_dispatch_0"), "{}", ran.stderr);
    for (selector, expected) in [
        ("_dispatch_0", "'_dispatch_0' may be function 'add_dispatch_0_elementwise_4_f32' or function 'mul_"),
        ("ad_dispatch_0", "did you mean add_dispatch_0? it has add_dispatch_0_elementwise_4_f32"),
        ("sub_*", "function or executable 'sub_*' is not in the capture"),
    ] {
        let flag = format!("--replay_executable_substitution={selector}={other}");
        let ran = run(&["iree-run-replay", &flag, &capture("add4.add.local-sync")]);
        assert!(ran.status == Some(1) && ran.stderr.contains(expected), "{selector}: {}", ran.stderr);
    }
}

#[test]
fn a_library_that_cannot_be_loaded_is_named() {
    let scratch = Scratch::new();
    let library = std::fs::read(fixture("cts/prints.so")).unwrap();
    let library = scratch.file("broken.so", crate::common::patched(&library, b"\0fwrite\0", b"\0fwritz\0"));
    let substitution = format!("--replay_executable_substitution=4={library}");
    let stderr = run(&["iree-run-replay", &substitution, &capture("add4.add.local-sync")]).stderr;
    assert!(stderr.contains("undefined symbol: fwritz") && stderr.contains(&library), "{stderr}");
    assert!(!stderr.contains("/proc/self/fd"), "{stderr}");
}

#[test]
fn a_truncated_capture_is_replayed_up_to_the_tear() {
    let path = capture("torn.gather.local-sync");
    assert!(fail(&["iree-run-replay", &path]).contains("never closed"));
    let ran = run(&["iree-run-replay", "--recover", &path]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), ""));
    assert!(ran.stderr.contains("is truncated: using the 29 records before offset 8116"), "{}", ran.stderr);
}

#[test]
fn a_capture_that_ends_before_its_first_device_has_nothing_to_replay() {
    let scratch = Scratch::new();
    let torn = std::fs::read(capture("torn.gather.local-sync")).unwrap();
    for length in [24, 200] {
        let path = scratch.file("early.ireereplay", &torn[..length]);
        for tool in ["iree-run-replay", "iree-benchmark-replay"] {
            let stderr = run(&[tool, "--recover", &path]).stderr;
            let expected =
                "FAILED_PRECONDITION; the capture ends before its first device: there is nothing to replay";
            assert!(stderr.contains(expected) && !stderr.contains("--device="), "{stderr}");
        }
        let report = print(&["rehal", "info", &path]);
        assert!(report.contains("Replay here: no") && report.contains("nothing to replay"), "{report}");
    }
}

#[test]
fn a_crash_in_a_kernel_names_it() {
    for (name, signal, function) in [
        ("crash.divide-by-zero.local-sync", "SIGFPE", "divide_dispatch_0"),
        ("crash.gather-outside.local-sync", "SIGSEGV", "gather_dispatch_0"),
    ] {
        for tool in ["iree-run-replay", "iree-benchmark-replay"] {
            let Ran { status, stderr, stdout } = run(&[tool, &capture(name)]);
            assert_eq!((status, stdout.as_str()), (Some(86), ""), "{stderr}");
            for part in [signal, function, "executable 4", "workgroup [0, 0, 0]", "record #42"] {
                assert!(stderr.contains(part), "{stderr} lacks {part}");
            }
        }
    }
    let illegal = format!("--replay_executable_substitution=4={}", fixture("cts/illegal.so"));
    let ran = run(&["iree-run-replay", &illegal, &capture("add4.add.local-sync")]);
    assert_eq!(ran.status, Some(86), "{}", ran.stderr);
    assert!(ran.stderr.contains("SIGILL"), "{}", ran.stderr);
}

#[test]
fn files_are_found_by_remaps() {
    let path = capture("params.reference.digest.local-sync");
    let scratch = Scratch::new();
    let copy = std::fs::read(fixture("params/model.irpa")).unwrap();
    scratch.file("model.irpa", &copy);
    let dump = print(&["iree-dump-replay", "--format=jsonl", &path]);
    let bytes = std::fs::read(&path).unwrap();
    let file = dump.lines().find(|line| line.contains("\"kind\":\"object\"") && line.contains("file_object"));
    let file: Value = serde_json::from_str(file.unwrap()).unwrap();
    let range = &file["payload"]["reference_range"];
    let (offset, length) = (range["offset"].as_u64().unwrap(), range["length"].as_u64().unwrap());
    let captured = String::from_utf8(bytes[offset as usize..(offset + length) as usize].to_vec()).unwrap();
    let prefix = captured.strip_suffix("/model.irpa").unwrap();
    let here = scratch.path("");
    let here = here.to_str().unwrap().trim_end_matches('/');

    // The longest prefix counts, regardless of order.
    let flag = format!("--replay-file-remap={prefix}={here}");
    print(&["iree-run-replay", &flag, "--replay-file-remap=/=/nonexistent/", &path]);
    let ran = run(&["iree-run-replay", &format!("--replay-file-remap={prefix}=/nonexistent"), &path]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("opening '/nonexistent/model.irpa'"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("captured as '{captured}'")), "{}", ran.stderr);

    let mut other = copy.clone();
    other[copy.len() - 1] ^= 1;
    scratch.file("model.irpa", &other);
    assert!(fail(&["iree-run-replay", &flag, &path]).contains("the file's contents have changed"));
    scratch.file("model.irpa", &copy[1..]);
    assert!(fail(&["iree-run-replay", &flag, &path]).contains("the file's length has changed"));
}

#[test]
fn devices_are_listed_in_the_reference_format() {
    let rule = "# ============================================================================\n";
    let light = "# ===----------------------------------------------------------------------===\n";
    for tool in ["iree-run-replay", "iree-benchmark-replay"] {
        let drivers = print(&[tool, "--list_drivers"]);
        let head = format!(
            "{rule}# Available HAL drivers\n{rule}\
             # Use --list_devices={{driver name}} to enumerate available devices.\n\n"
        );
        let lines = drivers.strip_prefix(&head).unwrap_or_else(|| panic!("{drivers}"));
        let names: Vec<_> = lines.lines().map(|line| line.split_once(": ").unwrap().0).collect();
        assert_eq!(
            names,
            [
                "            cuda",
                "             hip",
                "      local-sync",
                "      local-task",
                "          vulkan"
            ]
        );
        for line in lines.lines() {
            let name = line.trim_start().split_once(':').unwrap().0;
            let reason = match name {
                "cuda" => "(unavailable: driver 'cuda' finds no GPU: this build does not drive the hardware)",
                _ => "(unavailable: this build has no 'hip' driver)",
            };
            assert_eq!(line.ends_with(reason), ["cuda", "hip"].contains(&name), "{line}");
        }
        for name in ["cuda", "local-task", "vulkan"] {
            assert_eq!(print(&[tool, &format!("--list_drivers={name}")]), drivers);
        }
        assert_eq!(print(&[tool, "--list_drivers=vulcan"]), drivers);
        assert_eq!(print(&[tool, "--list_drivers=true"]), drivers);
        // Vulkan may have no device here.
        assert!(print(&[tool, "--list_devices"]).starts_with("local-sync://\nlocal-task://\n"));
        assert_eq!(print(&[tool, "--list_devices=local-sync"]), "local-sync://\n");
        let dump = format!(
            "{rule}# Enumerated devices for driver 'local-sync'\n{rule}\n\
             {light}# --device=local-sync://\n#   default\n{light}"
        );
        assert_eq!(print(&[tool, "--dump_devices=local-sync"]), dump);
        let all = print(&[tool, "--dump_devices"]);
        let parts: Vec<_> = all.split(&format!("\n{rule}# Enumerated devices for driver '")).collect();
        assert_eq!(parts.len(), 5, "{all}");
        assert!(all.contains(&format!("\n\n{dump}\n{rule}")), "{all}");
        assert!(all.contains("# Enumerated devices for driver 'vulkan'\n"), "{all}");
    }
}
